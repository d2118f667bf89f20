"""Pictures of programs: well-formed, one box a launch, folded when there are many, whatever the names hold."""

import dataclasses
import xml.etree.ElementTree as ElementTree

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.display.picture import FOLDED, draw, write_svg

NAMESPACE = {"svg": "http://www.w3.org/2000/svg"}


@pytest.fixture
def program():
    net = td.Network()
    x = net.input("x", (64, 256))
    net.output(F.matmul(x.permute(1, 0), net.constant(torch.randn(64, 32))), "y")
    net.output(F.softmax(x, 1), "z")
    return td.program(net)


def boxes(text):
    return [rect for rect in ElementTree.fromstring(text).findall("svg:rect", NAMESPACE) if rect.get("rx")]


def test_a_box_is_as_wide_as_its_bytes(program):
    drawn = boxes(draw(program))
    assert len(drawn) == len(program.launches)
    widths = [float(box.get("width")) for box in drawn]
    moved = [launch.bytes for launch in program.launches]
    assert [round(width / max(widths), 2) for width in widths] == [round(size / max(moved), 2) for size in moved]


def test_many_launches_are_folded_by_module(program):
    launch = program.launches[0]
    many = [
        dataclasses.replace(launch, index=index, scopes=(f"layers.{index // 50}.block",))
        for index in range(FOLDED + 50)
    ]
    drawn = boxes(draw(dataclasses.replace(program, launches=tuple(many))))
    assert len(drawn) == 3


def test_names_are_escaped(program, tmp_path):
    odd = dataclasses.replace(program.launches[0], name='<a & "b">\x00\x1f', lines=("x<y>.py:3",))
    text = draw(dataclasses.replace(program, network="<&>", launches=(odd,)))
    assert "x<y>.py:3" in "".join(ElementTree.fromstring(text).itertext())
    write_svg(program, tmp_path / "p.svg")
    assert boxes((tmp_path / "p.svg").read_text())
    with pytest.raises(td.UsageError):
        write_svg(program, tmp_path / "none" / "p.svg")
