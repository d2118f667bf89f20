"""Checks: what counts as equal, what is fed, and that they can fail."""

import json
import sys

import pytest
import torch
from torch.nn import functional as TF

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.report import CheckReport
from trtdsl.checking.tried_sizes import sizes_to_try
from trtdsl.definition.spec.load import load_spec
from trtdsl.interpreter.feeds import has_draw, make_feeds


def test_a_missing_range_is_asked_for(small):
    net = td.Network()
    net.input("x", ("N", 3))
    with pytest.raises(
        td.UsageError,
        match=r"test_check.py:\d+: dimension N has no range: give one with td.Dim\('N'.* or in each td.Profile",
    ):
        sizes_to_try(net)


def test_feeds_are_signed_or_as_the_input_says():
    net = td.Network()
    inputs = {
        "x": td.Input((100,)),
        "u": td.Input((100,), sample=(2.0, 3.0)),
        "i": td.Input((100,), "int64", sample=(5, 9)),
        "b": td.Input((100,), "bool"),
        "c": td.Input((2,), "int32", sample=lambda shape, generator: torch.full(shape, 7, dtype=torch.int32)),
    }
    for name, spec in inputs.items():
        net.add_input(name, spec)
    feeds = make_feeds(inputs, net, {}, torch.Generator().manual_seed(0))
    assert feeds["x"].min() < -1
    assert 2 <= feeds["u"].min() < 2.2
    assert 2.8 < feeds["u"].max() <= 3
    assert feeds["i"].unique().tolist() == [5, 6, 7, 8]
    assert feeds["b"].dtype == torch.bool
    assert feeds["c"].tolist() == [7, 7]
    again = make_feeds(inputs, net, {}, torch.Generator().manual_seed(0))
    assert all(torch.equal(feeds[name], again[name]) for name in feeds)


@pytest.mark.parametrize("draw", ["normal", "large", "ties", "sparse"])
def test_the_last_word_of_a_table_is_fed_and_none_beyond_it(draw):
    """The end of a range of integers is not in it, as in torch.randint; of floats it is fed."""
    net = td.Network()
    inputs = {"i": td.Input((400,), "int64", sample=(0, 50)), "x": td.Input((400,), sample=(0.0, 2.0))}
    for name, spec in inputs.items():
        net.add_input(name, spec)
    feeds = make_feeds(inputs, net, {}, torch.Generator().manual_seed(0), draw)
    assert (feeds["i"].min(), feeds["i"].max()) == (0, 49)
    assert feeds["x"].max() == 2 or draw in ("normal", "sparse")


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        ("large", lambda x: set(x.unique().tolist()) == {0.0, 1.0} and bool((x == 1).all(1).any())),
        ("ties", lambda x: set(x.unique().tolist()) == {0.0, 0.25, 0.5, 1.0} and (x == 0.25).float().mean() > 0.4),
        ("sparse", lambda x: 0 < x.max() < 0.02 and bool((x == 0).all(1).any())),
    ],
)
def test_a_narrow_range_of_floats_is_fed_its_ends_and_values_that_repeat(draw, expected):
    net, inputs = td.Network(), {"x": td.Input((8, 40), sample=(0.0, 1.0))}
    net.add_input("x", inputs["x"])
    assert has_draw(inputs, draw)
    assert expected(make_feeds(inputs, net, {}, torch.Generator().manual_seed(0), draw, numbers=[0.25, 7.0])["x"])


@pytest.mark.parametrize("draw", ["sparse", "large"])
def test_one_row_of_bools_is_even_and_one_has_a_single_exception(draw):
    net, inputs = td.Network(), {"m": td.Input((6, 40), "bool")}
    net.add_input("m", inputs["m"])
    mask = make_feeds(inputs, net, {}, torch.Generator().manual_seed(0), draw)["m"]
    seldom = (mask == (draw == "sparse")).sum(1).tolist()
    assert (seldom[0], seldom[-1]) == (1, 0)
    assert min(seldom[1:-1]) > 0


@pytest.mark.parametrize("seed", range(8))
def test_offsets_have_both_signs_wherever_there_are_two_rows(seed):
    """Otherwise a maximum that begins at 0 is that of most rows."""
    net, inputs = td.Network(), {"x": td.Input((2, 40))}
    net.add_input("x", inputs["x"])
    x = make_feeds(inputs, net, {}, torch.Generator().manual_seed(seed), "offset")["x"]
    assert x.mean(1).sign().unique().tolist() == [-1, 1]


