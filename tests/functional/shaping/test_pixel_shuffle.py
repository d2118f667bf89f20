"""F.pixel_shuffle and F.pixel_unshuffle against torch, through the interpreter."""

from __future__ import annotations

import pytest
import torch
from support import assert_close, evaluate, layer_types

import trtdsl as td
import trtdsl.functional as F

SHAPES = [(18, 2, 3), (2, 9, 3, 3), (2, 3, 36, 4, 5), (1, 2, 1, 9, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factor", [1, 3])
def test_both_ways(shape, factor):
    x = torch.randn(shape)
    for dims in (None, [tuple(f"D{axis}" if size != shape[-3] else size for axis, size in enumerate(shape))]):
        shuffled = evaluate(lambda x: F.pixel_shuffle(x, factor), x, dims=dims)
        assert_close(shuffled, torch.nn.functional.pixel_shuffle(x, factor))
    assert_close(evaluate(lambda x: F.pixel_unshuffle(x, factor), shuffled), x)


def test_dynamic_heights_in_multiples():
    net = td.Network()
    x = net.input("x", ("N", 2, 3 * td.Dim("H"), 3 * td.Dim("W")))
    y = F.pixel_unshuffle(x, 3)
    assert str(y.shape) == "(N, 18, H, W)"
    net.output(y, "y")
    assert set(layer_types(net)) <= {"SHUFFLE", "SHAPE", "GATHER", "CONCATENATION", "CONSTANT", "ELEMENTWISE"}
    for n, h, w in ((1, 3, 6), (2, 9, 3)):
        feed = torch.randn(n, 2, h, w)
        assert_close(td.interpret(net, {"x": feed})["y"], torch.nn.functional.pixel_unshuffle(feed, 3))


@pytest.mark.parametrize(
    ("name", "shape", "factor", "message"),
    [
        ("pixel_shuffle", (1, 8, 2, 2), 3, "8 channels are not divisible by 3"),
        ("pixel_unshuffle", (1, 8, 4, 3), 2, "the height 4 and the width 3"),
        ("pixel_shuffle", (4, 4), 2, "takes .…, C, H, W."),
        ("pixel_shuffle", (1, 4, 2, 2), 0, "must be a positive int"),
        ("pixel_unshuffle", (1, 4, 2, 2), -2, "must be a positive int"),
    ],
)
def test_bad_arguments_have_one_clear_error(name, shape, factor, message):
    with pytest.raises(RuntimeError):
        getattr(torch.nn.functional, name)(torch.zeros(shape), factor)
    with pytest.raises(td.DefinitionError, match=message) as error:
        getattr(F, name)(td.Network().input("x", shape), factor)
    assert error.value.location.file == __file__


def test_torch_opinfo_samples():
    from torch.testing._internal.common_methods_invocations import op_db

    seen = 0
    for info in op_db:
        if info.name in ("nn.functional.pixel_shuffle", "nn.functional.pixel_unshuffle"):
            function = getattr(F, info.name.rpartition(".")[2])
            for sample in info.sample_inputs("cpu", torch.float32):
                x = sample.input.detach()
                if x.numel():
                    got = evaluate(lambda x, f=function, s=sample: f(x, *s.args, **s.kwargs), x)
                    assert_close(got, info.op(x, *sample.args, **sample.kwargs))
                    seen += 1
    assert seen >= 4
