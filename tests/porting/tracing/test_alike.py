"""What two traces of a module say of the sizes in it."""

import torch

from trtdsl.porting.calls import SizeOf, SizeOp, Value
from trtdsl.porting.tracing.alike import _varies


def test_a_size_that_another_trace_has_as_it_is_varies():
    x = Value((2, 7), torch.float32)
    length = SizeOf(x, 1, 7)
    padded = SizeOp("+", (length, SizeOp("-", (3, length), -4)), 3)
    mine, its = SizeOp("-", (padded, 1), 2), SizeOp("-", (SizeOf(x, 1, 3), 1), 2)
    assert _varies(mine, its)
    assert mine.varies and padded.varies
