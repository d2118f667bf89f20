"""Checkpoints of seven families in small: equal to transformers, one step and a whole generated text."""

import importlib
import json
import math
import os
import resource
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.checkpoints import FAMILIES, SIZES, save_checkpoint, save_tokenizer, save_zeros, transformers

import trtdsl as td

FILE = Path(__file__).parents[2] / "networks" / "llama.py"
PUBLISHED = FILE.parent / "published" / "llama.py"
CAPACITY, PROMPT = 32, 8
PROMPTS = [[3, 4, 5, 6, 7, 8, 9], [11, 5, 29, 17]]


def read_config(folder):
    return runpy.run_path(str(PUBLISHED))["read_config"](folder)


def read_config_of(folder, entries):
    (folder / "config.json").write_text(json.dumps(entries))
    return read_config(folder)


def spec_of(folder, capacity=CAPACITY):
    return td.load_spec(str(FILE), {"folder": folder, "capacity": capacity, "prompt": PROMPT, "batch": 2})


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[] if name == "llama" else pytest.mark.heavy) for name in FAMILIES]
)
def test_a_step_equals_transformers(family, tmp_path):
    save_checkpoint(family, tmp_path)
    report = td.check(spec_of(tmp_path), sizes="quick")
    assert report.passed, report


@pytest.mark.parametrize("family", FAMILIES)
def test_a_generated_text_equals_transformers(family, tmp_path):
    """Ragged prompts padded at their ends, beside each prompt by itself, without a cache and without our mask."""
    module = save_checkpoint(family, tmp_path)
    assert text_of(tmp_path) == text_by(module)


@pytest.mark.parametrize(
    "family",
    ["llama", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("qwen3", "mixtral", "qwen2_moe"))],
)
def test_the_engine_s_own_program_equals_transformers(family, tmp_path):
    """Prefill and decode, with their caches in place, evaluated from the plan."""
    save_checkpoint(family, tmp_path)
    report = td.check(spec_of(tmp_path), sizes="quick", on="program")
    assert report.passed, report


def text_by(module):
    wanted = [torch.tensor(prompt) for prompt in PROMPTS]
    for _ in range(12):
        with torch.no_grad():
            wanted = [torch.cat((text, module(text[None]).logits[0, -1].argmax()[None])) for text in wanted]
    return [text.tolist() for text in wanted]


def text_of(folder):
    found = td.Generator(spec_of(folder).define())(PROMPTS, max_tokens=12)
    return [[*prompt, *text] for prompt, text in zip(PROMPTS, found, strict=True)]


def with_entries(folder, entries):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize(
    "name", ["gelu", "gelu_python", "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_accurate", "relu"]
)
def test_the_activation_of_the_config_is_computed(name, tmp_path):
    plain = text_by(save_checkpoint("llama", tmp_path))
    module = save_checkpoint("llama", tmp_path, hidden_act=name)
    assert text_of(tmp_path) == text_by(module) != plain


def test_an_activation_under_its_other_name(tmp_path):
    plain = text_by(save_checkpoint("llama", tmp_path))
    with_entries(tmp_path, {"hidden_act": "swish"})
    assert text_of(tmp_path) == text_by(transformers().AutoModelForCausalLM.from_pretrained(tmp_path).eval()) == plain


