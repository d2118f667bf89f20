"""Where the record of a size is lost, a port is right at every size of the range, or refused with the line."""

# ruff: noqa: F401
from __future__ import annotations

import bisect
import collections
import copy
import dataclasses
import fractions
import functools
import itertools
import json
import math
import operator
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter

pytestmark = pytest.mark.long

FILE = Path(__file__).name
LOW, USUAL, HIGH = 5, 12, 24
KNOWN = {12: 2.0, 19: 3.0}
ROWS = [float(number % 5) for number in range(64)]


@functools.lru_cache
def cached(size):
    return 2.0 if size % 7 == 5 else 3.0


@functools.cache
def cached_table(shape):
    return {(1, 12): 1.0, (1, 17): 4.0}.get(shape, 2.0)


@dataclasses.dataclass(frozen=True)
class Key:
    size: int


class Sized(nn.Module):
    """What an expression gives, of h, the size, decides what the module computes."""

    w12 = 5.0

    def __init__(self, text):
        super().__init__()
        self.register_buffer("table", torch.arange(64.0) % 5)
        self.register_buffer("flags", torch.arange(64) % 3 == 0)
        self.by_name = nn.ModuleDict({str(size): nn.Identity() if size % 3 else nn.ReLU() for size in range(1, 65)})
        self.layers = nn.ModuleList(nn.Identity() if size % 3 else nn.Tanh() for size in range(64))
        self.text = text
        self.seen = {12: 1.5, 13: 2.5}
        self.compute = eval(f"lambda self, x, h: {text}", globals())

    def forward(self, x):
        found = self.compute(self, x, x.shape[1])
        if isinstance(found, torch.Tensor):
            return x + found
        if isinstance(found, (bool, str, type(None), np.bool_)):
            return x * 2 if found else x * 3 + 1
        return x * float(found)


