"""What is said where forward fails on tensors without values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ....core.caller import to_write
from ....core.errors import DefinitionError, Location, TrtdslError, UnsupportedError, told
from ....core.lazy import torch
from ..frames import TRANSFORMS, place_of, transforms

OF_WHOLE = r"scalar types: Long|used as indices must be|must be (an )?(int|long)|expected index|dtype int64"
"""How torch refuses floating-point numbers where it takes indices."""
OF_SEVERAL = r"values to unpack|invalid data type 'str'|is not a mapping|only integers, slices"
NUMBERS = ("item", "int", "float", "tolist")
TRUTHS = ("bool", "is_nonzero", "equal", "allclose", "contains", "")


def failed(
    error: BaseException, tensors: Mapping[str, torch.Tensor], sized: str | None, place: Location | None
) -> TrtdslError:
    """The error of a forward that raises one on these inputs, with the author's line and what may be meant.

    ``sized`` says why a size was tried before, at ``place``; None where none was.
    """
    if transforms(error):
        reason = re.split(r"[.!] |\n", told(error))[0]
        return UnsupportedError(TRANSFORMS.format(f" ({reason})"), location=place_of(error))
    text, more = told(error).split("\nWhile executing")[0], ""
    if "its data is not allocated yet" in text:  # as C++ says that reads the values of an input
        return UnsupportedError(needs_values("a function in C++", False), location=place_of(error))
    real = [key for key, each in tensors.items() if each.is_floating_point()]
    if re.search(OF_WHOLE, text) and real:
        one = real[0] if len(real) == 1 else "NAME"
        example = to_write(f"inputs={{{one!r}: 'SHAPE:int64'}}", f"--input {one}=SHAPE:int64")
        which = f" ({' or '.join(real)})" * (len(real) > 1)
        more = f"; the dtype of an input{which} stands behind its shape: {example}"
    elif sized is not None and place is not None:
        more = f", after {place.short}, where {sized}"
    elif re.search(OF_SEVERAL, text):
        more = (
            " (an input is one tensor: where forward takes a tuple, a list or a dict, write a module that takes the "
            "tensors one by one and gives it that)"
        )
    return DefinitionError(f"forward fails: {text}{more}", location=place_of(error))


def needs_values(name: str, sized: bool) -> str:
    """What forward asks of values where a trace has none, and what to write instead."""
    if sized:
        gives = f"the size of what {name} gives" if name else "the size of a result"
        what, instead = f"{gives} depends on a tensor's values", "keep all elements, and a mask that says which count"
    elif name == "index":
        what = "a size, an end of a slice, a number of rounds or a place in a list depends on a tensor's values"
        instead = (
            "keep all elements, or go all rounds, with torch.where(torch.arange(n) < count, a, b), or run all parts, "
            "with torch.stack([part(x) for part in parts])[place]"
        )
    elif name == "place":
        what = "the place of what is written depends on a tensor's values"
        instead = "index with a tensor of one element (place.reshape(1)), which keeps its dimension of 1"
    elif name in NUMBERS:
        what, instead = f"{name} makes a number of a tensor's values", "compute with the tensor itself"
    elif name not in TRUTHS:
        what, instead = f"{name} takes a number that depends on a tensor's values", "compute it of the tensor itself"
    else:
        what, instead = "what runs here depends on a tensor's values", "compute both, and torch.where(condition, a, b)"
    by_hand = "write this part by hand (td.cond, td.while_loop)"
    return f"{what}, which a trace does not have: make it independent of the inputs ({instead}), or {by_hand}"
