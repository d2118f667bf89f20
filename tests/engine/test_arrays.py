"""Arrays in and out without copies, on the CPU; DLPack is the same protocol for device memory."""

import gc
import weakref

import numpy as np
import pytest
import torch

import trtdsl as td
from trtdsl.core import errors
from trtdsl.engine import dlpack
from trtdsl.engine.arrays import View, view
from trtdsl.engine.loading.signature import Signature, TensorInfo


class Foreign:
    """An array of a library that is neither numpy nor torch: DLPack is all it has."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **arguments):
        return self.tensor.__dlpack__(**arguments)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "bool"])
def test_torch_and_dlpack_share_memory(dtype):
    tensor = torch.ones(2, 3).to(getattr(torch, dtype))
    for given, kind in ((tensor, "torch"), (Foreign(tensor), "numpy")):
        found = view(given)
        assert (found.pointer, found.shape, found.dtype, found.device) == (tensor.data_ptr(), (2, 3), dtype, None)
        assert found.kind == kind
        assert found.size == tensor.numel() * tensor.itemsize


def test_numpy_shares_memory_when_it_is_contiguous():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert view(array).pointer == array.ctypes.data
    turned = view(array.T)
    assert turned.shape == (4, 3)
    assert np.array_equal(turned.owner, array.T)
    assert view(np.float32(3)).shape == ()
    assert view(torch.ones(4, 3).t()).owner.is_contiguous()


def test_values_that_are_not_arrays_are_refused():
    for value in ("text", object(), {"a": 1}):
        with pytest.raises(errors.FeedError):
            view(value)
    with pytest.raises(errors.FeedError, match="contiguous"):
        view(Foreign(torch.ones(4, 3).t()))
    with pytest.raises(errors.FeedError, match="dtype"):
        view(Foreign(torch.ones(2, dtype=torch.complex64)))
    assert view(Foreign(torch.ones(1, 3)[:, :].as_strided((1, 3), (77, 1)))).shape == (
        1,
        3,
    )  # a size of 1 has no stride


class OnDevice:
    """What cupy and others show of a device array; the address is not followed here."""

    def __init__(self, **changes):
        self.__cuda_array_interface__ = {
            "shape": (2, 3), "typestr": "<f4", "data": (0xABC0, False), "version": 3, **changes,
        }  # fmt: skip


def test_cuda_array_interface():
    found = view(OnDevice())
    assert (found.pointer, found.shape, found.dtype, found.device) == (0xABC0, (2, 3), "float32", 0)
    assert found.kind == "device"
    assert view(OnDevice(strides=(12, 4))).shape == (2, 3)
    with pytest.raises(errors.FeedError, match="contiguous"):
        view(OnDevice(strides=(4, 8)))


class Owner:
    pass


def test_dlpack_written_here_is_read_by_torch_and_numpy():
    memory = np.arange(6, dtype=np.float32)
    held = [Owner()]
    gone = weakref.ref(held[0])

    class Array:
        def __dlpack_device__(self):
            return dlpack.CPU, 0

        def __dlpack__(self, **_):
            return dlpack.write(memory.ctypes.data, (2, 3), (3, 1), "float32", (dlpack.CPU, 0), held[0])

    tensor = torch.from_dlpack(Array())
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    memory[0] = 7
    assert tensor[0, 0] == 7
    assert np.from_dlpack(Array()).shape == (2, 3)
    held.clear()
    gc.collect()
    assert gone() is not None  # torch still has it
    del tensor
    gc.collect()
    assert gone() is None


def test_a_capsule_that_nobody_takes_is_freed():
    owner = Owner()
    gone = weakref.ref(owner)
    memory = np.zeros(2, np.float32)
    capsule = dlpack.write(memory.ctypes.data, (2,), (1,), "float32", (dlpack.CPU, 0), owner)
    before = len(dlpack._exported)
    del owner
    assert dlpack.read(capsule)[1:4] == ((2,), (1,), "float32")
    del capsule
    gc.collect()
    assert gone() is None
    assert len(dlpack._exported) == before - 1


# -- whether feeds fit -------------------------------------------------------------------------------------------------

SIGNATURE = Signature(
    {"x": TensorInfo("x", "float32", (-1, 3)), "k": TensorInfo("k", "int64", (2,), on_host=True)},
    {"y": TensorInfo("y", "float32", (-1,))},
    (
        {"x": ((1, 3), (2, 3), (4, 3)), "k": ((2,), (2,), (2,))},
        {"x": ((8, 3), (8, 3), (16, 3)), "k": ((2,), (2,), (2,))},
    ),
)


def fed(x=(2, 3), dtype="float32", device=None, **others):
    k = View(0, (2,), "int64", None, "numpy", None)
    return {"x": View(0, x, dtype, device, "numpy", None), "k": k, **others}


def test_profiles_are_chosen_by_shape():
    assert SIGNATURE.check(fed((1, 3))) == 0
    assert SIGNATURE.check(fed((16, 3))) == 1
    assert SIGNATURE.check(fed((8, 3)), profile=1) == 1


@pytest.mark.parametrize(
    ("feeds", "kind", "words"),
    [
        ({"x": fed()["x"]}, errors.FeedNameError, "input 'k' is missing"),
        (fed(z=fed()["x"]), errors.FeedNameError, "no input 'z'. The inputs are x: float32 (?, 3), k: int64 (2)"),
        (fed(dtype="float64"), errors.FeedDtypeError, "must be float32, and float64 was fed"),
        (fed((3,)), errors.FeedRankError, "has 2 dimensions, and 1 were fed"),
        (fed((2, 4)), errors.FeedShapeError, "dimension 1 of input x: float32 (?, 3) must be 3, and 4 was fed"),
        (fed((5, 3)), errors.FeedProfileError, "no one of the 2 profiles holds these shapes"),
        (fed(device=1), errors.FeedPlaceError, "on cuda:1, the engine on cuda:0"),
        (fed(k=View(0, (2,), "int64", 0, "cuda", None)), errors.FeedPlaceError, "read on the CPU"),
    ],
)
def test_feeds_that_do_not_fit(feeds, kind, words):
    with pytest.raises(td.FeedError) as caught:
        SIGNATURE.check(feeds, device=0)
    assert type(caught.value) is kind
    assert words in caught.value.message
    assert caught.value.exit_code == 2


def test_a_profile_that_was_asked_for():
    with pytest.raises(errors.FeedProfileError, match="there is no profile 2: the engine has 2"):
        SIGNATURE.check(fed(), profile=2)
    with pytest.raises(errors.FeedProfileError, match="is 2, and the engine serves 8 to 16 in profile 1"):
        SIGNATURE.check(fed(), profile=1)
    with pytest.raises(errors.FeedShapeError, match="was captured with shape"):
        SIGNATURE.check_shapes(fed((4, 3)), {"x": (2, 3), "k": (2,)})


def test_out_of_memory_says_needed_and_free():
    error = errors.OutOfMemoryError(10_000, 500, "a tensor")
    assert error.message == "out of GPU memory: a tensor needs 10,000 bytes, and 500 bytes are free"
    assert (error.exit_code, error.code) == (8, "out-of-memory")
