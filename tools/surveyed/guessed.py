"""Modules of a library that nothing was written for: its classes, with arguments and inputs that are guessed.

What is found is what runs: a class is made with arguments by their names and annotations, and called with shapes that
its first layer's size suggests, until torch takes them with several batches, gives finite numbers that depend on the
inputs, and gives the same each time.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from .subject import Subject

MOST = 4
"""Modules of one library."""
TRIES, WEIGHTS = 5, 12_000_000
SIZES = {"N": 2, "T": 6, "H": 32, "W": 32, "D": 8, "L": 400}
RANGES: dict[str, list[tuple[int, int, int]]] = {
    "N": [(1, 2, 4), (2, 3, 5)],
    "T": [(2, 6, 14), (4, 8, 16), (8, 16, 24)],
    "H": [(20, 32, 41), (24, 32, 48), (32, 64, 96)],
    "W": [(24, 32, 44), (24, 32, 40), (32, 64, 96)],
    "D": [(4, 8, 12), (8, 16, 24)],
    "L": [(300, 400, 700), (800, 1600, 3200)],
}
NUMBERS: list[tuple[str, list[Any]]] = [
    ("class|out_dim|output|out_feat|d_out|n_out|out_c|dim_out|c_out", [5, 6]),
    ("in_ch|in_c|channels?$|c_in|n_channels|in_chans|in_planes", [3, 8]),
    ("head|layer|depth|block$|stage|group|stride|dilation|expan|ratio|factor|scale|order|level|expert", [2]),
    ("kernel|ksize|k_size", [3]),
    ("vocab|token|num_embed", [30]),
    ("max_len|seq_len|max_seq|context|window|length|frames|steps", [16]),
    ("image_size|img_size|resolution|mlp|hidden|inner", [32]),
    ("patch", [8]),
    ("", [16, 8]),
]
"""Whole numbers for parameters, by the first pattern that their names have."""


class Shape(NamedTuple):
    """Of one input: dimensions by name and number, and the end of its whole numbers; 0 for fractions."""

    dims: tuple[str | int, ...]
    end: int = 0

    def text(self, sizes: Mapping[str, Any]) -> str:
        dims = ",".join(str(dim if dim in sizes else SIZES.get(str(dim), dim)) for dim in self.dims)
        return f"{dims}:int64:0:{self.end}" if self.end else dims

    def drawn(self, sizes: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in self.dims]
        if self.end:
            return torch.randint(0, self.end, shape, generator=generator)
        return torch.rand(shape, generator=generator) * 3 - 1.5


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Ends what is inside by a TimeoutError after so many seconds."""

    def late(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def guessed(library: str) -> Iterator[Subject]:
    """Up to ``MOST`` modules of the library, in an order that depends on its name alone."""
    drawn = random.Random(library)
    classes = _classes(library)
    drawn.shuffle(classes)
    found = filter(None, (_attempted(kind, drawn) for kind in classes))
    yield from (subject for subject, _ in zip(found, range(MOST)))


def _classes(library: str) -> list[type[nn.Module]]:
    package = importlib.import_module(library)
    names = [library, *(each.name for each in pkgutil.walk_packages(package.__path__, f"{library}.", lambda _: None))]
    found: dict[type[nn.Module], None] = {}
    for name in names if hasattr(package, "__path__") else [library]:
        try:
            with within(25):
                module = importlib.import_module(name)
        except (Exception, SystemExit):
            continue
        for kind in list(vars(module).values()):
            if inspect.isclass(kind) and issubclass(kind, nn.Module) and kind.__module__ == name:
                found[kind] = None
    return list(found)


def _attempted(kind: type[nn.Module], drawn: random.Random) -> Subject | None:
    """The class as a subject, or None where nothing that is guessed runs."""
    try:
        made_of = [*inspect.signature(kind.__init__).parameters.values()][1:]
        takes = [*inspect.signature(kind.forward).parameters.values()][1:]
    except (TypeError, ValueError):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [each.name for each in takes if each.kind in by_name and each.default is each.empty]
    if not 1 <= len(names) <= 4:
        return None
    for _ in range(TRIES):
        given = {p.name: _argument(p, drawn) for p in made_of if p.kind in by_name and p.default is p.empty}

        def make(given: dict[str, Any] = given) -> nn.Module:
            torch.manual_seed(0)
            return kind(**given).eval()

        try:
            with within(15):
                module = make()
        except Exception:
            continue
        if sum(weight.numel() for weight in module.parameters()) > WEIGHTS:
            continue
        for shapes in _shapes(module, given, names, drawn):
            dims = _dims(module, shapes)
            if dims is not None:
                inputs = {name: shape.text(dims) for name, shape in shapes.items()}
                return Subject(f"{kind.__module__}.{kind.__name__}", make, inputs, dims)
    return None


def _argument(parameter: inspect.Parameter, drawn: random.Random) -> Any:
    kind, name = str(getattr(parameter.annotation, "__name__", parameter.annotation)), parameter.name.lower()
    numbers = next(numbers for pattern, numbers in NUMBERS if re.search(pattern, name))
    if kind == "int":
        return drawn.choice(numbers)
    if kind == "bool" or re.match("(is|use|with|has|do|causal|bias)_?", name):
        return drawn.random() < 0.5
    if kind == "float" or re.search("drop|prob|rate|eps|alpha|beta|gamma|^p$", name):
        return 0.1
    if re.search("(?i)list|sequence|tuple", kind):
        return list(drawn.choice([(8, 16), (16, 16), (2, 2)]))
    if kind == "str" or re.search("mode$|act|norm|type", name):
        return "relu" if "act" in name else "batch" if "norm" in name else "nearest"
    if kind == "Module" or re.search("^(fn|module|net|layer|block|encoder|backbone|model)$", name):
        return nn.Linear(16, 16)
    return drawn.choice(numbers)


def _shapes(
    module: nn.Module, given: dict[str, Any], names: list[str], drawn: random.Random
) -> Iterator[dict[str, Shape]]:
    """What forward may take: the same for all inputs at first, and then mixtures."""
    layers = [part for part in module.modules() if hasattr(part, "weight")][:1]
    first = [getattr(part, size) for part in layers for size in ("in_features", "in_channels") if hasattr(part, size)]
    numbers = [each for each in given.values() if type(each) is int and 0 < each <= 1024]
    ways: list[Callable[[int], Shape]] = [
        lambda c: Shape(("N", c, "H", "W")),
        lambda c: Shape(("N", "T", c)),
        lambda c: Shape(("N", c)),
        lambda c: Shape(("N", c, "T")),
        lambda c: Shape(("N", c, "D", "H", "W")),
    ]
    channels = list(dict.fromkeys([*first, *numbers, 3, 1, 16, 8]))[:9]
    every = [way(count) for count in channels for way in ways]
    every += [Shape(("N", "T"), 2), Shape(("N", "T"), 25), Shape(("N", "L")), Shape(("N",), 4), Shape(("N",))]
    yield from (dict.fromkeys(names, shape) for shape in every)
    if len(names) > 1:
        yield from ({name: drawn.choice(every) for name in names} for _ in range(120))


def _dims(module: nn.Module, shapes: Mapping[str, Shape]) -> dict[str, Any] | None:
    """Ranges of the dimensions within which torch takes the shapes; None where it does not take them."""
    names = {dim for shape in shapes.values() for dim in shape.dims if isinstance(dim, str)}
    usual = {name: SIZES[name] for name in names}
    first = _results(module, shapes, usual, 1)
    if first is None or not _alike(first, _results(module, shapes, usual, 1)):
        return None
    if _alike(first, _results(module, shapes, usual, 2)):
        return None  # nothing is computed from the inputs
    dims: dict[str, Any] = {}
    for name in RANGES:
        for sizes in RANGES[name] if name in names else ():
            now = {**usual, **{each: dims[each][1] for each in dims}}
            if all(_results(module, shapes, {**now, name: size}, 1) is not None for size in (*sizes, sizes[1] + 1)):
                dims[name] = sizes
                break
    ends = [{**usual, **{name: sizes[place] for name, sizes in dims.items()}} for place in (0, 2)]
    works = "N" in dims and all(_results(module, shapes, sizes, 1) is not None for sizes in ends)
    return dims if works else None


def _results(
    module: nn.Module, shapes: Mapping[str, Shape], sizes: Mapping[str, int], seed: int
) -> list[torch.Tensor] | None:
    """What forward gives, where these are finite numbers; else None."""
    generator = torch.Generator().manual_seed(seed)
    feeds = {name: shape.drawn(sizes, generator) for name, shape in shapes.items()}
    try:
        with within(8), torch.no_grad():
            found = torch.utils._pytree.tree_leaves(module(**feeds))
    except Exception:
        return None
    tensors = [each for each in found if isinstance(each, torch.Tensor)]
    finite = all(each.numel() and bool(torch.isfinite(each).all()) for each in tensors)
    return tensors if finite and any(each.is_floating_point() for each in tensors) else None


def _alike(mine: list[torch.Tensor], others: list[torch.Tensor] | None) -> bool:
    return others is not None and len(mine) == len(others) and all(map(torch.equal, mine, others))
