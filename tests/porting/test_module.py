"""td.from_module: a spec of a module that is there, with constants, odd names, and what depends on values."""

import functools

import numpy as np
import pytest
import torch
from torch import nn

import trtdsl as td

X = torch.linspace(-2, 3, 12).reshape(3, 4)
ANCHORS = torch.linspace(0, 1, 4)
TABLE = torch.rand(40, 4)


def equal(module, inputs, **options):
    spec = td.from_module(module, inputs, **options)
    td.check(spec).raise_for_mismatch()
    return spec


@functools.lru_cache
def window(length):
    return torch.from_numpy(np.hanning(length).astype("float32"))


class Constants(nn.Module):
    """Tensors of every origin but the module's own, few and many numbers."""

    def __init__(self):
        super().__init__()
        self.levels = [torch.tensor([1.0, 2.0]), torch.tensor(3.0)]

    def forward(self, x):
        y = x + ANCHORS * np.float64(0.5) + window(4) + TABLE.mean(0)
        scale = torch.tensor(np.arange(4) / 4.0).float() + torch.linspace(0, 1, 4, dtype=torch.float64).float()
        return y * scale * self.levels[1] + torch.tensor(0.25, dtype=torch.float64) + TABLE[:3]


class Chosen(nn.Module):
    """Sizes that depend on values, used as sizes are."""

    def forward(self, x):
        chosen = x[x > 0]
        places = torch.nonzero(x < 0)
        rows = x[x.sum(1) > 0]
        return chosen * 2, places.flatten() + chosen.shape[0], rows.reshape(rows.shape[0], 2, 2)


class Numbered(nn.Module):
    def forward(self, x):
        chosen = x[x > 0]
        return chosen.reshape(int(chosen.shape[0]), 1).expand(-1, int(str(chosen.shape[0])))


class Sizes(nn.Module):
    def forward(self, x):
        return x.shape[0], x.numel()


class Nothing(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self):
        return self.fc(torch.ones(2, 3))


class Several(nn.Module):
    def forward(self, first, *rest):
        return first + sum(rest)


class Names(nn.Module):
    """Names that the file has for something else."""

    def forward(self, F, td, torch_):
        w = F + td
        math = w * torch_
        return {"math": math, "f": w, "w": math - w}


class Same(nn.Module):
    def forward(self, x):
        return {"x": x + 1}


class Empty(nn.Module):
    def forward(self, x):
        y = torch.empty(3, 4)
        y[:] = x
        return y + torch.empty_like(x).fill_(2.0)


def test_constants_of_every_origin():
    equal(Constants(), [X])


def test_sizes_that_depend_on_values():
    equal(Chosen(), {"x": "N,4"}, dims={"N": (4, 6, 9)})
    with pytest.raises(td.TrtdslError, match="chosen elements"):
        td.from_module(Numbered(), [X])


class Eager(nn.Module):
    """Looks at values where nothing is compiled, as libraries do."""

    def forward(self, x):
        if not torch.compiler.is_compiling() and x.abs().max() > 1e30:
            return x * 0
        return x + 1


def test_what_a_library_does_for_values_alone_is_left_out_as_when_it_is_compiled():
    equal(Eager(), [X])


def test_numbers_are_outputs_where_nothing_else_is():
    spec = equal(Sizes(), {"x": "N,4"}, dims={"N": (1, 3, 5)})
    got = td.interpret(spec.define(), {"x": X})
    assert [each.item() for each in got.values()] == [3, 12]


class Nested(nn.Module):
    """Outputs in outputs, some that are constant and some that are no tensors."""

    def forward(self, x):
        return {"y": x + 1, "states": (x * 2, [x - 1]), "grid": torch.arange(4.0), "kind": "nested", "none": None}


def test_every_leaf_of_what_forward_gives_is_an_output():
    spec = equal(Nested(), [X])
    assert list(spec.define().outputs) == ["y", "states_0", "states_1_0", "grid"]
    assert (spec.leave_out, spec.trivial) == (("kind",), ("grid",))


def test_a_module_without_inputs():
    equal(Nothing(), [])


def test_several_arguments_by_number():
    equal(Several(), [X, X + 1, X * 2])


def test_names_that_the_file_needs():
    equal(Names(), {"F": X, "td": X + 1, "torch_": X - 1})


def test_names_that_cannot_be():
    with pytest.raises(td.UsageError, match="an output and an input are both called 'x'"):
        td.from_module(Same(), [X])
    with pytest.raises(td.UsageError, match="dimension F has a name that the file has for something else"):
        td.from_module(nn.ReLU(), {"input": "F,3"}, dims={"F": (1, 2, 3)})


def test_memory_that_nobody_wrote():
    equal(Empty(), [X])


def test_inputs_are_forwards():
    with pytest.raises(td.UsageError, match=r"Sizes.forward takes 1 inputs \(x\), not 2"):
        td.from_module(Sizes(), [X, X])
    with pytest.raises(td.UsageError, match="is a tensor, a td.Input"):
        td.from_module(Sizes(), [3])
    with pytest.raises(td.UsageError, match="takes a torch.nn.Module, not a function"):
        td.from_module(equal, [X])


@pytest.mark.parametrize(
    ("old", "new", "code", "text"),
    [
        ("F.relu(", "F.relu(", 0, "checked: it equals the module at "),
        ("F.relu(", "F.silu(", 1, "it does not pass its check: "),
        ("F.relu(", "F.relu6(1, ", 3, "it cannot be checked: "),
    ],
)
def test_a_port_says_what_its_own_check_says(monkeypatch, old, new, code, text):
    from trtdsl.porting import ported
    from trtdsl.porting.writing import write

    whole = write.File.text
    monkeypatch.setattr(write.File, "text", lambda self: whole(self).replace(old, new))
    verdict = ported("torch.nn:ReLU", {"input": "N,3"}, check=True).verdict
    assert (verdict.exit_code, verdict.passed) == (code, code == 0) and verdict.text.startswith(text)
