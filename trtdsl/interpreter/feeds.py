"""Feeds of a network: which sizes to try, and tensors drawn as its inputs say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..core.dtypes import as_dtype, dtype_name
from ..core.errors import FeedError, TrtdslError, UsageError
from ..core.lazy import torch
from ..definition.network import Input, Network
from ..definition.profile import Profile
from ..definition.shape import shape_text, value
from ..definition.spec import NetworkSpec, authors_errors

MIXED = 16  # points between the corners that a check of several profiles tries


def profile_points(network: Network) -> list[dict[str, int]]:
    """The sizes to try: every profile's min, opt and max, and up to 16 points among them; each once.

    Sizes that the network does not serve (:func:`trtdsl.require`) give way to the nearest that it does. The points
    among them are one between, and one dimension high while the others are low: where one dimension is taken for
    another, equal corners would hide it.
    """
    corners = [profile.at(which) for profile in network.profiles for which in ("min", "opt", "max")]
    mixed = [point for profile in network.profiles for point in _mixed(profile)]
    points = dict.fromkeys(tuple(point.items()) for point in corners)
    further = [point for point in dict.fromkeys(tuple(point.items()) for point in mixed) if point not in points]
    chosen = [dict(point) for point in (*points, *further[:MIXED])]
    ranges = [next(p.ranges for p in network.profiles if _holds(p, point)) for point in chosen]
    served = [network.constraints.nearest(point, inside) for point, inside in zip(chosen, ranges, strict=True)]
    return [dict(items) for items in dict.fromkeys(tuple(point.items()) for point in served)]


def _holds(profile: Profile, point: Mapping[str, int]) -> bool:
    return all(low <= point[name] <= high for name, (low, _, high) in profile.ranges.items())


def _mixed(profile: Profile) -> Iterator[dict[str, int]]:
    low, opt, high = profile.at("min"), profile.at("opt"), profile.at("max")
    middle = {name: (low[name] + high[name]) // 2 for name in low}
    yield {name: min(size + (size == opt[name]), high[name]) for name, size in middle.items()}
    if len(low) > 1:
        for odd in low:
            yield {name: high[name] if name == odd else low[name] for name in low}


def make_feeds(
    inputs: Mapping[str, Input], network: Network, env: Mapping[str, int], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """One tensor per input: normal, or drawn as ``Input(sample=…)`` says.

    Raises UsageError for an integer input that says nothing, FeedError for a sample of the wrong shape or dtype,
    DefinitionError for one that fails, TrtdslError where there is not the memory for one.
    """
    feeds = {}
    for name, tensor in network.inputs.items():
        shape = tuple(value(size, env) for size in tensor.shape)
        feeds[name] = _draw(name, inputs[name], shape, generator)
    return feeds


def _draw(name: str, spec: Input, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    dtype, sample = as_dtype(spec.dtype), spec.sample
    if callable(sample):
        with authors_errors(sample, f"the sample of input {name!r} fails: "):
            drawn = sample(shape, generator)
            if not isinstance(drawn, torch.Tensor):
                raise FeedError(f"the sample of input {name!r} is a {type(drawn).__name__}, not a tensor")
            if tuple(drawn.shape) != shape or drawn.dtype != dtype:
                kind = f"{drawn.dtype} {tuple(drawn.shape)}"
                raise FeedError(f"the sample of input {name!r} is {kind}, not {dtype} {shape}")
        return drawn
    if sample is None and not dtype.is_floating_point and dtype != torch.bool:
        raise UsageError(f"input {name!r} is {spec.dtype}: say what to feed it, as td.Input(…, sample=(low, high))")
    try:
        return _random(dtype, sample, shape, generator)
    except RuntimeError as error:  # of torch's allocator, which has no MemoryError
        reason = str(error).split("\n")[0]
        raise TrtdslError(f"input {name!r} of shape {shape_text(shape)} cannot be drawn: {reason}") from error


def _random(
    dtype: torch.dtype, sample: tuple[float, float] | None, shape: tuple[int, ...], generator: torch.Generator
) -> torch.Tensor:
    if sample is None and dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if sample is None:
        return torch.randn(shape, generator=generator).to(dtype)
    low, high = sample
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)
    if int(low) >= int(high):
        raise UsageError(f"there is no {dtype_name(dtype)} in a sample of {sample}: high is not in it")
    return torch.randint(int(low), int(high), shape, generator=generator).to(dtype)


def sample_feeds(spec: NetworkSpec, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Feeds of one size, for trying a network out: as a check draws them."""
    return {
        name: _draw(name, given, tuple(value(size, dims) for size in given.shape), generator)
        for name, given in spec.inputs.items()
    }
