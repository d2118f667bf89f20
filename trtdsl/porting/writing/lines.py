"""Text that fits on a line, or stands on several."""

from __future__ import annotations

WIDTH = 120


def wrapped_call(callee: str, arguments: list[str], indent: int, end: str = "") -> list[str]:
    """``callee(arguments)end`` on one line, or on three, or with a line for each argument."""
    space = " " * indent
    inner = ", ".join(arguments)
    if len(f"{space}{callee}({inner}){end}") <= WIDTH:
        return [f"{space}{callee}({inner}){end}"]
    if len(f"{space}    {inner}") <= WIDTH:
        return [f"{space}{callee}(", f"{space}    {inner}", f"{space}){end}"]
    lines = []
    for argument in arguments:
        if len(f"{space}    {argument},") > WIDTH and argument[0] in "[(":
            lines += [f"{space}    {argument[0]}", *(f"{space}        {item}," for item in _items(argument[1:-1]))]
            lines.append(f"{space}    {argument[-1]},")
        else:
            lines.append(f"{space}    {argument},")
    return [f"{space}{callee}(", *lines, f"{space}){end}"]


def one_by_one(begin: str, items: list[str], end: str, indent: int = 4, brackets: str = "") -> list[str]:
    """The items on one line, or on a line each, which takes ``brackets`` around them."""
    space, opened, closed = " " * indent, brackets[:1], brackets[1:]
    line = f"{space}{begin}{', '.join(items)}{end}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{space}{begin}{opened}", *(f"{space}    {item}," for item in items), f"{space}{closed}{end}"]


def _items(text: str) -> list[str]:
    """The items of a sequence's text."""
    items, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            items.append("")
        else:
            items[-1] += letter
    return [item.strip() for item in items if item.strip()]
