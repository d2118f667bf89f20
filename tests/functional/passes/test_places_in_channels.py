"""Einsums that are one convolution of channels and places, and what follows them: executed, and their programs."""

import random

import pytest
import torch
from support import assert_close, layer_types

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.lazy import passes
from trtdsl.functional.passes.places_in_channels import OPERATIONS
from trtdsl.programs.devices import DEFAULT, DEVICES

N = td.Dim("N", min=1, opt=2, max=3)
NOTHING = ("CONSTANT", "SHUFFLE", "CAST")


class Functions:
    """What both sides are written in: torch's functions, and an einsum that may be asked to be one convolution."""

    def __init__(self, module, lowering=None):
        self.nn, self.lowering = module, lowering
        self.library = torch if lowering is None else F

    def einsum(self, *arguments):
        return torch.einsum(*arguments) if self.lowering is None else F.einsum(*arguments, lowering=self.lowering)


def weights(seed, *, inputs=4, outputs=6, k=3, v=5):
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator)

    return {
        "pointwise": drawn(k * outputs, inputs, 1, 1) / inputs, "bias": drawn(k * outputs), "graph": drawn(k, v, v) / 3,
        "along": drawn(outputs, outputs, 3, 1) / 6, "shift": drawn(outputs), "mean": drawn(outputs),
        "variance": drawn(outputs).abs() + 0.5, "constant": drawn(1, outputs, 1, v),
        "mixing": drawn(4, outputs, 3, 3) / 9,
        "back": drawn(outputs, inputs, 1, 1) / inputs,
    }  # fmt: skip


def graph_convolution(f, x, w, place):
    y = f.nn.conv2d(x, w["pointwise"], w["bias"])
    k = w["graph"].shape[0]
    y = y.reshape(y.shape[0], k, y.shape[1] // k, *y.shape[2:])
    return f.einsum("nkctv,kvw->nctw" if place == 3 else "nkcvt,kvw->ncwt", y, w["graph"])


def along(f, x, w, place, **how):
    """A convolution along the dimension that is not of places."""
    kernel = w["along"] if place == 3 else w["along"].permute(0, 1, 3, 2)
    turn = (lambda pair: pair) if place == 3 else (lambda pair: pair[::-1])
    return f.nn.conv2d(x, kernel, w["shift"], **{name: turn(value) for name, value in how.items()})


def block(f, x, w, place, stride=1, residual=True):
    """A block of ST-GCN."""
    y = f.nn.batch_norm(graph_convolution(f, x, w, place), w["mean"], w["variance"])
    y = along(f, f.nn.relu(y), w, place, padding=(1, 0), stride=(stride, 1))
    y = f.nn.batch_norm(y, w["mean"], w["variance"])
    skipped = f.nn.conv2d(x, w["back"], None, (stride, 1) if place == 3 else (1, stride)) if residual else None
    return f.nn.relu(y if skipped is None else y + skipped)


def compared(write, dtype=torch.float32, *, lowering="dense", place=3, seed=0, t=8, v=5, inputs=4, **sizes):
    """The network of ``write(functions, x, *weights)``, whose result is torch's, and those weights."""
    both = [weights(seed, inputs=inputs, v=v, **sizes), weights(seed + 1, inputs=sizes.get("outputs", 6), v=v, **sizes)]
    shape = (inputs, t, v) if place == 3 else (inputs, v, t)
    x = torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed))
    net = td.Network()
    given = [{name: net.constant(value.to(dtype)) for name, value in each.items()} for each in both]
    net.output(write(Functions(F, lowering), net.input("x", (N, *shape), dtype), *given), "y")
    exact = [{name: value.to(dtype).double() for name, value in each.items()} for each in both]
    want = write(Functions(torch.nn.functional), x.to(dtype).double(), *exact)
    assert_close(td.interpret(net, {"x": x.to(dtype)})["y"], want.to(dtype), 3e-6 if dtype == torch.float32 else 2e-2)
    return net, x.to(dtype), want


def kinds(net):
    return [kind for kind in layer_types(net) if kind not in NOTHING]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("place", [2, 3])
def test_blocks_of_a_graph_network_are_convolutions_alone(place, dtype):
    def write(f, x, first, second):
        return block(f, block(f, x, first, place, residual=False), second, place, stride=2)

    net, x, want = compared(write, dtype, place=place)
    assert sorted(kinds(net)) == [*["ACTIVATION"] * 4, *["CONVOLUTION"] * 5, "ELEMENTWISE"]
    assert layer_types(net).count("SHUFFLE") == 2  # of the input and of the result
    if dtype == torch.float32:
        assert_close(td.evaluate_engine(net, {"x": x})["y"], want.to(dtype), 1e-5)