def test_where_the_reference_fails_is_said_with_the_values_that_are_not_tried():
    class Asks(torch.nn.Module):
        def forward(self, x):
            if x.abs().max() > 20:
                raise ValueError("too great")
            return {"y": 2 * x}

    @td.network(inputs={"x": td.Input((4, 8))}, reference=Asks)
    def doubled(x):
        return {"y": 2 * x}

    line = Asks.forward.__code__.co_firstlineno + 2
    notes = [note for note in td.check(doubled).unproven if "not tried" in note]
    assert [kind in note for kind, note in zip(("large", "offset"), notes, strict=True)] == [True, True]
    assert all("ValueError: too great" in note and note.endswith(f"test_check.py:{line})") for note in notes)


def test_integer_inputs_must_say_what_to_feed():
    net = td.Network()
    spec = td.Input((2,), "int64")
    net.add_input("i", spec)
    with pytest.raises(td.UsageError, match=r"input 'i' is int64: say what to feed it, as td.Input\(…, sample="):
        make_feeds({"i": spec}, net, {}, torch.Generator())
    wrong = td.Input((2,), "int64", sample=lambda shape, generator: torch.zeros(3))
    with pytest.raises(td.FeedError, match=r"the sample of input 'i' is torch.float32 \(3,\), not torch.int64 \(2,\)"):
        make_feeds({"i": wrong}, net, {}, torch.Generator())


def test_a_network_equals_its_reference(small):
    report = td.check(load_spec(str(small / "small.py")))
    assert report.passed
    assert [case.dims["N"] for case in report.cases if case.draw == "normal"] == [1, 2, 3, 4]
    assert "interpreted" in report.statement
    assert "no engine was executed" in report.statement
    assert report.to_json()["cases"][0]["outputs"][0]["name"] == "scores"
    assert report.raise_for_mismatch() is report


def test_a_report_says_what_was_executed():
    statements = {on: CheckReport("small", "tensorrt", on, [], 0).statement for on in ("engine", "interpreter")}
    assert statements == {
        "engine": "The engine itself was executed on this machine's GPU.",
        "interpreter": "The network was interpreted on the CPU, layer by layer; no engine was executed.",
    }


def test_a_wrong_weight_a_swapped_output_and_a_wrong_operation_are_caught(small):
    spec = load_spec(str(small / "small.py"))
    net = spec.define()
    opened = spec.open_weights()
    for name in opened.shapes:
        if name.endswith("num_batches_tracked"):
            continue
        wrong = {other: opened.get(other).clone() for other in opened.shapes}
        wrong[name].view(-1)[0] *= 1.01
        report = td.check(spec, network=spec.define(weights=wrong))
        assert not report.passed, name
    text = (small / "small.py").read_text()
    (small / "small.py").write_text(text.replace("F.relu(", "F.elu("))
    report = td.check(load_spec(str(small / "small.py")))
    assert not report.passed
    with pytest.raises(
        td.MismatchError, match=r"small: output 'scores' differs at N = .*in exact arithmetic, \d+ of \d+ elements"
    ):
        report.raise_for_mismatch()
    assert td.check(spec, network=net).passed


def test_a_reference_may_return_several_outputs():
    class Two(torch.nn.Module):
        def forward(self, x):
            return x * 2, x + 1

    good = td.network(inputs={"x": td.Input((3,))}, reference=Two)(lambda x: (x * 2, x + 1))
    swapped = td.network(inputs={"x": td.Input((3,))}, reference=Two)(lambda x: (x + 1, x * 2))
    fewer = td.network(inputs={"x": td.Input((3,))}, reference=Two)(lambda x: x * 2)
    assert td.check(good).passed
    assert not td.check(swapped).passed
    report = td.check(fewer)
    assert not report.passed
    assert report.cases[0].outputs[-1].problem.startswith("only the reference has this output")


def test_a_reference_that_fails_is_named_with_its_line_and_sizes(small):
    reference = small / "reference.py"
    reference.write_text(reference.read_text().replace("mean((2, 3))", "mean((2, 3)).view(2, 4)"))
    with pytest.raises(td.DefinitionError, match=r"reference.py:13: the reference fails at N = 1: RuntimeError: shape"):
        td.check(load_spec(str(small / "small.py")))


LATE = """\
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from made_beside import SLOPE
        self.slope = SLOPE

    def forward(self, x):
        from run_beside import times
        return times(x, self.slope)
"""
NET = """\
import trtdsl as td
from late_models.late import Model

@td.network(inputs={{"x": td.Input((3,), sample=lambda *shape: __import__("drawn_beside").draw(*shape))}}, reference={})
def net(x):
    return x * 2
"""


