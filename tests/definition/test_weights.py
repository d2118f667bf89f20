"""Weights: strict, all problems at once, memory-mapped."""

import io
import itertools
import json
import math
import pickle
import resource
import time
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import WeightsDamagedError
from trtdsl.definition.weights import Scope, Weights, convert_weights

MAPS = Path("/proc/self/maps")
EXPECTED = {"a.weight": ((2, 3), "float32"), "a.bias": ((2,), "float32"), "b.0.scale": ((1,), "float32")}


@pytest.fixture
def good():
    return {"a.weight": torch.randn(2, 3), "a.bias": torch.randn(2), "b.0.scale": torch.ones(1)}


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
    monkeypatch.setattr("trtdsl.core.files.PRIVATE", 1 << 20 if copied else 0)
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


@pytest.mark.parametrize(
    "wrap",
    [lambda s: s, lambda s: {"state_dict": s}, lambda s: {"model": s, "epoch": 3}, lambda s: {"model_state": s}],
)
def test_convert_writes_the_state_dict(wrap, good, tmp_path):
    tied = {"module." + name: tensor for name, tensor in good.items()} | {"module.view": good["a.weight"].t()}
    torch.save(wrap(tied), tmp_path / "m.pt")
    assert set(convert_weights(tmp_path / "m.pt", tmp_path / "m.safetensors")) == {*good, "view"}
    back = load_file(tmp_path / "m.safetensors")
    assert torch.equal(back["a.weight"], good["a.weight"])
    assert torch.equal(back["view"], good["a.weight"].t())


class Evil:
    def __reduce__(self):
        return (open, ("/tmp/trtdsl-should-not-exist", "w"))


def test_convert_runs_no_code(tmp_path):
    (tmp_path / "evil.pt").write_bytes(pickle.dumps({"a": Evil()}))
    buffer = io.BytesIO()
    torch.save({"a": Evil()}, buffer)
    (tmp_path / "evil2.pt").write_bytes(buffer.getvalue())
    for name in ("evil.pt", "evil2.pt"):
        with pytest.raises(td.CorruptFileError, match="not a torch checkpoint that loads without running code"):
            convert_weights(tmp_path / name, tmp_path / "out.safetensors")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(td.CorruptFileError, match="holds no state_dict"):
        convert_weights(tmp_path / "list.pt", tmp_path / "out.safetensors")
    with pytest.raises(td.UsageError, match="no such file"):
        convert_weights(tmp_path / "none.pt", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns of quantized and of complex32 tensors
def test_convert_names_what_a_file_of_weights_cannot_hold(good, tmp_path):
    torch.save({1: torch.ones(2), 2: torch.ones(2)}, tmp_path / "numbered.pt")
    with pytest.raises(td.CorruptFileError, match="holds no state_dict: expected a mapping from names to tensors"):
        convert_weights(tmp_path / "numbered.pt", tmp_path / "out.safetensors")
    odd = {
        "coo": torch.eye(2).to_sparse(),
        "eight": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "half": torch.ones(2, dtype=torch.complex32),
        "none": torch.ones(2, device="meta"),
    }
    torch.save(good | odd, tmp_path / "odd.pt")
    with pytest.raises(td.WeightsError) as caught:
        convert_weights(tmp_path / "odd.pt", tmp_path / "out.safetensors")
    assert str(caught.value).split("\n") == [
        "a safetensors file does not hold these tensors:",
        "  coo: float32, torch.sparse_coo on cpu",
        "  eight: qint8, torch.strided on cpu",
        "  half: complex32, torch.strided on cpu",
        "  none: float32, torch.strided on meta",
    ]
    assert not (tmp_path / "out.safetensors").exists()


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


def _sharded(folder, shards, weight_map=None):
    """A checkpoint's folder: files of tensors, and the index that names them."""
    for name, tensors in shards.items():
        save_file(tensors, folder / name)
    there = {name: file for file, tensors in shards.items() for name in tensors}
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map or there}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def _shards(good):
    first = {name: tensor for name, tensor in good.items() if name != "b.0.scale"}
    return {
        "model-00001-of-00002.safetensors": first,
        "model-00002-of-00002.safetensors": {"b.0.scale": good["b.0.scale"]},
    }


def test_a_checkpoint_of_several_files_is_one(good, tmp_path):
    folder = _sharded(tmp_path, _shards(good))
    for source in (folder, folder / "model.safetensors.index.json", Weights(folder)):
        weights = Weights(source)
        weights.check(EXPECTED)
        assert all(torch.equal(weights.get(name), tensor) for name, tensor in good.items())
        weights.check_all_used()
    first, second = Weights(folder), Weights(Weights(folder))
    assert first.sha256() == second.sha256()
    first.get("a.weight").zero_()
    assert torch.equal(second.get("a.weight"), good["a.weight"])
    with pytest.raises(td.WeightsError, match=r"c.scale: missing: \(1,\) float32 \(nearest: b.0.scale"):
        first.check({**EXPECTED, "c.scale": ((1,), "float32")})
    save_file({"b.0.scale": torch.zeros(2)}, folder / "model-00002-of-00002.safetensors")
    assert first.sha256() != Weights(folder).sha256()
    with pytest.raises(td.WeightsError, match="model-00002-of-00002.safetensors changed while it was in use"):
        first.check_unchanged()


