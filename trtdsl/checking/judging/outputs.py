"""Outputs of a reference under stable names: every leaf of forward's result, whatever containers it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from numbers import Number
from typing import Any

from ...core.errors import DefinitionError, UsageError, nearest
from ...core.lazy import np, torch
from ...core.tensors.dense import why_not_dense

OUT = "_out"  # ends the name of an output that an input has too


@dataclass(frozen=True)
class Other:
    """A leaf that is no tensor, and cannot be compared."""

    kind: str


@dataclass(frozen=True)
class Leaves:
    """The outputs of a reference: its leaves by their paths, and whether the paths are the author's names."""

    named: bool
    values: dict[str, torch.Tensor | Other]

    def without(self, leave_out: Sequence[str]) -> Leaves:
        """The leaves without those that are left out, given by their names or the beginnings of these.

        Raises UsageError for a name that does not exist.
        """
        for name in leave_out:
            if not any(_is_under(path, name) for path in self.values):
                raise UsageError(
                    f"the reference has no output {name!r} to leave out{nearest(name, self.values)}: "
                    f"it has {', '.join(self.values)}"
                )
        kept = {
            path: value for path, value in self.values.items() if not any(_is_under(path, name) for name in leave_out)
        }
        return Leaves(self.named, kept)


def leaves(returned: Any) -> Leaves:
    """Every leaf of a reference's result by its path: keys, fields and numbers, joined by dots.

    Mappings, dataclasses and named tuples have names, tuples and lists numbers. None is no output; a number is a tensor
    without dimensions, and complex numbers are their two parts (``torch.view_as_real``).

    >>> list(leaves({"y": torch.ones(1), "states": (torch.ones(1), None, [torch.ones(1)])}).values)
    ['y', 'states.0', 'states.2.0']

    Raises DefinitionError for a result that is neither a tensor nor a container.
    """
    if returned is None or isinstance(returned, (Number, str)):
        raise DefinitionError(
            f"the reference gives a {type(returned).__name__}, not a tensor, or a container of tensors"
        )
    found: dict[str, torch.Tensor | Other] = {}
    for name, value in walk(returned):
        while name in found:  # {"a.b": x, "a": {"b": y}}
            name += "'"
        found[name] = _as_leaf(value)
    named = isinstance(returned, Mapping) or (is_dataclass(returned) and not isinstance(returned, type))
    return Leaves(named, found)


def match(found: Leaves, names: Sequence[str]) -> dict[str, torch.Tensor | Other]:
    """The leaves by the network's output names: by their own where they have any, otherwise in order.

    A leaf keeps its own name where the network has no output for it. An output ``sample_out`` is the leaf ``sample``: a
    network cannot call an output as it calls an input.

    >>> list(match(leaves((torch.ones(1), [torch.ones(2)])), ["a"]))
    ['a', 'reference output 1']
    >>> list(match(leaves({"sample": torch.ones(1)}), ["sample_out"]))
    ['sample_out']
    """
    plain = {_plain(path) for path in found.values}
    renamed = {f"{path}{OUT}" for path in plain if path not in names} - plain
    if found.named or (names and any(name in found.values for name in names)):
        known = {_plain(name): name for name in names}
        known |= {name.removesuffix(OUT): name for name in names if name in renamed}
        return {known.get(_plain(path), path): value for path, value in found.values.items()}
    labels = [*names, *(f"reference output {index}" for index in range(len(names), len(found.values)))]
    return dict(zip(labels, found.values.values(), strict=False))


def _plain(name: str) -> str:
    """The name with underscores for dots, since a Python name has no dots."""
    return name.replace(".", "_")


def _is_under(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


def walk(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every leaf of a result except None, by its path: keys, fields and numbers, joined by dots."""
    if isinstance(value, Mapping):
        parts: Any = value.items()
    elif is_dataclass(value) and not isinstance(value, type):
        parts = ((part.name, getattr(value, part.name)) for part in fields(value))
    elif isinstance(value, (tuple, list)):
        parts = zip(getattr(value, "_fields", None) or range(len(value)), value, strict=True)
    else:
        if value is not None:
            yield ".".join(path), value
        return
    for name, item in parts:
        yield from walk(item, (*path, str(name)))


def _as_leaf(value: Any) -> torch.Tensor | Other:
    if reason := why_not_dense(value):
        return Other(f"a {type(value).__name__} that cannot be compared ({reason})")
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            return as_real(value)
        if type(value) is torch.Tensor:
            return value
        with torch._C.DisableTorchFunctionSubclass():  # one of a class of the author's may compare otherwise
            plain = value.detach().as_subclass(torch.Tensor)
        vars(plain).update(vars(value))  # with what is known of it
        return plain
    if isinstance(value, (Number, np.ndarray, np.generic)) and not isinstance(value, complex):
        return torch.as_tensor(value)
    return Other(f"a {type(value).__name__}")


def as_real(value: torch.Tensor) -> torch.Tensor:
    """Both parts of complex numbers, along a new last dimension; so of their exact values where they have others."""
    parts = torch.view_as_real(value.resolve_conj())
    if (held := vars(value).get("_exact")) is not None:
        held[0].keep(parts, torch.view_as_real(held[1].resolve_conj()))
    return parts
