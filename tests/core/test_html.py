"""What a notebook shows: folded, escaped, short, and readable by an HTML parser."""

from html.parser import HTMLParser

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.html import MOST, folded, table

EVIL = "<script>alert('&')</script>"


class Page(HTMLParser):
    """Tags as they open, text, and whether all that open close in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += f"{data}\n"


class Double(torch.nn.Module):
    def forward(self, x):
        return x + x


@pytest.fixture
def net():
    net = td.Network(EVIL)
    x = net.input("x", (td.Dim("N", min=1, opt=2, max=3), 4))
    with net.scope(EVIL):
        y = x * 2
    net.output(y, EVIL)
    return net


def shown(net):
    spec = td.network(name=EVIL, inputs={EVIL: td.Input(("N", 4))}, reference=Double)(lambda x: x * 2)
    return {
        "Network": net,
        "NetworkSpec": spec,
        "Tensor": net.outputs[EVIL],
        "CheckReport": td.check(net, reference=Double, sizes="quick"),
        "Summary": td.summarize(net),
        "Program": td.program(net),
        "EinsumPlan": td.explain_einsum("ij,jk->ik", (2, 3), (3, 4)),
        "ComplexTensor": F.view_as_complex(net.outputs[EVIL].reshape(-1, 2, 2)),
    }


def test_every_value_is_one_folded_line_in_which_nothing_from_outside_is_a_tag(net):
    values = shown(net)
    layers = net.definition.num_layers
    for title, value in values.items():
        text = value._repr_html_()
        page = Page(text)
        assert page.tags[:3] == ["details", "summary", "code"]
        assert page.text.startswith(f"{title}(")
        assert set(page.tags) <= {"details", "summary", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "p"}
        assert (EVIL in page.text) is (title != "EinsumPlan")
    assert net.definition.num_layers == layers


def test_contents_of_the_html_tables(net):
    values = shown(net)
    assert "(N, 4)\nfloat32" in Page(values["Network"]._repr_html_()).text
    assert "Double" in Page(values["NetworkSpec"]._repr_html_()).text
    assert __file__ in Page((net.inputs["x"] + 1)._repr_html_()).text
    assert "equals its torch reference" in Page(values["CheckReport"]._repr_html_()).text
    assert "ELEMENTWISE" in Page(values["Summary"]._repr_html_()).text
    assert ": 1 launch, " in Page(values["Program"]._repr_html_()).text
    assert str(values["EinsumPlan"]) in Page(values["EinsumPlan"]._repr_html_()).text


def test_the_text_beside_is_one_short_line(net):
    for title in ("Network", "Tensor", "ComplexTensor", "CheckReport", "Summary", "Program"):
        text = repr(shown(net)[title])
        assert text.startswith(f"{title}(") and "\n" not in text and len(text) < 300


def test_unfinished_values_are_shown_too(net):
    empty = td.Network()
    for value in (empty, td.summarize(empty), empty.input("x", ("N",)), empty.inputs["x"].reshape(1, -1)):
        assert Page(value._repr_html_()).text


def test_a_constant_is_shown_without_becoming_a_layer():
    net = td.Network()
    constant = net.constant(torch.ones(3), source="a.weight")
    assert "a.weight" in constant._repr_html_()
    assert net.definition.num_layers == 0


def test_a_long_table_is_cut_and_says_so():
    text = table(["n"], ([index] for index in range(MOST + 7)))
    assert Page(text).tags.count("td") == MOST
    assert text.endswith("<p>and 7 more</p>")
    assert table(["n"], []) == ""
    assert Page(folded("title")).text == "title\n"


def test_a_report_says_its_verdict_and_what_differs(net):
    report = td.check(net, reference=Double, sizes="N=2")
    assert repr(report).startswith(
        f"CheckReport({EVIL} equals its torch reference, interpreted at 1 size, with normal, "
    )
    wrong = td.Network("wrong")
    wrong.output(F.exp(wrong.input("x", (2,))), "y")
    report = td.check(wrong, reference=Double)
    assert repr(report).startswith("CheckReport(wrong DIFFERS from its torch reference, interpreted at 1 size, with ")
    assert "; output 'y' differs" in repr(report)
    assert "output 'y' differs" in Page(report._repr_html_()).text
