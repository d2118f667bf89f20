"""Feeds of a network: tensors drawn as its inputs say."""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO

from ..core.author import authors_code
from ..core.dtypes import as_dtype, dtype_name
from ..core.errors import FeedError, FeedNameError, InputDamagedError, TrtdslError, UsageError, noted
from ..core.files.names import is_file, is_folder
from ..core.files.reading import open_input
from ..core.lazy import np, torch
from ..core.tensors.dense import why_unreadable
from ..core.tensors.watched import by_default
from ..definition.call import Operand
from ..definition.input import Input
from ..definition.network import Network
from ..definition.spec.spec import NetworkSpec
from ..layers.evaluation import storage
from ..sizes.dim import Dim
from ..sizes.profile import Profile, sizes_text
from ..sizes.shape import Shape, linear, shape_text
from ..sizes.size import value

DRAWS = ("normal", "small", "large", "offset", "ties", "sparse")
"""The kinds of values that a check feeds, what they are for each input: see :func:`make_feeds`."""
ORDINARY = ("ties", "sparse")  # of the size of normal ones: how well a network computes, these do not tell better
GREATEST = 600.0  # about the greatest value that is fed without a sample
RANGING = ("small", "large", "offset")  # which leave the range of half precision
NONFINITE = ("nonfinite", "nonfinite rows")


def make_feeds(
    inputs: Mapping[str, Input],
    network: Network,
    env: Mapping[str, int],
    generator: torch.Generator,
    draw: str = "normal",
    *,
    half: bool | None = None,
    numbers: Iterable[float] = (),
) -> dict[str, torch.Tensor]:
    """One tensor per input: normal, or drawn as ``Input(sample=…)`` says.

    ``draw`` is a kind of values. For floating-point inputs without a sample: ``normal`` N(0, 1), ``small`` the same
    times 1e-2 to 1e-12 (1e-7 in half precision), each row another, ``large`` times 30 to 150, ``offset`` plus or minus
    3 to 600 (both 30 at most in half precision), ``ties`` halves from -1.5 to 1.5 and two fifths of ``numbers`` and of
    what lies between neighbours of these, ``sparse`` mostly zeros, and eighths, with a part that is all zeros,
    ``nonfinite`` with a NaN in the first row, an infinity in the second, the other one in the third, and a fourth row
    of infinities, ``nonfinite rows`` with the first three rows full of these. For bool: even chances, all False, nine
    in ten, even, all True, one in ten; where few differ, a row has one exception and another none. For a range:
    uniform, uniform, its ends with a row of the high one, uniform, few values of which the ``numbers`` of the range are
    half, its low end mostly, with a row of it (of floats around 0: zeros and small ones). A callable and a file have
    one kind. ``half`` says otherwise than the network whether its precision is a half.

    Raises UsageError for an integer input that says nothing, FeedError for a sample of the wrong shape or dtype,
    DefinitionError for one that fails, TrtdslError where there is not the memory for one.
    """
    half, feeds = network.precision is not None if half is None else half, {}
    for name in network.inputs:
        shape = tuple(value(size, env) for size in network.whole_shape(name))
        how = draw, half, sorted(numbers)
        feeds[name] = _fed(name, inputs[name], shape, {**network.fixed, **env}, generator, *how)
    return feeds


def has_draw(inputs: Mapping[str, Input], draw: str) -> bool:
    """Whether some input has this kind of values."""
    return any(draw in _draws(spec) for spec in inputs.values()) or draw == "normal"


def _draws(spec: Input) -> tuple[str, ...]:
    """The kinds of values of an input."""
    dtype, sample = as_dtype(spec.dtype), spec.sample
    if spec.longest is not None and spec.padding is None:
        return ("normal", "large", *ORDINARY)
    if isinstance(sample, tuple):
        low, last = sample[0], sample[1] if dtype.is_floating_point else int(sample[1]) - 1
        return ("normal", "large", *ORDINARY) if low < last else ("normal",)
    if sample is None and dtype.is_floating_point:
        return (*DRAWS, *NONFINITE)
    return ("normal", "small", "large", *ORDINARY) if sample is None and dtype == torch.bool else ("normal",)


