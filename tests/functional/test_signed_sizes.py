"""Indices, shifts and lengths made of a dynamic size, of either sign, against torch at every value of that size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import trtdsl as td
import trtdsl.functional as F
from trtdsl.interpreter.interpret import Interpreter

# A function of the module and a tensor (2, T, 3) and of sizes: the module is F here and torch there.
WITH_ONE = {
    "x[:, k]": lambda m, x, k: x[:, k],
    "x[:, k:]": lambda m, x, k: x[:, k:],
    "x[:, :k]": lambda m, x, k: x[:, :k],
    "x[:, k::3]": lambda m, x, k: x[:, k::3],
    "select": lambda m, x, k: m.select(x, 1, k),
    "roll": lambda m, x, k: m.roll(x, k, 1),
    "roll of two dimensions": lambda m, x, k: m.roll(x, (k, -k), (1, 2)),
    "roll of all": lambda m, x, k: m.roll(x, k),
    "pad both sides": lambda m, x, k: F_or_nn(m).pad(x, (0, 0, k, -k)),
    "pad with a value": lambda m, x, k: F_or_nn(m).pad(x, (1, 0, 2, k), value=7.0),
    "replicate": lambda m, x, k: F_or_nn(m).pad(x[0].permute(1, 0), (k, 2), mode="replicate"),
    "reflect": lambda m, x, k: F_or_nn(m).pad(x[0].permute(1, 0), (1, k), mode="reflect"),
    "circular": lambda m, x, k: circular(m, x[0].permute(1, 0), k),
    "diagonal": lambda m, x, k: m.diagonal(x, k, 1, 2),
    "diag_embed": lambda m, x, k: m.diag_embed(x, k),
    "tril": lambda m, x, k: m.tril(x, k),
    "triu": lambda m, x, k: m.triu(x, k),
    "tensor_split": lambda m, x, k: m.cat(m.tensor_split(x, (k, 3), 1)[::2], 1),
    "arange": lambda m, x, k: m.arange(k, 9),
    "arange down": lambda m, x, k: m.arange(9, k, -2),
    "index_select": lambda m, x, k: m.index_select(m.cat([x, x, x], 1), 1, m.arange(0, k)),
    "select_scatter": lambda m, x, k: m.select_scatter(x, x[:, 0] * 2, 1, k),
    "topk": lambda m, x, k: m.topk(x, k, 1)[0],
    "kthvalue": lambda m, x, k: m.kthvalue(x, k, 1)[0],
    "repeat_interleave": lambda m, x, k: m.repeat_interleave(x, k, 1),
    "expand": lambda m, x, k: x[:, :1].expand(2, abs(k), 3),
    "repeat": lambda m, x, k: x.repeat(1, k, 1),
    "reshape": lambda m, x, k: x.reshape(k, 2, -1),
    "x * k": lambda m, x, k: x * k - k,
}
WITH_TWO = {
    "x[:, a:b]": lambda m, x, a, b: x[:, a:b],
    "x[:, a:b:2]": lambda m, x, a, b: x[:, a:b:2],
    "narrow": lambda m, x, a, b: m.narrow(x, 1, a, b),
    "slice_scatter": lambda m, x, a, b: m.slice_scatter(x, 3 * x[:, a:b], 1, a, b),
    "slice_scatter, step 2": lambda m, x, a, b: m.slice_scatter(x, 3 * x[:, a:b:2], 1, a, b, 2),
    "roll twice": lambda m, x, a, b: m.roll(m.roll(x, a, 1), b, 1),
    "split": lambda m, x, a, b: m.cat(m.split(x, [a, x.shape[1] - a], 1)[::-1], 1)[:, b:],
    "full": lambda m, x, a, b: m.full((a, b), 2.0) if m is torch else F.full((a, b), 2.0),
}
WITHOUT = {
    "triu_indices": lambda m, x: m.triu_indices(x.shape[1], x.shape[1], 2),
    "tril_indices": lambda m, x: m.tril_indices(x.shape[1], x.shape[1], -1),
    "flip": lambda m, x: m.flip(x, (1,)),
    "tensor_split into 3": lambda m, x: m.cat(m.tensor_split(x, 3, 1)[::-1], 1),
    "hsplit": lambda m, x: m.cat(m.hsplit(x, 2)[::-1], 1),
    "halves exchanged": lambda m, x: m.cat([x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]], 1),
    "the last half": lambda m, x: x[:, -(x.shape[1] // 2) :],
    "all but the first": lambda m, x: x[:, 1 - x.shape[1] :],
}


PARTS = {
    "chunk": lambda m, x: m.chunk(x, 2, 1),
    "chunk into 3": lambda m, x: m.chunk(x, 3, 1),
    "split by 4": lambda m, x: m.split(x, 4, 1),
}
LENIENT = {"index_select", "pad both sides", "pad with a value", "replicate", "reshape"}
"""What is defined where torch refuses: more trimmed at one end than there is, and results without elements."""


def F_or_nn(module):
    return F if module is F else torch.nn.functional


def circular(module, x, k):
    if module is torch and x.shape[1] + k < 1:
        raise ValueError("torch repeats what it has not written")
    return F_or_nn(module).pad(x, (k, 1), mode="circular")


def against_torch(function, low, high, *sizes, lenient=False):
    """The network is torch's at every T from low to high; or refused, where torch refuses one of them."""
    T = td.Dim("T", min=low, opt=high, max=high)
    tensors = {t: torch.arange(2 * t * 3, dtype=torch.float32).reshape(2, t, 3) for t in range(low, high + 1)}
    expected, refused = {}, {}
    for t, tensor in tensors.items():
        try:
            expected[t] = function(torch, tensor, *(size(t) for size in sizes))
        except (RuntimeError, IndexError, ValueError) as error:
            refused[t] = error
    net = td.Network()
    x = net.input("x", (2, T, 3))
    try:
        with net.current():
            net.output(function(F, x, *(size(x.shape[1]) for size in sizes)), "y")
        net.check_sizes()
        problem = None
    except td.TrtdslError as error:
        problem = error
    if problem is not None:
        assert refused, f"torch takes every size, and here: {problem}"
        return
    assert lenient or not refused, f"torch refuses {refused}"
    run = Interpreter(net)
    for t, wanted in expected.items():
        got = run({"x": tensors[t]})["y"]
        assert got.shape == wanted.shape, (t, got.shape, wanted.shape)
        assert torch.equal(got, wanted.to(got.dtype)), t


