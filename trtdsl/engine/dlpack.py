"""DLPack, the exchange of arrays between libraries: read and written through ctypes, for memory that is not torch's.

The structures are those of dlpack.h, version 0.8 (github.com/dmlc/dlpack); its unversioned capsule is what every
library still gives and takes.
"""

from __future__ import annotations

import ctypes
from typing import Any

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

# (code, bits) of DLDataType -> torch's name of the dtype.
DTYPES = {
    (0, 8): "int8",
    (0, 32): "int32",
    (0, 64): "int64",
    (1, 8): "uint8",
    (2, 16): "float16",
    (2, 32): "float32",
    (2, 64): "float64",
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (10, 8): "float8_e4m3fn",
}
CODES = {name: code for code, name in DTYPES.items()}


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    pass


Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # holds the interpreter's lock: it drops Python objects
Managed._fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", Deleter))

NAME = b"dltensor"

_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
# In a capsule's destructor the capsule has no reference left, so it must be handled as a bare address.
_bare_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_bare_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

_exported: dict[int, tuple[Any, ...]] = {}  # the tensors that a consumer still uses, by the address of their Managed


def read(capsule: Any) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, str | None, int, int]:
    """Address, shape, strides (in elements), dtype, device type and index of a capsule's tensor.

    The memory lives as long as the capsule, which is not consumed. Strides are None for contiguous memory; the dtype is
    None for one that TensorRT does not have.
    """
    tensor = Managed.from_address(_pointer(capsule, NAME)).tensor
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else None
    dtype = DTYPES.get((tensor.dtype.code, tensor.dtype.bits)) if tensor.dtype.lanes == 1 else None
    return (tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, tensor.device.type, tensor.device.index


def write(
    pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, device: tuple[int, int], owner: Any
) -> Any:
    """A capsule over memory, its strides in elements; ``owner`` is kept until the consumer is done with it."""
    code, bits = CODES[dtype]
    sizes, steps = ((ctypes.c_int64 * max(len(shape), 1))(*each) for each in (shape, strides))
    managed = Managed()
    managed.tensor.data = pointer
    managed.tensor.device = Device(*device)
    managed.tensor.ndim = len(shape)
    managed.tensor.dtype = DataType(code, bits, 1)
    managed.tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    managed.tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _forget
    address = ctypes.addressof(managed)
    _exported[address] = (managed, sizes, steps, owner)
    return _new(address, NAME, ctypes.cast(_abandoned, ctypes.c_void_p))


@Deleter
def _forget(address: int) -> None:
    _exported.pop(address, None)


@Deleter
def _abandoned(capsule: int) -> None:
    if _bare_valid(capsule, NAME):  # it was not consumed, since a consumer renames it
        _exported.pop(_bare_pointer(capsule, NAME), None)