def test_a_folder_with_one_file_is_that_file(good, tmp_path):
    save_file(good, tmp_path / "any.safetensors")
    assert set(Weights(tmp_path).shapes) == set(good)
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    assert set(Weights(tmp_path).shapes) == {"a"}


def test_a_network_reads_a_folder_whose_tied_tensor_is_there_once(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, token):
            return self.head(self.embed(token))

    def made(weights, **how):
        @td.network(inputs={"token": td.Input((2, 3), "int64", (0, 7))}, weights=weights, reference=Tied, **how)
        def net(token, w):
            return F.linear(F.embedding(token, w.embed.weight), w.head.weight if "tied" in how else w.embed.weight)

        return net

    state = Tied().state_dict()
    save_file({"embed.weight": state["embed.weight"]}, tmp_path / "model.safetensors")
    with pytest.raises(td.WeightsError, match=r"head.weight: missing"):
        made(tmp_path).define()
    for name in ("embed.weight", "head.weight"):
        save_file({name: state[name]}, tmp_path / "model.safetensors")
        assert td.check(made(tmp_path, tied={"head.weight": "embed.weight"}), sizes="quick").passed
    assert td.check(made(state, tied={"head.weight": "embed.weight"}), sizes="quick").passed
    with pytest.raises(td.WeightsError, match=r"head.weight and embed.weight are tied, and their values differ"):
        made({**state, "head.weight": torch.zeros(7, 4)}, tied={"head.weight": "embed.weight"}).define()


@pytest.mark.parametrize(
    ("weight_map", "files", "message"),
    [
        ({"a": "1.safetensors", "b": "2.safetensors"}, ["1"], r"names 2 files, and 1 of them are not there: 2.safe"),
        ({"a": "1.safetensors", "x": "1.safetensors"}, ["1"], r"lack tensors:\n  x: not in 1.safetensors"),
        ({"a": "1.safetensors", "b": "1.safetensors"}, ["1", "2"], r"b: not in 1.safetensors"),
        ({"a": "../1.safetensors"}, ["1"], "would lead to another place"),
        ({"a": 1}, ["1"], r"weight_map.*expected `?str`?"),
        ({}, ["1"], "names no tensor"),
    ],
)
def test_an_index_that_does_not_fit_its_files(weight_map, files, message, tmp_path):
    tensors = {"1.safetensors": {"a": torch.ones(1)}, "2.safetensors": {"b": torch.ones(1)}}
    _sharded(tmp_path, {f"{name}.safetensors": tensors[f"{name}.safetensors"] for name in files})
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises((td.WeightsError, td.CorruptFileError), match=message):
        Weights(tmp_path)


def test_a_folder_without_weights_says_what_to_do(tmp_path):
    with pytest.raises(td.WeightsError, match=r"has no weights: no model.safetensors and no model.*json$"):
        Weights(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    with pytest.raises(td.WeightsError, match=r"trtdsl weights convert .*pytorch_model.bin .*model.safetensors`"):
        Weights(tmp_path)
    for name in ("a", "b"):
        save_file({name: torch.ones(1)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(td.WeightsError, match=r"has a.safetensors, b.safetensors and no model.safetensors.index"):
        Weights(tmp_path)


def test_shards_of_eight_billion_parameters_are_opened_at_once(tmp_path):
    """Sparse files, as large as those of a published model: what is not read takes no place."""
    weight_map = {}
    for shard in range(4):
        names = [f"layers.{shard * 8 + layer}.{part}" for layer in range(8) for part in range(9)]
        size = 8_000_000_000 // (32 * 9) // 4096 * 4096
        header = {
            name: {"dtype": "BF16", "shape": [size // 4096, 4096], "data_offsets": [i * size * 2, (i + 1) * size * 2]}
            for i, name in enumerate(names)
        }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)  # as safetensors writes it: the tensors are aligned
        with open(tmp_path / f"{shard}.safetensors", "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + 2 * size * len(names))
        weight_map |= dict.fromkeys(names, f"{shard}.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    weights = Weights(tmp_path)
    total = sum(weights.get(name).numel() for name in weights.shapes)
    seconds, memory = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert total > 7.9e9
    assert seconds < 2
    assert memory < 500_000  # KiB


@pytest.mark.parametrize("name", ["__metadata__", "a\0b", "\x1b[31m", "a\nb"])
def test_a_name_that_no_file_can_have_is_not_converted(tmp_path, name):
    torch.save({name: torch.zeros(2)}, tmp_path / "m.pt")
    with pytest.raises(td.CorruptFileError, match="a name that no safetensors file can have"):
        convert_weights(tmp_path / "m.pt", tmp_path / "m.safetensors")
    assert not (tmp_path / "m.safetensors").exists()


def test_a_pickle_that_makes_bytes_is_refused_before_it_is_run(tmp_path):
    torch.save({"a": torch.zeros(2)}, tmp_path / "t.pt")
    code = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05" + (1 << 38).to_bytes(5, "little") + b"\x85R."
    with zipfile.ZipFile(tmp_path / "t.pt") as whole, zipfile.ZipFile(tmp_path / "bomb.pt", "w") as bomb:
        for part in whole.namelist():
            bomb.writestr(part, code if part.endswith("data.pkl") else whole.read(part))
    with pytest.raises(td.CorruptFileError, match="it makes bytes, of which a checkpoint has none"):
        convert_weights(tmp_path / "bomb.pt", tmp_path / "x.safetensors")
