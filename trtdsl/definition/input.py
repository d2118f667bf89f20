"""What comes to a network from outside: its inputs, as the author writes them, and the plugins that it has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.caller import as_argument
from ..core.errors import PACKAGE, UsageError
from .common import Dim, Size, as_dtype, dtype_name, is_file, substitute, torch

NEXT = "next_"
"""What the name of the output begins with that a run leaves in a state."""
MAX_DIMS = 8
CHANNELS_LAST = "channels_last"
MAX_SIZE = 2**31 - 1  # of a dimension: TensorRT takes greater ones, and some of them for their lower 32 bits


@dataclass(frozen=True)
class Input:
    """An input of a network.

    ``shape`` has an int, a :class:`Dim`, a name (a Dim whose range comes later) or a Size such as ``8 * H`` per
    dimension. ``dtype`` is a torch dtype or its name. ``sample`` says what a check feeds: ``(low, high)`` for uniform
    values (integers: ``low <= value < high``), ``sample(shape, generator) -> torch.Tensor``, or an .npy file, which is
    repeated or cut to the size; None draws from the normal distribution (floating-point inputs only). ``sharded`` is
    the dimension that the ranks of a network on several GPUs share out: ``shape`` is one rank's. ``format`` is None, or
    ``"channels_last"`` for float32 values of 4 or 5 dimensions that lie in memory as torch.channels_last has them, as
    frames of a camera do: the shape stays (N, C, H, W), and the engine reads them without a launch that transposes.
    ``longest`` is a size of whole numbers that are lengths, as of a batch that is padded to its longest sequence: the
    greatest of them is that size. A check feeds it such values, and an interpreter refuses others. Where the input has
    the sequences themselves, or a mask of them, ``longest`` is the size of one of its dimensions and ``padding`` what
    stands behind their ends: one sequence at least has no padding. ``descending`` has a check feed the longest first.
    ``below`` is a number that whole numbers from 0 on do not reach, on which the network relies: an interpreter refuses
    others.

    Raises UsageError for a shape, a sample, a dimension, a format, a longest or a padding that is none of these.

    >>> Input(("N", 3, 8 * Dim("H"))).shape
    (N, 3, 8*H)
    """

    shape: tuple[Any, ...]
    dtype: Any = "float32"
    sample: (
        tuple[float, float] | Callable[[tuple[int, ...], torch.Generator], torch.Tensor] | str | PathLike[str] | None
    ) = None
    sharded: int | None = None
    format: str | None = None
    longest: Any = None
    padding: float | None = None
    descending: bool = False
    below: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.shape, (tuple, list)):
            raise UsageError(f"an input's shape is a tuple, such as ('N', 3), not {self.shape!r}")
        shape = tuple(Dim(size) if isinstance(size, str) else size for size in self.shape)
        for size in shape:
            if isinstance(size, bool) or not isinstance(size, (int, Size)):
                raise UsageError(f"an input's dimension is an int, a Dim, a name or a Size, not {size!r}")
            if isinstance(size, int) and size < 0:
                raise UsageError(f"an input's dimension must not be negative: {size} (a dynamic one has a name)")
            if isinstance(size, int) and size > MAX_SIZE:
                raise UsageError(f"an input's dimension is at most {MAX_SIZE}, not {size}")
        if self.sharded is not None and not 0 <= as_argument("sharded", self.sharded, int) < len(shape):
            raise UsageError(f"sharded is one of the {len(shape)} dimensions, not {self.sharded}")
        if self.format is not None:
            check_format("an input", self.format, len(shape), as_dtype(self.dtype))
            if isinstance(self, State):
                raise UsageError("a state has no format: it lies as the engine writes it")
        if isinstance(self.longest, str):
            object.__setattr__(self, "longest", Dim(self.longest))
        lengths = self.padding is not None or dtype_name(as_dtype(self.dtype)) in ("int32", "int64")
        whole = isinstance(self.longest, (int, Size)) and lengths
        if self.longest is not None and (isinstance(self.longest, bool) or not whole):
            raise UsageError(
                f"an input's longest is a size, such as 'T', of whole numbers, not {self.longest!r} of "
                f"{dtype_name(as_dtype(self.dtype))}"
            )
        if self.padding is not None and not (
            isinstance(self.padding, Real) and self.longest is not None and str(self.longest) in map(str, shape)
        ):
            raise UsageError(
                f"an input's padding is a number, such as 0, and its longest the size of one of its dimensions, not "
                f"{self.padding!r} and {self.longest!r}"
            )
        if self.below is not None and as_dtype(self.dtype).is_floating_point:
            raise UsageError(f"an input that is below {self.below} is of whole numbers, not {self.dtype}")
        if self.descending and not (shape and (self.longest is not None or not as_dtype(self.dtype).is_floating_point)):
            raise UsageError("an input that is descending has lengths, or a longest sequence and what pads the others")
        slots = getattr(self, "slots", None)
        if slots not in (None, State.slots) and not 0 < as_argument("slots", slots, int) % (len(shape) or 1) < len(
            shape
        ):
            raise UsageError(f"slots is one of the dimensions 1 to {len(shape) - 1}, or None, not {slots}")
        sample = self.sample
        pair = isinstance(sample, tuple) and len(sample) == 2 and all(isinstance(end, Real) for end in sample)
        if not (sample is None or callable(sample) or pair or isinstance(sample, (str, PathLike))):
            raise UsageError(
                f"an input's sample is (low, high), a function of shape and generator or an .npy file, not {sample!r}"
            )
        if pair:
            _check_range(self.dtype, sample)
        if isinstance(sample, (str, PathLike)):  # relative to the author's file
            author = Path(sys._getframe(2).f_code.co_filename)  # this method's caller is the dataclass's own
            folder = author.parent if is_file(author) and not str(author).startswith(PACKAGE) else Path()
            object.__setattr__(self, "sample", str(folder / sample))
        object.__setattr__(self, "shape", shape)

    def with_dims(self, sizes: Mapping[str, Any]) -> Input:
        """The same input where these dimensions have other sizes."""
        longest = None if self.longest is None else substitute(self.longest, sizes)
        return replace(self, shape=tuple(substitute(size, sizes) for size in self.shape), longest=longest)

    @property
    def steps(self) -> int:
        """The dimension of the steps of sequences that are padded."""
        shape = [*map(str, self.shape)]
        return shape.index(str(self.longest), 1) if str(self.longest) in shape[1:] else 0


def _check_range(given: Any, sample: Any) -> None:
    """UsageError for a sample whose ends are no numbers of the dtype; those of integers lie below the high end."""
    dtype = as_dtype(given)
    try:
        if dtype.is_floating_point:
            least, most = torch.finfo(dtype).min, torch.finfo(dtype).max
        else:
            least, most = (0, 2) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max + 1)
    except TypeError:  # complex numbers and the like, which no input is of
        return
    if not (least <= sample[0] <= most and least <= sample[1] <= most):
        raise UsageError(f"an input's sample of {dtype_name(dtype)} lies between {least} and {most}, not {sample!r}")


def check_format(what: str, given: Any, ndim: int, dtype: torch.dtype) -> None:
    """UsageError for a format that there is not, and for a tensor that cannot lie so."""
    if given != CHANNELS_LAST:
        raise UsageError(f"the format of {what} is None or {CHANNELS_LAST!r}, not {given!r}")
    if ndim not in (4, 5) or dtype != torch.float32:
        raise UsageError(
            f"{what} that lies channels last is float32 of 4 or 5 dimensions, not {dtype_name(dtype)} of {ndim}: "
            "TensorRT has that format for no other"
        )


@dataclass(frozen=True)
class State(Input):
    """An input that each run hands to the next one: the network's output ``next_NAME``, of the same shape and dtype.

    A cache of keys and values, a hidden state. In every precision the output has the state's dtype. A check feeds drawn
    values and compares what comes out: what holds of one step from any state holds of all. An engine's
    :meth:`~trtdsl.Engine.session` keeps states on the GPU, and the manifest names them. ``slots`` is the dimension that
    has a slot for each token, which :class:`~trtdsl.Generator` does not overfill, of three dimensions or more; None for
    a state that holds any number of tokens, such as that of a Mamba's layer.

    A state begins with zeros in a session, in :class:`~trtdsl.Generator` and in C++, which is an empty cache where
    another input says how much of it is filled. What runs one step alone (:func:`~trtdsl.interpret`,
    :func:`~trtdsl.evaluate_engine`, :meth:`~trtdsl.Engine.run`) is fed it, and raises FeedNameError where it is not.

    >>> @td.network(inputs={"x": td.Input((3,)), "sum": td.State((3,))})
    ... def running(x, sum):
    ...     return {"next_sum": sum + x}
    >>> running.define().states
    {'sum': 'next_sum'}
    """

    slots: int | None = -2

    @property
    def slot_axis(self) -> int | None:
        """The dimension of ``slots``, from 0 on; None where there is none."""
        axis = 0 if self.slots is None or not self.shape else self.slots % len(self.shape)
        return axis or None


def dims_of(inputs: Mapping[str, Input]) -> dict[str, Dim]:
    """The dynamic dimensions of inputs by name: those of one name are one, whose range one of them may have."""
    sizes = [size for spec in inputs.values() for size in spec.shape if isinstance(size, Size)]
    dims: dict[str, Dim] = {}
    for atom in (atom for size in sizes for atom in size.atoms() if isinstance(atom, Dim)):
        if atom.name not in dims or dims[atom.name].range is None:
            dims[atom.name] = atom
    return dims


def check_dims(inputs: Mapping[str, Input]) -> None:
    """UsageError for a longest of which no input has the dimension."""
    known = dims_of(inputs)
    for name, spec in inputs.items():
        if isinstance(spec.longest, Size) and not known.keys() >= set(map(str, spec.longest.atoms())):
            raise UsageError(f"the longest of input {name!r} is {spec.longest}, of which no input has the dimension")


@dataclass(frozen=True)
class PluginUse:
    """A plugin in a network: the creator that made a layer's plugin, the fields that it got, and what evaluates it."""

    name: str
    version: str
    namespace: str
    fields: Mapping[str, Any]
    evaluate: Callable[..., Any] | None

    def to_json(self) -> dict[str, str]:
        """What an engine needs of the plugin where it runs."""
        return {"name": self.name, "version": self.version, "namespace": self.namespace}