def test_the_builder_rearranges_nothing_between_them():
    def write(f, x, first, second):
        return f.nn.avg_pool2d(block(f, block(f, x, first, 3, residual=False), second, 3), (32, 6))

    sizes = {"inputs": 16, "outputs": 16, "t": 32, "v": 6}
    dense, plain = (td.program(compared(write, lowering=way, **sizes)[0]) for way in ("dense", "matmul"))
    assert dense.bytes < 0.7 * plain.bytes and dense.launch_count < plain.launch_count


def test_what_needs_an_image_gets_one():
    def write(f, x, first, second):
        y = f.nn.relu(block(f, x, first, 3) * first["constant"])
        mixed = f.nn.conv2d(y, first["mixing"], None, padding=(1, 1))
        return mixed + y[:, :4] + y.mean((2, 3), keepdim=True)[:, :4]

    compared(write)
    compared(write, torch.float16)


def test_the_price_decides(monkeypatch):
    def write(f, x, first, second):
        return block(f, block(f, x, first, 3, residual=False), second, 3)

    def einsums(**sizes):
        net, *_ = compared(write, lowering="auto", **sizes)
        return [remark for remark in net.graph.remarks if "channels and places" in remark.text]

    few = einsums(inputs=16, outputs=16, t=64, v=6)
    assert [remark.applied for remark in few] == [True, True]
    many = einsums(inputs=64, outputs=64, t=16, v=20)
    assert [remark.applied for remark in many] == [False, False] and "elements, and" in many[0].text

    def alone(f, x, first, second):
        return graph_convolution(f, x, first, 3)

    net, *_ = compared(alone, lowering="auto", inputs=16, outputs=16, t=64, v=6)
    assert "MATRIX_MULTIPLY" in kinds(net)  # no convolution follows
    monkeypatch.setattr(passes, "PASSES", ())
    net, *_ = compared(write, lowering="auto", inputs=16, outputs=16, t=64, v=6)
    assert "MATRIX_MULTIPLY" in kinds(net)


def test_operations_are_those_of_the_device_of_floors():
    device = DEVICES[DEFAULT]
    for rate, size in ((device.tf32, 4), (device.half, 2)):
        assert rate / device.bandwidth * size == pytest.approx(OPERATIONS, rel=0.01)


@pytest.mark.parametrize(
    "write",
    [
        lambda f, x, w: f.einsum("nctv,nvw->nctw", x, x[:, 0, :5]),
        lambda f, x, w: f.einsum("nctv,kvw->nctw", f.nn.relu(x), w["graph"]),
        lambda f, x, w: f.einsum("nctv,vw->ncwv", f.nn.conv2d(x, w["pointwise"]), w["graph"][0]),
    ],
    ids=["computed", "of no convolution", "places kept"],
)
def test_it_is_refused_where_it_is_no_such_map(write):
    net = td.Network()
    given = {name: net.constant(value) for name, value in weights(0).items()}
    net.output(write(Functions(F, "dense"), net.input("x", (2, 4, 8, 5)), given), "y")
    with pytest.raises(td.UnsupportedError, match="lowering 'dense' cannot express this: no pointwise convolution"):
        td.interpret(net, {"x": torch.zeros(2, 4, 8, 5)})


# -- random networks ---------------------------------------------------------------------------------------------------


def drawn(draw):
    """A network of steps on values with six channels, each of a value so far."""

    def write(f, x, first, second):
        place = 3
        values, take = [block(f, x, first, place)], random.Random(draw)
        for _ in range(take.randint(2, 6)):
            y, other, w = take.choice(values[-2:]), take.choice(values), second
            step = take.randrange(8)
            if step == 0:
                y = block(f, y, w, place, stride=take.choice((1, 2)))
            elif step == 1:
                y = f.nn.relu(graph_convolution(f, y, w, place))
            elif step == 2:
                y = along(f, y, w, place, padding=(1, 0), stride=(take.choice((1, 2)), 1))
            elif step == 3:
                y = f.nn.batch_norm(y, w["mean"], w["variance"])
            elif step == 4:
                y = f.library.sigmoid(y) * take.choice((w["constant"], w["constant"][:, :1], y))
            elif step == 5 and other.shape == y.shape:
                y = y - other
            elif step == 6:
                y = f.nn.relu(f.nn.conv2d(y, w["mixing"], None, padding=(1, 1)).repeat(1, 2, 1, 1)[:, :6])
            else:
                y = f.library.where(y > 0.5, y * 0.5, y)
            values.append(y)
        return f.library.cat([value.mean((2, 3)) for value in values[-3:]], 1)

    return write


@pytest.mark.parametrize("draw", range(40))
def test_random_networks_give_what_torch_gives(draw):
    compared(drawn(draw), torch.float16 if draw % 4 == 3 else torch.float32, seed=draw, t=9)
