"""What a module asks of sizes: proven for every size, or refused with the first that breaks it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.porting import ported
from trtdsl.porting.tracing.guards import GUARDS, Record
from trtdsl.porting.tracing.proof.symbols import Symbols
from trtdsl.porting.tracing.traced_sizes import SizeOp, TracedInt, traced

pytestmark = pytest.mark.long

F = torch.nn.functional
FILE = Path(__file__).name


class Branch(torch.nn.Module):
    """Two branches by a condition of h, which is written in it."""

    def __init__(self, condition):
        super().__init__()
        self.condition = eval(f"lambda h, module: {condition}", globals())

    def forward(self, x):
        if self.condition(x.shape[1], self):
            return x * 2
        return x * 3 + 1


def equal_everywhere(module, low, opt, high):
    """The ported module at each size from low to high; UnsupportedError where it cannot be ported."""
    spec = td.from_module(module, {"x": "1,H"}, dims={"H": (low, opt, high)})
    network = spec.define()
    network.check_sizes()
    run = Interpreter(network)
    for size in range(low, high + 1):
        x = torch.arange(1.0, size + 1)[None]
        (got,) = run({"x": x}).values()
        assert torch.equal(got, module(x)), size


NUMBERS = st.integers(1, 9)
TERMS = st.one_of(
    st.just("h"),
    NUMBERS.map(lambda n: f"h // {n}"),
    NUMBERS.map(lambda n: f"h % {n}"),
    NUMBERS.map(lambda n: f"(h + {n}) // {n}"),
    NUMBERS.map(lambda n: f"min(h, {3 * n})"),
    NUMBERS.map(lambda n: f"max(h - {n}, {n})"),
    NUMBERS.map(lambda n: f"int(h / {n})"),
    NUMBERS.map(lambda n: f"round(h / {n})"),
    NUMBERS.map(lambda n: f"math.ceil(h / {n})"),
    NUMBERS.map(lambda n: f"math.floor(h * 0.{n})"),
    NUMBERS.map(lambda n: f"h / {n}"),
    st.just("math.sqrt(h)"),
    st.just("math.gcd(h, 12)"),
    st.just("-(h // 2)"),
)
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
CONDITIONS = st.one_of(
    st.tuples(TERMS, SIGNS, st.integers(0, 20).map(str)).map(" ".join),
    st.tuples(TERMS, SIGNS, TERMS).map(" ".join),
    TERMS,
    TERMS.map("not {}".format),
    st.tuples(TERMS, SIGNS, NUMBERS.map(str), TERMS).map(lambda parts: "{} {} {} or {} > 3".format(*parts)),
)


@settings(max_examples=20, deadline=None)
@given(CONDITIONS, st.sampled_from([(4, 8, 16), (10, 11, 12), (7, 7, 7), (1, 12, 20)]))
@example("h % 4 == 0", (8, 8, 11))  # the branch is the same at both ends of a trace's sizes, and not between
@example("h % 3", (3, 6, 9))
@example("h / 2 > 3.5", (7, 8, 9))
def test_a_branch_is_the_same_at_every_size_or_refused(condition, ends):
    module = Branch(condition)
    try:
        equal_everywhere(module, *ends)
        refused = None
    except td.UnsupportedError as error:
        refused = error
    if refused is not None:
        parts = [part for part in re.split(r" [!=<>]=? | or |not ", condition) if part]
        values = {
            tuple(eval(part, {"h": size, "math": math}) for part in parts) for size in range(ends[0], ends[2] + 1)
        }
        assert len(values) > 1, refused  # something in the condition does depend on the size
        assert f"{FILE}:" in str(refused) or "<string>" in str(refused)


class Kept(torch.nn.Module):
    """A size that is calculated with Python's functions."""

    def __init__(self, calculate):
        super().__init__()
        self.calculate = calculate

    def forward(self, x):
        return x[:, : self.calculate(x.shape[1])] * 2