def _fed(
    name: str, spec: Input, shape: tuple[int, ...], env: Mapping[str, int], generator: torch.Generator, *how: Any
) -> torch.Tensor:
    """What is drawn for an input at these sizes; of lengths, none is above the longest, and one is that."""
    if spec.padding is not None:
        drawn = _draw(name, spec, shape, generator, *how)
        lengths = _own_steps(spec, drawn).sum(spec.steps)
        told = Input(tuple(lengths.shape), "int64", longest=shape[spec.steps], descending=spec.descending)
        return padded(spec, drawn, _fed(name, told, tuple(lengths.shape), {}, generator, "normal"))
    if spec.longest is None:
        drawn = _draw(name, spec, shape, generator, *how)
    else:
        drawn = _lengths(name, spec, value(spec.longest, env), shape, generator, *how)
    return drawn.sort(0, descending=True).values if spec.descending else drawn


def _lengths(
    name: str, spec: Input, longest: int, shape: tuple[int, ...], generator: torch.Generator, *how: Any
) -> torch.Tensor:
    sample = spec.sample
    if sample is None or isinstance(sample, tuple):
        low, high = sample or (1, longest + 1)
        low = min(int(low), longest)
        spec = replace(spec, sample=(low, max(min(int(high), longest + 1), low + 1)))
    drawn = _draw(name, spec, shape, generator, *how).clamp(max=longest)
    if drawn.numel():
        drawn.view(-1)[drawn.argmax()] = longest  # which leaves sorted ones sorted
    return drawn


def _own_steps(spec: Input, fed: torch.Tensor) -> torch.Tensor:
    """Which steps of padded sequences are no padding; the dimensions of a step are 1 in it."""
    own, axis = fed != spec.padding, max(spec.steps, 1) + 1
    for dim in range(axis, fed.ndim):
        own = own.any(dim, keepdim=True)
    return own


