"""The weights that a network is defined with: read one tensor at a time, strict; the attributes of a module."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

from ...core.caller import option
from ...core.errors import several
from ...core.tensors.dense import why_unreadable
from ..call import author_location
from ..common import Location, UsageError, WeightsError, check_characters, dtype_name, nearest, shape_text, torch
from ..tensor import Draft, Tensor
from .files import SHOWN, WeightsFile, is_number, natural, open_files

if TYPE_CHECKING:
    from ...core.tensors.exact import Exact

Made = TypeVar("Made")
Source = Union[str, "os.PathLike[str]", Mapping[str, "torch.Tensor"], "Weights"]
"""A safetensors file, a folder or an index of several, tensors by name, or what was opened already: the same content,
whatever became of the files."""

IGNORED = "num_batches_tracked"  # batch norm's counter of training steps, which no network uses
OBSERVED = (".min_val", ".max_val")  # the bounds of torch.ao's observers, which begin with infinities


class Weights:
    """The tensors of a safetensors file, of the files that a folder or an index names, or of a mapping from names to
    torch tensors; and which of them were used.

    A folder is that of a published checkpoint: it holds ``model.safetensors``, or ``model.safetensors.index.json`` and
    the files that it names, or one safetensors file of another name. What a file holds is that of the moment when it
    was opened; Weights of Weights share it, and no memory that one of them writes to. Of two names that are ``tied``,
    the source may hold one alone. Raises WeightsError when there is no such file, where an index names files or tensors
    that are not there, and for tied tensors that differ; WeightsDamagedError for what is not safetensors or truncated.
    """

    def __init__(self, source: Source, *, tied: Mapping[str, str] | None = None):
        self.used: set[str] = set()
        self.shapes: dict[str, tuple[int, ...]]
        self.dtypes: dict[str, str]
        self._tensors: dict[str, torch.Tensor] = {}
        self._files: list[WeightsFile] = []
        self._same: dict[str, str] = {}
        if isinstance(source, Weights):
            tied = source._tied if tied is None else tied
            source = source if source._files else source._given
        if isinstance(source, Mapping):
            self.path = None
            self._given = {name: _plain(name, tensor) for name, tensor in source.items()}
            self.shapes = {name: tuple(tensor.shape) for name, tensor in source.items()}
            self.dtypes = {name: dtype_name(tensor.dtype) for name, tensor in source.items()}
        else:
            if isinstance(source, Weights):
                self.path, self._files = source.path, [file.again() for file in source._files]
            elif not isinstance(source, (str, os.PathLike)):
                kind = type(source).__name__
                raise UsageError(
                    f"weights are a safetensors file, tensors by name (a state_dict()) or td.Weights, not {kind}"
                )
            else:
                if not os.fspath(source):
                    raise WeightsError("the weights file '' cannot be read: it has no name")
                self.path = Path(source)
                self._files = open_files(self.path)
            self._holders = {name: file for file in self._files for name in file.names}
            self.shapes = {name: self._holders[name].header.shapes[name] for name in sorted(self._holders)}
            self.dtypes = {name: self._holders[name].header.dtypes[name] for name in self.shapes}
        self._tied = dict(tied or {})
        for name, other in self._tied.items():
            self._tie(name, other)

    def _tie(self, name: str, other: str) -> None:
        """Gives two names one tensor, that of the one which is there."""
        if name in self.shapes and other in self.shapes:
            alike = self.shapes[name] == self.shapes[other] and self.dtypes[name] == self.dtypes[other]
            if not alike or not torch.equal(self._value(name), self._value(other)):
                raise WeightsError(f"{self.label}: {name} and {other} are tied, and their values differ")
            return
        if name not in self.shapes and other not in self.shapes:
            return
        made, there = (name, other) if other in self.shapes else (other, name)
        self._same[made] = there
        self.shapes[made], self.dtypes[made] = self.shapes[there], self.dtypes[there]

    @cached_property
    def children(self) -> Mapping[str, Sequence[str]]:
        """For every module ("" is the network itself) the names of its parts, in order."""
        return _parts(tuple(self.shapes))

    def __repr__(self) -> str:
        return f"Weights({self.label}: {len(self.shapes)} tensors)"

    @property
    def label(self) -> str:
        """The file's name for messages."""
        return str(self.path) if self.path else "the weights given"

    def get(self, name: str) -> torch.Tensor:
        """The tensor of that name: a view of the mapped file where it is one."""
        self.used.add(name)
        return self._value(name)

    def _value(self, name: str) -> torch.Tensor:
        name = self._same.get(name, name)
        if name not in self._tensors:
            if self.path is not None:
                self._tensors[name] = self._holders[name].mapped(name)
            else:  # the caller may change his own, and so may a reference
                self._tensors[name] = _as_it_is(torch.Tensor.clone, self._given[name])
        return self._tensors[name]

    def let_go_of(self, exact: Exact) -> None:
        """Forgets the exact values of its tensors that are no others than their own: these take the most memory."""
        for tensor in self._tensors.values():
            exact.released(tensor)

    def check_unchanged(self) -> None:
        """WeightsError, which says what became of it, where a file is another one than when it was opened."""
        for file in self._files:
            file.check_unchanged()

    def metadata(self) -> Mapping[str, str] | None:
        """The metadata in the safetensors file; None for a mapping and for a file without metadata."""
        return self._files[0].header.metadata if self._files else None

    def check(
        self,
        expected: Mapping[str, tuple[tuple[int, ...], str]] | None,
        constants: Sequence[str] = (),
        *,
        allow_nonfinite: bool = False,
    ) -> None:
        """Compares all names, shapes and dtypes with ``expected``, and reports all problems at once.

        ``constants`` are there besides. With a problem it looks for NaN and Inf, too, unless they are allowed. Raises
        WeightsError listing all, sorted by name.
        """
        problems: dict[str, str] = {}
        found = dict(zip(self.shapes, zip(self.shapes.values(), self.dtypes.values(), strict=True), strict=True))
        problems.update((name, "missing: a constant of the network") for name in constants if name not in found)
        besides = {name: found[name] for name in constants if name in found}
        wanted = found if expected is None else {**besides, **expected}
        for name, (shape, dtype) in wanted.items() if wanted != found else ():
            if name.endswith(IGNORED):
                continue
            if name not in found:
                problems[name] = f"missing: {shape_text(shape)} {dtype}"
            elif self.shapes[name] != shape:
                problems[name] = f"has shape {shape_text(self.shapes[name])}, not {shape_text(shape)}"
            elif self.dtypes[name] != dtype:
                problems[name] = f"is {self.dtypes[name]}, not {dtype}"
        for name in found.keys() - wanted.keys():
            if not name.endswith(IGNORED):
                problems[name] = f"unused: {shape_text(self.shapes[name])}"
        if problems and not allow_nonfinite:
            problems = {**self.nonfinite(), **problems}
        self._raise(problems, wanted)

    def check_finite(self, places: Mapping[str, Location] | None = None) -> None:
        """WeightsError naming every tensor with a NaN or an Inf, at the place of the first of them."""
        self._raise(self.nonfinite(), places=places or {})

    def add_buffers(self, buffers: Mapping[str, torch.Tensor]) -> None:
        """Further tensors, which are not the file's: those that a module makes for itself."""
        for name, tensor in buffers.items():
            self._tensors[name] = _plain(name, tensor).clone()  # it may be the reference's own, which forward changes
            self.shapes[name], self.dtypes[name] = tuple(tensor.shape), dtype_name(tensor.dtype)
            self.used.add(name)

    def check_all_used(self, unused: Sequence[str] = ()) -> None:
        """Raises WeightsError naming every tensor that the network did not use, but for those in ``unused`` modules."""
        known = tuple(f"{part}." for part in unused)
        tied = {*self._tied, *self._tied.values()} if self.used & {*self._tied, *self._tied.values()} else set()
        left = [
            name
            for name in self.shapes.keys() - self.used - tied
            if not name.endswith(IGNORED) and not f"{name}.".startswith(known)
        ]
        self._raise({name: f"unused: {shape_text(self.shapes[name])}" for name in left})

    def sha256(self) -> str:
        """The file's hash; that of the hashes of several files; for a mapping, that of names and values."""
        if len(self._files) == 1:
            return self._files[0].snapshot.sha256()
        digest = hashlib.sha256()
        if self._files:
            for file in self._files:
                digest.update(f"{file.snapshot.path.name} {file.snapshot.sha256()}\n".encode())
            return digest.hexdigest()
        for name in sorted(self.shapes):
            digest.update(f"{name} {self.dtypes[name]} {self.shapes[name]}".encode())
            digest.update(self._value(name).contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def nonfinite(self) -> dict[str, str]:
        """What is to be said of each tensor that has a NaN or an Inf, by its name."""
        found: dict[str, str] = {}
        for name in self._given if self.path is None else self._holders:  # a module's own buffers may hold Inf
            tensor = self._value(name)
            if name.endswith(IGNORED) or not _may_be_nonfinite(tensor):
                continue
            if name.endswith(OBSERVED) and bool((tensor.abs() == torch.inf).all()):
                continue  # of an observer that saw nothing: what uses them says so
            total = int((~torch.isfinite(tensor)).sum())
            if total and not ((tensor == 0) | (tensor == -torch.inf)).all():  # zeros and -Inf are a mask that is added
                nans = int(torch.isnan(tensor).sum())
                how = option("allow_nonfinite")
                found[name] = f"has {nans} NaN and {total - nans} Inf ({how} builds it all the same)"
        return found

    def _raise(
        self, problems: dict[str, str], wanted: Collection[str] = (), places: Mapping[str, Location] | None = None
    ) -> None:
        if problems:
            first = sorted(problems.items(), key=natural)
            location = next((places[name] for name, _ in first if name in places), None) if places else None
            asked = [name for name in wanted if not name.endswith(IGNORED)]
            strange = bool(wanted) and len(problems) > SHOWN and self.shapes.keys().isdisjoint(asked)
            others = {name: wanted if name in self.shapes else self.shapes for name, _ in first[: 2 * SHOWN]}
            near = {name: nearest(name, names) for name, names in others.items() if name not in names}
            shown = first[:SHOWN] if strange else first
            lines = "\n".join(f"  {name}: {problem}{near.get(name, '')}" for name, problem in shown)
            if strange:
                raise WeightsError(
                    f"no name in {self.label} is one of the network's weights: is it another network's file?\n"
                    f"{lines}\n  … ({len(problems)} in all)"
                )
            do = "does" if len(problems) == 1 else "do"
            text = f"{several(len(problems), 'weight')} in {self.label} {do} not fit the network:\n{lines}"
            raise WeightsError(text, location=location)


SEARCHED = 1 << 18
"""Numbers that are looked at twice while they are in the processor's cache."""


def _may_be_nonfinite(tensor: torch.Tensor) -> bool:
    """Whether a floating-point tensor has a NaN or an Inf; False for one of 8 bits. Nothing is copied."""
    if not tensor.dtype.is_floating_point or tensor.dtype.itemsize < 2 or not tensor.numel():
        return False

    def finite(tensor: torch.Tensor) -> bool:
        parts = tensor.flatten().split(SEARCHED)
        return all(bool(torch.isfinite(end)) for part in parts for end in torch.aminmax(part))  # NaN is both ends

    return not _as_it_is(finite, tensor)


def _plain(name: Any, tensor: Any) -> torch.Tensor:
    """A tensor of a state_dict, detached and of torch's own class; UsageError for what is none or not on the CPU."""
    if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
        raise UsageError(f"weights are tensors by name, not {type(tensor).__name__} by {type(name).__name__}")
    check_characters(name, "a weight's name")
    if reason := why_unreadable(tensor):
        raise UsageError(f"weights are dense tensors, and {name} cannot be read: {reason}")
    if not tensor.is_cpu:
        raise UsageError(f"weights are CPU tensors: {name} is on {tensor.device}")
    with torch._C.DisableTorchFunctionSubclass():
        return _as_it_is(torch.Tensor.detach, tensor)


def _as_it_is(function: Callable[[torch.Tensor], Made], tensor: torch.Tensor) -> Made:
    """What a function gives of a tensor, without exact values beside unless it has some: these take the most memory."""
    from torch.utils._python_dispatch import _disable_current_modes

    with nullcontext() if "_exact" in vars(tensor) else _disable_current_modes():
        return function(tensor)


@lru_cache(maxsize=8)
def _parts(names: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    """For every module of such names the names of its parts, in order."""
    found: dict[str, list[str]] = {"": []}
    for name in names:
        module, _, part = name.rpartition(".")
        while module not in found:
            found[module] = [part]
            module, _, part = module.rpartition(".")
        found[module].append(part)
    return found


class Scope:
    """Weights by name, as the attributes of a module: ``w.conv1.weight``, ``w["a.b"]``, ``w.blocks[3]``.

    The last argument of a function under ``@td.network(weights=…)``, or what ``net.weights(…)`` gives. A leaf is a
    constant :class:`Tensor` of the network; anything else is a Scope. Numbered children can be iterated
    (``for block in w.blocks``), taken in part (``w.blocks[1:]``), counted (``len(w.blocks)``) and asked for
    (``"residual" in w``).
    """

    __slots__ = ("_network", "_prefix", "_scopes", "_tensors", "_weights")

    def __init__(self, network: Draft, weights: Weights, prefix: str = "", outer: Scope | None = None):
        self._network, self._weights, self._prefix = network, weights, prefix
        self._tensors: dict[str, Tensor] = network.cache.setdefault("weights", {}) if outer is None else outer._tensors
        self._scopes: dict[str, Scope] = {} if outer is None else outer._scopes  # of all modules that were asked for

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int | slice) -> Any:
        name = f"{self._prefix}{key}"
        if name in self._tensors:
            return self._tensors[name]
        if name in self._scopes:
            return self._scopes[name]
        weights = self._weights
        if name in weights.children:
            scope = self._scopes[name] = Scope(self._network, weights, f"{name}.", self)
            return scope
        if name in weights.shapes:
            tensor = self._tensors[name] = self._network.plain_constant(weights.get(name), (name,))
            return tensor
        if isinstance(key, slice):
            numbers = self._numbers()
            return [self[number] for number in range(max(numbers, default=-1) + 1)[key] if number in numbers]
        if isinstance(key, int) and self._prefix and key >= len(self):
            raise IndexError(f"{self._prefix[:-1]} has no [{key}]: it has {_counted(self._numbers())}")
        if self._prefix and isinstance(key, str) and hasattr(Tensor, key):
            parts = ", ".join(self._children())
            raise WeightsError(
                f"{self._prefix[:-1]!r} is not one weight but several: {parts}", location=author_location()
            )
        module = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", f"w.{self._prefix}"[:-1])  # as an author writes it
        optional = f'; where it is optional, ask `"{key}" in {module}`' if isinstance(key, str) else ""
        raise WeightsError(
            f"no weight {name!r} in {weights.label}{self._instead(str(key))}{optional}", location=author_location()
        )

    def _instead(self, key: str) -> str:
        """The names most like one that is not there, otherwise what is there."""
        names = self._weights.shapes
        here = self._children() if self._prefix else list(dict.fromkeys(name.split(".")[0] for name in names))
        hint = "" if "." in key else nearest(key, here)
        hint = hint.replace("nearest: ", f"nearest: {self._prefix}").replace(", ", f", {self._prefix}")
        if not hint and (not here or not self._prefix):
            hint = nearest(f"{self._prefix}{key}", names)
        if hint or not here:
            return hint
        # Not other modules' weights of that name: a linear layer without bias has none.
        more = f", … ({len(here)} in all)" if len(here) > SHOWN else ""
        return f": {self._prefix[:-1] or 'it'} has {', '.join(here[:SHOWN])}{more}"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        text = "holds weights and computes nothing: write F.linear(x, w.fc.weight, w.fc.bias) for a module w.fc(x)"
        raise WeightsError(f"{f'w.{self._prefix}'[:-1]} {text}", location=author_location())

    def __contains__(self, key: object) -> bool:
        name = f"{self._prefix}{key}"
        return name in self._weights.shapes or name in self._weights.children

    def _children(self) -> Sequence[str]:
        return self._weights.children.get(self._prefix[:-1], [])

    def _numbers(self) -> list[int]:
        return sorted(int(child) for child in self._children() if is_number(child))

    def __len__(self) -> int:
        return len(self._numbers())

    def __iter__(self) -> Iterator[Any]:
        return iter([self[number] for number in self._numbers()])

    def __repr__(self) -> str:
        return f"Scope({self._prefix[:-1] or '.'}: {', '.join(self._children())})"

    def __bool__(self) -> bool:
        return True


def weights_of(scope: Scope) -> Weights:
    """All that a scope is of: the network's own weights, or those that were given instead."""
    return scope._weights


def _counted(numbers: Sequence[int]) -> str:
    """The numbers of a module's parts, for a message.

    >>> _counted([0, 1]), _counted([0, 1, 2, 3]), _counted([2, 5]), _counted([])
    ('[0] and [1]', '[0] to [3]', '[2] and [5]', 'no numbered parts')
    """
    if len(numbers) > 2:
        return f"[{numbers[0]}] to [{numbers[-1]}]"
    return " and ".join(f"[{number}]" for number in numbers) or "no numbered parts"
