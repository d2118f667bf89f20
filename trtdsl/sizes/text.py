"""A size as text, of the nested lists that it is in a manifest: ints, names and ``[operation, size, …]``.

>>> text_of(["+", ["*", "H", 2], ["//", "W", 2], 1]), text_of(["+", "T", ["*", ["//", "T", 4], -4]])
('2*H + W//2 + 1', 'T % 4')
"""

from __future__ import annotations

from typing import Any

Terms = list[tuple[list[Any], int]]
"""Factors and a coefficient each."""


def text_of(tree: Any) -> str:
    """The text, with ``a - m * (a // m)`` as the remainder that it is."""
    if not isinstance(tree, list):
        return str(tree)
    if tree[0] in ("max", "min"):
        return f"{tree[0]}({text_of(tree[1])}, {text_of(tree[2])})"
    if tree[0] == "//":
        return f"{_side(tree[1])}//{_side(tree[2], '//')}"
    text = ""
    for factor, coefficient in _printed(_terms(tree)):
        factors = [factor] if factor else []
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        term = "*".join(factors)
        text += f" {sign} {term}" if text else ("-" if coefficient < 0 else "") + term
    return text


def _side(tree: Any, *more: str) -> str:
    """A size beside an operator; one of the operations ``more`` stands in parentheses there, too."""
    return f"({text_of(tree)})" if isinstance(tree, list) and tree[0] in ("+", "*", *more) else text_of(tree)


def _terms(tree: Any) -> Terms:
    found = []
    for term in tree[1:] if isinstance(tree, list) and tree[0] == "+" else [tree]:
        factors = term[1:] if isinstance(term, list) and term[0] == "*" else [term]
        number = factors[-1] if isinstance(factors[-1], int) else 1
        found.append(([each for each in factors if not isinstance(each, int)], number))
    return found


def _printed(terms: Terms) -> list[tuple[str, int]]:
    """The terms as text, each with its coefficient."""
    left, remainders = list(terms), list[tuple[str, int]]()
    for term in terms:
        (atom, *more), coefficient = term[0] or [None], term[1]
        if more or not isinstance(atom, list) or atom[0] != "//" or not isinstance(atom[2], int):
            continue
        inner = next((part for part in left if _is_remainder(part, atom, coefficient)), None)
        if term in left and inner is not None:  # a // m - k * (a // (m * k)) is a // m % k
            left.remove(inner)
            left.remove(term)
            remainders.append((f"(({text_of(inner[0][0])}) % {atom[2] // inner[0][0][2]})", inner[1]))
            continue
        times, parts = -coefficient // atom[2], _terms(atom[1])
        wanted = [(factors, times * number) for factors, number in parts]
        if coefficient % atom[2] == 0 and term in left and all(part in left for part in wanted):
            left = [part for part in left if part != term and part not in wanted]
            remainders.append((f"({_side(atom[1])} % {atom[2]})", times))
    if not left and len(remainders) == 1 and remainders[0][1] == 1:
        return [(remainders[0][0][1:-1], 1)]
    result = remainders
    for index, (factors, coefficient) in enumerate(sorted(left, key=lambda term: (not term[0], -len(term[0])))):
        plain = coefficient == 1 or (coefficient == -1 and (index > 0 or remainders))  # -(T//2) is not -T//2
        plain = plain and len(factors) == 1
        texts = [text_of(each) if plain or each[0] != "//" else f"({text_of(each)})" for each in factors]
        result = [*result, ("*".join(texts), coefficient)]
    return result


def _is_remainder(part: tuple[list[Any], int], atom: list[Any], coefficient: int) -> bool:
    (other, *more), times = part[0] or [None], part[1]
    if more or not isinstance(other, list) or other[0] != "//" or not isinstance(other[2], int) or other[2] >= atom[2]:
        return False
    return other[1] == atom[1] and atom[2] % other[2] == 0 and coefficient == -times * (atom[2] // other[2])
