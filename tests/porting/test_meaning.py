"""Each pass of a port keeps what the module means, and nothing is dropped in silence."""

import linecache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import trtdsl as td
from tests.support.port_oracle import assert_every_pass_keeps_the_meaning


class Swapped(nn.Module):
    """Each round needs both values of the one before."""

    def forward(self, a, b):
        for _ in range(4):
            a, b = a + b, a - b
        return a, b


class Late(nn.Module):
    """What goes into a round is needed after it has its new value."""

    def forward(self, a, b):
        for _ in range(3):
            later = a * 2
            a = a + 1
            b = b + later
        return a, b


class Growing(nn.Module):
    """The sizes of what goes around change."""

    def forward(self, a):
        for _ in range(3):
            a = torch.cat([a, a / a.shape[1]], 1)
        return a


class Coupling(nn.Module):
    """A flow: halves that change places."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))

    def forward(self, a, b):
        for layer in self.layers:
            a, b = b, a + torch.tanh(layer(b))
        return torch.cat([a, b], -1)


class PartWritten(nn.Module):
    def forward(self, a):
        y = a.clone()
        y[:, 0:2] = a[:, :1] * 3
        return y


class Rows(nn.Module):
    """A mask of the first dimension alone."""

    def forward(self, a):
        y = a.clone()
        y[y.sum(1) > 0] = 5.0
        return y


class Overloads(nn.Module):
    """Operators that write in place and whose results nobody takes."""

    def forward(self, a):
        y = a - 1
        torch.ops.aten.relu_.default(y)
        torch.ops.aten.add_.Tensor(y, a, alpha=2)
        z = torch.empty(3, 4)
        torch.ops.aten.mul.out(y, y, out=z)
        return y, z


class Viewed(nn.Module):
    """Views that are written to: what they are views of changes with them."""

    def forward(self, a):
        y = a.clone()
        view = y[:, 1:3]
        view.mul_(2)
        inner = view[0]
        inner.add_(a[0, 0])
        return y * 3, view + 1, inner


class Copied(nn.Module):
    def forward(self, a):
        y, z = torch.zeros(3, 4), a * 2
        y.copy_(a[:1])
        z.zero_()
        t = a.clone()
        t.resize_(2, 3)
        return y + 1, z, t


A, B = torch.linspace(-2, 3, 12).reshape(3, 4), torch.linspace(3, -1, 12).reshape(3, 4)


@pytest.mark.parametrize("kind", [Swapped, Late, Growing, Coupling, PartWritten, Rows, Overloads, Viewed, Copied])
def test_every_pass_keeps_the_meaning(kind):
    inputs = {"a": A, "b": B} if kind in (Swapped, Late, Coupling) else {"a": A}
    assert_every_pass_keeps_the_meaning(kind(), inputs)
    trivial = ["output_1"] if kind is Copied else []  # zeros
    td.check(td.from_module(kind(), inputs), trivial=trivial).raise_for_mismatch()


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, a):
        self.seen += 1
        return a * self.seen, {"a": a}, a.shape[1]


def test_side_effects_of_forward_are_remarked(tmp_path):
    from trtdsl.porting import ported

    result = ported(f"{__file__}:Counts", {"a": "3,4"})
    remarks = "\n".join(result.remarks(None, None))
    assert "forward changes its seen at " in remarks and "test_meaning.py" in remarks
    assert "forward also gives a number (2), which is no output" in remarks
    assert 'leave_out=("2",)' in result.text and "return x, a" in result.text


def test_the_modules_own_buffers_are_as_they_were():
    module = Counts().eval()
    td.from_module(module, [A])
    assert module.seen == 0


class WritesParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, a):
        self.scale.mul_(2)
        return a * self.scale


class Several(nn.Module):
    def forward(self, a):
        most, places = a.max(1)
        torch.max(a + 1, 1, out=(most, places))
        return most


class Data(nn.Module):
    def forward(self, a):
        y = a + 1
        y.data = a
        return y


class DataOfABuffer(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.register_buffer("kept", torch.zeros(3, 4))
        self.write = write

    def forward(self, a):
        y = a * 2
        self.kept.data = y
        if self.write:
            y += 1
        return a + self.kept


class Parts(nn.Module):
    """Writes through the parts of complex values, which share their memory."""

    def forward(self, a):
        z = torch.fft.rfft(a)
        z.imag *= -1
        made = torch.zeros(z.shape, dtype=torch.complex64)
        made.real, made.imag = z.real * 2, z.imag + 1
        part = z.real
        part[:, 0] = 5.0
        return z.real, z.imag, made.abs(), part


def test_writes_through_real_and_imaginary_parts():
    assert td.check(td.from_module(Parts(), {"a": "N,4"}, dims={"N": (1, 2, 3)})).passed


class Random(nn.Module):
    def forward(self, a):
        return a + torch.randperm(4)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WritesParameter, "forward changes the parameter scale"),
        (Several, "writes to several tensors"),
        (Data, "a tensor's .data cannot be set"),
        (lambda: DataOfABuffer(True), "add_ writes to a tensor that is another one's .data"),
        (Random, "torch.randperm draws random numbers"),
    ],
)
def test_code_that_cannot_be_ported_is_refused_with_its_line(kind, message):
    with pytest.raises(td.UnsupportedError, match=message) as raised:
        td.from_module(kind(), [A])
    assert str(raised.value.location).startswith(__file__)


class NoOps(nn.Module):
    """What a configuration leaves behind: it is not written, and what is written in place stays apart."""

    def forward(self, a):
        y = (a + 0) * 1.0 / 1
        z = y - 0
        z += 2
        return y**1, z, (a > 0).long() * 1.0, a.long() / 1


def test_operations_with_neutral_numbers_are_not_written():
    assert_every_pass_keeps_the_meaning(NoOps(), {"a": A})
    spec = td.from_module(NoOps(), {"a": A})
    td.check(spec).raise_for_mismatch()
    text = "".join(linecache.getlines(spec.function.__code__.co_filename))
    lines = ["a2 = a + 2", "mask = (a > 0).long() * 1.0", "x = a.long() / 1", "return a, a2, mask, x"]
    assert [line.strip() for line in text.splitlines()[-4:]] == lines


class Products(nn.Module):
    def forward(self, x):
        return x.reshape(1 * x.shape[0], 0 + x.shape[1], -1)


def test_neutral_numbers_before_sizes_are_not_written():
    text = td.port(Products, {"x": "N,T,6,4"}, dims={"N": (1, 2, 3), "T": (4, 5, 6)})
    assert "1 * " not in text and "0 + " not in text


class Padded(nn.Module):
    """Pads to multiples of 4, which the ends of the range are."""

    def forward(self, x):
        height, width = x.shape[-2:]
        return F.pad(x, (0, (4 - width % 4) % 4, 0, -height % 4)).relu()


class PaddedByNumpy(nn.Module):
    def forward(self, x):
        return F.pad(x, (0, int(np.mod(-np.int64(x.shape[-1].__int__()), 4)))).relu()


def test_what_is_nothing_at_the_ends_of_a_range_may_be_something_between():
    td.check(
        td.from_module(Padded(), ["N,H,W"], dims={"N": (1, 2, 3), "H": (4, 8, 12), "W": (4, 8, 12)})
    ).raise_for_mismatch()
    with pytest.raises(td.UnsupportedError, match="a size becomes a plain number here"):
        td.from_module(PaddedByNumpy(), ["N,H"], dims={"N": (1, 2, 3), "H": (4, 8, 12)})


def test_a_pad_by_nothing_at_any_size_is_not_written():
    spec = td.from_module(Padded(), ["N,8,8"], dims={"N": (1, 2, 3)})
    text = "".join(linecache.getlines(spec.function.__code__.co_filename))
    assert text.rstrip().endswith('return {"output": x.relu()}')


class Sided(nn.Module):
    """Numbers on the left, and masks that change nothing."""

    def forward(self, x, i):
        m = x > 0
        return True & m & True | False, False | (m ^ False), (i & 1) + (1 & i), i | 0, (0 + x) * 1 + 2, m & False


def test_operators_with_a_number_on_the_left():
    spec = td.from_module(Sided(), {"x": A, "i": torch.arange(12).reshape(3, 4)})
    td.check(spec, trivial=["output_5"]).raise_for_mismatch()
    text = "".join(linecache.getlines(spec.function.__code__.co_filename))
    assert "True" not in text and "| 0" not in text and "* 1" not in text and text.count("False") == 1


def test_a_scalar_is_an_input():
    class Negated(nn.Module):
        def forward(self, flag):
            return torch.logical_not(flag)

    td.check(td.from_module(Negated(), [torch.tensor(True)])).raise_for_mismatch()


class Converted(nn.Module):
    def forward(self, x, i):
        ones = (x > 0).type_as(x) + (x > 1).type_as(x)
        shifted = (i << 2) - (-i >> 1)
        return ones, i.type_as(x) / 4 - 0.5, x.type_as(i) // 2, torch.min(x, ones) + x.max(ones), shifted


def test_conversions_take_the_other_tensors_dtype():
    inputs = {"x": A, "i": torch.arange(12).reshape(3, 4)}
    assert_every_pass_keeps_the_meaning(Converted(), inputs)
    spec = td.from_module(Converted(), inputs)
    td.check(spec).raise_for_mismatch()
    assert "F.min(" not in "".join(linecache.getlines(spec.function.__code__.co_filename))


def test_bags_do_not_count_their_padding():
    module = torch.nn.Sequential(torch.nn.EmbeddingBag(5, 4, padding_idx=0))
    report = td.check(td.from_module(module, [torch.tensor([[1, 2, 0], [4, 0, 0]])]))
    assert report.passed, str(report)
