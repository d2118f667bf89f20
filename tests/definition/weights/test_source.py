"""Weights: strict, all problems at once, memory-mapped."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import WeightsDamagedError
from trtdsl.definition.weights.source import Scope, Weights

MAPS = Path("/proc/self/maps")
EXPECTED = {"a.weight": ((2, 3), "float32"), "a.bias": ((2,), "float32"), "b.0.scale": ((1,), "float32")}


@pytest.fixture
def file(good, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(good, path)
    return path


def test_fitting_weights_pass(file, good):
    weights = Weights(file)
    weights.check(EXPECTED)
    assert torch.equal(weights.get("a.weight"), good["a.weight"])


def test_a_file_that_is_written_again_is_read_again(good, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(good, path)
    assert set(Weights(path).shapes) == set(good)
    for other in ({"a.weight": torch.zeros(3, 2)}, {"b.weight": torch.ones(3, 2)}, {"b.weight": torch.ones(6)}):
        save_file(other, path)
        opened = Weights(path)
        assert {name: opened.shapes[name] for name in opened.shapes} == {k: tuple(v.shape) for k, v in other.items()}
        assert all(torch.equal(opened.get(name), value) for name, value in other.items())
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(WeightsDamagedError, match="truncated"):
        Weights(path)


def test_what_a_reference_writes_into_its_weights_is_not_in_others(file, good):
    first, second = Weights(file), Weights(file)
    first.get("a.weight").zero_()
    first.add_buffers({"made": torch.ones(2)})
    assert torch.equal(second.get("a.weight"), good["a.weight"]) and "made" not in second.shapes
    assert torch.equal(Weights(file).get("a.weight"), good["a.weight"])


@pytest.mark.skipif(not MAPS.exists(), reason="only Linux tells what is mapped where")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64])
@pytest.mark.parametrize("copied", [True, False])
def test_a_tensor_is_a_view_of_the_mapped_file(dtype, copied, tmp_path, monkeypatch):
    monkeypatch.setattr("trtdsl.core.files.snapshot.PRIVATE", 1 << 20 if copied else 0)
    path = tmp_path / "w.safetensors"
    name = "/memfd:trtdsl (deleted)" if copied else str(path)
    save_file({"a.weight": torch.ones(2, 3, dtype=dtype), "b": torch.zeros(8, dtype=dtype)}, path)
    weights = Weights(path)
    place = weights.get("a.weight").data_ptr()
    mapped = [line.split()[0].split("-") for line in MAPS.read_text().splitlines() if line.endswith(name)]
    assert any(int(begin, 16) <= place < int(end, 16) for begin, end in mapped)


def test_all_problems_are_reported_together_sorted_with_both_shapes_and_the_nearest_names(good):
    good["a.weigth"] = good.pop("a.weight")
    good["a.bias"] = torch.randn(3)
    good["b.0.scale"] = torch.ones(1, dtype=torch.float64)
    good["b.10.extra"] = torch.ones(4)
    with pytest.raises(td.WeightsError) as caught:
        Weights(good).check(EXPECTED)
    assert str(caught.value).split("\n") == [
        "5 weights in the weights given do not fit the network:",
        "  a.bias: has shape (3,), not (2,)",
        "  a.weight: missing: (2, 3) float32 (nearest: a.weigth)",
        "  a.weigth: unused: (2, 3) (nearest: a.weight)",
        "  b.0.scale: is float64, not float32",
        "  b.10.extra: unused: (4,)",
    ]


def test_step_counters_are_known_and_ignored(good):
    good["bn.num_batches_tracked"] = torch.tensor(3)
    Weights(good).check(EXPECTED | {"other.num_batches_tracked": ((), "int64")})


def test_nan_and_inf_are_named_with_every_other_problem(good):
    good["a.bias"][0] = float("nan")
    good["a.weight"][1, 1] = float("-inf")
    finding = r"a.bias: has 1 NaN and 0 Inf .*\n  a.weight: has 0 NaN and 1 Inf"
    with pytest.raises(td.WeightsError, match=finding):
        Weights(good).check_finite()
    Weights(good).check(EXPECTED)  # which reads no values where all fits
    for allowed in (False, True):
        with pytest.raises(td.WeightsError, match="b.0.scale: is float32, not float16") as caught:
            Weights(good).check({**EXPECTED, "b.0.scale": ((1,), "float16")}, allow_nonfinite=allowed)
        assert ("1 NaN" in str(caught.value)) != allowed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_nan_and_inf_are_found_by_their_bits(dtype, tmp_path):
    """Each number by itself, first and last of many, against torch's own judgement; the greatest finite ones pass."""
    greatest = torch.finfo(dtype).max
    numbers = [0.0, -0.0, 1.0, greatest, -greatest, torch.finfo(dtype).tiny, math.inf, -math.inf, math.nan, -math.nan]
    for number, place in itertools.product(numbers, (0, -1)):
        tensor = torch.full((2, (1 << 18) + 3), -1.5, dtype=dtype)
        tensor.view(-1)[place] = torch.tensor(number, dtype=dtype)
        finite = bool(torch.isfinite(tensor).all())
        for weights in (Weights({"a": tensor}), Weights({"a": tensor.T})):
            assert bool(weights.nonfinite()) != finite, (number, place)
    save_file({"a": tensor, "b": torch.ones(3, dtype=torch.int64), "c": torch.ones(0)}, tmp_path / "w.safetensors")
    assert list(Weights(tmp_path / "w.safetensors").nonfinite()) == ["a"]