def _size(numbers):
    a, b, c, d = numbers
    return lambda t: (a * t + b) // c + d


SIZES = st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(1, 3), st.integers(-3, 3))
RANGES = st.sampled_from([(1, 7), (4, 9), (5, 8), (0, 5), (1, 2)])


@pytest.mark.parametrize("name", WITH_ONE)
@settings(max_examples=6, deadline=None)
@given(size=SIZES, ends=RANGES)
@example(size=(-1, 0, 2, 0), ends=(1, 7))  # -(t // 2), with 0 among them
@example(size=(-1, 0, 1, 1), ends=(1, 7))  # 1 - t
@example(size=(1, 0, 1, -4), ends=(1, 7))  # t - 4: negative, zero and positive
@example(size=(1, 0, 2, 0), ends=(4, 9))
@example(size=(-1, 0, 2, -3), ends=(4, 9))  # nothing is left at 4 and 5
def test_one_size(name, size, ends):
    against_torch(WITH_ONE[name], *ends, _size(size), lenient=name in LENIENT)


@pytest.mark.parametrize("size", [lambda t: 0, lambda t: t, lambda t: 2 * t])
def test_what_may_be_empty_is_expanded(size):
    """One row, or none, as many times."""
    against_torch(WITH_ONE["expand"], 0, 5, size)


def test_what_is_empty_expands_to_nothing_alone():
    against_torch(WITH_ONE["expand"], 0, 5, lambda t: t + 1)


@pytest.mark.parametrize("name", WITH_TWO)
@settings(max_examples=6, deadline=None)
@given(a=SIZES, b=SIZES, ends=RANGES)
@example(a=(-1, 0, 2, 0), b=(0, 0, 1, 2), ends=(4, 9))
@example(a=(1, 0, 1, -4), b=(1, 0, 1, -1), ends=(1, 7))
@example(a=(2, -1, 2, 1), b=(0, -1, 1, -3), ends=(3, 12))  # from the end on, and nothing after it
def test_two_sizes(name, a, b, ends):
    against_torch(WITH_TWO[name], *ends, _size(a), _size(b))


@pytest.mark.parametrize("ends", [(1, 7), (4, 9), (5, 8), (2, 2), (0, 4)])
@pytest.mark.parametrize("name", WITHOUT)
def test_no_size(name, ends):
    against_torch(WITHOUT[name], *ends)


@pytest.mark.parametrize("ends", [(1, 7), (4, 9), (5, 8), (2, 2), (0, 4), (3, 4)])
@pytest.mark.parametrize("name", PARTS)
def test_a_number_of_parts_that_depends_on_the_size_is_refused(name, ends):
    function = PARTS[name]
    numbers = {len(function(torch, torch.zeros(2, t, 3))) for t in range(ends[0], ends[1] + 1)}
    if len(numbers) == 1:
        against_torch(lambda m, x: m.cat(function(m, x)[::-1], 1), *ends)
    else:
        x = td.Network().input("x", (2, td.Dim("T", min=ends[0], max=ends[1]), 3))
        with pytest.raises(td.UnsupportedError, match="depends on a dynamic size"):
            function(F, x)
