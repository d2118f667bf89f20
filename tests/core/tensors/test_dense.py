"""What reads arrays reads their values, or refuses those that lie in memory in another way."""

import numpy as np
import pytest
import torch
from device import simulated_device
from device.networks import doubling
from torch._subclasses.fake_tensor import FakeTensorMode

import trtdsl as td

X = torch.tensor([[1.0, -2.0, 3.0, 4.0], [5.0, 6.0, -7.0, 8.0]])
MASKED = np.ma.array(X.numpy(), mask=[[False, True, False, False]] * 2)


def without_memory():
    """As a module that is sharded leaves its parameters."""
    freed = X.clone()
    freed.untyped_storage().resize_(0)
    return freed


ODD = {
    "masked": (lambda: MASKED, "masked"),
    "masked rows": (lambda: list(MASKED), "masked"),
    "nested": (lambda: torch.nested.nested_tensor([X[0], X[1]]), "nested"),
    "jagged": (lambda: torch.nested.nested_tensor([X[0], X[1]], layout=torch.jagged), "nested"),
    "sparse": (X.to_sparse, r"torch\.sparse_coo"),
    "compressed": (X.to_sparse_csr, r"torch\.sparse_csr"),
    "mkldnn": (X.to_mkldnn, r"torch\._mkldnn"),
    "quantized": (lambda: torch.quantize_per_tensor(X, 1.0, 0, torch.qint8), "quantized"),
    "fake": (lambda: FakeTensorMode().from_tensor(X), "FakeTensor has no memory"),
    "functional": (lambda: torch._to_functional_tensor(X), "no memory"),
    "of masks": (lambda: torch.masked.masked_tensor(X, X > 0), "MaskedTensor has no memory"),
    "freed": (without_memory, "no memory"),
    "not made yet": (torch.nn.UninitializedParameter, "UninitializedParameter has no memory"),
}


def interpreted(array):
    net = td.Network()
    net.output(net.input("x", ("N", 4)) * 1.0, "y")
    return td.interpret(net, {"x": array})["y"]


def executed(array):
    with simulated_device():
        return doubling().run({"x": array})["y"]


def constant(array):
    net = td.Network()
    net.output(net.input("x", (2, 4)) + net.constant(array), "y")
    return td.interpret(net, {"x": torch.zeros(2, 4)})["y"]


def weight(array):
    @td.network(inputs={"x": td.Input((2, 4))})
    def net(x, w):
        return {"y": x + w.a}

    return td.interpret(net.define(weights={"a": array}), {"x": torch.zeros(2, 4)})["y"]


@pytest.mark.filterwarnings("ignore")  # of torch, which says of half of these kinds that they may change
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("read", [interpreted, executed, constant, weight])
def test_what_lies_otherwise_in_memory_is_refused(read, kind):
    make, why = ODD[kind]
    array = make()
    if read is weight and not isinstance(array, torch.Tensor):
        why = "weights are tensors by name"
    with pytest.raises(td.TrtdslError, match=why):
        read(array)


@pytest.mark.parametrize("read", [interpreted, constant])
def test_a_mask_that_hides_nothing_is_no_matter(read):
    assert torch.equal(read(np.ma.array(X.numpy())), X)


class Named(torch.Tensor):
    """What a library may give: a tensor with another name."""


def test_a_subclass_that_is_a_tensor_but_for_its_name_is_one():
    net = td.network(inputs={"x": td.Input((2, 4))}, reference=Added, weights={"a": X.clone().as_subclass(Named)})
    td.check(net(lambda x, w: x + w.a)).raise_for_mismatch()
    assert all(torch.equal(read(X.as_subclass(Named)), X) for read in (interpreted, constant, weight))


class Added(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(X.clone())

    def forward(self, x):
        return x + self.a