@pytest.mark.parametrize(
    "scaling",
    [{"rope_type": "linear", "factor": 4.0}, {"type": "linear", "factor": 4.0}, {}, {"attention_factor": 1.0}],
    ids=str,
)
def test_rotary_positions_that_a_user_added(scaling, tmp_path):
    """Under the old name beside the new one, they count."""
    save_checkpoint("llama", tmp_path, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    with_entries(tmp_path, {"rope_scaling": scaling})
    assert text_of(tmp_path) == text_by(transformers().AutoModelForCausalLM.from_pretrained(tmp_path).eval())


@pytest.mark.parametrize(
    "rope", [{"low_freq_factor": 4.0, "high_freq_factor": 1.0}, {"original_max_position_embeddings": None}], ids=str
)
def test_rotary_positions_of_llama3_that_are_odd(rope, tmp_path):
    """A low frequency above the high one, and a context that is that of the model."""
    save_checkpoint("llama", tmp_path, max_position_embeddings=16)
    path = tmp_path / "config.json"
    facts = json.loads(path.read_text())
    turned = facts["rope_parameters"] | rope
    facts["rope_parameters"] = {name: number for name, number in turned.items() if number is not None}
    path.write_text(json.dumps(facts))
    assert text_of(tmp_path) == text_by(transformers().AutoModelForCausalLM.from_pretrained(tmp_path).eval())


@pytest.mark.parametrize(
    "rope",
    [
        {"factor": 4.0, "original_max_position_embeddings": 16},
        {"factor": 8.0, "original_max_position_embeddings": 4096, "beta_fast": 8.0, "beta_slow": 2.0},
        {"factor": 4.0, "original_max_position_embeddings": 100, "truncate": False, "attention_factor": 1.5},
        {"factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.7},
        {"factor": 0.5, "original_max_position_embeddings": 64},
    ],
    ids=str,
)
def test_rotary_positions_of_a_longer_context(rope, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FILE.parent)
    published = importlib.import_module("published.llama")
    save_checkpoint("qwen3", tmp_path)
    with_entries(tmp_path, {"rope_parameters": rope | {"rope_type": "yarn", "rope_theta": 500.0}})
    model = transformers().AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    turns, sharpness = published.rotary(published.read_config(tmp_path))
    embedding = model.model.rotary_emb
    torch.testing.assert_close(turns, embedding.inv_freq)
    assert sharpness == pytest.approx(embedding.attention_scaling)
    assert text_of(tmp_path) == text_by(model)


WINDOW = {"use_sliding_window": True, "sliding_window": 4}


@pytest.mark.parametrize(
    ("family", "config", "left_out", "added"),
    [
        ("qwen3_moe", WINDOW, (), {}),  # its windows are of all layers, others' of some
        ("qwen2_moe", WINDOW, ("layer_types",), {}),
        ("qwen3", {**WINDOW, "max_window_layers": 1}, ("layer_types",), {}),
        ("mixtral", {}, ("rope_parameters", "sliding_window"), {}),
        ("qwen2_moe", {}, ("num_experts_per_tok",), {}),
        ("llama", {}, (), {"original_max_position_embeddings": 48}),
        ("mistral", {"num_attention_heads": 16, "num_key_value_heads": 8}, ("num_key_value_heads",), {}),
        ("mixtral", {"num_local_experts": 8}, ("num_local_experts", "num_experts"), {}),
        ("mixtral", {}, ("num_local_experts",), {"num_experts": 4}),
        ("mistral", {}, (), {"attention_bias": True}),  # which these families do without
        ("qwen3", {}, (), {"mlp_bias": True}),
        ("mixtral", {}, (), {"decoder_sparse_step": 2, "mlp_only_layers": [0]}),
    ],
)
def test_what_a_config_leaves_out_is_as_transformers_has_it(family, config, left_out, added, tmp_path):
    save_checkpoint(family, tmp_path, **config)
    path = tmp_path / "config.json"
    facts = {name: entry for name, entry in json.loads(path.read_text()).items() if name not in left_out}
    path.write_text(json.dumps(facts | added))
    assert text_of(tmp_path) == text_by(transformers().AutoModelForCausalLM.from_pretrained(tmp_path).eval())


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "mixtral", "qwen2_moe", "qwen3_moe"])
def test_an_entry_that_is_left_out_has_the_default_of_transformers(family, tmp_path):
    named = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "rms_norm_eps": 1e-6}
    if family == "mixtral":
        named["num_local_experts"] = 8
    elif family.endswith("moe"):
        named["num_experts"] = 8
    config = read_config_of(tmp_path, {**named, "model_type": family, "vocab_size": 9})
    theirs = transformers().AutoConfig.for_model(family, **named)
    sizes = ["intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "num_experts_per_tok"]
    for name in (*sizes, "attention_bias", "mlp_bias", "qkv_bias", "hidden_act", "norm_topk_prob"):
        default = getattr(theirs, name, None)
        assert default is None or (getattr(config, name) or False) == default, name
    assert config.width == (getattr(theirs, "head_dim", None) or 16)
    assert config.groups == theirs.num_key_value_heads
    if family not in ("mixtral", "qwen2_moe", "qwen3_moe"):
        return
    plain = {name: entry for name, entry in named.items() if "experts" not in name}
    count = read_config_of(tmp_path, {**plain, "model_type": family, "vocab_size": 9}).experts_of(0)
    assert count == transformers().AutoConfig.for_model(family).num_experts


def test_a_mixture_whose_queries_have_no_bias(tmp_path):
    save_checkpoint("qwen2_moe", tmp_path, qkv_bias=False)
    assert text_of(tmp_path) == text_by(transformers().AutoModelForCausalLM.from_pretrained(tmp_path).eval())
    replace(spec_of(tmp_path), reference=None).define()


@pytest.mark.parametrize("entries", [{"dtype": None}, {"dtype": "auto"}, {"torch_dtype": "float16"}], ids=str)
def test_the_reference_has_the_dtype_of_the_files(entries, tmp_path):
    save_checkpoint("llama", tmp_path, torch.bfloat16, num_hidden_layers=1)
    with_entries(tmp_path, entries)
    assert {dtype for _, dtype in spec_of(tmp_path).expected_weights().values()} == {"bfloat16"}
    spec_of(tmp_path).define()


@pytest.mark.parametrize("entry", ["dtype", "torch_dtype"])
def test_a_config_of_another_dtype_than_the_files_is_said(entry, tmp_path):
    save_checkpoint("llama", tmp_path, num_hidden_layers=1)
    with_entries(tmp_path, {"dtype": None, entry: "bfloat16"})
    with pytest.warns(UserWarning, match="says bfloat16, and the weights are float32: this network computes in float"):
        assert spec_of(tmp_path).define().outputs["logits"].dtype == torch.float32
    loaded = transformers().AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype == torch.bfloat16


def test_a_head_that_differs_from_tied_embeddings_is_not_tied(tmp_path):
    """As transformers has it."""
    save_checkpoint("llama", tmp_path, tie_word_embeddings=True)
    save_file({"lm_head.weight": torch.randn(40, 32)}, tmp_path / "head.safetensors", {"format": "pt"})
    index = tmp_path / "model.safetensors.index.json"
    facts = json.loads(index.read_text())
    facts["weight_map"]["lm_head.weight"] = "head.safetensors"
    index.write_text(json.dumps(facts))
    assert text_of(tmp_path) == text_by(transformers().AutoModelForCausalLM.from_pretrained(tmp_path).eval())
    assert td.check(spec_of(tmp_path), sizes="N=1,S=2").passed


@pytest.mark.parametrize(
    ("family", "wrong"), [("mistral", "config.sliding_window + 1"), ("mistral", "None"), ("qwen2", "5")]
)
def test_a_wrong_window_is_seen_by_the_check(family, wrong, tmp_path):
    """The reference has its windows from transformers."""
    save_checkpoint(family, tmp_path)
    for each in ("reference", "published"):
        shutil.copytree(FILE.parent / each, tmp_path / each, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(FILE, tmp_path)
    before, text, after = PUBLISHED.read_text().partition("window, count, family = config.sliding_window,")
    assert text
    (tmp_path / "published" / "llama.py").write_text(f"{before}window, count, family = {wrong},{after}")
    settings = {"folder": tmp_path, "capacity": 16, "prompt": 8, "batch": 2}
    assert td.check(spec_of(tmp_path), sizes="N=1,S=8").passed
    assert not td.check(td.load_spec(str(tmp_path / "llama.py"), settings), sizes="N=1,S=8").passed


@pytest.mark.parametrize("package", ["published", "reference"])
def test_packages_elsewhere_do_not_hide_the_files_beside_it(package, tmp_path):
    """Python takes a folder with ``__init__.py`` of any entry of sys.path before one without."""
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    code = f"import importlib.util\nprint(importlib.util.find_spec('{package}.llama').origin)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (FILE.parent, tmp_path)))}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert found.stdout.strip() == str(FILE.parent / package / "llama.py"), found.stderr


def test_a_wrong_last_token_is_seen_by_the_check(tmp_path):
    """Lengths of 1 alone left it open of which token the logits are."""
    save_checkpoint("llama", tmp_path, num_hidden_layers=1)
    for each in ("reference", "published"):
        shutil.copytree(FILE.parent / each, tmp_path / each, ignore=shutil.ignore_patterns("__pycache__"))
    text = FILE.read_text()
    assert "lengths > 0, lengths - 1," in text
    (tmp_path / "llama.py").write_text(text.replace("lengths - 1, tokens.shape[1] - 1", "lengths * 0, 0"))
    settings = {"folder": tmp_path, "capacity": 16, "prompt": 8, "batch": 2}
    assert td.check(spec_of(tmp_path), sizes="N=2,S=8").passed
    assert not td.check(td.load_spec(str(tmp_path / "llama.py"), settings), sizes="N=2,S=8").passed


@pytest.mark.parametrize(("dtype", "precision"), [("bfloat16", "fp16"), ("float16", "bf16")])
def test_caches_keep_their_dtype_in_another_precision(dtype, precision, tmp_path):
    save_checkpoint("llama", tmp_path, getattr(torch, dtype), num_hidden_layers=1)
    report = td.check(spec_of(tmp_path), sizes="N=1,S=2", precision=precision)
    assert report.passed, report
    assert spec_of(tmp_path).define(precision=precision).outputs["next_keys_0"].dtype == getattr(torch, dtype)


def test_weights_of_several_dtypes_are_one_sentence(tmp_path):
    save_checkpoint("llama", tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        save_file({name: tensor.half() if "proj" in name else tensor for name, tensor in load_file(path).items()}, path)
    with pytest.raises(
        td.UsageError, match=r"several dtypes, model\.embed_.* float32 and model\..*proj.* float16: convert"
    ):
        spec_of(tmp_path)


def test_buffers_that_old_files_hold_are_left_aside(tmp_path):
    module = save_checkpoint("llama", tmp_path)
    held = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    (tmp_path / "model.safetensors.index.json").unlink()
    for path in tmp_path.glob("*.safetensors"):
        held |= load_file(path)
        path.unlink()
    save_file(held, tmp_path / "model.safetensors", {"format": "pt"})
    assert text_of(tmp_path) == text_by(module)
    assert td.check(spec_of(tmp_path), sizes="N=1,S=2").passed


@pytest.mark.parametrize(
    ("family", "ranks"),
    [
        ("qwen2", 2),
        ("qwen2_moe", 2),
        pytest.param("mixtral", 4, marks=pytest.mark.heavy),
        pytest.param("llama", 2, marks=pytest.mark.heavy),
        pytest.param("llama", 4, marks=pytest.mark.heavy),
        pytest.param("qwen3", 8, marks=pytest.mark.heavy),
    ],
)
def test_ranks_together_equal_transformers(family, ranks, tmp_path):
    """Heads and caches, feed-forward layers and words shared out, against the module that is not; and its text."""
    save_checkpoint(family, tmp_path, num_attention_heads=8, num_key_value_heads=8)
    settings = {"folder": tmp_path, "capacity": CAPACITY, "prompt": PROMPT, "batch": 2, "ranks": ranks}
    spec = td.load_spec(str(FILE), settings)
    report = td.check(spec, sizes="quick", on="program" if (family, ranks) == ("llama", 2) else "interpreter")
    assert report.passed, report
    prompts = [[3, 4, 5], [11]]
    found = td.Generator(spec.define())(prompts, max_tokens=4)
    assert found == td.Generator(spec_of(tmp_path).define())(prompts, max_tokens=4)


def test_ranks_share_out_whole_heads_and_read_their_part_alone(tmp_path, command_line):
    save_checkpoint("llama", tmp_path)
    for ranks in (3, 10**12):
        how = "build", FILE, "--set", "folder=.", "--ranks", ranks, "-o", "out/"
        said = command_line(tmp_path)(*how, code=2).stderr
        assert said.count(f"{ranks} ranks do not share out 4 heads") == 1 and not (tmp_path / "out").exists()
    with pytest.raises(td.UsageError, match="4 ranks do not share out 4 heads and 2 of keys and values"):
        td.load_spec(str(FILE), {"folder": tmp_path, "ranks": 4})
    with pytest.raises(td.UsageError, match="0 ranks do not share out"):
        td.load_spec(str(FILE), {"folder": tmp_path, "ranks": 0})
    save_zeros("llama", tmp_path / "odd", vocab_size=41)
    with pytest.raises(td.UsageError, match="2 ranks do not share out 41 words"):
        td.load_spec(str(FILE), {"folder": tmp_path / "odd", "ranks": 2})
    for family, odd, name in (
        ("llama", {"intermediate_size": 49}, "mlp.gate_proj"),
        ("mixtral", {"intermediate_size": 49}, "block_sparse_moe.experts.0.w1"),
        ("qwen2_moe", {"moe_intermediate_size": 49, "mlp_only_layers": []}, "mlp.experts.0.gate_proj"),
        ("qwen2_moe", {"shared_expert_intermediate_size": 49}, "mlp.shared_expert.gate_proj"),
    ):
        folder = tmp_path / f"{family} {name}"
        save_zeros(family, folder, **odd)
        with pytest.raises(td.UsageError, match=rf"2 ranks do not share out 49 features of model.layers.\d.{name}"):
            td.load_spec(str(FILE), {"folder": folder, "ranks": 2})
    settings = {"folder": tmp_path, "capacity": CAPACITY, "prompt": PROMPT, "ranks": 2, "rank": 1}
    network = td.load_spec(str(FILE), settings).define()
    assert network.inputs["keys_0"].shape[1] == 1
    whole = spec_of(tmp_path).define()
    held = [sum(buffer.nbytes for buffer in each.target.buffers) for each in (network, whole)]
    assert held[0] < 0.6 * held[1]


@pytest.mark.parametrize(("bits", "part"), [(4, 0.3), (8, 0.55)])
def test_weights_of_few_bits(bits, part, tmp_path):
    """Against the module with weights that are rounded alike; a token moves less than this part of fp16's bytes."""
    small = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1}
    save_checkpoint("qwen2", tmp_path / "small", **small)
    settings = {"folder": tmp_path / "small", "capacity": CAPACITY, "prompt": PROMPT, "batch": 2, "bits": bits}
    report = td.check(td.load_spec(str(FILE), settings), sizes="quick")
    assert report.passed, report
    wide = {"hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 1, "num_attention_heads": 16}
    save_checkpoint("llama", tmp_path / "wide", torch.float16, **wide, head_dim=64, num_key_value_heads=4)
    moved = [
        td.program(
            td.load_spec(str(FILE), {**settings, "folder": tmp_path / "wide", "bits": each}), dims={"N": 1}
        ).bytes
        for each in (16, bits)
    ]
    assert moved[1] < part * moved[0]


def test_widths_that_have_no_groups_are_not_left_whole_silently(tmp_path):
    save_checkpoint("llama", tmp_path)
    with pytest.raises(td.UsageError, match="4 bits: no weight has rows of 2 or more groups of 128"):
        td.load_spec(str(FILE), {"folder": tmp_path, "bits": 4})


def test_a_token_reads_the_experts_that_it_chooses(tmp_path):
    """2 of 16: their weights, those of attention and the words once, and a tenth for all else."""
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "num_local_experts": 16}
    module = save_checkpoint("mixtral", tmp_path, torch.bfloat16, **sizes)
    one = 3 * 256 * 512
    others = sum(each.numel() for each in module.parameters()) - 16 * one
    assert td.program(spec_of(tmp_path), dims={"N": 1}).bytes < 1.1 * 2 * (others + 2 * one)
    few = td.load_spec(str(FILE), {"folder": tmp_path, "capacity": CAPACITY, "prompt": PROMPT, "batch": 2, "bits": 4})
    assert td.program(few, dims={"N": 1}).bytes < 0.4 * td.program(spec_of(tmp_path), dims={"N": 1}).bytes


@pytest.mark.parametrize(
    ("family", "bits", "ranks"),
    [
        ("mixtral", 8, 2),
        *(pytest.param(*each, marks=pytest.mark.heavy) for each in (("qwen2_moe", 4, 1), ("qwen2", 4, 2))),
    ],
)
def test_experts_and_ranks_of_few_bits(family, bits, ranks, tmp_path):
    """Rounded as the reference rounds them, by float32: of half a million weights some lie near the middle of two."""
    experts = {"moe_intermediate_size": 256, "shared_expert_intermediate_size": 256, "mlp_only_layers": []}
    sizes = {
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "head_dim": 64,
    }
    save_checkpoint(family, tmp_path, **sizes, **(experts if family == "qwen2_moe" else {}))
    settings = {"folder": tmp_path, "capacity": CAPACITY, "prompt": PROMPT, "batch": 2, "bits": bits, "ranks": ranks}
    spec = td.load_spec(str(FILE), settings)
    report = td.check(spec, sizes="quick", on="program" if ranks == 1 else "interpreter")
    assert report.passed, report
    assert td.check_generation(spec, n=4).passed


def test_eight_billion_parameters_are_defined_at_once(tmp_path):
    """From four files, in less than 0.5 GB: neither they nor the reference's are filled."""
    sizes = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "vocab_size": 128256}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
    save_zeros("llama", tmp_path, torch.bfloat16, **sizes, **heads, tie_word_embeddings=False)
    spec_of(tmp_path).expected_weights()  # imports transformers' file of the model
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    network = spec_of(tmp_path).define()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB
    assert sum(buffer.nbytes for buffer in network.target.buffers) > 16e9


def test_texts_on_the_command_line(tmp_path, command_line):
    save_checkpoint("llama", tmp_path / "small", eos_token_id=39)
    save_tokenizer(tmp_path / "small")
    run = command_line(tmp_path)
    how = ["generate", FILE, "--set", "folder=small", "--set", "capacity=32", "--set", "prompt=8", "--max-tokens", 12]
    streamed = run(*how, "--prompt", "hello").stdout
    facts = json.loads(run(*how, "--prompt", "hello", "--prompt", "abc", "--json").stdout)
    assert facts["results"][0] == streamed.rstrip("\n") and 1 < len(streamed) <= 13
    tokens = json.loads(run(*how, "--tokens", "7,4,11,11,14", "--json").stdout)["results"][0]
    assert (
        td.Generator(spec_of(tmp_path / "small").define(), tmp_path / "small").tokenizer.decode(tokens)
        == facts["results"][0]
    )
    drawn = [run(*how, "--prompt", "hello", "--temperature", 2, "--seed", seed).stdout for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert "are the reference's" in run(*how, "--check").stdout
    for entry in (None, tokens[3]):
        with_entries(tmp_path / "small", {"eos_token_id": entry})
        (tmp_path / "small" / "generation_config.json").unlink(missing_ok=True)
        found = json.loads(run(*how, "--tokens", "7,4,11,11,14", "--json").stdout)["results"][0]
        assert found == (tokens if entry is None else tokens[: tokens.index(entry) + 1])
    for given, message in (
        (["--prompt", "hello", "--max-tokens", 60], "do not fit into a cache of 32"),
        ([], "say what to go on with"),
        (["--tokens", "a"], "expected numbers such as 1,2,3"),
        (["--tokens", "3,99"], "there is no token 99: the network knows 40"),
        (["--prompt", "a", "--tokenizer", "."], "has no tokenizer.json"),
        (["--tokens", "3", "--tokenizer", "nope"], "there is no folder nope"),
        (["--prompt", "a\udcff"], "the text 'a?' is not UTF-8"),
        (["--prompt", ""], "a prompt is a list of one token or more, or a text"),
        (["--prompt", "a", "--top-p", 0], "--top-p 0.0: expected float > 0"),
        (["--tokens", "3", "--ranks", 3], "3 ranks do not share out 4 heads and 2 of keys and values"),
        (["--tokens", "3", "--ranks", 2, "--set", "ranks=2"], "--ranks and --set ranks=N say the same"),
        (["--check", "--top-k", 3], "--check takes --tokens, --max-tokens and --seed alone"),
    ):
        assert message in run(*how, *given, code=2).stderr
    for given, message in (
        (["small"], "small is a folder: name a network's file, as networks/llama.py --set folder=small"),
        (["decoder.engine", "--ranks", 2], "--ranks are for networks, such as FILE.py, and decoder.engine is none"),
        (["decoder.engine", "--check"], "--check, --set and --ranks are for networks"),
    ):
        assert message in run("generate", *given, "--tokens", 1, code=2).stderr


def test_ranks_on_the_command_line(tmp_path, command_line):
    save_checkpoint("llama", tmp_path / "small")
    run = command_line(tmp_path)
    how = ["generate", FILE, "--set", "folder=small", "--tokens", "7,4", "--max-tokens", 4]
    assert run(*how, "--ranks", 2).stdout == run(*how).stdout


def test_weights_of_another_config_are_refused(tmp_path, command_line):
    """The network is made of its folder's config, whatever weights are given: texts would be of neither model."""
    for name, theta in (("own", 500.0), ("tuned", 500.0), ("other", 9e6)):
        save_checkpoint("llama", tmp_path / name)
        path = tmp_path / name / "config.json"
        facts = json.loads(path.read_text())
        facts["rope_parameters"]["rope_theta"], facts["transformers_version"] = theta, name
        path.write_text(json.dumps(facts))
    run = command_line(tmp_path)
    how = ["generate", FILE, "--set", "folder=own", "--tokens", "7,4", "--max-tokens", 4, "--weights"]
    assert run(*how, "tuned").stdout == run(*how[:-1]).stdout
    for given in ("other", "other/model.safetensors.index.json"):
        said = run(*how, given, code=2).stderr
        assert f"the weights of {given} are of another config than {tmp_path / 'own'}" in said
        assert "make it of theirs, by --set folder=other" in said


def test_a_folder_that_is_exchanged_after_its_config_was_read_is_refused(tmp_path):
    """Weights of one model would be computed with as the other's config says, which no check of shapes sees."""
    for name, theta in (("own", 500.0), ("other", 9e6)):
        save_checkpoint("llama", tmp_path / name)
        path = tmp_path / name / "config.json"
        facts = json.loads(path.read_text())
        facts["rope_parameters"]["rope_theta"] = theta
        path.write_text(json.dumps(facts))
    link = tmp_path / "link"
    link.symlink_to("own")
    spec = td.load_spec(FILE, {"folder": link})
    assert len(spec.define().outputs) == 5
    link.unlink()
    link.symlink_to("other")
    with pytest.raises(td.UsageError, match=r"link/config.json changed while it was in use. Start again"):
        spec.define()


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(td.UsageError, match=r"has no config.json: name the folder of a checkpoint"):
        spec_of(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(
        td.UnsupportedError, match="model_type 'bert', not of llama, qwen2, qwen3, mistral, mixtral, qwen2_moe"
    ):
        spec_of(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "rms_norm_eps": 1e-6, **SIZES}))
    with pytest.raises(td.WeightsError, match="has no weights"):
        spec_of(tmp_path)
    save_file({"embed_tokens.weight": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(td.UsageError, match="has no model.embed_tokens.weight: the weights of a whole language model"):
        spec_of(tmp_path)
    for capacity, prompt in ((4, 8), (4, 1)):
        with pytest.raises(td.UsageError, match=f"no more than the capacity of 4, not {prompt}"):
            td.load_spec(str(FILE), {"folder": tmp_path, "capacity": capacity, "prompt": prompt})
    with pytest.raises(td.UsageError, match="batch is 1 or more sequences, not 0"):
        td.load_spec(str(FILE), {"folder": tmp_path, "batch": 0})
    for text, message in (
        (
            '{"model_type": "llama", "quantization_config": {}}',
            "has a quantization_config: checkpoints of floating-point",
        ),
        ("{", "config.json is not JSON: it is damaged, or not a config"),
        ("[" * 200_000, "config.json is not JSON: it is damaged, or not a config"),
        ("[1]", "config.json is not a config: the whole must be an object"),
        ('{"model_type": "llama", "vocab_size": 9}', "config.json: object missing required field hidden_size"),
    ):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises((td.UsageError, td.UnsupportedError), match=message):
            spec_of(tmp_path)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen3")
    save_zeros("qwen3", folder)
    return folder


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"num_hidden_layers": 100_000}, "num_hidden_layers: expected 2, which the weights have, not 100000"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: expected int >= 1"),
        ({"num_hidden_layers": True}, "num_hidden_layers: expected int, got bool"),
        ({"num_attention_heads": 0}, "num_attention_heads: expected int >= 1"),
        ({"num_key_value_heads": 0}, "num_key_value_heads: expected int >= 1"),
        ({"head_dim": 7}, "head_dim: expected int that's a multiple of 2"),
        ({"hidden_size": 0}, "hidden_size: expected int >= 1"),
        ({"layer_types": ["full_attention"]}, "layer_types: expected 2, one for each layer"),
        ({"layer_types": []}, "layer_types: expected 2, one for each layer"),
        ({"layer_types": ["sliding_attention"] * 2}, "layer_types name sliding_attention, and no sliding_window is in"),
        ({"tie_word_embeddings": None}, "tie_word_embeddings: expected bool, got null"),
        ({"rope_parameters": [1]}, "rope_parameters: expected object | null, got array"),
        ({"rope_theta": math.nan}, "rope_theta: expected float > 0"),
        ({"rope_theta": math.inf}, "rope_theta: expected float < 1e+30"),
        ({"rope_theta": 0}, "rope_theta: expected float > 0"),
        ({"rope_parameters": {"rope_theta": math.nan}}, "rope_parameters.rope_theta: expected float > 0"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor: expected float >= 1.0"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "rope_parameters.partial_rotary_factor: expected float"),
        (
            {"rope_parameters": {"rope_type": "dynamic"}},
            "rotary positions of kind 'dynamic': default, linear, llama3, yarn are",
        ),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 0}}, "rope_parameters.factor: expected float > 0"),
        ({"sliding_window": -1}, "sliding_window: expected int >= 0"),
        (
            {"use_sliding_window": True, "sliding_window": 0, "layer_types": ["sliding_attention"] * 2},
            "sliding_window: 0 hides every token",
        ),
        ({"rms_norm_eps": -1}, "rms_norm_eps: expected float > 0"),
        ({"hidden_act": "quick_gelu"}, "hidden_act: 'quick_gelu': silu, gelu, gelu_pytorch_tanh, relu, swish,"),
        ({"is_causal": False}, "is_causal is false: tokens that see later ones have no cache"),
        ({"layer_types": ["full_attention", "chunked_attention"]}, "layer_types: 'chunked_attention': full_attention,"),
    ],
    ids=str,
)
def test_an_entry_of_the_config_that_cannot_be_is_named(checkpoint, tmp_path, entries, message):
    other_config(checkpoint, tmp_path, entries)
    with pytest.raises((td.UsageError, td.UnsupportedError)) as caught:
        spec_of(tmp_path)
    assert f"config.json: {message}" in caught.value.message and "\n" not in caught.value.message