@pytest.mark.parametrize(
    "calculate",
    [
        lambda h: int(h / 2),
        lambda h: int(h * 0.5),
        lambda h: int(h * 0.25 + 0.5),
        lambda h: round(h / 2),
        lambda h: round(h * 0.75),
        lambda h: round(h / 3),
        lambda h: math.ceil(h / 3),
        lambda h: math.floor(h * 1.5) - 4,
        lambda h: math.trunc(h / 5),
        lambda h: int(round(h * 0.5, 0)) + 1,
        lambda h: min(h // 2, 5),
        lambda h: max(3, h // 2, h - 6),
        lambda h: min([h, 9]),
        lambda h: int(torch.sym_max(h // 2, 4)),
        lambda h: abs(4 - h) + 1 if h > 0 else 1,
        lambda h: int(h),
        lambda h: h // 2 * 2,
        lambda h: divmod(h, 2)[0],
        lambda h: 5 if h > 3 else 4,
        lambda h: 3 if h % 8 == 0 else 4,
        lambda h: 3 if h <= 20 else 4,
        lambda h: (h >> 1) + (1 << 1),
        lambda h: int(float(h) / 2),
        lambda h: int(h * 1.16),  # of h elements all
    ],
)
def test_calculated_sizes_stay_sizes(calculate):
    equal_everywhere(Kept(calculate), 5, 8, 40)


class Square(torch.nn.Module):
    """An image of which the number of pixels alone is known, as tokens of a transformer are made images again."""

    def __init__(self, calculate):
        super().__init__()
        self.calculate = calculate

    def forward(self, x):
        pixels = torch.cat([x[:, :, 0, :1], x.flatten(2)], 2)[:, :, 1:]
        side = self.calculate(pixels.shape[2])
        return pixels.reshape(x.shape[0], 3, side, side).mT


@pytest.mark.parametrize(
    "calculate", [lambda n: int(n**0.5), lambda n: int(math.sqrt(n)), lambda n: math.isqrt(n), lambda n: round(n**0.5)]
)
def test_the_side_of_a_square_stays_a_size(calculate):
    spec = td.from_module(Square(calculate), ["N,3,H,H"], dims={"N": (1, 2, 3), "H": (2, 5, 9)})
    td.check(spec).raise_for_mismatch()


def test_a_root_that_is_no_size_is_refused():
    with pytest.raises(td.UnsupportedError, match="needs 20 to be the square of a whole number"):
        td.from_module(Square(lambda n: int(n**0.5)), ["2,3,H,W"], dims={"H": (4, 5, 5), "W": (4, 5, 5)})


@pytest.mark.parametrize(
    ("calculate", "words"),
    [
        (lambda h: int(h**0.5), "where H = 9: the one that is ported needs what int() gives to be 2, and it is 3"),
        (lambda h: 3 + (h & 1), "where H = 5: .* needs what & gives to be 0, and it is 1"),
        (lambda h: math.gcd(h, 6), "where H = 5: .* needs what math.gcd() gives to be 2, and it is 1"),
        (lambda h: len(list(range(h))), "where H = 9: .* needs H == 8"),
    ],
)
def test_a_number_that_changes_with_the_sizes_is_refused(calculate, words):
    pattern = re.escape(words).replace(r"\.\*", ".*")
    with pytest.raises(td.UnsupportedError, match=rf"{FILE}:\d+: .*{pattern}"):
        equal_everywhere(Kept(calculate), 8 if "int()" in words else 5, 8, 40)


class Later(torch.nn.Module):
    """What is asked of a tensor that was calculated."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 2, 3, 2, 1)

    def forward(self, x):
        x = self.conv(x.unsqueeze(1))
        if x.shape[2] % 2 == 1:
            x = x[:, :, :-1]
        return x.reshape(x.shape[0], 2, 2, -1)


def test_sizes_of_calculated_tensors_are_followed():
    equal_everywhere(Later(), 63, 64, 96)
    text = td.port(Later, {"x": "1,H"}, dims={"H": (63, 64, 64)})
    assert 'td.require(((H + 1) // 2) % 2 != 1, "test_prove_guards.py:' in text
    assert "td.require" not in td.port(Later, {"x": "1,4*H"}, dims={"H": (16, 16, 32)})


def test_a_ported_file_keeps_its_conditions(tmp_path):
    """Another range than that of the port is refused where the module would take another branch."""
    (tmp_path / "ported.py").write_text(
        "import torch\n\n\nclass Big(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x * 2 if x.shape[1] > 100 else x * 3\n"
    )
    file = tmp_path / "big.py"
    file.write_text(td.port(f"{tmp_path}/ported.py:Big", {"x": "1,H"}, dims={"H": (101, 128, 256)}, file=file))
    assert 'td.require(H > 100, "ported.py:6")' in file.read_text()
    spec = td.load_spec(str(file))
    assert td.check(spec).passed
    assert spec.define().requirements() == []
    (required,) = spec.define(dims={"H": (50, 128, 256)}).requirements()
    assert required["condition"] == "H > 100"
    report = td.check(spec, dims={"H": (50, 128, 256)})
    assert report.passed
    assert min(case.dims["H"] for case in report.cases) == 101
    with pytest.raises(td.ShapeError, match=r"holds for no size: ported.py:6"):
        spec.define(dims={"H": (50, 60, 100)})


class Tenths(torch.nn.Module):
    """Asks for a tenth, which whole numbers do not express, before and after what its least size says."""

    def forward(self, x):
        h = x.shape[1]
        if h > 3 and math.log(h) > 2 and h // 2 >= x.shape[0]:
            x = x * 2
        return x + 1 if h >= 9 else x


def test_a_range_that_is_required_says_all_that_holds_in_it():
    """Of H nothing else, since it must stay within its range; what H and N do together is asked."""
    text = td.port(Tenths, {"x": "N,H"}, dims={"N": (1, 2, 3), "H": (10, 16, 20)})
    required = re.findall(r"td.require\((.*), ", text)
    assert required == ["H >= 10", "H <= 20", "H // 2 >= N"]


class Detours(torch.nn.Module):
    """Branches that come to the same, and one that comes to something else beyond 30."""

    def forward(self, x):
        h = x.shape[1]
        if h % 3 == 1:
            _ = x * 5
        if h % 2:
            if h > 30:
                return x * 7
            return x * 2
        return x * 2


def test_branches_that_give_the_same_program_are_accepted():
    equal_everywhere(Detours(), 5, 8, 30)
    text = td.port(Detours, {"x": "1,H"}, dims={"H": (5, 8, 30)})
    assert 'td.require(H >= 5, "test_prove_guards.py:' in text
    assert 'td.require(H <= 30, "test_prove_guards.py:' in text
    with pytest.raises(td.UnsupportedError, match="where H = 31: the one that is ported needs H <= 30"):
        equal_everywhere(Detours(), 5, 8, 40)  # with branches in each other, which TensorRT-RTX 1.7 does not build


class PaddedWhereNeeded(torch.nn.Module):
    """Pads to a multiple of 4 where the size is none, and takes the pad away again."""

    def forward(self, x):
        size = x.shape[1]
        more = -size % 4
        if more:
            x = F.pad(x, (0, more), value=2.0)
        x = x.reshape(1, -1, 4).cumsum(2).flatten(1)
        return x[:, :size] if more else x


class PaddedElse(PaddedWhereNeeded):
    """As above, and computes something else where no pad is needed."""

    def forward(self, x):
        return super().forward(x) if x.shape[1] % 4 else x * 2


@pytest.mark.parametrize("sizes", [(4, 8, 16), (5, 6, 7), (4, 7, 13)])
def test_a_pad_where_one_is_needed_is_arithmetic(sizes):
    equal_everywhere(PaddedWhereNeeded(), *sizes)
    assert "td.cond" not in td.port(PaddedWhereNeeded, {"x": "1,H"}, dims={"H": sizes})
    equal_everywhere(PaddedElse(), *sizes)


class Spectrum(torch.nn.Module):
    def forward(self, x):
        x = torch.fft.hfft(x)
        if x.shape[1] > 5:
            x = x * 2
        return x


def test_conditions_after_a_call_without_a_counterpart_are_remarked():
    found = ported(Spectrum, {"x": "1,H"}, dims={"H": (8, 9, 20)})
    if found.missing:
        (remark,) = [line for line in found.notes if "is not proven for all of them" in line]
        assert f"{FILE}:" in remark


def test_comparisons_inside_torch_and_outside_a_trace_are_not_recorded():
    h = traced(8, SizeOp("+", (4, 4), 8))
    assert isinstance(h, TracedInt)
    assert GUARDS.get() is None
    assert h == 8
    assert h > 3
    record = Record()
    token = GUARDS.set(record)
    try:
        F.pad(torch.zeros(1, 8), (0, h))
        assert record.guards == []
        assert h % 2 == 0
        assert len(record.guards) == 1
        assert {h: 1}[8] == 1
        assert record.guards[1].how == "a dict, a set or a cache that it is looked up in"
    finally:
        GUARDS.reset(token)
    assert min(3, 4) == 3
    assert math.sqrt(4.0) == 2.0
    assert "int" not in globals()


class Repeated(torch.nn.Module):
    """Repeats for each sample, where there are several: as transformers and diffusers do with positions."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        positions = torch.arange(4.0)[None]
        if positions.shape[0] != x.shape[0]:
            positions = positions.repeat(x.shape[0], 1) * self.factor
        return torch.cat([x, positions], 1)


@pytest.mark.parametrize("rows", [(1, 2, 3), (1, 1, 3), (2, 2, 6)])
def test_repeating_once_is_no_other_path(rows):
    td.check(td.from_module(Repeated(1), ["N,4"], dims={"N": rows})).raise_for_mismatch()


@pytest.mark.parametrize("rows", [(1, 2, 3), (1, 1, 3)])
def test_another_path_beside_repeating_is_one(rows):
    td.check(td.from_module(Repeated(2), ["N,4"], dims={"N": rows})).raise_for_mismatch()


class RepeatedInParts(torch.nn.Module):
    """Repeats a number of times that is 1 at some sizes of the range that take the other path, and 2 at others."""

    def forward(self, x):
        return x.repeat(x.shape[0] // 3, 1) if x.shape[0] > 2 else x


def test_repeating_once_must_hold_at_every_size():
    assert td.check(td.from_module(RepeatedInParts(), ["N,4"], dims={"N": (1, 2, 3)})).passed
    td.check(td.from_module(RepeatedInParts(), ["N,4"], dims={"N": (1, 2, 6)})).raise_for_mismatch()


def test_ways_are_traced_once_whichever_of_them_becomes_the_file():
    runs = []

    class Ways(torch.nn.Module):
        def forward(self, x):
            runs.append(type(x.shape[1]))
            return torch.relu(x) if x.shape[1] > 6 else torch.tanh(x) * 2

    text = td.port(Ways(), {"x": "1,H"}, dims={"H": (2, 8, 12)})
    assert "td.cond(" in text  # the usual way alone gives something else
    assert sum(kind is not int for kind in runs) < 35  # 44 where each attempt traced anew


def test_fractions_are_asked_at_all_sizes_at_once(monkeypatch):
    asked = []
    monkeypatch.setattr(Symbols, "size_of", lambda self, size, of=Symbols.size_of: asked.append(size) or of(self, size))
    shape, dims = "1,2,H,W", {"H": (4, 60, 120), "W": (4, 60, 120)}
    td.from_module(Fractions(), {"x": shape}, dims=dims)
    assert len(asked) < 200  # 13,689 sizes


class Fractions(torch.nn.Module):
    def forward(self, x):
        h, w = x.shape[2:]
        return x * 2 if h / w < 100 and int(h * w / 3) > 4 else x * 3


def test_what_fails_at_a_size_does_not_hold_there():
    class Divided(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] < 5 or 12 / (x.shape[0] // 2 - 3) > 0.5 else x * 3

    with pytest.raises(td.UnsupportedError, match="takes another path where N = 5"):
        td.from_module(Divided(), {"x": "N,2"}, dims={"N": (5, 9, 12)})


class Packed(torch.nn.Module):
    """Looks for sequences that are packed into one, as transformers' decoders do, by positions that it has made."""

    traces = 0

    def forward(self, x):
        Packed.traces += 1
        positions = torch.arange(x.shape[1])[None].expand(x.shape[0], -1)
        packed = (torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1) != 1).cumsum(-1)
        return x * 2 if (packed[:, -1] == 0).all() else x * packed[..., None]


def test_the_truth_of_a_tensor_of_sizes_is_asked_at_every_size():
    text = td.port(Packed(), {"x": "N,T,3"}, dims={"N": (1, 2, 4), "T": (2, 8, 200)})
    assert text.endswith('return {"output": x * 2}\n') and Packed.traces < 60


def test_another_truth_is_another_way():
    class Long(torch.nn.Module):
        def forward(self, x):
            return x * 2 if (torch.arange(x.shape[1]) * 3 < 60).all() else x * 3

    equal_everywhere(Long(), 2, 8, 20)
    text = td.port(Long(), {"x": "1,T"}, dims={"T": (2, 8, 40)})
    assert "min=2, opt=8, max=20)" in text and "min=21, opt=21, max=40)" in text


def test_the_truth_of_whole_numbers_in_fractions_is_asked_at_every_size():
    class Masked(torch.nn.Module):
        """As Longformer looks for tokens that attend to all others in a mask that it has made itself."""

        def forward(self, x):
            mask = torch.ones(x.shape[:2])
            bias = (1.0 - mask) * torch.finfo(torch.float32).min
            everywhere = (bias > 0).flatten().any().item()
            many = (mask.new_full((2,), 3.0) * x.shape[1] >= 60.0).any().item()
            return x * 5 if everywhere else x * 2 if many else x * 3

    equal_everywhere(Masked(), 2, 8, 19)
    text = td.port(Masked(), {"x": "N,T,2"}, dims={"N": (1, 2, 9), "T": (2, 8, 40)})
    assert "min=2, opt=8, max=19)" in text and "min=20, opt=20, max=40)" in text and "* 5" not in text


KEYED = """
import torch


class Square(torch.nn.Module):
    def forward(self, x):
        known = {f"{size}x{size}": 2.0 for size in (9,)}
        return x * known.get(f"{x.shape[1]}x{x.shape[2]}", 1.0)


class Pair(torch.nn.Module):
    def forward(self, x):
        return x * {(9, 21): 2.0}.get((x.shape[1], x.shape[2]), 1.0)
"""


@pytest.mark.parametrize(("module", "line"), [("Square", 8), ("Pair", 13)])
def test_a_pair_of_sizes_that_is_a_key_is_not_passed_over(tmp_path, module, line):
    """Where all combinations are too many to be traced, the port is refused with the line."""
    (tmp_path / "keyed.py").write_text(KEYED)
    given = {"inputs": {"x": "N,H,W"}, "dims": {"N": (1, 2, 3), "H": (4, 12, 30), "W": (4, 10, 30)}}
    with pytest.raises(td.UnsupportedError, match=rf"py:{line}: a size becomes a plain number"):
        ported(f"{tmp_path}/keyed.py:{module}", **given)