FORMS = """
h in {12, 19}
h in frozenset((12, 19))
h in {12: 1, 19: 2}
h in [12, 19]
h in (12, 19)
len([1.0] * h) % 4
sum([0.5] * h) % 4
(([1.0] * h + [2.0]) * 12)[12]
([2.0] + [1.0] * h)[-1] + len([0, *[1] * h]) % 3
[h] * h == [12] * 12
torch.stack([x[:, 0]] * h + [x[:, 1]])[12 % h]
torch.tensor([[1.0] * h, [2.0] * h])[0]
KNOWN.get(h, 1.0)
{12: 2.0}.get(h, 1.0)
{(1, 12): 2.0}.get(tuple(x.shape), 1.0)
{torch.Size((1, 12)): 2.0}.get(x.shape, 1.0)
KNOWN.setdefault(h, 1.0) if h in KNOWN else 1.0
self.seen.get(h, 9.0)
hash(h) == 12
hash((h, 1)) == hash((12, 1))
len({h, 12}) == 1
len({h, 12, 19}) == 2
Key(h) in {Key(12)}
Key(h) == Key(12)
collections.Counter([h, 12])[12] == 2
collections.defaultdict(float, {12: 3.0})[h]
cached(h)
cached(h + 1)
cached_table(tuple(x.shape))
functools.lru_cache(lambda size: float(size % 4))(h)
(h / 4).is_integer()
(h * 0.25).is_integer()
h.bit_length()
bin(h).count("1")
h.bit_count() if hasattr(h, "bit_count") else 2.0
h.real == 12
h.real % 4 == 0
h.imag + h.numerator % 3
h.numerator % 4 == 0
h.denominator * 2.0
h.conjugate() % 4 == 0
h.as_integer_ratio()[0] % 4 == 0
(h / 8).as_integer_ratio()[1] == 2
(h / 2).real > 6.2
(h / 8).hex() == (1.5).hex()
h.to_bytes(2, "big") == b"\\0\\x0c"
~h == -13
~h & 3
~h % 4 == 3
+h == 12
+h % 5 == 2
h & 1
h & 12
12 ^ h
h | 8
h >> 2 == 3
h >> 1
1 << (h % 4)
h << 1
-h % 8
divmod(h, 5)[1]
divmod(29, h)[1]
pow(h, 2)
pow(h, 2, 7)
pow(2, h % 3)
abs(h - 12)
h ** 2 % 7
h.__index__() == 12
operator.index(h) == 12
operator.index(h) % 5
operator.mod(h, 5)
operator.eq(h, 12)
operator.itemgetter(h)(ROWS)
int(str(h)[-1])
str(h) == "12"
str(h) in ("12", "19")
str(h).endswith("2")
repr(h) == "12"
f"{h}" == "12"
f"{h:03d}" == "012"
f"{x.shape[1]}x{x.shape[0]}" == "12x1"
"{}".format(h) == "12"
"%s" % h == "12"
"%d" % h == "12"
format(h, "b").count("1")
str(x.shape) == "torch.Size([1, 12])"
repr(tuple(x.shape)) == "(1, 12)"
json.dumps(h) == "12"
len("x" * h) % 5
len([0] * h) % 5
len(h * (0,)) == 12
len(range(h)) == 12
sum(1 for _ in range(h)) == 12
sum(range(h)) % 7
list(range(30))[h] == 12
ROWS[h]
ROWS[h - 1]
tuple(ROWS)[h]
ROWS[:h][-1]
ROWS[h:][0]
len(ROWS[:h]) % 5
range(0, 60, 2)[h]
"abcde"[h % 5] == "c"
bytes(h)[-1] == 0 and len(bytes(h)) == 12
math.gcd(h, 12)
math.lcm(h, 4)
math.fmod(h, 5)
math.fmod(h / 2, 5)
math.comb(h, 2) % 5
math.factorial(h % 6)
math.modf(h / 4)[0]
math.frexp(h)[0]
math.ldexp(1.0, h % 4)
math.log2(h).is_integer()
2 ** int(math.log2(h))
math.log(h)
math.isqrt(h)
math.isclose(h, 12)
math.dist((h,), (12,)) == 0
math.prod(x.shape) % 5
math.fsum([h, 1]) == 13
math.sin(h)
math.cos(h / 2)
math.exp(-h / 8)
math.degrees(h) > 688
math.remainder(h, 5)
math.trunc(h / 5)
math.ceil(math.log2(h))
fractions.Fraction(h, 8).denominator == 2
np.int64(h)
np.int64(h) % 5
np.int64(h) == 12
np.array(h) % 5 == 2
int(np.array([h, 1]).sum()) % 5
np.prod(x.shape) % 5
np.sqrt(h)
np.log2(h)
np.ceil(h / 5)
float(np.ceil(h / 5))
np.floor(h / 5) == 2
np.float32(h)
np.asarray(x.shape)[1] == 12
np.zeros(h).size % 5
np.arange(h)[-1]
np.linspace(0, 1, h)[1]
np.isclose(h, 12)
np.max([h, 3])
np.minimum(h, 12)
np.round(h / 5)
np.mod(h, 5)
h % np.int64(5)
h * np.float64(0.5)
torch.tensor(h) % 4 == 0
bool(torch.tensor(h) == 12)
bool(torch.tensor(h) % 4 == 0)
torch.tensor(h).item() % 5
int(torch.tensor(h)) == 12
torch.tensor(h / 2).item()
torch.tensor([h, 1]).sum().item() % 5
torch.tensor(x.shape).prod().item() % 5
torch.as_tensor(h).log2().item()
torch.arange(h)[-1].item()
torch.arange(h).sum().item() % 7
torch.ones(h).sum().item()
torch.zeros(h).shape[0] % 5
torch.linspace(0, 1, h)[1].item()
torch.tensor(h).tolist() == 12
torch.tensor([h]).numpy()[0] == 12
torch.equal(torch.tensor(h), torch.tensor(12))
self.table[h].item()
self.table[h - 1].item()
self.table[:h].sum().item() % 5
bool(self.flags[h])
self.flags[:h].sum().item() % 4
self.table[h]
self.by_name[str(h)](x)
self.by_name[f"{h}"](x)
self.layers[h](x)
self.layers[h // 2](x)
len(self.layers[:h])
getattr(self, f"w{h}", 1.0)
hasattr(self, f"w{h}")
getattr(self, "w" + str(h), 1.0)
self.get_parameter(f"p{h}") if h < 0 else 1.0
x.stride(0) == 12
x.stride() == (12, 1)
x.stride(-2) % 5
x.nbytes
x.nbytes == 48
x.nbytes // 4 == 12
x.numel() == 12
x.nelement() % 5
x.size(1) == 12
x.size()[1] == 12
x.size().numel() == 12
len(x[0]) == 12
x[0].__len__() % 5
list(x.size()) == [1, 12]
x.shape == (1, 12)
x.t().stride(1) == 12
x[:, 1:].stride(0) == 12
x[:, h // 2:].storage_offset() == 6
x.untyped_storage().nbytes() == 48
x.transpose(0, 1).contiguous().stride(0)
copy.copy(h) == 12
copy.deepcopy(h) % 5
copy.deepcopy({"size": h})["size"] == 12
next(itertools.islice(itertools.count(), h, None)) == 12
len(list(itertools.repeat(0, h))) == 12
sum(itertools.islice(ROWS, h))
bisect.bisect([6, 12, 18], h)
bisect.bisect_left([6, 12, 18], h) == 1
sorted([h, 12, 19]).index(h)
[12, 19].count(h)
max([3, h], key=lambda size: size % 5) == 12
min(h, 12) == 12
sum([h, h]) == 24
sum([h / 2, 1.0]) == 7.0
statistics_mean([h, 12]) == 12
round(h / 5, 1)
round(h * 0.3)
float(h) == 12.0
complex(h).real == 12
float(str(h))
int(f"{h}") % 5
int(h / 5) + 0.5
int.__mod__(h, 5)
int.__eq__(h, 12)
bool(h - 12)
not h % 5
h == 12 or h == 19
10 < h < 14
any(h == size for size in (12, 19))
all(h % part for part in (5, 7))
(lambda *sizes: sizes[-1])(*x.shape) % 5
dict(zip("ab", x.shape))["b"] % 5
{**{"h": h}}["h"] in {12}
h.__hash__() == 12
h.__format__("") == "12"
h.__float__() == 12.0
h.__int__() == 12
(h, 1) < (12, 2)
chr(h) == chr(12)
hex(h) == "0xc"
""".strip().splitlines()


