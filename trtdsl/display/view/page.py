"""The page as HTML: one file that needs no other and asks for none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The browser itself keeps the page from loading anything."""


def page(model: Mapping[str, Any]) -> str:
    """The page that shows a model."""
    title = escape(f"{model['name']} · trtdsl view")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{title}</title>\n<style>{_file('page.css')}</style>\n</head>\n<body>\n"
        '<div id="app"><noscript>This page draws a network with the JavaScript in it: allow that.</noscript></div>\n'
        f'<script type="application/json" id="model">{as_data(model)}</script>\n'
        f"<script>{_file('page.js')}</script>\n</body>\n</html>\n"
    )


def as_data(model: Mapping[str, Any]) -> str:
    """JSON that no HTML parser takes for anything else: a name may be ``</script>``.

    >>> as_data({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    return json.dumps(model, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8").rstrip("\n")
