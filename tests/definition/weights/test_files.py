"""Files of weights: folders, indexes and shards."""

import json
import resource
import time

import pytest
import torch
from safetensors.torch import save_file

import trtdsl as td
import trtdsl.functional as F
from trtdsl.definition.weights.source import Weights

EXPECTED = {"a.weight": ((2, 3), "float32"), "a.bias": ((2,), "float32"), "b.0.scale": ((1,), "float32")}


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


def test_an_index_that_repeats_a_name_is_refused(tmp_path):
    """As a header is: a reader of JSON keeps the last one."""
    for number in (1, 2):
        save_file({"a": torch.full((1,), float(number))}, tmp_path / f"{number}.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}}'
    )
    with pytest.raises(td.CorruptFileError, match="'a' repeats"):
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


@pytest.mark.parametrize("twice", ["a", "shape", "__metadata__"])
def test_a_header_that_repeats_a_name_is_refused(tmp_path, twice):
    """As the C++ reader does, and where both entries are the same, too."""
    entry = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    header = {
        "a": f'{{"a":{entry},"a":{entry}}}',
        "shape": f'{{"a":{entry[:-1]},"shape":[1]}}}}',
        "__metadata__": f'{{"__metadata__":{{}},"__metadata__":{{}},"a":{entry}}}',
    }[twice].encode()
    file = tmp_path / "w.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(td.CorruptFileError, match=r"w\.safetensors.*(repeats|duplicate)"):
        Weights(file)


def test_an_index_of_many_missing_files_is_refused_soon(tmp_path):
    """The folder is listed once: a look at each of 100,000 names took 5 s."""
    weight_map = {f"{number}.weight": f"model-{number}.safetensors" for number in range(100_000)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    spec = td.network(inputs={"x": td.Input((2, 3))}, name="n")(lambda x: {"y": x})
    began = time.process_time()
    with pytest.raises(td.WeightsError, match="names 100000 files, and 100000 of them are not there"):
        td.derive_weights(spec, tmp_path, output=tmp_path / "derived.safetensors")
    assert time.process_time() - began < 2


def test_many_names_that_are_like_others_are_refused_soon(tmp_path):
    """A comparison of each missing name with 50,000 others took a second."""
    state = {f"model.layers.{number}.self_attn.q_proj.weight": torch.zeros(0) for number in range(50_000)}
    save_file(state, tmp_path / "a.safetensors")
    weights = Weights(tmp_path / "a.safetensors")
    expected = {f"model.layer.{number}.self_attention.q_proj.weight": ((3,), "float32") for number in range(300)}
    began = time.process_time()
    with pytest.raises(td.WeightsError, match="no name in .* is one of the network's weights"):
        weights.check(expected, allow_nonfinite=True)
    assert time.process_time() - began < 2


def test_names_in_a_folder_write_no_line_of_their_own(tmp_path):
    for name in ("a\nb.safetensors", "c.safetensors"):
        save_file({"a": torch.ones(1)}, tmp_path / name)
    with pytest.raises(td.WeightsError, match=r"has a\?b.safetensors, c.safetensors and no"):
        Weights(tmp_path)
    with pytest.raises(td.WeightsError, match=r"nearest: a\?b.safetensors"):
        Weights(tmp_path / "a_b.safetensors")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int16, torch.bool])
def test_integers_of_all_kinds_are_read_as_they_were_saved(tmp_path, dtype):
    save_file({"w": torch.tensor([[0, 1], [1, 0]]).to(dtype)}, tmp_path / "w.safetensors")
    w = Weights(tmp_path / "w.safetensors").get("w")
    assert w.dtype == dtype and w.tolist() == [[0, 1], [1, 0]]
