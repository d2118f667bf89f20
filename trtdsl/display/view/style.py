"""The page's style for a picture that no browser shows: without variables, mixed colours, dark mode and hovering."""

from __future__ import annotations

import re

DRAWN = re.compile(r"\.canvas|\.card|\.frame|\.edge|\.box|\.chevron|\.grip|^marker")
"""Selectors of what is drawn; the rest of the page's are about HTML."""
MOVING = re.compile(r":hover|\.lighting|\.lit\b|\.selected|\.near\b|\.far\b|\.plain|^\.canvas(:active)?$")
CATEGORY = re.compile(r"^\.([a-z]+)$")
MIX = re.compile(r"color-mix\(in \w+,\s*(#\w{6})\s+(\d+)%,\s*(#\w{6})\)")
VARIABLE = re.compile(r"var\(--([\w-]+)(?:,\s*((?:[^()]|\([^()]*\))*))?\)")


def static_style(css: str) -> str:
    """The rules for what is drawn, in the light colours, as SVG renderers without CSS variables read them.

    A category's colour is a variable that its box sets: each rule that takes it becomes one for each category.

    >>> static_style(":root{--card: #ffffff}.a{--own: #ff0000}.card .x{fill:var(--own, var(--card))}")
    '.card .x{fill:#ffffff}.card.a .x{fill:#ff0000}'
    """
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    css = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", css)
    rules = [(head.strip(), body) for head, body in re.findall(r"([^{}]+)\{([^{}]*)\}", css)]
    known = dict(_entries(next((body for head, body in rules if head == ":root"), "")))
    categories = {
        found[1]: dict(_entries(body))["own"]
        for head, body in rules
        if (found := CATEGORY.match(head)) and body.strip().startswith("--own:")
    }
    lines = []
    for head, body in rules:
        selectors = [each for each in head.split(",") if DRAWN.search(each) and not MOVING.search(each)]
        if not selectors:
            continue
        lines.append(f"{','.join(selectors)}{{{_resolved(body, known)}}}")
        for category, colour in categories.items() if "--own" in body else ():
            narrowed = ",".join(each.replace(".card", f".card.{category}", 1) for each in selectors)
            lines.append(f"{narrowed}{{{_resolved(body, {**known, 'own': colour})}}}")
    return "".join(lines)


def without_variables(svg: str, css: str) -> str:
    """An SVG file whose own attributes have no variables of the page either."""
    known = dict(_entries(next(iter(re.findall(r":root\{([^{}]*)\}", css)), "")))
    head, end, drawn = svg.partition("</style>")
    return head + end + re.sub(r'(?<=style=")[^"]*', lambda found: _resolved(found[0], known), drawn)


def _entries(body: str) -> list[tuple[str, str]]:
    """The variables that a rule sets."""
    return [(name, value.strip()) for name, value in re.findall(r"--([\w-]+)\s*:\s*([^;]*)", body)]


def _resolved(body: str, known: dict[str, str]) -> str:
    while "var(" in body:
        body = VARIABLE.sub(lambda found: known.get(found[1], found[2] or "none"), body)
    return MIX.sub(_mixed, body).replace("transparent", "none")


def _mixed(found: re.Match[str]) -> str:
    share = int(found[2]) / 100
    pairs = zip(bytes.fromhex(found[1][1:]), bytes.fromhex(found[3][1:]), strict=True)
    return "#" + bytes(round(share * one + (1 - share) * other) for one, other in pairs).hex()