@pytest.mark.parametrize(("reference", "beside"), [("Model", "."), ("'late_models/late.py:Model'", "late_models")])
def test_a_reference_imports_what_lies_beside_its_file_when_it_is_made_and_run(tmp_path, reference, beside):
    """Beside the network's file where that imports the class, as its own imports do."""
    files = {
        "late_models/late.py": LATE,
        "net.py": NET.format(reference),
        f"{beside}/made_beside.py": "SLOPE = 2\n",
        f"{beside}/run_beside.py": "def times(x, k):\n    return x * k\n",
        "drawn_beside.py": "import torch\n\ndef draw(shape, generator):\n    return torch.randn(shape)\n",
    }
    (tmp_path / "late_models").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    path = list(sys.path)
    try:
        assert td.check(str(tmp_path / "net.py")).passed
    finally:
        for name in ("late_models", "late_models.late", "made_beside", "run_beside", "drawn_beside"):
            sys.modules.pop(name, None)
    assert sys.path == path


def test_without_a_reference_there_is_nothing_to_check():
    spec = td.network(inputs={"x": td.Input((3,))}, name="lonely")(lambda x: F.relu(x))
    with pytest.raises(td.UsageError, match="lonely has no reference"):
        td.check(spec)
    with pytest.raises(td.UsageError, match="on is 'interpreter', 'program' or 'engine'"):
        td.check(spec, on="moon")


def test_a_reference_that_does_not_repeat_its_result_fails():
    """A global that it changes is not undone; all that torch computes then differs by more than any network."""
    scale = torch.ones(8)

    class Grows(torch.nn.Module):
        def forward(self, x):
            return x * scale.mul_(1.5)

    report = td.check(td.network(inputs={"x": td.Input((4, 8))}, reference=Grows)(lambda x: x * 1.0))
    assert not report.passed
    assert "gives another 'output' when it is called again" in str(report)


