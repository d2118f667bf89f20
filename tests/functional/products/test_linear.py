"""F.linear: the weight of a file is transposed by a flag and not copied."""

import pytest
import torch
from support import assert_close

import trtdsl as td
import trtdsl.functional as F


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_weight_stays_where_it_is(dtype):
    net, weight = td.Network(), torch.randn(5, 3).to(dtype)
    x = net.input("x", ("N", 3), dtype)
    constant = net.constant(weight)
    net.output(F.linear(x, constant), "y")
    assert net.definition.num_outputs == 1
    kept = [data.data_ptr() for data in net.target.buffers]
    assert constant.data.data_ptr() in kept
    assert len(kept) == 1
    feed = torch.randn(4, 3).to(dtype)
    assert_close(td.interpret(net, {"x": feed})["y"], torch.nn.functional.linear(feed, weight))
