"""Which sizes a check tries: the ends of every range in pairs, one more than the minimum, odd and prime sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from ..core.caller import option, to_write
from ..core.errors import UsageError
from ..definition.network import Network
from ..sizes.profile import Profile, read_ranges, sizes_text

Sizes = str | Mapping[str, int] | Sequence[str | Mapping[str, int]] | None
Point = dict[str, int]

SMALL = 6  # sizes of a range that are all tried
FURTHER = 16  # points besides every profile's min, opt and max
MOST = 64  # sizes of a range that `all` tries
FACTORS = 10  # dimensions whose corners are all weighed
SEVERAL = (12, 12), (12, 4), (2, 4)  # samples of a batch, rows and so on that special values need to differ in
LITTLE = 256  # elements of the inputs, up to which they may be more than the last of these


def sizes_to_try(network: Network, sizes: Sizes = None) -> list[Point]:
    """The sizes that a check tries, the profiles' own first.

    By default (``"auto"``): each profile's min, opt and max; its ends in every pair of dimensions (not every corner);
    and for each dimension min + 1 and an odd prime, or all of a range of at most six sizes, the dimensions of one point
    as different as they can be. A batch is at its min where two other dimensions or more are at their max, and at its
    max beside each of these. ``"quick"`` is min, opt and max; ``"all"`` every size of ranges of up to 64.
    ``"H=65,N=3"`` or a mapping is one point, in which a dimension that is not named is at its opt; several in a list.

    Sizes that the network does not serve (:func:`trtdsl.require`) are replaced by the nearest that it serves.

    Raises UsageError for an unknown dimension, for a size that no profile has, and for one that is not served.
    """
    if sizes in (None, "auto", "quick", "all"):
        points = [point for profile in network.profiles for point in _points(network, profile, str(sizes or "auto"))]
        first = [point for profile in network.profiles for point in _ends(network, profile, str(sizes or "auto"))]
        corners = dict.fromkeys(tuple(point.items()) for point in first)
        others = [items for items in dict.fromkeys(tuple(point.items()) for point in points) if items not in corners]
        tried = (*corners, *(others if sizes == "all" else others[:FURTHER]))
        return _served(network, [dict(items) for items in tried])
    given = [sizes] if isinstance(sizes, (str, Mapping)) else list(sizes or ())
    for text in given:
        if isinstance(text, str) and "=" not in text:
            raise UsageError(f"sizes are auto, quick, all, or such as H=65,N=3, not {text!r}")
    points = [_point(network, item) for item in given]
    for point in points:
        if not network.constraints.allow(point):
            required = " and ".join(str(each.condition) for each in network.constraints.required)
            at = sizes_text(point)
            raise UsageError(f"{network.name} does not serve {at}: it requires {required}")
    return points


def for_special_values(network: Network, points: Sequence[Point], sizes: Sizes = None) -> Point:
    """The cheapest size at which every dimension is at least four, or its greatest; of ``sizes`` that are given, one.

    Where a dimension is 1, any over the batch is any of a sample, and the first of equal values is the last. A batch,
    the dimension that all inputs begin with, is two. Where inputs are small, all are up to twelve: more values meet.
    """

    def own_of(profile: Profile, batch: int, other: int) -> Point:
        least = {name: batch if name == _batch(network) else other for name in network.dims}
        return {name: min(high, max(low, least[name])) for name, (low, _, high) in profile.ranges.items()}

    own = []
    for profile in network.profiles:
        several = [own_of(profile, *least) for least in SEVERAL]
        own.append(next((point for point in several if elements(network, point) <= LITTLE), several[-1]))
    wide = _served(network, own)
    if sizes not in (None, "auto", "all"):
        least = {name: min(point[name] for point in own) for name in network.dims}
        wide = [point for point in points if all(point[name] >= size for name, size in least.items())] or points
    return min(wide, key=lambda point: elements(network, point))


def elements(network: Network, env: Mapping[str, int]) -> int:
    """How many elements all inputs have together."""
    return sum(math.prod(network.input_shape(name, env)) for name in network.inputs)


def _served(network: Network, points: Sequence[Point]) -> list[Point]:
    """The points, with the nearest served one in place of each that the network does not serve (``td.require``)."""
    ranges = [next(profile.ranges for profile in network.profiles if profile.holds(point)) for point in points]
    served = [network.constraints.nearest(point, inside) for point, inside in zip(points, ranges, strict=True)]
    return [dict(items) for items in dict.fromkeys(tuple(point.items()) for point in served)]


def _batch(network: Network) -> str | None:
    """The dimension that all inputs begin with."""
    first = {str(tensor.shape[0]) if tensor.shape else "" for tensor in network.inputs.values()}
    return first.pop() if len(first) == 1 else None


def _ends(network: Network, profile: Profile, extent: str) -> list[Point]:
    """Its min, opt and max, by default without the greatest batch of the greatest samples, which costs most."""
    low, high, batch = profile.at("min"), profile.at("max"), _batch(network)
    others = [name for name in high if low[name] < high[name] and name != batch]
    greatest = {**high, batch: low[batch]} if extent == "auto" and batch in high and len(others) > 1 else high
    return [low, profile.at("opt"), greatest]


def _point(network: Network, given: str | Mapping[str, int]) -> Point:
    if isinstance(given, str):
        ranges = read_ranges(filter(None, given.split(",")), to_write("sizes=", "--sizes"))
        if not ranges or not all(isinstance(size, int) for size in ranges.values()):
            raise UsageError(f"{option('sizes', given)}: expected all, quick, auto or sizes such as H=65,N=3")
        given = {name: size for name, size in ranges.items() if isinstance(size, int)}
    for name in given:
        if name not in network.dims:
            raise UsageError(f"{network.name} has no dimension {name!r}: it has {', '.join(network.dims) or 'none'}")
    for profile in network.profiles:
        point = {**profile.at("opt"), **given}
        if profile.holds(point):
            return point
    at = sizes_text(given)
    raise UsageError(f"no profile of {network.name} has {at}: {'; '.join(map(str, network.profiles))}")


def _points(network: Network, profile: Profile, extent: str) -> Iterator[Point]:
    ranges = profile.ranges
    moving = [name for name, (low, _, high) in ranges.items() if low < high]
    if extent == "quick" or not moving:
        return
    for corner in _pairs_of_ends(profile, moving, _batch(network) if extent == "auto" else None):
        yield {name: ranges[name][2 if name in corner else 0] for name in ranges}
    columns = {name: _between(_served_alone(network, profile, name), ranges[name], extent == "all") for name in moving}
    columns = {name: column for name, column in columns.items() if column}
    for row in range(max(map(len, columns.values()), default=0)):
        yield {
            name: columns[name][(row + place) % len(columns[name])] if name in columns else ranges[name][0]
            for place, name in enumerate(ranges)
        }


def _pairs_of_ends(profile: Profile, moving: list[str], batch: str | None) -> Iterator[frozenset[str]]:
    """The dimensions that are high, in as few corners as have every pair of ends; cheap corners first.

    Where there is a ``batch``, the greatest point has it low.
    """
    names = moving[:FACTORS]
    cost = {name: math.log(max(profile.ranges[name][2], 1) / max(profile.ranges[name][0], 1)) for name in names}
    corners = [frozenset(high) for count in range(len(names)) for high in itertools.combinations(names, count)]
    wanted = {(a, b, False) for a in names for b in names if a != b}  # a high, b low: min and max have the others
    if batch in names and len(names) > 2:
        wanted |= {(batch, name, True) for name in names if name != batch}
    while wanted:
        found = [{(a, b, both) for a, b, both in wanted if a in high and (b in high) == both} for high in corners]
        prices = [sum(cost[name] for name in corner) for corner in corners]
        place = min(range(len(corners)), key=lambda index: (-len(found[index]), prices[index]))
        wanted -= found[place]
        yield corners[place]


def _served_alone(network: Network, profile: Profile, name: str) -> Sequence[int]:
    """The sizes of one dimension that the network serves, the others at their opt."""
    low, _, high = profile.ranges[name]
    if not network.constraints.required or high - low > 1 << 14:
        return range(low, high + 1)
    opt = profile.at("opt")
    return [size for size in range(low, high + 1) if network.constraints.allow({**opt, name: size})] or [low, high]


def _between(served: Sequence[int], bounds: tuple[int, int, int], everything: bool) -> list[int]:
    """Sizes of one range besides its min, opt and max, chosen among those that are ``served``."""
    low, high = served[0], served[-1]
    if len(served) <= (MOST if everything else SMALL):
        found = list(served)
    elif len(served) <= high - low:  # the range has gaps: the second size, and a later one
        found = [served[1], served[len(served) // 3 | 1]]
    else:
        start = max(low + 2, low + low // 4)
        found = [low + 1, next((size for size in range(start, high) if size % 2 and _is_prime(size)), low + 1)]
    if everything and len(served) > MOST:
        found += [served[round(place * (len(served) - 1) / MOST)] for place in range(1, MOST)]
    return [size for size in dict.fromkeys(found) if size not in (low, high, *bounds)]


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, math.isqrt(number) + 1))
