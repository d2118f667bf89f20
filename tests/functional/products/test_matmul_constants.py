"""Products of constants are computed while the network is written."""

import math

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl import layers as L


@pytest.mark.parametrize("op_a", ["NONE", "TRANSPOSE"])
@pytest.mark.parametrize("op_b", ["NONE", "transpose"])
@pytest.mark.parametrize("batches", [((), ()), ((3,), (1,)), ((0,), (1,))])
def test_products_of_constants_are_torchs(op_a: str, op_b: str, batches: tuple[tuple[int, ...], tuple[int, ...]]):
    torch.manual_seed(0)
    a, b = torch.randn(*batches[0], 4, 5), torch.randn(*batches[1], 5, 6)
    net = td.Network()
    left = net.constant(a.mT if op_a == "TRANSPOSE" else a)
    right = net.constant(b.mT if op_b == "transpose" else b)
    product = L.matrix_multiply(left, right, op_a, op_b)
    assert product.is_constant and net.definition.num_layers == 0
    torch.testing.assert_close(product.data, (a.double() @ b.double()).float())


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_is_computed_without_a_warning():
    net = td.Network()
    a, b = net.constant(torch.tensor([[math.inf, 1.0]])), net.constant(torch.tensor([[0.0, 3e38], [1.0, 3e38]]))
    data = L.matrix_multiply(a, b).data
    assert data[0, 0].isnan() and data[0, 1].isposinf()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("how", ["matmul", "einsum", "layer"])
def test_what_adapts_a_weight_is_computed_once(how, dtype):
    """LoRA: W + s * A @ B is one constant, and its layer is named after the module."""
    width, rank = 288, 8  # more elements than any small result may have
    generator = torch.Generator().manual_seed(0)
    w, a, b = (
        torch.randn(size, generator=generator).to(dtype) / 8 for size in [(width,) * 2, (width, rank), (rank, width)]
    )
    net = td.Network()
    x = net.input("x", (4, width), dtype)
    names = ("q.weight", "q.lora_A.weight", "q.lora_B.weight")
    weight, left, right = (net.plain_constant(data, (name,)) for data, name in zip((w, a, b), names, strict=True))
    product = {
        "matmul": lambda: F.matmul(left, right),
        "einsum": lambda: F.einsum("ir,ro->oi", left, right).T,
        "layer": lambda: L.einsum("ir,ro->io", left, right),
    }[how]()
    net.output(F.linear(x, weight + 0.5 * product), "y")
    assert net.definition.num_layers == 2  # the weight, and its product with x
    assert net.definition.get_layer(1).name == "q.linear" and set(net.layers["q.linear"].weights) == set(names)
    program = td.program(net)
    assert (program.launch_count, program.bytes) == (1, (2 * 4 * width + width * width) * dtype.itemsize)
    feed = torch.randn(4, width, generator=generator).to(dtype)
    wanted = torch.nn.functional.linear(feed, w + 0.5 * (a @ b))
    torch.testing.assert_close(td.interpret(net, {"x": feed})["y"], wanted, rtol=1e-2, atol=1e-2)


def test_a_product_without_a_sum_stays_with_what_reads_it():
    """A table of positions and frequencies is two small operands of the launch that takes its cosine."""
    net = td.Network()
    positions, frequencies = (net.constant(torch.arange(300.0).reshape(shape)) for shape in ((300, 1), (1, 300)))
    assert (
        not F.matmul(positions, frequencies).is_constant
        and not L.einsum("ik,kj->ij", positions, frequencies).is_constant
    )