def statistics_mean(numbers):
    return sum(numbers) / len(numbers)


def example(size):
    return torch.linspace(-1.0, 2.0, size)[None]


def adverse(results):
    """A range with a size where the module computes otherwise than at all four sizes that a port traces anyway."""
    for low, high in itertools.combinations(range(LOW, HIGH + 1), 2):
        for usual in range(low, high + 1):
            same = {results[size] for size in (low, low + 1, usual, high)}
            if len(same) == 1 and any(results[size] not in same for size in range(low, high)):
                return low, usual, high
    return LOW, USUAL, HIGH


def computed(module, size):
    """What the module's expression gives, as a text."""
    x = example(size)
    return str(module.compute(module, x, size)) if "(x)" not in module.text else str(module(x) / x)


def outcome(text):
    """\"equal\", \"refused\", or the sizes at which the port is silently wrong."""
    module = Sized(text)
    low, usual, high = adverse({size: computed(module, size) for size in range(LOW, HIGH + 1)})
    for function in (cached, cached_table):
        function.cache_clear()
    try:
        spec = td.from_module(module, {"x": "1,H"}, dims={"H": (low, usual, high)})
        network = spec.define()
        network.check_sizes()
    except td.TrtdslError as error:
        return (
            "refused"
            if f"{FILE}:" in str(error) or "<string>:1:" in str(error)
            else f"refused without the line: {error}"
        )
    run = Interpreter(network)
    wrong = []
    for size in range(low, high + 1):
        (got,) = run({"x": example(size)}).values()
        if not torch.allclose(got, module(example(size)), rtol=1e-5, atol=1e-6):
            wrong.append(size)
    return f"wrong at {wrong} of {low, usual, high}" if wrong else "equal"


