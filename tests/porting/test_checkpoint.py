"""Checkpoints of torch as files of weights."""

import io
import pickle
import time
import warnings
import zipfile

import pytest
import torch
from safetensors.torch import load_file

import trtdsl as td
from trtdsl.porting.checkpoint import convert_weights


@pytest.fixture
def good():
    return {"a.weight": torch.randn(2, 3), "a.bias": torch.randn(2), "b.0.scale": torch.ones(1)}


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
        f"{tmp_path / 'odd.pt'} cannot be converted: a safetensors file does not hold these tensors:",
        "  coo: float32, torch.sparse_coo on cpu",
        "  eight: qint8, torch.strided on cpu",
        "  half: complex32, torch.strided on cpu",
        "  none: float32, torch.strided on meta",
    ]
    assert not (tmp_path / "out.safetensors").exists()


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


@pytest.mark.parametrize("archive", [True, False])
def test_a_pickle_of_many_steps_is_refused_early(tmp_path, archive):
    """A few KB, unpacked to what no checkpoint has: many Nones; and the same in parts, each of them small."""
    torch.save({"a": torch.zeros(2)}, tmp_path / "t.pt", _use_new_zipfile_serialization=archive)
    bomb = tmp_path / "bomb.pt"
    many = b"\x80\x02" + b"N0" * 700_000 + b"."
    if archive:
        with zipfile.ZipFile(tmp_path / "t.pt") as whole, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
            for part in whole.namelist():
                made.writestr(part, whole.read(part))
            for index in range(3):
                made.writestr(f"archive/{index}/data.pkl", many)
    else:
        bomb.write_bytes(many * 3)
    began = time.process_time()
    with pytest.raises(td.CorruptFileError, match=r"bomb\.pt is not a torch checkpoint.*more than 3,000,000 steps"):
        convert_weights(bomb, tmp_path / "x.safetensors")
    assert time.process_time() - began < 20  # the whole takes minutes where it is 100 MB
    assert not (tmp_path / "x.safetensors").exists()


def test_what_torch_says_of_what_it_reads_is_not_handed_on(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({"q": torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8)}, tmp_path / "q.pt")
    with pytest.raises(td.WeightsError, match="does not hold these tensors:\n  q: qint8"):
        convert_weights(tmp_path / "q.pt", tmp_path / "out.safetensors")  # a warning would be an error


def test_a_dtype_that_torchs_first_format_does_not_have_is_explained(tmp_path):
    torch.save({"a": torch.ones(2).to(torch.float8_e4m3fn)}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(
        td.CorruptFileError, match="torch cannot read a tensor of it in its first format: save it again"
    ):
        convert_weights(tmp_path / "a.pt", tmp_path / "out.safetensors")