def other_config(checkpoint, folder, entries):
    for file in checkpoint.iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "config.json").unlink()
    shutil.copy(checkpoint / "config.json", folder)
    with_entries(folder, entries)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"num_attention_heads": 3}, "model.layers.0.self_attn.q_proj.weight: has shape (32, 32), not (24, 32)"),
        ({"num_key_value_heads": 3}, "model.layers.0.self_attn.k_proj.weight: has shape (16, 32), not (24, 32)"),
        ({"head_dim": 6}, "model.layers.0.self_attn.q_norm.weight: has shape (8,), not (6,)"),
        ({"hidden_size": 64}, "model.embed_tokens.weight: has shape (40, 32), not (40, 64)"),
        ({"vocab_size": 41}, "model.embed_tokens.weight: has shape (40, 32), not (41, 32)"),
    ],
    ids=str,
)
def test_an_entry_of_the_config_that_the_weights_contradict(checkpoint, tmp_path, entries, message):
    """Before transformers makes a module of it."""
    other_config(checkpoint, tmp_path, entries)
    with pytest.raises(td.WeightsError) as caught:
        spec_of(tmp_path)
    assert message in caught.value.message


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_tied_embeddings_that_are_stored_as_the_head(family, tmp_path):
    save_checkpoint(family, tmp_path, tie_word_embeddings=True)
    (tmp_path / "model.safetensors.index.json").unlink()
    held = {}
    for path in tmp_path.glob("*.safetensors"):
        held |= load_file(path)
        path.unlink()
    held["lm_head.weight"] = held.pop("model.embed_tokens.weight")
    save_file(held, tmp_path / "model.safetensors", {"format": "pt"})
    assert text_of(tmp_path) == text_by(transformers().AutoModelForCausalLM.from_pretrained(tmp_path).eval())
    assert td.check(spec_of(tmp_path), sizes="N=1,S=2").passed