def test_rows_of_small_values_reach_both_ends():
    class Unit(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.normalize(x, dim=1, eps=1e-12)

    spec = td.network(inputs={"x": td.Input((4, 8))}, reference=Unit)
    assert not td.check(spec(lambda x: F.normalize(x, dim=1, eps=1e-6))).passed
    assert td.check(spec(lambda x: F.normalize(x, dim=1, eps=1e-12))).passed


class FirstEnd(torch.nn.Module):
    def forward(self, ids):
        return (ids == 257).int().argmax(1)


def test_numbers_that_the_reference_compares_with_are_fed():
    spec = td.network(inputs={"ids": td.Input((2, 12), "int64", sample=(0, 30_000))}, reference=FirstEnd)
    assert td.check(spec(lambda ids: F.argmax((ids == 257).int(), 1))).passed
    assert not td.check(spec(lambda ids: F.argmax((ids == 256).int(), 1))).passed


class Sudden(torch.nn.Module):
    last = 64

    def forward(self, x):
        return x * (1.001 if x.shape[0] == self.last else 1.0) + 1


class Even(Sudden):
    last = 0


def test_at_large_sizes_float32_stands_for_exact_arithmetic():
    inputs = {"x": td.Input((td.Dim("N", min=1, opt=2, max=64), 2048))}
    right = td.network(inputs=inputs, reference=Even)(lambda x: x + 1)
    report = td.check(right, sizes="quick")
    assert report.passed and [case.outputs[0].truth for case in report.cases if case.dims == {"N": 64}] == ["torch"]
    (said,) = [line for line in report.unproven if "four digits" in line]
    assert said == "more than four digits at N = 64: it was compared in float32 there"
    wrong = td.check(td.network(inputs=inputs, reference=Sudden)(lambda x: x + 1), sizes="quick")
    assert [case.dims for case in wrong.cases if not case.passed] == [{"N": 64}]


def meant(reference, network, *shapes):
    """The greatest difference in exact arithmetic, and whether the report says that digits are missing."""

    class Reference(torch.nn.Module):
        def forward(self, x, y=None):
            return reference(*(each for each in (x, y) if each is not None))

    inputs = {name: td.Input(shape) for name, shape in zip("xy", shapes, strict=False)}
    report = td.check(td.network(inputs=inputs, reference=Reference)(network)).raise_for_mismatch()
    greatest = max(output.meaning for case in report.cases for output in case.outputs)
    return greatest, any("digits" in line for line in report.unproven)


@pytest.mark.parametrize(
    ("reference", "network"),
    [
        (lambda x: TF.softshrink(x, 0.3), lambda x: F.softshrink(x, 0.3)),
        (lambda x: TF.interpolate(x, (3, 5), mode="bicubic", antialias=True),
         lambda x: F.interpolate(x, (3, 5), mode="bicubic", antialias=True)),
        (lambda x: x * x.new_tensor([0.1]), lambda x: x * 0.1),
    ],
)  # fmt: skip
def test_numbers_keep_what_float32_does_not_have(reference, network):
    greatest, few = meant(reference, network, (1, 2, 4, 9))
    assert greatest < 1e-12 and not few


@pytest.mark.parametrize(
    "make", [lambda: torch.Tensor([0.1]), lambda: torch.from_numpy(torch.tensor([0.1]).numpy())], ids=["class", "numpy"]
)
def test_constants_of_a_reference_that_cannot_be_seen_may_have_been_rounded(make):
    greatest, few = meant(lambda x: x * make(), lambda x: x * 0.1, (3, 4))
    assert 1e-9 < greatest < 1e-7 and few


@pytest.mark.parametrize(
    ("reference", "network"),
    [
        (lambda x: x + torch.arange(4.0), lambda x: x + F.arange(4.0)),
        (lambda x: TF.grid_sample(x, x[..., :2].tanh(), align_corners=False),
         lambda x: F.grid_sample(x, F.tanh(x[..., :2]), align_corners=False)),
        (lambda x: TF.scaled_dot_product_attention(x, x, x), lambda x: F.scaled_dot_product_attention(x, x, x)),
    ],
    ids=["arange", "grid_sample", "attention"],
)  # fmt: skip
def test_constants_that_a_lowering_makes_excuse_no_other(reference, network):
    """An epsilon that is wrong by a ten-millionth of the result is seen beside constants that are not the author's."""
    shape = (1, 1, 5, 4)
    meant(
        lambda x: reference(TF.layer_norm(x, (4,), eps=1e-3)), lambda x: network(F.layer_norm(x, (4,), eps=1e-3)), shape
    )
    with pytest.raises(td.MismatchError):
        meant(
            lambda x: reference(TF.layer_norm(x, (4,), eps=1e-3)),
            lambda x: network(F.layer_norm(x, (4,), eps=1e-3 + 1e-7)),
            shape,
        )


def test_coordinates_near_the_middle_are_as_exact_as_those_from_minus_one():
    """A row of small values beside greater ones, with weights that are what is left of 1."""
    how = {"mode": "bicubic", "padding_mode": "reflection", "align_corners": True}
    meant(
        lambda x, y: TF.grid_sample(x, y.tanh(), **how),
        lambda x, y: F.grid_sample(x, y.tanh(), **how),
        (2, 4, 7, 9),
        (2, 5, 3, 2),
    )


def test_a_report_is_json_where_errors_are_infinite():
    def refuse(name):
        raise AssertionError(name)

    spec = td.network(inputs={"x": td.Input((2, 3))}, reference=torch.nn.ReLU)(lambda x: {"y": x / 0.0})
    report = td.check(spec, sizes="quick")
    facts = json.loads(json.dumps(report.to_json()), parse_constant=refuse)
    assert "inf" in [value for case in facts["cases"] for output in case["outputs"] for value in output.values()]
    assert not td.CheckReport.from_json(facts).passed


AROUND = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no grad": torch.no_grad,
    "inference": torch.inference_mode,
    "another device": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_what_surrounds_a_check_decides_nothing(around):
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8))
    with around():
        spec = td.from_module(module, {"input": td.Input(("N", 8))}, dims={"N": (1, 3)})
        td.check(spec).raise_for_mismatch()


class Shifted(torch.nn.Module):
    """A module with a buffer, which makes tensors of its own."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x):
        return {"y": self.fc(x) + self.shift + torch.arange(3)}


def shifted(reference):
    @td.network(inputs={"x": td.Input((2, 4))}, weights=Shifted().state_dict(), reference=reference)
    def net(x, w):
        return {"y": F.linear(x, w.fc.weight, w.fc.bias) + w.shift + F.arange(3)}

    return net


def test_modules_and_weights_of_inference_mode_are_checked():
    with torch.inference_mode():
        module = Shifted()
        td.check(shifted(module)).raise_for_mismatch()
    td.check(shifted(module)).raise_for_mismatch()
    td.check(td.from_module(module, {"x": td.Input((2, 4))})).raise_for_mismatch()


def test_a_module_without_values_is_checked_with_those_that_are_given():
    with torch.device("meta"):
        module = Shifted()
    td.check(shifted(module)).raise_for_mismatch()


@pytest.mark.parametrize("call", [td.check, td.build, td.find_precision, lambda net: net.define()])
def test_tensors_without_values_around_a_call_are_refused(call):
    from torch._subclasses.fake_tensor import FakeTensorMode

    net = shifted(Shifted)
    with FakeTensorMode(), pytest.raises(td.UsageError, match="computes values, and within torch's FakeTensorMode"):
        call(net)
