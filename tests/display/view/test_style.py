"""The picture without a browser: no variables, no mixed colours, and the colours of the page's light mode."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import trtdsl as td
import trtdsl.functional as F
from trtdsl.display.view.style import static_style

PAGE = Path(td.__file__).parent / "display" / "view" / "page.css"


def pictured():
    pytest.importorskip("py_mini_racer")
    net = td.Network("pictured")
    x = F.relu(F.conv2d(net.input("x", ("N", 3, 8, 8)), net.constant([[[[1.0]], [[1.0]], [[1.0]]]])))
    net.output(td.scan(lambda c, i: (c + i, c), x[0], x)[0], "y")
    return td.view(net).text("svg")


def test_every_colour_is_a_colour():
    svg = pictured()
    assert [word for word in ("var(", "color-mix", "@media", ":hover", "transparent") if word in svg] == []
    assert ".card.convolution .stripe{fill:#2f8f6b}" in svg  # as page.css has the category in the light
    assert ".card .area{fill:#ffffff;stroke:#dfe3e9;stroke-width:1}" in svg
    assert 'style="fill:#f6f7f9"' in svg


def test_a_mixed_colour():
    css = ":root{--a: #ff0000;--b: #0000ff}.frame{fill:color-mix(in srgb,var(--a) 25%,var(--b))}"
    assert static_style(css) == ".frame{fill:#4000bf}"


def test_the_page_has_no_construct_that_is_left():
    assert not {word for word in ("var(", "color-mix", "--", "@") if word in static_style(PAGE.read_text())}


@pytest.mark.skipif(shutil.which("rsvg-convert") is None, reason="no rsvg-convert")
def test_librsvg_draws_it_in_colour(tmp_path):
    from PIL import Image

    (tmp_path / "a.svg").write_text(pictured())
    subprocess.run(["rsvg-convert", tmp_path / "a.svg", "-o", tmp_path / "a.png"], check=True)
    image = Image.open(tmp_path / "a.png").convert("RGB")
    colours = {colour: count for count, colour in image.getcolors(1 << 24) or ()}
    assert max(colours, key=colours.__getitem__) == (0xF6, 0xF7, 0xF9)  # the page
    assert {(0x2F, 0x8F, 0x6B), (0xD9, 0x8A, 0x1B), (255, 255, 255)} <= colours.keys()  # convolution, activation, cards
    assert colours.get((0, 0, 0), 0) < 10