@pytest.mark.parametrize("dtype", [torch.float64, torch.int8, torch.float8_e4m3fn], ids=str)
def test_weights_that_no_network_computes_in(dtype, tmp_path):
    save_checkpoint("llama", tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        save_file({name: tensor.to(dtype) for name, tensor in load_file(path).items()}, path)
    with pytest.raises(td.UnsupportedError, match=rf"weights of {str(dtype)[6:]}: those of float32, float16, bfloat16"):
        spec_of(tmp_path)


def test_numbers_of_rotary_positions_that_are_missing(tmp_path):
    save_zeros("llama", tmp_path, rope_parameters={"rope_type": "default"}, max_position_embeddings=64)
    facts = json.loads((tmp_path / "config.json").read_text())
    for kind, names in (("llama3", "factor, low_freq_factor, high_freq_factor"), ("linear", "factor")):
        facts["rope_parameters"] = {"rope_type": kind, "rope_theta": 500.0}
        (tmp_path / "config.json").write_text(json.dumps(facts))
        with pytest.raises(td.UsageError, match=f"config.json: rope_parameters of kind '{kind}' have {names}"):
            spec_of(tmp_path)


@pytest.mark.parametrize(
    ("family", "lost", "near"),
    [
        ("qwen2", "self_attn.k_proj.bias", "self_attn."),
        ("qwen3", "self_attn.q_norm.weight", "self_attn.k_norm.weight"),
        ("llama", "mlp.up_proj.weight", "mlp."),
        ("mixtral", "block_sparse_moe.experts.1.w2.weight", "block_sparse_moe.experts.3.w2.weight"),
    ],
)
@pytest.mark.parametrize("has_reference", [True, False])
def test_all_tensors_that_no_file_has_are_named_at_once(family, lost, near, has_reference, tmp_path):
    """Also without transformers, by what the config says: no bias and no norm is left out silently."""
    save_checkpoint(family, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", folder := tmp_path / "lacking")
    index = folder / "model.safetensors.index.json"
    facts = json.loads(index.read_text())
    names = [f"model.layers.{layer}.{lost}" for layer in range(2)]
    for name in names:
        del facts["weight_map"][name]
    index.write_text(json.dumps(facts))
    spec = spec_of(tmp_path / "whole")
    with pytest.raises(td.WeightsError) as caught:
        (spec if has_reference else replace(spec, reference=None)).define(weights=folder)
    with pytest.raises(td.WeightsError, match=f"{names[0]}: missing"):
        spec_of(folder)
    first, *lines = caught.value.message.splitlines()
    assert first.startswith("2 weights") and str(tmp_path) in first
    for layer, (name, line) in enumerate(zip(names, lines, strict=True)):
        assert line.startswith(f"  {name}: missing: ") and f"(nearest: model.layers.{layer}.{near}" in line


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("llama", "mlp.up_proj.weight"),
        ("qwen2", "self_attn.k_proj.bias"),
        ("qwen3", "self_attn.q_norm.weight"),
        ("mixtral", "block_sparse_moe.experts.1.w3.weight"),
        ("mistral", "input_layernorm.weight"),
    ],
)
def test_a_tensor_of_another_shape_is_refused_without_a_reference(family, name, tmp_path):
    """One number would be broadcast, silently."""
    save_checkpoint(family, tmp_path)
    name = f"model.layers.1.{name}"
    path = tmp_path / json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"][name]
    tensors = load_file(path)
    size = tuple(tensors[name].shape)
    save_file({**tensors, name: tensors[name][:1].clone()}, path)
    with pytest.raises(td.WeightsError, match=rf"1 weight in .* does not fit[^\n]*\n  {name}: has shape \(1") as caught:
        replace(spec_of(tmp_path), reference=None).define()
    assert f"not ({size[0]}" in caught.value.message


