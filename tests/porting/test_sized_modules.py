"""Modules that go different ways at other sizes: one network, equal to the module at every size of its range."""

import itertools

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.porting
from tests.porting import sized_modules
from tests.porting.sized_modules import CASES
from trtdsl.interpreter.interpret import Interpreter

pytestmark = pytest.mark.long

FEW = [
    "EvenSides",
    "OddSides",
    "KeptMask",
    "OldState",
    "Multiples",
    "PadIf",
    "TowardsZero",
    "Trimmed",
    "Sinusoids",
    "Reflecting",
    "TwoWays",
    "Clipped",
    "Several",
    "GhostNorm",
    "Joined",
    "JoinedBefore",
    "KeptFromBefore",
]
REFUSED = ["Wide", "Sizes", "Doubling"]  # TensorRT-RTX 1.7 builds no engine of these


def spec_of(name):
    shape, dims = CASES[name]
    torch.manual_seed(0)
    module = getattr(sized_modules, name)().eval()
    return module, td.from_module(module, {"x": shape}, dims=dims)


PORTED = [name for name in CASES if name not in REFUSED]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FEW else pytest.mark.heavy) for name in PORTED]
)
def test_it_is_equal_at_every_size(name):
    shape, dims = CASES[name]
    module, spec = spec_of(name)
    network = spec.define()
    network.check_sizes()
    run = Interpreter(network)
    for sizes in itertools.product(*(range(low, high + 1) for low, _, high in dims.values())):
        env = dict(zip(dims, sizes))
        x = torch.randn([eval(part, env.copy()) for part in shape.split(",")])
        with torch.no_grad():
            expected = module(x)
        expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
        for own, its in zip(run({"x": x}).values(), expected, strict=True):
            torch.testing.assert_close(own, its, msg=lambda text, env=env: f"{env}: {text}")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.heavy] * (name != "Wide")) for name in REFUSED])
def test_what_cannot_be_built_is_refused_by_its_line(name):
    with pytest.raises(td.UnsupportedError, match=r"sized_modules.py:\d+: the module takes another path where"):
        spec_of(name)


@pytest.mark.heavy
@pytest.mark.parametrize("name", PORTED)
def test_a_check_passes_and_an_engine_is_built(name, tmp_path):
    _, spec = spec_of(name)
    td.check(spec).raise_for_mismatch()
    td.build(spec, tmp_path / "x.engine")


def test_a_branch_is_written_where_the_module_has_it():
    shape, dims = CASES["TwoWays"]
    text = td.port(f"{sized_modules.__file__}:TwoWays", {"x": shape}, dims=dims)
    assert text.count("td.cond(") == 1


@pytest.mark.parametrize("name", ["Short", "Reflecting"])
def test_what_short_inputs_are_padded_by_is_arithmetic(name):
    shape, dims = CASES[name]
    text = td.port(f"{sized_modules.__file__}:{name}", {"x": shape}, dims=dims)
    assert "td.size_max(" in text and "td.cond(" not in text


def test_what_each_odd_side_is_padded_by_is_arithmetic():
    shape, dims = CASES["EvenSides"]
    text = td.port(f"{sized_modules.__file__}:EvenSides", {"x": shape}, dims=dims)
    assert "(0, -width % 2)" in text and "(0, 0, 0, -height % 2)" in text and "td.cond(" not in text


def test_a_number_that_odd_sides_are_padded_by_is_the_difference_of_sizes():
    shape, dims = CASES["OddSides"]
    text = td.port(f"{sized_modules.__file__}:OddSides", {"x": shape}, dims=dims)
    assert "(0, width - width2, 0, height - height2)" in text and "td.cond(" not in text


def test_what_is_left_out_at_the_end_is_counted_from_the_beginning():
    shape, dims = CASES["Trimmed"]
    ported = trtdsl.porting.ported(f"{sized_modules.__file__}:Trimmed", {"x": shape}, dims=dims, check=True)
    assert "y[..., more // 2 : " in ported.text and "td.cond(" not in ported.text
    assert ported.verdict is not None and ported.verdict.passed


def test_one_way_that_gives_what_the_others_do_serves_for_all():
    shape, dims = CASES["KeptMask"]
    ported = trtdsl.porting.ported(f"{sized_modules.__file__}:KeptMask", {"x": shape}, dims=dims)
    assert "td.cond(" not in ported.text and "w.mask" not in ported.text
    assert any("gives the same there: checked at N = 2, H = 6, W = 6" in note for note in ported.notes), ported.notes


class RoundedMask(nn.Module):
    """What it keeps was decided by rounded numbers: 0.2 + 0.4 > 0.6."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", self.made(6, 6))

    def made(self, h, w):
        return torch.linspace(0, 1, h)[:, None] + torch.linspace(0, 1, w) > 0.6

    def forward(self, x):
        mask = self.mask if x.shape[2:] == (6, 6) else self.made(*x.shape[2:])
        return x.masked_fill(mask, 0.0)


def test_what_is_kept_is_taken_where_it_was_rounded_otherwise():
    spec = td.from_module(RoundedMask(), {"x": "1,1,H,W"}, dims={"H": (5, 7, 8), "W": (5, 6, 7)})
    report = td.check(spec, sizes=[{"H": 6, "W": 6}, {"H": 5, "W": 7}])  # as the port itself has judged it
    assert report.passed, list(report.problems())


def test_one_way_that_gives_something_else_does_not_serve():
    class Other(sized_modules.KeptMask):
        def __init__(self):
            super().__init__()
            self.mask *= 1.001

    module, x = Other().eval(), torch.rand(2, 6, 6, 6)
    spec = td.from_module(module, {"x": "N,6,H,W"}, dims={"N": (1, 2, 3), "H": (5, 7, 9), "W": (5, 6, 7)})
    with torch.no_grad():
        torch.testing.assert_close(Interpreter(spec.define())({"x": x})["output"], module(x))
