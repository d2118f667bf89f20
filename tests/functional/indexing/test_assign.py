"""``F.setitem`` against torch's own ``x[index] = value``: every form of index, alone and mixed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import evaluate, layer_types

import trtdsl as td
import trtdsl.functional as F
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.layers.evaluation import Node

SHAPE = (4, 5, 6)


def after(x, index, value):
    """What torch makes of x."""
    changed = x.clone()
    changed[index] = value
    return changed


def check(index, value, x=None, dims=None):
    """Tensors in the index and the value are inputs of the network."""
    x = torch.arange(120, dtype=torch.float32).reshape(SHAPE) if x is None else x
    items = index if isinstance(index, tuple) else (index,)
    tensors = [item for item in (*items, value) if isinstance(item, torch.Tensor)]

    def network(x, *inputs):
        given = iter(inputs)
        own = tuple(next(given) if isinstance(item, torch.Tensor) else item for item in items)
        return F.setitem(x, own, next(given) if isinstance(value, torch.Tensor) else value)

    got = evaluate(network, x, *tensors, dims=dims)
    assert torch.equal(got, after(x, index, value))


def numbers(*shape):
    return -1 - torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


i, j = torch.tensor([3, 0, -2]), torch.tensor([1, 4, 0])
mask = torch.arange(20).reshape(4, 5) % 3 == 0
ALL = slice(None)
CASES = {
    "x[1] = number": (1, 7.0),
    "x[-1] = row": (-1, numbers(5, 6)),
    "x[:, 2] = v": ((ALL, 2), numbers(4, 6)),
    "x[:, 2] = broadcast": ((ALL, 2), numbers(6)),
    "x[..., -1] = v": ((..., -1), numbers(4, 5)),
    "x[1, :, 2] = v": ((1, ALL, 2), numbers(5)),
    "x[1, 2, 3] = number": ((1, 2, 3), 7.0),
    "x[:, 1:3] = v": ((ALL, slice(1, 3)), numbers(4, 2, 6)),
    "x[:, 0:2] = x[:, :1]-like": ((ALL, slice(0, 2)), numbers(4, 1, 6)),
    "x[1:3, ::2, -2:] = v": ((slice(1, 3), slice(None, None, 2), slice(-2, None)), numbers(2, 3, 2)),
    "x[::2] = number": (slice(None, None, 2), 7.0),
    "x[:, 4:0:-2] = v": ((ALL, [4, 2]), numbers(4, 2, 6)),
    "x[:, 3:3] = nothing": ((ALL, slice(3, 3)), numbers(4, 0, 6)),
    "x[:, 9:] = number": ((ALL, slice(9, None)), 7.0),
    "x[None, 1] = v": ((None, 1), numbers(1, 5, 6)),
    "x[...] = number": (..., 7.0),
    "x[:] = v": (ALL, numbers(1, 1, 5, 6)),
    "x[i] = v": (i, numbers(3, 5, 6)),
    "x[i] = number": (i, 7.0),
    "x[:, i] = v": ((ALL, i), numbers(4, 3, 6)),
    "x[:, i] = broadcast": ((ALL, i), numbers(6)),
    "x[:, [0, 2]] = v": ((ALL, [0, 2]), numbers(4, 2, 6)),
    "x[:, :, place] = v": ((ALL, ALL, torch.tensor(2)), numbers(4, 5)),
    "x[..., place] = v": ((..., torch.tensor([2])), numbers(4, 5, 1)),
    "x[i, j] = v": ((i, j), numbers(3, 6)),
    "x[i, :, j] = v": ((i, ALL, j), numbers(3, 5)),
    "x[:, i, j] = v": ((ALL, i, j), numbers(4, 3)),
    "x[:, i, j] = number": ((ALL, i, j), 7.0),
    "x[i[:, None], j] = v": ((i[:, None], j), numbers(3, 3, 6)),
    "x[1, :, i] = v": ((1, ALL, i), numbers(5, 3)),
    "x[1:3, i] = v": ((slice(1, 3), i), numbers(2, 3, 6)),
    "x[i, 1:3] = v": ((i, slice(1, 3)), numbers(3, 2, 6)),
    "x[1:3, ::2, i] = v": ((slice(1, 3), slice(None, None, 2), i), numbers(2, 3, 3)),
    "x[1, i, 2:4] = v": ((1, i, slice(2, 4)), numbers(3, 2)),
    "x[None, :, i] = v": ((None, ALL, i), numbers(1, 4, 3, 6)),
    "x[mask] = number": (mask, 7.0),
    "x[mask] = broadcast": (mask, numbers(6)),
    "x[mask] = one row": (mask, numbers(1, 6)),
    "x[mask] = a row each": (mask, numbers(7, 6)),
    "x[:, mask] = number": ((ALL, mask.T[:, :1].squeeze(1)), 7.0),
    "x[:, mask] = v": ((ALL, torch.tensor([True, False, True, True, False])), numbers(4, 3, 6)),
    "x[:, mask of two] = v": ((ALL, torch.arange(30).reshape(5, 6) % 4 == 1), numbers(4, 8)),
    "x[:, mask of two] = broadcast": ((ALL, torch.arange(30).reshape(5, 6) % 4 == 1), numbers(4, 1)),
    "x[mask of all] = v": (torch.arange(120).reshape(SHAPE) % 7 == 0, numbers(18)),
    "x[1:3, mask] = v": ((slice(1, 3), torch.tensor([True, False, True, True, False])), numbers(2, 3, 6)),
    "x[mask, i] = v": ((torch.tensor([True, True, False, True]), i), numbers(3, 6)),
    "x[no mask] = v": (torch.zeros(4, 5, dtype=torch.bool), numbers(0, 6)),
    "x[True] = v": (True, numbers(5, 6)),
    "x[1] = ints": (1, torch.arange(30).reshape(5, 6)),
}


@pytest.mark.parametrize("name", CASES)
def test_each_form(name):
    check(*CASES[name])


@pytest.mark.parametrize("name", [name for name in CASES if "nothing" not in name])
def test_each_form_on_dynamic_dimensions(name):
    index, value = CASES[name]
    items = index if isinstance(index, tuple) else (index,)
    tensors = [item for item in (*items, value) if isinstance(item, torch.Tensor)]
    check(index, value, dims=[("N", "H", "W"), *(tensor.shape for tensor in tensors)])


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.int32, torch.float16])
@pytest.mark.parametrize("index", [(ALL, 2), (ALL, i), mask, (i, ALL, j), slice(None, None, 2)])
def test_each_kind_of_element(dtype, index):
    x = (torch.arange(120).reshape(SHAPE) % 2).to(dtype)
    check(index, 1, x)


@st.composite
def indices(draw):
    """An index of (4, 5, 6), and a value for it."""
    items = []
    vectors = draw(st.integers(0, 3))
    for size in SHAPE:
        kind = draw(st.sampled_from(["int", "slice", "slice", "all", "vector", "mask"]))
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            ends = st.none() | st.integers(-size - 1, size + 1)
            items.append(slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, 3]))))
        elif kind == "vector" and vectors:
            items.append(torch.tensor(draw(st.lists(st.integers(-size, size - 1), min_size=2, max_size=2))))
        elif kind == "mask" and not any(isinstance(item, torch.Tensor) for item in items) and not vectors:
            items.append(torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size))))
        else:
            items.append(ALL)
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, 3)), None)
    while items and isinstance(items[-1], slice) and items[-1] == ALL and draw(st.booleans()):
        items.pop()
    index = tuple(items)
    shape = list(torch.empty(SHAPE)[index].shape)
    kept = [size if draw(st.integers(0, 3)) else 1 for size in shape][draw(st.integers(0, len(shape))) :]
    return index, draw(st.sampled_from([3.0, None])) or numbers(*kept)


def _writes_once(index):
    """Whether no place is written twice: which of two values stays is undefined."""
    places = torch.arange(120).reshape(SHAPE)[index].reshape(-1)
    return len(places.unique()) == len(places)


@settings(max_examples=60, deadline=None)
@given(indices(), st.booleans())
def test_random_assignments_equal_torchs(case, dynamic):
    index, value = case
    if not isinstance(value, float) and not _writes_once(index):
        value = 3.0
    tensors = [item for item in (*index, value) if isinstance(item, torch.Tensor)]
    check(index, value, dims=[("N", "H", "W"), *(tensor.shape for tensor in tensors)] if dynamic else None)


BOUNDS = {
    "x[:, -(t//2):]": lambda t: slice(-(t // 2), None),
    "x[:, t-4:t]": lambda t: slice(t - 4, t),
    "x[:, 1-t:-1]": lambda t: slice(1 - t, -1),
    "x[:, t//2]": lambda t: t // 2,
    "x[:, -(t//2) - 1]": lambda t: -(t // 2) - 1,
    "x[:, t//3::2]": lambda t: slice(t // 3, None, 2),
    "x[:, :-2:3]": lambda t: slice(None, -2, 3),
}


@pytest.mark.parametrize("value", ["number", "own"])
@pytest.mark.parametrize("name", BOUNDS)
def test_dynamic_bounds_at_every_size(name, value):
    bound = BOUNDS[name]
    net = td.Network()
    x = net.input("x", (2, td.Dim("T", min=1, max=9), 3))
    index = (ALL, bound(x.shape[1]))
    net.output(F.setitem(x, index, 7.0 if value == "number" else -2 * x[index]), "y")
    net.check_sizes()
    run = Interpreter(net)
    for t in range(1, 10):
        data = torch.arange(1.0, 6 * t + 1).reshape(2, t, 3)
        place = (ALL, bound(t))
        assert torch.equal(run({"x": data})["y"], after(data, place, 7.0 if value == "number" else -2 * data[place])), t


def test_a_slice_backwards():
    """torch has no negative steps: numpy has, and they mean the same here."""
    x, value = numbers(7), torch.arange(3.0)
    expected = x.numpy().copy()
    expected[5:0:-2] = value.numpy()
    got = evaluate(lambda x, v: F.setitem(x, slice(5, 0, -2), v), x, value)
    assert torch.equal(got, torch.from_numpy(expected))


def test_a_static_cache_is_written_in_place_of_its_own_layout():
    """cache[:, :, position] = k: one scatter, and the cache is not transposed for it."""
    net = td.Network()
    cache, k = net.input("cache", (1, 2, 16, 4)), net.input("k", (1, 2, "L", 4))
    position = net.input("position", ("L",), "int64")
    net.output(F.setitem(cache, (ALL, ALL, position), k), "y")
    nodes = [Node(net.backend, net.definition.get_layer(index)) for index in range(net.definition.num_layers)]
    assert [node.type for node in nodes].count("SCATTER") == 1
    assert not [node.name for node in nodes if "cache" in node.needs and node.type == "SHUFFLE"]
    data, new, at = torch.randn(1, 2, 16, 4), torch.randn(1, 2, 3, 4), torch.tensor([5, 6, 7])
    got = td.interpret(net, {"cache": data, "k": new, "position": at})["y"]
    assert torch.equal(got, after(data, (ALL, ALL, at), new))


def test_a_mask_with_one_value_is_a_select():
    net = td.Network()
    x, m = net.input("x", (4, 5, 6)), net.input("m", (4, 5), "bool")
    net.output(F.setitem(x, m, 7.0), "y")
    assert [kind for kind in layer_types(net) if kind not in ("SHUFFLE", "CONSTANT")] == ["SELECT"]


@pytest.mark.parametrize(
    ("index", "value", "error", "message"),
    [
        ((ALL, 2), numbers(3, 6), td.ShapeError, "the sizes of what is stretched do not match: 3 and 4"),
        ((ALL, 7), 1.0, td.ShapeError, "index 7 is out of bounds for a dimension of size 5"),
        ((1, 1, 1, 1), 1.0, td.ShapeError, "4 indices for a tensor of 3 dimensions"),
        ("a", 1.0, td.UnsupportedError, "indexing with str"),
        (slice(None, None, 0), 1.0, td.DefinitionError, "a slice's step must be an int other than 0"),
        (torch.tensor([0.5]), 1.0, td.DefinitionError, "tensors of indices are of int32, int64 or bool"),
    ],
)
def test_refused_assignments(index, value, error, message):
    with pytest.raises(error, match=message):
        evaluate(lambda x: F.setitem(x, index, value), torch.zeros(SHAPE))