def padded(spec: Input, drawn: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Sequences of these lengths, with the padding of an input behind their ends and not before."""
    own, axis, padding = _own_steps(spec, drawn), spec.steps, spec.padding
    if padding is None or not drawn.numel():
        return drawn
    other = padding + 1
    if isinstance(spec.sample, tuple):
        other = next((end for end in (spec.sample[0], spec.sample[1] - 1) if end != padding), other)
    other = not padding if drawn.dtype == torch.bool else other
    drawn = torch.where(own, drawn, torch.tensor(other, dtype=drawn.dtype))
    steps = torch.arange(drawn.shape[axis]).view([-1 if dim == axis else 1 for dim in range(drawn.ndim)])
    ends = lengths.reshape([1 if dim == axis else size for dim, size in enumerate(own.shape)])
    return drawn.masked_fill(steps >= ends, padding)


def _draw(
    name: str,
    spec: Input,
    shape: tuple[int, ...],
    generator: torch.Generator,
    draw: str = "normal",
    half: bool = False,
    numbers: Sequence[float] = (),
) -> torch.Tensor:
    dtype, sample, half = as_dtype(spec.dtype), spec.sample, half or as_dtype(spec.dtype).itemsize < 4
    draw = draw if draw in _draws(spec) else "normal"
    if dtype.is_floating_point:
        numbers = [*numbers, *((one + next) / 2 for one, next in itertools.pairwise(numbers))]
    if isinstance(sample, (str, PathLike)):
        return _from_file(name, sample, shape, dtype)
    if callable(sample):
        with authors_code(sample, f"the sample of input {name!r} fails: "):
            drawn = sample(shape, generator)
            if not isinstance(drawn, torch.Tensor):
                raise FeedError(f"the sample of input {name!r} is a {type(drawn).__name__}, not a tensor")
            if tuple(drawn.shape) != shape or drawn.dtype != dtype:
                kind = f"{drawn.dtype} {tuple(drawn.shape)}"
                raise FeedError(f"the sample of input {name!r} is {kind}, not {dtype} {shape}")
        return drawn.clone()
    if sample is None and not dtype.is_floating_point and dtype != torch.bool:
        raise UsageError(f"input {name!r} is {spec.dtype}: say what to feed it, as td.Input(…, sample=(low, high))")
    try:
        if sample is None:
            return _values(dtype, shape, generator, draw, half, numbers)
        return _in_range(dtype, sample, shape, generator, draw, half, numbers)
    except RuntimeError as error:  # of torch's allocator, which has no MemoryError
        reason = str(error).split("\n")[0]
        raise TrtdslError(f"input {name!r} of shape {shape_text(shape)} cannot be drawn: {reason}") from error


def _values(
    dtype: torch.dtype,
    shape: tuple[int, ...],
    generator: torch.Generator,
    draw: str,
    half: bool,
    numbers: Sequence[float],
) -> torch.Tensor:
    """Values of an input without ``sample``: no exponential overflows float64, no square fp16."""
    if dtype == torch.bool:
        if draw in ("small", "ties"):
            return torch.full(shape, draw == "ties")
        if draw == "normal":
            return torch.rand(shape, generator=generator) < 0.5
        chosen = _with_even_part(torch.rand(shape, generator=generator) < 0.1, False)
        if len(shape) > 1 and shape[-2] > 1 and chosen.numel():
            chosen[..., 0, :] = torch.arange(shape[-1]) == torch.randint(shape[-1], (), generator=generator)
        return chosen ^ (draw == "large")
    values = torch.randn(shape, generator=generator)
    if draw == "sparse":
        values = (values * 8).round() / 8 * (torch.rand(shape, generator=generator) < 0.3)
        values = _with_even_part(values, 0.0)
    elif draw == "ties":
        values = (values * 2).round().clamp(-3, 3) / 2  # so that the greatest repeats
        if numbers := [number for number in numbers if abs(number) <= GREATEST]:
            chosen = torch.tensor(numbers)[torch.randint(len(numbers), shape, generator=generator)]
            values = torch.where(torch.rand(shape, generator=generator) < 0.4, chosen, values)
    elif draw in ("small", "large", "offset"):
        spread = _spread((*shape[:-1], 1) if shape else (), generator)
        if draw == "offset":
            order = torch.randperm(spread.numel(), generator=generator).reshape(spread.shape)
            values = values + 3 * (10 if half else 200) ** spread * (1 - 2 * (order % 2))  # both signs
        elif draw == "small":
            values = values * _tiny(spread, half)
        else:
            values = values * 30 * (1 if half else 5) ** spread
    elif draw in NONFINITE and values.numel():
        rows = values.reshape(-1, shape[-1] if shape else 1)
        for row, special in zip(rows, (torch.nan, torch.inf, -torch.inf), strict=False):
            place: Any = torch.randint(len(row), (), generator=generator)  # elsewhere in each input
            row[place if draw == NONFINITE[0] else ...] = special
        rows[3:4] = torch.inf
    return values.to(dtype)


def _spread(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Numbers from 0 to 1 in any order, as far apart as they can be, so that both ends are always there."""
    count = torch.Size(shape).numel()
    if count < 2:
        return torch.rand(shape, generator=generator)
    return torch.linspace(0, 1, count)[torch.randperm(count, generator=generator)].reshape(shape)


def _tiny(spread: torch.Tensor, half: bool) -> torch.Tensor:
    return 10 ** (-2 - (5 if half else 10) * spread)


def _with_even_part(values: torch.Tensor, one: float) -> torch.Tensor:
    """The values with a row that is all ``one``, or a half of one where there is but one."""
    if values.ndim >= 2 and values.shape[-2] > 1:
        values[..., -1, :] = one
    elif values.ndim:
        values[..., values.shape[-1] // 2 :] = one
    return values


def _in_range(
    dtype: torch.dtype,
    sample: tuple[float, float],
    shape: tuple[int, ...],
    generator: torch.Generator,
    draw: str,
    half: bool,
    numbers: Sequence[float],
) -> torch.Tensor:
    low, high = sample
    whole = not dtype.is_floating_point
    if whole and int(low) >= int(high):
        raise UsageError(f"there is no {dtype_name(dtype)} in a sample of {sample}: high is not in it")
    last = int(high) - 1 if whole else high
    if draw in ("large", "sparse"):  # the ends: even, or mostly the low one
        chosen = torch.rand(shape, generator=generator) < (0.5 if draw == "large" else 0.2)
        chosen = _with_even_part(chosen, draw == "large")
        if draw == "sparse" and not whole and low <= 0 <= high:  # mostly 0, and little else
            few = _tiny(_spread((*shape[:-1], 1) if shape else (), generator), half)
            return (torch.rand(shape, generator=generator) * high * few * chosen).to(dtype)
        return torch.where(chosen, last, int(low) if whole else low).to(dtype)
    if draw == "ties":
        middle = low + (round((last - low) / 2) if whole else (last - low) / 2)
        near = [number + by for number in numbers for by in (-1, 1)] if whole else []
        few, asked = ([each for each in some if low <= each <= last] for some in ([low, middle, last, *near], numbers))
        few = torch.tensor(few + asked * (1 + len(few) // max(len(asked), 1)))  # half of them, so that several meet
        return few[torch.randint(len(few), shape, generator=generator)].to(dtype)
    if not whole:
        return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)
    return torch.randint(int(low), int(high), shape, generator=generator).to(dtype)


def _from_file(name: str, file: str | PathLike[str], shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """The array of a .npy file, repeated or cut to the shape along each axis."""
    tensor = torch.as_tensor(read_array(name, file))
    if tensor.ndim != len(shape):
        raise FeedError(f"the sample of input {name!r}, {fspath(file)}, has shape {tuple(tensor.shape)}, not {shape}")
    if tensor.dtype != dtype:
        raise FeedError(f"the sample of input {name!r}, {fspath(file)}, is {tensor.dtype}, not {dtype}")
    for axis, size in enumerate(shape):
        if tensor.shape[axis] != size:
            if tensor.shape[axis] == 0:
                raise FeedError(f"the sample of input {name!r}, {fspath(file)}, is empty")
            tensor = tensor.index_select(axis, torch.arange(size) % tensor.shape[axis])
    return tensor.contiguous()


def by_name(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """The feeds themselves. FeedError for what is no mapping."""
    if not isinstance(feeds, Mapping):
        raise FeedError(f"feeds are a mapping from the inputs' names to arrays, not {type(feeds).__name__}")
    return feeds


def as_tensor(name: str, feed: Any) -> torch.Tensor:
    """A feed on the CPU. FeedError for what is no array."""
    if reason := why_unreadable(feed):
        raise FeedError(f"input {name!r} cannot be read as a tensor: {reason}")
    try:
        writable = np.require(feed, requirements="W") if isinstance(feed, np.ndarray) else feed
        return torch.as_tensor(writable).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise FeedError(f"input {name!r} cannot be read as a tensor: {error}") from None


def shared_out(network: Network | None, feeds: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What each rank is fed of what is fed whole."""
    count = 1 if network is None else network.ranks
    axes = {name: None if network is None else network.sharded(name) for name in by_name(feeds)}
    parts = {
        name: [fed] * count if (axis := axes[name]) is None else as_tensor(name, fed).chunk(count, axis)
        for name, fed in feeds.items()
    }
    return [{name: shared[rank] for name, shared in parts.items()} for rank in range(count)]


def whole(network: Network | None, name: str, values: Sequence[torch.Tensor]) -> torch.Tensor:
    """An output of all ranks: their parts together, or this rank's."""
    axis = None if network is None else network.sharded(name)
    return torch.cat(list(values), axis) if axis is not None else values[network.rank if network else 0]


def fit(
    expected: Mapping[str, Operand],
    feeds: Mapping[str, Any],
    served: Sequence[Profile] = (),
    network: Network | None = None,
) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    """The feeds on the CPU, and the value of each dimension. ``expected`` has -1 for a size that may be any.

    FeedError, FeedNameError for a missing or unknown one, where they do not fit the inputs, with all that is wrong of
    each, or no profile of those ``served`` has the dimensions, or lengths do not reach what the ``network`` says.
    """
    tensors: dict[str, torch.Tensor] = {}
    problems = [f"{name!r} is missing" for name in expected if name not in by_name(feeds)]
    problems += [f"there is no input {name!r}" for name in feeds if name not in expected]
    kind = FeedNameError if problems else FeedError
    for name in [name for name in expected if name in feeds]:
        try:
            tensors[name] = as_tensor(name, feeds[name])
        except FeedError as error:
            problems.append(error.message)
            continue
        (shape, dtype), fed = expected[name], tensors[name]
        if fed.dtype != storage(dtype):
            problems.append(f"{name!r} is {dtype_name(fed.dtype)}, not {dtype_name(dtype)}")
        sizes = zip(shape, fed.shape, strict=False)
        if fed.ndim != len(shape) or any(isinstance(size, int) and size not in (-1, got) for size, got in sizes):
            problems.append(f"{name!r} has shape {tuple(fed.shape)}, not {shape_text(shape)}")
    env: dict[str, int] = {}
    if not problems:
        try:
            env = dims_of(
                {name: each.shape for name, each in expected.items()},
                {name: tuple(tensor.shape) for name, tensor in tensors.items()},
            )
        except FeedError as error:
            problems.append(error.message)
    if not problems and served and not any(profile.holds(env) for profile in served):
        at = sizes_text(env)
        problems.append(f"no profile has {at}: {'; '.join(map(str, served))}")
    if problems:
        signature = ", ".join(
            f"{name}: {dtype_name(each.dtype)} {shape_text(each.shape)}" for name, each in expected.items()
        )
        raise kind(f"the feeds do not fit: {'; '.join(problems)}. Expected {signature or 'no inputs'}")
    if network is not None:
        check_longest(network.input_specs, tensors, {**network.fixed, **env})
    return tensors, env


def check_longest(inputs: Mapping[str, Input], feeds: Mapping[str, torch.Tensor], env: Mapping[str, int]) -> None:
    """FeedError for lengths whose greatest is not the size that it is to be, and for numbers that are too great."""
    for name, fed in feeds.items():
        spec = inputs.get(name)
        if spec is not None and spec.below is not None and fed.numel():
            low, high = int(fed.min()), int(fed.max())
            if low < 0 or high >= spec.below:
                which = (
                    f"the least of input {name!r} is {low}" if low < 0 else f"the greatest of input {name!r} is {high}"
                )
                raise FeedError(f"{which}, and the network is for numbers from 0 on below {spec.below}")
        if spec is None or spec.longest is None or not fed.numel():
            continue
        longest = value(spec.longest, env)
        greatest = int((fed if spec.padding is None else _own_steps(spec, fed).sum(spec.steps)).max())
        if longest != greatest:
            what, those = f"the greatest of input {name!r} is {greatest}", "lengths whose greatest"
            if spec.padding is not None:
                what = f"the longest sequence of input {name!r} has {greatest} steps that are not {spec.padding}"
                those = "sequences whose longest"
            raise FeedError(
                f"{what}, and the network is for {those} is {spec.longest}"
                f"{f' = {longest}' * (spec.longest is not longest)}: pad a batch to its longest alone"
            )


def check_written(states: Mapping[str, str], feeds: Mapping[str, Any]) -> None:
    """FeedNameError for a state that a single step is not fed; ``states`` has the output of each."""
    unfed = [name for name in states if name not in feeds]
    if unfed:
        more = f" (and {len(unfed) - 1} more)" if unfed[1:] else ""
        raise FeedNameError(
            f"the state {unfed[0]!r}{more} is read before anything has written it: feed zeros to the first step, and "
            f"{states[unfed[0]]!r} of each step to the next, or use a session or td.Generator, which do so"
        )


def dims_of(inputs: Mapping[str, Shape], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The value of each Dim, solved from the inputs' concrete shapes; FeedError where they contradict each other."""
    env: dict[str, int] = {}
    for name, shape in inputs.items():
        for axis, (size, got) in enumerate(zip(shape, shapes[name], strict=True)):
            for dim in () if isinstance(size, int) else size.atoms():
                solution = linear(size, dim)
                if not isinstance(dim, Dim) or solution is None:
                    continue
                factor, offset = solution
                found = env.setdefault(dim.name, (got - offset) // factor)
                if value(size, {dim.name: found}) != got:
                    raise FeedError(
                        f"dimension {axis} of {name!r} is {size}, which is not {got} where {dim.name} = {found}"
                    )
    return env


DTYPES = ("<f4", "<f2", "<i4", "<i8", "|i1", "|u1", "|b1", "<f8")
"""Of arrays, as in C++."""
LONGEST_HEADER = 10_000
"""Bytes, which numpy reads without being told that a file is trusted."""


MOST_DIMENSIONS = 64
"""Of numpy's arrays."""


def note_of_files(feeds: Mapping[str, object]) -> str:
    """Which inputs are read from which files, as an error's note."""
    return ", ".join(f"{name} is {fspath(feed)}" for name, feed in feeds.items() if isinstance(feed, (str, PathLike)))


def read_array(name: str, path: str | PathLike[str]) -> np.ndarray:
    """The array in a .npy file. Raises UsageError for a file that cannot be read, InputDamagedError for one
    that is no array.
    """
    try:
        with open_input(path) as file:
            shape, fortran_order, dtype = _header(file)
            array = np.fromfile(file, dtype)
        return array.reshape(shape, order="F" if fortran_order else "C")
    except OSError as error:
        raise UsageError(f"input {name}: {fspath(path)} cannot be read: {error.strerror or error}") from None
    except MemoryError:
        raise UsageError(f"input {name}: {fspath(path)} cannot be read: it is larger than the memory") from None
    except ValueError as error:
        raise InputDamagedError(f"input {name}: {fspath(path)} is not an array that can be fed: {error}") from None


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """The array's shape, order and type. ValueError where the file is not the array that its header says, and that
    alone, or no tensor's: as in C++.
    """
    head = file.read(12)
    if head[:6] != np.lib.format.MAGIC_PREFIX:
        raise ValueError("it is an archive of several" if head[:2] == b"PK" else "it is no .npy file")
    if head[6:8] not in (b"\1\0", b"\2\0", b"\3\0"):
        raise ValueError("it is of a version of the format that is not known")
    length = int.from_bytes(head[8 : 10 if head[6] == 1 else 12], "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"its header has {length:,} bytes")
    file.seek(8, os.SEEK_SET)
    reader = np.lib.format.read_array_header_1_0 if head[6] == 1 else np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd texts
            shape, fortran_order, dtype = reader(file)
    except OSError:
        raise
    except Exception:  # it is Python text that numpy parses: there are many ways to be wrong
        raise ValueError("its header is damaged") from None
    if min(shape, default=0) < 0:
        raise ValueError("its header is damaged: a size is negative")
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"it has more than {MOST_DIMENSIONS} dimensions")
    if dtype.fields or dtype.str not in DTYPES:
        found = "it has fields" if dtype.fields else f"its type is {dtype.str}"
        raise ValueError(f"{found}: save it with one of {', '.join(DTYPES)}")
    wanted, left = math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size - file.tell()
    if wanted != left:
        raise ValueError(f"it has {left:,} bytes of data, not the {wanted:,} of shape {shape}")
    return shape, fortran_order, dtype


@by_default
def sample_feeds(spec: NetworkSpec, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Feeds of one size, for trying a network out: as a check draws them."""
    return draw_feeds(spec.inputs, dims, generator)


@by_default
def draw_feeds(
    inputs: Mapping[str, Input], dims: Mapping[str, int], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """The same of inputs without a network."""
    return {
        name: _fed(name, given, tuple(value(size, dims) for size in given.shape), dims, generator)
        for name, given in inputs.items()
    }


def given_feeds(network: Network, given: Any, most: int | None = None) -> list[dict[str, torch.Tensor]]:
    """Feeds of the author's: a mapping from input names to arrays or .npy files, several in a list, a folder, or a
    callable that gives any of these; the first ``most`` of them.

    A folder has ``NAME.npy`` for each input, or folders with these; for one input, also a file for each sample. Raises
    UsageError for anything else, FeedError for feeds that do not fit the inputs.
    """
    if callable(given):
        with authors_code(given, "the feeds cannot be made: "):
            given = given()
    if isinstance(given, (str, os.PathLike)):
        given = _in_folder(network, Path(given))
    if isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(item, Mapping) for item in given):
        raise UsageError(
            "feeds are a mapping from input names to arrays or .npy files, a list of such, a folder, or a function "
            f"that gives one of these, not {type(given).__name__}"
        )
    return [_as_tensors(network, feeds) for feeds in given[:most]]


def _as_tensors(network: Network, feeds: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, feed in feeds.items():
        if isinstance(feed, (str, os.PathLike)):
            feed = read_array(name, feed)
        tensors[name] = as_tensor(name, feed).clone()
    if files := note_of_files(feeds):
        with noted(FeedError, files):
            sizes_of(network, tensors)
    return tensors


def _in_folder(network: Network, folder: Path) -> list[Mapping[str, Any]]:
    if not is_folder(folder):
        raise UsageError(f"there is no folder {folder} of feeds")
    try:
        folders = sorted(path for path in folder.iterdir() if is_folder(path)) or [folder]
    except OSError as error:
        raise UsageError(f"the folder {folder} of feeds cannot be read: {error.strerror}") from None
    arrays = sorted(folder.glob("*.npy"))
    if len(network.inputs) == 1 and arrays and not is_file(folders[0] / f"{next(iter(network.inputs))}.npy"):
        return [dict.fromkeys(network.inputs, each) for each in arrays]
    samples = []
    for place in folders:
        missing = [name for name in network.inputs if not is_file(place / f"{name}.npy")]
        if missing:
            raise UsageError(f"there is no {', '.join(f'{name}.npy' for name in missing)} in {place}")
        samples.append({name: place / f"{name}.npy" for name in network.inputs})
    return samples


def sizes_of(network: Network, feeds: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """The value of each dimension for some feeds; FeedError where they do not fit the inputs."""
    expected = {name: Operand(tensor.shape, tensor.dtype) for name, tensor in network.inputs.items()}
    return fit(expected, feeds, network.profiles, network)[1]
