"""Generated tokens against transformers' whole models, which have no cache: equal, near ties named, others told."""

from pathlib import Path

import pytest
import torch
from support.checkpoints import FAMILIES, save_checkpoint, transformers

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.generation import Parting

FILE = Path(__file__).parents[2] / "networks" / "llama.py"


def spec_of(folder, capacity=32):
    return td.load_spec(str(FILE), {"folder": folder, "capacity": capacity, "prompt": 8, "batch": 2})


@pytest.mark.parametrize("family", FAMILIES)
def test_64_tokens_equal_transformers(family, tmp_path):
    save_checkpoint(family, tmp_path)
    spec = spec_of(tmp_path, capacity=80)
    report = td.check_generation(spec, n=64)
    assert report.passed and not report.partings, report
    assert [len(text) for text in report.tokens] == [64, 64]


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bf16", "float32"), (None, "bfloat16"), (None, "float16"), ("fp16", "bfloat16"), ("bf16", "float16")],
)
def test_tokens_in_half_precision_are_near_ties_at_most(precision, dtype, tmp_path):
    save_checkpoint("qwen3", tmp_path, getattr(torch, dtype))
    report = td.check_generation(spec_of(tmp_path), n=24, precision=precision)
    assert report.passed, report


def test_weights_of_four_bits_generate_what_the_rounded_model_does(tmp_path):
    save_checkpoint("qwen2", tmp_path, hidden_size=256, intermediate_size=256)
    spec = td.load_spec(str(FILE), {"folder": tmp_path, "capacity": 32, "prompt": 8, "batch": 2, "bits": 4})
    assert td.check_generation(spec, n=12).passed
    whole = transformers().AutoModelForCausalLM.from_pretrained(tmp_path)
    assert not td.check_generation(spec, whole, n=12).passed


@pytest.mark.parametrize(("gap", "kind"), [(0.29, "near tie"), (0.31, "differs")])
def test_a_near_tie_names_what_is_allowed(gap, kind):
    said = str(Parting(0, 9, 43, 49, gap, 0.075))
    assert f"token 9 {kind}: 43, not 49, whose logit is {gap} greater, 4 times torch's own error being 0.3" in said


def test_nothing_is_a_near_tie_where_torchs_own_logits_overflow(tmp_path):
    module = save_checkpoint("mistral", tmp_path, torch.float16)
    module.lm_head.weight.data.mul_(60000 / module.lm_head.weight.abs().max())
    module.save_pretrained(tmp_path, max_shard_size="20KB")
    report = td.check_generation(spec_of(tmp_path), n=4)
    assert not report.passed and all(parting.error == float("inf") for parting in report.partings)


def test_another_model_is_told_from_it(tmp_path):
    """With positions that turn otherwise, and with a prompt that the network does not see."""
    module = save_checkpoint("mistral", tmp_path)
    changed = save_checkpoint("mistral", tmp_path / "other", rope_parameters={"rope_type": "default", "rope_theta": 10})
    assert td.check_generation(spec_of(tmp_path), module, n=12).passed
    report = td.check_generation(spec_of(tmp_path), changed, n=12)
    assert not report.passed
    with pytest.raises(td.MismatchError, match=r"prompt 0, token \d+ differs: \d+, not \d+, whose logit is"):
        report.raise_for_mismatch()


class Decoder(torch.nn.Module):
    """A recurrent one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.head = torch.nn.Embedding(19, 12), torch.nn.Linear(12, 19)
        self.gates, self.back = torch.nn.Linear(12, 12), torch.nn.Linear(12, 12)

    def forward(self, tokens):
        h, rows = torch.zeros(len(tokens), 12), []
        for x in self.embed(tokens).to(self.head.weight).unbind(1):
            h = torch.tanh(self.gates(x) + self.back(h.to(x)))
            rows.append(self.head(h))
        return torch.stack(rows, 1)


@pytest.mark.parametrize(("kept", "passes"), [(1.0, True), (0.0, False)])
def test_a_state_that_is_forgotten_shows_after_drawn_tokens(kept, passes):
    """The greedy text of such a small decoder may soon repeat itself, with and without what came before."""
    module, N = Decoder(), td.Dim("N", min=1, opt=1, max=3)
    counts = td.Input((N,), "int32", sample=(0, 1))

    @td.network(
        inputs={
            "tokens": td.Input((N, 1), "int64", sample=(0, 18)),
            **dict.fromkeys(("starts", "lengths"), counts),
            "h": td.State((N, 12), slots=None),
        },
        weights=module.state_dict(),
    )
    def decoder(tokens, starts, lengths, h, w):
        x = F.embedding(tokens.squeeze(1), w.embed.weight)
        back = F.linear(h * kept, w.back.weight, w.back.bias)
        new = F.tanh(F.linear(x, w.gates.weight, w.gates.bias) + back)
        logits = F.linear(new, w.head.weight, w.head.bias) + 0 * starts.unsqueeze(1)
        return {"logits": logits, "next_h": F.where((lengths > 0).unsqueeze(1), new, h)}

    report = td.check_generation(decoder, module, n=12)
    assert report.passed is passes, report
    assert passes or "after drawn ones differs" in str(report)


def test_what_it_refuses_has_its_own_arguments_names(tmp_path):
    save_checkpoint("llama", tmp_path)
    for given, message in (
        ({"n": 0}, "n=0: expected int >= 1"),
        ({"n": "4"}, "n='4': expected int, got str"),
        ({"n": 40}, "a prompt of 7 tokens and n=40 do not fit into a cache of 32"),
        ({"n": 2, "prompts": [[]]}, "a prompt is a list of one token or more"),
        ({"n": 2, "prompts": []}, "takes 1 to 2 prompts at a time, not 0"),
        ({"n": 2, "prompts": 5}, "prompts are a list of prompts, not 5"),
    ):
        with pytest.raises(td.UsageError, match=message):
            td.check_generation(spec_of(tmp_path), **given)


def test_a_reference_is_asked_for():
    net = td.Network("plain")
    net.output(net.input("x", (3,)) * 2, "y")
    with pytest.raises(td.UsageError, match="give a reference, or the network's spec: of weights in a folder"):
        td.check_generation(net)
