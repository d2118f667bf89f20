"""td.from_module: a spec of a module that is there, with constants, odd names, and what depends on values."""

import functools

import numpy as np
import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.porting
from trtdsl import porting
from trtdsl.porting import ported

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


class Rotary(nn.Module):
    """Angles in float64, as diffusers computes them, of a table in float64."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.tensor([1.0, 0.1], dtype=torch.float64))

    def forward(self, x, places):
        angles = torch.outer(places.double(), self.frequencies)
        turned = torch.stack([angles.cos(), angles.sin()], -1).flatten(1)
        return x * turned.to(x.dtype)


class Wide(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return (x * 3).clamp(-99, 99).to(self.dtype)


class Doubled(nn.Module):
    def forward(self, output):
        return output * 2


class Ceiling(nn.Module):
    """As torchaudio's resampling computes a length."""

    def forward(self, x):
        length = torch.ceil(torch.as_tensor(x.shape[1] / 2)).long()
        return x[:, :length], x.new_zeros(int(length)) + x[0, 0]


class Tempered(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = torch.tensor(2.0)

    def forward(self, x):
        if not bool((self.temperature > 0).all()):
            raise ValueError("a temperature is positive")
        return x / self.temperature


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


def test_checks_of_values_in_a_library_are_left_out_as_in_compiled_code():
    equal(Eager(), [X])


def test_numbers_are_outputs_of_a_module_without_tensors():
    spec = equal(Sizes(), {"x": "N,4"}, dims={"N": (1, 3, 5)})
    got = td.interpret(spec.define(), {"x": X})
    assert [each.item() for each in got.values()] == [3, 12]


class Nested(nn.Module):
    """Outputs in outputs, some that are constant and some that are no tensors."""

    def forward(self, x):
        fixed = {"grid": torch.arange(4.0), "deviation": x * 0.0 + 2.0}
        return {"y": x + 1, "states": (x * 2, [x - 1]), **fixed, "kind": "nested", "none": None}


def test_every_leaf_of_forwards_result_is_an_output():
    spec = equal(Nested(), [X])
    assert list(spec.define().outputs) == ["y", "states_0", "states_1_0", "grid", "deviation"]
    assert (spec.leave_out, spec.trivial) == (("kind",), ("grid", "deviation"))


class Positions(nn.Module):
    """Gives beside its result what it makes of the sizes of x, and a parameter for each of the batch."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 4))

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device).float() / x.shape[1]
        return x * 2, places.repeat(x.shape[0], 1).to(x.dtype), self.token.expand(x.shape[0], -1), self.token.type_as(x)


def test_outputs_that_sizes_alone_decide_are_trivial():
    found = ported(Positions(), ["N,T"], dims={"N": (1, 2, 3), "T": (4, 5, 7)}, check=True)
    assert found.verdict.passed, found.verdict.text
    assert 'trivial=("output_1", "output_2", "output_3")' in found.text


class LikeWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.flat, self.left = (nn.Parameter(torch.randn(size)) for size in ((3, 4), (2, 2), (5,)))

    def forward(self, x):
        return x.expand_as(self.wide) * 2, x.view_as(self.flat)


def test_no_output_depends_on_weights_whose_shapes_alone_are_read():
    """Which a check says of them, too."""
    found = ported(LikeWeights(), ["1,4"], check=True)
    assert found.verdict.passed, found.verdict.text
    assert "w.wide" in found.text and 'unused=("wide", "flat", "left"),' in found.text


class Deviation(nn.Module):
    """Takes shapes alone of two weights, one of them through a distribution of which it gives the mean."""

    def __init__(self):
        super().__init__()
        self.linear, self.log_std = nn.Linear(4, 2), nn.Parameter(torch.zeros(2))
        self.like = nn.Parameter(torch.ones(1, 2))

    def forward(self, x):
        mean = self.linear(x) + torch.ones_like(self.like)
        return torch.distributions.Normal(mean, self.log_std.exp()).mean


def test_weights_of_which_shapes_alone_are_taken_are_unused():
    spec = equal(Deviation(), {"x": "N,4"}, dims={"N": (1, 2, 3)})
    assert spec.unused == ("log_std", "like")


class Broadcast(nn.Module):
    """Asks for the shape that tensors have together, of a batch that may be one."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 4))

    def forward(self, x):
        shape = torch.broadcast_shapes(self.weight.shape, x.shape, (1, 4))
        return x + self.weight.expand(shape) * self.weight.expand(torch.broadcast_shapes(x[:, :1].shape, x.shape))


def test_a_shape_of_several_has_the_size_that_is_dynamic():
    equal(Broadcast(), {"x": "N,4"}, dims={"N": (1, 2, 3)})


class Sparse(nn.Module):
    """Has a sparse buffer, which forward does not read, beside one that it does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("heads", torch.eye(3).to_sparse(), persistent=False)
        self.register_buffer("mask", torch.ones(4), persistent=False)

    def forward(self, x):
        return x * self.mask


def test_a_sparse_buffer_that_nothing_reads_is_no_weight():
    equal(Sparse(), {"x": "N,4"}, dims={"N": (1, 2, 3)})


def test_a_module_without_inputs():
    equal(Nothing(), [])


def test_several_arguments_by_number():
    equal(Several(), [X, X + 1, X * 2])


def test_names_that_the_file_needs():
    equal(Names(), {"F": X, "td": X + 1, "torch_": X - 1})


def test_an_output_with_the_name_of_an_input():
    spec = equal(Same(), [X])
    assert list(spec.define().outputs) == ["x_out"]
    spec = equal(Doubled(), {"output": X})
    assert list(spec.define().outputs) == ["output_out"]


def test_float64_is_computed_in_float32_with_a_remark():
    ported = porting.ported(Rotary, {"x": "N,4", "places": "N:int64:0:100"}, check=True)
    assert ported.verdict.passed
    assert [note.partition(" at ")[0] for note in ported.notes] == ["forward computes in float64"]
    assert "torch.float64" not in ported.text
    equal(Rotary(), {"x": "N,4", "places": "N:int64:0:100"})


@pytest.mark.parametrize(("dtype", "instead"), [("float64", "float32"), ("int16", "int32"), ("int8", "int32")])
def test_outputs_of_dtypes_that_tensorrt_does_not_have(dtype, instead):
    module = Wide(getattr(torch, dtype))
    ported = porting.ported(module, {"x": "N,4"}, check=True)
    assert ported.verdict.passed
    assert ported.notes[-1] == f"forward gives {dtype}: the network gives {instead}"
    (output,) = equal(module, {"x": "N,4"}).define().outputs.values()
    assert output.dtype == getattr(torch, instead)


@pytest.mark.parametrize(
    ("forward", "is_read"),
    [
        (lambda x: x.float() / 255, False),
        (lambda x: x.permute(0, 2, 1)[:, 1:].float() / 255, True),
        (lambda x: (x // 2)[:, 1:], True),
    ],
)
def test_bytes_are_whole_numbers_for_what_does_not_convert_them(forward, is_read):
    class Image(nn.Module):
        def forward(self, x):
            return forward(x)

    ported = porting.ported(Image(), {"x": "N,4,3:uint8:0:256"}, check=True)
    assert ported.verdict.passed
    assert ("x = x.to(torch.int32)" in ported.text) == is_read


def test_tensors_of_one_number_that_is_a_size():
    spec = equal(Ceiling(), {"x": "N,T"}, dims={"N": (1, 2), "T": (4, 5, 9)})
    assert str(spec.define().outputs["output_0"].shape) == "(N, T - T//2)"


def test_a_branch_on_the_modules_own_values_is_remarked():
    ported = porting.ported(Tempered, {"x": "N,4"}, check=True)
    assert ported.verdict.passed
    (note,) = ported.notes
    assert note.startswith("bool at ") and "asks for values of the module's own tensors" in note


def test_dimensions_called_as_what_the_file_imports_get_another_name():
    ported = porting.ported(nn.ReLU(), {"input": "F,td"}, dims={"F": (1, 2, 3), "td": (2, 3, 4)}, check=True)
    assert ported.verdict is not None and ported.verdict.passed
    assert 'F_ = td.Dim("F_", min=1, opt=2, max=3)' in ported.text and "td.Input((F_, td_))" in ported.text


def test_uninitialized_memory():
    equal(Empty(), [X])


def test_inputs_are_the_parameters_of_forward():
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
def test_a_port_reports_the_verdict_of_its_check(monkeypatch, old, new, code, text):
    from trtdsl.porting.writing import write

    whole = write.File.text
    monkeypatch.setattr(write.File, "text", lambda self: whole(self).replace(old, new))
    verdict = ported("torch.nn:ReLU", {"input": "N,3"}, check=True).verdict
    assert (verdict.exit_code, verdict.passed) == (code, code == 0) and verdict.text.startswith(text)


class Floor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)

    def forward(self, x):
        return self.fc(x).sigmoid().clamp(min=1e-5)


def test_the_verdict_of_a_port_is_that_of_check():
    """Both know a network's constants before they were rounded: here, where its outputs are constants."""

    torch.manual_seed(0)
    verdict = ported(Floor(), {"x": "N,8"}, dims={"N": (1, 2, 4)}, check=True).verdict
    assert verdict.passed, verdict.text


def test_a_function_draws_the_values_of_an_input():
    def drawn(shape, generator):
        return torch.rand(shape, generator=generator) + 5

    given = {"input": td.Input(("N", 3), sample=drawn)}
    spec = equal(nn.Linear(3, 2), given, dims={"N": (1, 2, 4)})
    assert spec.inputs["input"].sample is drawn
    with pytest.raises(td.UsageError, match="sample of input 'input' is a function.*td.from_module"):
        td.port("torch.nn:Linear", given, arguments={"in_features": 3, "out_features": 2})


def test_a_fourier_layer_with_complex_weights(tmp_path):
    (tmp_path / "fourier.py").write_text(
        "import torch\n"
        "class Fourier(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weight = torch.nn.Parameter(torch.randn(4, 5, 9, dtype=torch.cfloat))\n"
        "    def forward(self, x):\n"
        "        modes = torch.einsum('bif,iof->bof', torch.fft.rfft(x)[..., :9], self.weight)\n"
        "        return torch.fft.irfft(modes, n=x.shape[-1])\n"
    )
    file, weights = tmp_path / "net.py", tmp_path / "net.safetensors"
    given = {"dims": {"N": (1, 2, 3)}, "file": file, "weights": weights, "name": "net"}
    ported = trtdsl.porting.ported(f"{tmp_path}/fourier.py:Fourier", {"x": "N,4,32"}, check=True, **given)
    assert ported.verdict.passed, ported.verdict.text
    trtdsl.porting.write_files(ported, file, weights)
    assert td.check(file).passed


class Renamed(nn.Module):
    """Its state_dict has names of its own for what a part holds, as those of libraries with older checkpoints have."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)
        self._register_state_dict_hook(Renamed.written)
        self._register_load_state_dict_pre_hook(self.read)

    @staticmethod
    def written(module, state, prefix, metadata):
        for name in ("weight", "bias"):
            state[f"{prefix}{name}_l0"] = state.pop(f"{prefix}first.{name}")
        return state

    def read(self, state, prefix, *rest):
        for name in ("weight", "bias"):
            state[f"{prefix}first.{name}"] = state.pop(f"{prefix}{name}_l0")

    def forward(self, x):
        return self.last(self.first(x).relu())


def test_weights_that_a_state_dict_renames_are_read_by_its_names():
    module = nn.Sequential(Renamed(), nn.Linear(3, 2)).eval()
    equal(module, [td.Input(("N", 4))], dims={"N": (1, 3)})
    assert "w.weight_l0, w.bias_l0" in td.port(module, {"input": td.Input(("N", 4))}, dims={"N": (1, 3)})


class Joined(nn.Module):
    """Its state_dict has one weight for two parts, as opacus' attention has."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)
        self._register_state_dict_hook(Joined.written)
        self._register_load_state_dict_pre_hook(self.read)

    @staticmethod
    def written(module, state, prefix, metadata):
        for name in ("weight", "bias"):
            state[f"{prefix}in_{name}"] = torch.cat([state.pop(f"{prefix}{part}.{name}") for part in "qk"])
        return state

    def read(self, state, prefix, *rest):
        for name in ("weight", "bias"):
            state[f"{prefix}q.{name}"], state[f"{prefix}k.{name}"] = state.pop(f"{prefix}in_{name}").chunk(2)

    def forward(self, x):
        return self.q(x) * self.k(x)


def test_weights_that_a_state_dict_joins_are_kept_beside(port):
    equal(Joined().eval(), [td.Input(("N", 4))], dims={"N": (1, 3)})
    made = port(f"{__file__}:Joined", {"x": td.Input(("N", 4))}, dims={"N": (1, 3)}).check()
    assert "w.q.weight, w.q.bias" in made.text and "q.bias" in made.result.weights
