"""Files of torch's tensors: checkpoints that are read without running code, and safetensors that are made of them."""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from collections.abc import Mapping
from typing import IO, BinaryIO

from ..core.dtypes import dtype_name
from ..core.errors import UNPRINTED, TrtdslError, UsageError, WeightsDamagedError, WeightsError
from ..core.files.held import hold, one_state
from ..core.files.reading import open_input
from ..core.files.writing import Kind, check_writable, write_atomically
from ..core.lazy import torch

BEYOND = 1 << 30
TOO_MUCH = f"it is more than {BEYOND >> 30} GiB beyond the file"
LONGEST_NAME = 1024
MOST_STEPS = 3_000_000  # of pickles: torch writes 30 for a tensor and 40 for a parameter, and takes 1 µs for each
PICKLES = 5  # of torch's first format: a mark, its version, the machine's sizes, the state, its storages' keys

# Saved checks and derived values are safetensors, too, of other kinds.
WEIGHTS = Kind("a file of weights", r'.{4}\0{4}\s*\{(?!"__metadata__":\{"trtdsl)')


@one_state
def convert_weights(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> list[str]:
    """Writes a torch checkpoint's state_dict as safetensors and gives the names written.

    Loads with ``weights_only=True``: a pickle that would run code is refused. A checkpoint that holds the state_dict
    under ``state_dict``, ``model``, ``model_state`` or ``model_state_dict`` is unwrapped; a common ``module.`` prefix
    is dropped. Raises UsageError when there is no such file, where it is written to while it is read, or ``output``
    cannot be written, CorruptFileError for anything that is not a checkpoint of tensors by name, WeightsError naming
    those that safetensors does not hold.
    """
    target = check_writable(output, WEIGHTS, [("checkpoint", source)])
    try:
        with open_input(source) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of what it makes itself
            try:
                limit = _unpacked_limit(file)
                state = torch.load(file, map_location="cpu", weights_only=True)
            finally:
                hold(source, os.fstat(file.fileno()))  # written to meanwhile, some tensors would be new and some old
    except FileNotFoundError:
        raise UsageError(f"no such file: {source}") from None
    except TrtdslError:
        raise
    except Exception as error:
        reason = str(getattr(error, "strerror", None) or error).split("\n")[0].split(". ")[0]
        if isinstance(error, AttributeError):  # of torch's first format, by dtypes that are newer
            reason = (
                "torch cannot read a tensor of it in its first format: save it again, in the one that has been usual"
            )
        raise WeightsDamagedError(
            f"{source} is not a torch checkpoint that loads without running code: {reason}"
            + ": save the weights alone, as torch.save(module.state_dict(), FILE)" * ("only load" in reason)
        ) from error
    for key in ("state_dict", "model_state_dict", "model_state", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    named = isinstance(state, dict) and all(isinstance(name, str) for name in state)
    if not named or not state or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise WeightsDamagedError(f"{source} holds no state_dict: expected a mapping from names to tensors")
    if all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    for name in state:
        if name == "__metadata__" or re.search(f"[{UNPRINTED}]", name):
            raise WeightsDamagedError(f"{source} has a tensor {name[:60]!a}, a name that no safetensors file can have")
    if sum(tensor.nbytes for tensor in state.values() if tensor.layout == torch.strided) > limit:
        raise WeightsDamagedError(f"{source} repeats elements: written out, {TOO_MUCH}")
    write_atomically(target, as_safetensors(state, f"{source} cannot be converted: "))
    return list(state)


def _unpacked_limit(file: BinaryIO) -> int:
    """Bytes that what a torch checkpoint holds may take. ValueError where the parts of an archive are more: torch packs
    none; and for pickles that torch takes minutes to read or to refuse.
    """
    limit, left = os.fstat(file.fileno()).st_size + BEYOND, MOST_STEPS
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as parts:
            if sum(part.file_size for part in parts.infolist()) > limit:
                raise ValueError(f"unpacked, {TOO_MUCH}")
            for name in parts.namelist():
                if name.endswith("data.pkl"):
                    with parts.open(name) as pickled:
                        left -= _checked_steps(pickled, left)
    else:
        file.seek(0, os.SEEK_SET)
        for _ in range(PICKLES):
            left -= _checked_steps(file, left)
    file.seek(0, os.SEEK_SET)
    return limit


def _checked_steps(pickled: IO[bytes], most: int) -> int:
    """How many steps a pickle has. ValueError for what is no pickle, for more steps than ``most``, and for one with a
    name that is too long, or that makes bytes of any number.
    """
    from pickletools import genops

    steps = 0
    for steps, (opcode, argument, _) in enumerate(genops(pickled), 1):
        if steps > most:
            raise ValueError(f"its pickle has more than {MOST_STEPS:,} steps, of which a tensor takes some 30")
        if opcode.name == "GLOBAL" and str(argument).endswith(" bytearray"):
            raise ValueError("it makes bytes, of which a checkpoint has none")
        if opcode.name == "GLOBAL" and len(str(argument)) > LONGEST_NAME:
            raise ValueError(f"it names what has a name of {len(str(argument)):,} characters")
    return steps


def as_safetensors(state: Mapping[str, torch.Tensor], label: str = "") -> bytes:
    """A state_dict as a file's bytes: tensors that share memory apart, and views as what they show.

    Raises WeightsError, which begins with ``label``, naming the tensors that a file cannot hold: sparse, quantized and
    meta ones, among others.
    """
    from safetensors.torch import save

    refusals = (KeyError, RuntimeError, ValueError)  # of torch and of safetensors

    def saved(tensors: Mapping[str, torch.Tensor]) -> bytes:
        return save({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()})

    try:
        return saved(state)
    except refusals:  # which do not say what tensor they are about
        problems = []
        for name, tensor in state.items():
            try:
                saved({name: tensor})
            except refusals:
                problems.append(f"  {name}: {dtype_name(tensor.dtype)}, {tensor.layout} on {tensor.device}")
        if not problems:
            raise
        raise WeightsError(f"{label}a safetensors file does not hold these tensors:\n" + "\n".join(problems)) from None
