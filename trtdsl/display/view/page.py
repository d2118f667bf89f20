"""The page as HTML: one file that needs no other and asks for none."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from ...core.files.writing import as_json

POLICY = (
    "default-src 'none'; script-src {script}; style-src-elem {style}; style-src-attr 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
"""The browser itself keeps the page from loading anything, and runs no script but the one whose hash is here."""


def page(model: Mapping[str, Any]) -> str:
    """The page that shows a model."""
    script, style = _file("page.js"), _file("page.css")
    policy = POLICY.format(script=_hash(script), style=_hash(style))
    title = escape(f"{model['name']} · trtdsl view")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="generator" content="trtdsl">\n'  # by which its kind is known (files.py)
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="app"><noscript>This page draws a network with the JavaScript in it: allow that.</noscript></div>\n'
        f'<script type="application/json" id="model">{as_data(model)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def as_data(model: Mapping[str, Any]) -> str:
    """JSON that no HTML parser takes for anything else: a name may be ``</script>``.

    >>> as_data({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    return as_json(model, separators=(",", ":")).replace("<", "\\u003c")


@cache
def _hash(text: str) -> str:
    """A source of a content security policy: the element with this very text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8").rstrip("\n")