USES = {
    "build": lambda spec, folder: td.build(spec, folder / "net.engine", check=False),
    "dry run": lambda spec, folder: td.build(spec, folder / "net.engine", check=False, dry_run=True),
    "check": lambda spec, folder: td.check(spec, reference=lambda: torch.nn.Linear(3, 2)),
    "interpret": lambda spec, folder: td.interpret(spec.define(), {"x": torch.ones(2, 3)}),
    "program": lambda spec, folder: td.program(spec),
    "parsed": lambda spec, folder: td.Interpreter(spec.define()),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_weights_with_nan_are_named_at_their_line_wherever_they_are_read(use, tmp_path):
    save_file({"weight": torch.ones(2, 3), "bias": torch.tensor([1.0, math.nan])}, tmp_path / "net.safetensors")
    lines = [
        "import trtdsl as td, trtdsl.functional as F",
        "@td.network(inputs={'x': td.Input((2, 3))}, weights='net.safetensors')",
        "def net(x, w):",
        "    x = x * 2",
        "    return F.linear(x, w.weight, w.bias)",
    ]
    (tmp_path / "net.py").write_text("\n".join(lines))
    spec = td.load_spec(str(tmp_path / "net.py"))
    spec.define()  # reads no values
    with pytest.raises(td.WeightsError, match="bias: has 1 NaN and 0 Inf") as caught:
        use(spec, tmp_path)
    assert caught.value.location is not None
    assert caught.value.location.line == 5
    assert "\n  weight" not in str(caught.value)
    assert not list(tmp_path.glob("*.engine"))


def test_the_infinities_of_a_modules_own_buffers_are_no_fault(good):
    weights = Weights(good)
    weights.add_buffers({"mask": torch.full((2, 2), -math.inf)})
    weights.check_finite()


def test_missing_truncated_and_foreign_files(file, tmp_path):
    with pytest.raises(td.WeightsError, match="no weights file"):
        Weights(tmp_path / "none.safetensors")
    data = file.read_bytes()
    for size in (0, 4, 30, len(data) - 1):
        file.write_bytes(data[:size])
        with pytest.raises(td.CorruptFileError, match="truncated or not a safetensors file"):
            Weights(file)
    torch.save({"a": torch.ones(1)}, file)
    with pytest.raises(
        td.CorruptFileError, match=r"a torch checkpoint: make it one of safetensors with `trtdsl weights"
    ):
        Weights(file)
    with pytest.raises(td.WeightsError, match="cannot be read"):
        Weights(Path("\0.safetensors"))
    with pytest.raises(td.UsageError, match=r"tensors by name \(a state_dict\(\)\) or td.Weights, not Linear"):
        Weights(torch.nn.Linear(2, 3))


def test_scopes_follow_names(good):
    net = td.Network()
    w = Scope(net, Weights(good | {"b.1.scale": torch.ones(1)}))
    assert w.a.weight.shape == (2, 3)
    assert w["a.weight"] is w.a.weight
    assert w.b[0].scale.is_constant
    assert len(w.b) == 2
    assert [scope.scale.weight_names for scope in w.b] == [("b.0.scale",), ("b.1.scale",)]
    assert "a" in w
    assert "weight" in w.a
    assert "c" not in w
    assert repr(w.a) == "Scope(a: weight, bias)"
    with pytest.raises(td.WeightsError, match=r"w.a holds weights .* write F.linear\(x, w.fc.weight, w.fc.bias\) for"):
        w.a(w.a.weight)
    with pytest.raises(td.WeightsError, match="'a' is not one weight but several: weight, bias"):
        F.softmax(w.a, -1)
    with pytest.raises(td.WeightsError, match=r"no weight 'a.wait' in the weights given: a has weight, bias") as caught:
        _ = w.a.wait
    assert caught.value.location.file == __file__
    assert str(caught.value).splitlines()[0].endswith('where it is optional, ask `"wait" in w.a`')


def test_every_weight_must_be_used(good):
    weights = Weights(good)
    _ = Scope(td.Network(), weights).a.weight
    with pytest.raises(td.WeightsError, match=r"2 weights .*\n  a.bias: unused: \(2,\)\n  b.0.scale: unused"):
        weights.check_all_used()


def test_hash_is_of_the_content(file, good):
    assert Weights(file).sha256() == Weights(file).sha256()
    first = Weights(good).sha256()
    good["a.bias"] = good["a.bias"] + 1
    assert Weights(good).sha256() != first


def test_numbered_parts_are_taken_by_their_numbers():
    state = {f"layers.{index}.weight": torch.full((1,), float(index)) for index in (0, 3, 4, 7)}
    scope = td.Scope(td.Network(), td.Weights(state))

    def numbers(layers):
        return [int(layer.weight.data) for layer in layers]

    assert numbers(scope.layers) == [0, 3, 4, 7]
    assert numbers(scope.layers[3:5]) == [3, 4]
    assert numbers(scope.layers[:4]) == [0, 3]
    assert numbers(scope.layers[4:]) == [4, 7]
    assert scope.layers[1:3] == []


def test_a_mask_that_is_added_may_hold_inf(good):
    good["a.weight"] = torch.full((2, 3), float("-inf")).triu(1)
    Weights(good).check_finite()
    good["a.weight"][0, 1] = float("inf")
    with pytest.raises(td.WeightsError, match="a.weight: has 0 NaN and 3 Inf"):
        Weights(good).check_finite()