EVERY = 12  # of the forms is tried in every run of the tests, the others where heavy ones are asked for


@pytest.mark.parametrize(
    "text",
    [text if not place % EVERY else pytest.param(text, marks=pytest.mark.heavy) for place, text in enumerate(FORMS)],
)
def test_no_size_is_lost_in_silence(text):
    assert outcome(text) in ("equal", "refused")


class Library(nn.Module):
    def forward(self, x):
        return x * cached_table(tuple(x.shape)) + cached(x.shape[1]) * 0


def test_a_port_leaves_nothing_in_a_cache():
    for function in (cached, cached_table):
        function.cache_clear()
    for sizes in ((6, 8, 10), (7, 9, 10), (6, 8, 10)):
        td.check(td.from_module(Library(), {"x": "2,H"}, dims={"H": sizes})).raise_for_mismatch()
    traced = [key for function in (cached, cached_table) for key in [function.cache_info().currsize]]
    td.from_module(Library(), {"x": "2,H"}, dims={"H": (6, 8, 10)})
    assert traced == [function.cache_info().currsize for function in (cached, cached_table)]


class Lazy(ModuleType):
    """A module that imports another one when it is asked for anything, and that one is not there."""

    def __getattr__(self, name):
        raise ImportError(f"no module for {name}")


def test_a_port_wakes_no_module_that_is_imported_when_it_is_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "lazy_of_a_library", Lazy("lazy_of_a_library"))
    monkeypatch.setitem(globals(), "optional", Lazy("optional"))  # beside the module's own names
    td.check(td.from_module(Library(), {"x": "2,H"}, dims={"H": (6, 8, 10)})).raise_for_mismatch()


def test_a_number_that_an_object_of_a_library_says_it_is_is_a_size(tmp_path, monkeypatch):
    """Python copies what ``__int__`` and ``__float__`` give, and warns of it alone."""
    (tmp_path / "shapes_of_a_library.py").write_text(
        "class Shape:\n"
        "    def __init__(self, size): self.size = size\n"
        "    def __index__(self): return self.size\n"
        "    def __float__(self): return self.size / 2\n"
        "    __int__ = __index__\n"
        "def whole(x): return int(Shape(x.shape[1]))\n"
        "def half(x): return float(Shape(x.shape[1]))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import shapes_of_a_library as library

    class Asking(nn.Module):
        def forward(self, x):
            return torch.ones(library.whole(x)) * library.half(x) + x

    module = Asking()
    run = Interpreter(td.from_module(module, {"x": "2,H"}, dims={"H": (LOW, USUAL, HIGH)}).define())
    for size in (LOW, USUAL, HIGH):
        x = torch.rand(2, size)
        torch.testing.assert_close(*run({"x": x}).values(), module(x))


GRIDS = {"kept": torch.zeros(1)}


def grid_of(x, key):
    if key not in GRIDS:
        GRIDS[key] = torch.linspace(-1, 1, x.shape[1])
    return GRIDS[key]


@pytest.mark.parametrize("key", [lambda x: str(x.shape), lambda x: x.shape[1]], ids=["text", "size"])
def test_what_a_dict_of_a_module_keeps_of_one_trace_is_in_no_other(key):
    class Warping(nn.Module):
        def forward(self, x):
            return x + grid_of(x, key(x)) * grid_of(x * 2, key(x * 2))

    module = Warping()
    network = td.from_module(module, {"x": "2,H"}, dims={"H": (LOW, USUAL, HIGH)}).define()
    assert [*GRIDS] == ["kept"]
    run = Interpreter(network)
    try:
        for size in (LOW, USUAL, HIGH):
            x = torch.rand(2, size)
            torch.testing.assert_close(*run({"x": x}).values(), module(x))
    finally:
        for size in [*GRIDS][1:]:
            del GRIDS[size]
