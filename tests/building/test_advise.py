"""Advice: what is offered wins by the engine's own program, and a file is written only after its check."""

import json

import pytest
import torch
from safetensors.torch import save_file

import trtdsl as td

REFERENCE = """\
import torch
from torch import nn


class Windows(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.bias = nn.Parameter(torch.zeros(4, 49, 49))

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(-1, 49, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return (q @ k.mT / 4 + self.bias).softmax(-1) @ v
"""
HEAD = """\
import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=16, max=16)


@td.network(inputs={"x": td.Input((N, 49, 64))}, weights="windows.safetensors", reference="reference.py:Windows")
def windows(x, w):
    q, k, v = F.linear(x, w.qkv.weight, w.qkv.bias).reshape(-1, 49, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind()
"""
WRITTEN = """\
    scores = q @ k.mT / 4 + w.bias
    return {"y": F.softmax(scores, -1) @ v}
"""
CALLED = """\
    return {"y": F.scaled_dot_product_attention(q, k, v, attn_mask=w.bias, scale=0.25)}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "windows.py").write_text(HEAD + WRITTEN)
    (tmp_path / "reference.py").write_text(REFERENCE)
    generator = torch.Generator().manual_seed(0)
    shapes = {"qkv.weight": (192, 64), "qkv.bias": (192,), "bias": (4, 49, 49)}
    weights = {name: torch.randn(shape, generator=generator) / 4 for name, shape in shapes.items()}
    save_file(weights, tmp_path / "windows.safetensors")
    return tmp_path


def test_what_an_edit_wins_is_what_the_programs_say(folder):
    file = folder / "windows.py"
    advice = td.advise(str(file))
    assert file.read_text() == HEAD + WRITTEN and not advice.written and advice.check is None
    before = td.program(str(file))
    file.write_text(HEAD + CALLED)
    after = td.program(str(file))
    assert advice.text.decode() == HEAD + CALLED
    (edit,) = advice.edits
    assert edit.line == f"{file}:10-11"
    for program, figures in ((before, edit.before), (after, edit.after)):
        assert (figures.launches, figures.bytes, figures.memory) == (
            program.launch_count, program.bytes, program.memory
        )  # fmt: skip
    assert (advice.before, advice.after) == (edit.before, edit.after)
    assert after.launch_count < before.launch_count and after.bytes < 0.9 * before.bytes
    assert advice.diff.splitlines()[-3:] == [f"-{line}" for line in WRITTEN.splitlines()] + [f"+{CALLED.rstrip()}"]


def test_it_is_written_after_its_check_and_nothing_is_left_to_advise(folder, command_line):
    run = command_line(folder)
    done = run("advise", "windows.py", "--write")
    assert "equal" in done.stdout and "windows.py was written" in done.stdout
    assert (folder / "windows.py").read_text() == HEAD + CALLED
    again = run("advise", "windows.py", "--write")
    assert all(str(each) in again.stdout for each in td.find_hazards(td.program("windows.py")))
    assert "no edit of windows.py is known that wins anything" in again.stdout
    assert (folder / "windows.py").read_text() == HEAD + CALLED
    assert sorted(file.name for file in folder.iterdir() if file.is_file()) == [
        "reference.py", "windows.py", "windows.safetensors"
    ]  # fmt: skip


def test_a_network_that_fails_its_check_is_left_as_it_is(folder, command_line):
    (folder / "reference.py").write_text(REFERENCE.replace("/ 4", "/ 5"))
    value = json.loads(command_line(folder)("advise", "windows.py", "--write", "--json", code=1).stdout)
    assert (value["schema"], value["kind"], value["written"]) == (1, "advice", False)
    assert value["check"]["passed"] is False and len(value["edits"]) == 1 and "+    return" in value["diff"]
    assert (folder / "windows.py").read_text() == HEAD + WRITTEN


def test_a_file_that_is_edited_meanwhile_is_left_as_it_is(folder):
    file, mine = folder / "windows.py", HEAD + WRITTEN + "\n# mine\n"

    def progress(phase, done, total):
        if phase.startswith("checking"):
            file.write_text(mine)

    with pytest.raises(td.UsageError, match="windows.py changed while it was in use"):
        td.advise(str(file), write=True, progress=progress)
    assert file.read_text() == mine


@pytest.mark.parametrize("read", ["reference.py", "windows.safetensors"])
def test_nothing_is_written_when_what_it_was_checked_with_changed_meanwhile(folder, read):
    def progress(phase, done, total):
        if phase.startswith("checking"):
            (folder / read).write_bytes((folder / read).read_bytes() + b" ")

    with pytest.raises(td.TrtdslError, match=f"{read} changed while it was in use"):
        td.advise(str(folder / "windows.py"), write=True, progress=progress)
    assert (folder / "windows.py").read_text() == HEAD + WRITTEN


def test_a_file_that_is_read_only_or_has_another_name_is_left_as_it_is(folder):
    file = folder / "windows.py"
    file.chmod(0o444)
    with pytest.raises(td.UsageError, match="its mode says that it is read-only"):
        td.advise(str(file), write=True)
    file.chmod(0o644)
    (folder / "same.py").hardlink_to(file)
    with pytest.raises(td.UsageError, match="it has other names"):
        td.advise(str(file), write=True)
    assert file.samefile(folder / "same.py") and file.read_text() == HEAD + WRITTEN


def test_an_edit_that_gives_another_network_is_not_offered(folder):
    """A softmax's rows that are hidden wholly are NaN, and attention's are 0."""
    text = (
        (HEAD + WRITTEN)
        .replace("/ 4 + w.bias", "/ 4")
        .replace("    return", "    scores = scores.masked_fill(w.bias[0] < 9, float('-inf'))\n    return")
    )
    (folder / "windows.py").write_text(text)
    advice = td.advise(str(folder / "windows.py"))
    assert advice.edits == () and advice.diff == "" and "has other values" in advice.skipped[0]


def test_edits_of_other_networks_in_the_file_are_not_tried(folder):
    (folder / "windows.py").write_text(
        HEAD + CALLED + "\n\ndef other(q, k, v):\n    return F.softmax(q @ k.mT, -1) @ v\n"
    )
    advice = td.advise(str(folder / "windows.py"))
    assert advice.edits == advice.skipped == ()


def test_a_file_in_another_encoding_gets_no_edits(folder):
    (folder / "windows.py").write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + (HEAD + WRITTEN).encode())
    advice = td.advise(str(folder / "windows.py"))
    assert advice.edits == () and advice.diff == ""


@pytest.mark.parametrize("write", [False, True])
def test_a_network_in_no_file_has_no_advice(write):
    net = td.Network("double")
    net.output(net.input("x", (3,)) * 2, "y")
    with pytest.raises(td.UsageError, match="is on a network's file, and 'double' is in none"):
        td.advise(net, write=write)


def test_writing_needs_a_reference_before_anything_is_built(folder):
    text = (HEAD + WRITTEN).replace(', reference="reference.py:Windows"', "")
    (folder / "windows.py").write_text(text)
    with pytest.raises(td.UsageError, match="windows has no reference to check against"):
        td.advise(str(folder / "windows.py"), write=True, progress=lambda *_: pytest.fail("work was done"))


def test_a_network_that_a_function_makes_has_advice_for_its_settings(folder):
    text = HEAD + WRITTEN
    body = text[text.index("@td.network") :].replace("\n", "\n    ").rstrip()
    made = body.replace("@ k.mT / 4", "@ k.mT / size**0.5").replace('"y"', "name")
    head = text[: text.index("@td.network")]
    file = folder / "windows.py"
    file.write_text(
        f"{head}def made(size: int, name: str = 'y') -> td.NetworkSpec:\n    {made}\n\n    return windows\n"
    )
    spec = td.load_spec(f"{file}:made", {"size": "16", "name": "out"})
    advice = td.advise(spec, write=True)
    assert advice.written and advice.check is not None and advice.check.passed and len(advice.edits) == 1
    assert "attn_mask=w.bias, scale=1 / (size**0.5))" in file.read_text()
