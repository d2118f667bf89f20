"""Sizes as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .atoms import INFINITY, Atom, Binary, FloorDivision, atom_key, is_single, size_key

if TYPE_CHECKING:
    from .size import Monomial, Size, SizeLike


def printed(size: Size) -> list[tuple[str, int]]:
    """The terms as text, each with its coefficient: ``a - m * (a // m)`` as the remainder that it is."""
    terms = dict(size.terms)
    remainders: list[tuple[str, int]] = []
    for monomial, coefficient in size.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if not isinstance(atom, FloorDivision) or not isinstance(atom.right, int):
            continue
        inner = next((part for part in terms if _is_remainder(part, terms[part], atom, coefficient)), None)
        if monomial in terms and inner is not None:  # a // m - k * (a // (m * k)) is a // m % k
            of: Any = inner[0]
            times = terms.pop(inner)
            del terms[monomial]
            remainders.append((f"(({of}) % {atom.right // of.right})", times))
            continue
        if coefficient % atom.right:
            continue
        times, parts = -coefficient // atom.right, [((), atom.left)] if isinstance(atom.left, int) else atom.left.terms
        if monomial in terms and all(terms.get(part) == times * number for part, number in parts):
            for part in (monomial, *(part for part, _ in parts)):
                del terms[part]
            text = str(atom.left) if isinstance(atom.left, int) or is_single(atom.left) else f"({atom.left})"
            remainders.append((f"({text} % {atom.right})", times))
    ordered = sorted(terms.items(), key=lambda term: (not term[0], -len(term[0])))
    alone = len(ordered) + len(remainders) == 1
    if alone and remainders and remainders[0][1] == 1:
        return [(remainders[0][0][1:-1], 1)]
    result = remainders
    for index, (monomial, coefficient) in enumerate(ordered):
        plain = coefficient == 1 or (coefficient == -1 and (index > 0 or remainders))  # -(T//2) is not -T//2
        plain = plain and len(monomial) == 1
        factors = [f"({atom})" if isinstance(atom, FloorDivision) and not plain else str(atom) for atom in monomial]
        result = [*result, ("*".join(factors), coefficient)]
    return result


def _is_remainder(part: Monomial, times: int, atom: FloorDivision, coefficient: int) -> bool:
    other = part[0] if len(part) == 1 else None
    if not isinstance(other, FloorDivision) or not isinstance(other.right, int) or other.right >= atom.right:
        return False
    same = size_key(other.left) == size_key(atom.left) and atom.right % other.right == 0
    return same and coefficient == -times * (atom.right // other.right)


def ranges_text(*sizes: SizeLike | float) -> str:
    """The dimensions of some sizes with their ranges, for a message."""
    atoms = sorted(
        {atom for size in sizes if not isinstance(size, (int, float)) for atom in size.atoms()}, key=atom_key
    )
    texts = []
    for atom in atoms:
        low, high = atom.bounds()
        texts.append(f"{atom} >= {low}" if high >= INFINITY else f"{atom} from {low} to {high}")
    return ", ".join(texts)


def as_json(size: SizeLike) -> Any:
    """The size as nested lists: ints, names of dimensions, and ``[operation, size, …]`` with + * // max min."""
    if isinstance(size, int):
        return size
    terms = []
    for monomial, coefficient in size.terms:
        factors = [_atom_as_json(atom) for atom in monomial]
        factors += [coefficient] if coefficient != 1 or not factors else []
        terms.append(factors[0] if len(factors) == 1 else ["*", *factors])
    return terms[0] if len(terms) == 1 else ["+", *terms]


def _atom_as_json(atom: Atom) -> Any:
    return [atom.symbol, as_json(atom.left), as_json(atom.right)] if isinstance(atom, Binary) else str(atom)