@pytest.mark.parametrize("family", FAMILIES)
def test_the_names_that_a_config_asks_for_are_those_of_its_files(family, tmp_path):
    save_zeros(family, tmp_path)
    held = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    weights, shapes_of = td.Weights(tmp_path), runpy.run_path(str(PUBLISHED))["shapes_of"]
    assert dict(shapes_of(read_config(tmp_path))) == {name: weights.shapes[name] for name in held}


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_step_of_decoding_is_nine_launches_a_layer(family, tmp_path):
    """Norm, q and k and v, rotation and cache, attention, output; norm, gate and up, product, down. Of Qwen3 the first
    norm's squares are summed with those of the heads, behind the products.
    """
    save_checkpoint(family, tmp_path, torch.bfloat16)
    step = spec_of(tmp_path).define(dims={"N": 1, "S": 1}, profiles=[])
    assert len(td.program(step).launches) <= 2 * 9 + 3  # embedding and position, last norm, logits


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [(torch.float16, None), *(pytest.param(torch.bfloat16, each, marks=pytest.mark.heavy) for each in (None, "fp16"))],
)
def test_products_of_a_long_residual_do_not_overflow(dtype, precision, tmp_path):
    """In float16 the norm goes before them: of what is not normed they are beyond its greatest number."""
    module = save_checkpoint("qwen3", tmp_path, dtype, tie_word_embeddings=False)
    x, query = module.model.embed_tokens.weight.data, module.model.layers[0].self_attn.q_proj.weight.data
    x *= 40000
    assert (x.float() @ query.float().T).abs().max() > 65504
    module.save_pretrained(tmp_path, max_shard_size="20KB")
    report = td.check(spec_of(tmp_path), sizes="quick", precision=precision)
    assert report.passed, report


def test_a_prompt_takes_eleven_launches_a_layer_and_nine_in_the_last(tmp_path):
    """The last token's row is taken of the query and of the residual at once."""
    save_checkpoint("llama", tmp_path, torch.bfloat16, hidden_size=256, head_dim=64)
    spec = td.load_spec(str(FILE), {"folder": tmp_path, "capacity": 64, "prompt": 64, "batch": 2})
    assert len(td.program(spec, profile=1, dims={"N": 1}).launches) <= 11 + 9 + 2  # last norm, logits
