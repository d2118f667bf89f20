"""Numbers that a module's buffers hold, and lists of numbers of an input's values, where torch takes numbers."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from trtdsl.porting import ported


class Holding(nn.Module):
    """A module with a whole number and a fraction, and a forward that is given."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("k", torch.tensor(2))
        self.register_buffer("f", torch.tensor(0.25))

    def forward(self, x, i):
        return self.function(self, x, i)


FUNCTIONS = {
    "the best": lambda s, x, i: (x.topk(s.k, dim=-1)[0], x.kthvalue(s.k, 1)[0]),
    "along a dimension": lambda s, x, i: (
        x.cumsum(s.k - 1),
        x.softmax(dim=s.k - 1),
        x.mean(s.k - 1),
        torch.cat([x, x], s.k - 1),
    ),
    "pieces": lambda s, x, i: (*x.chunk(s.k, 1), x.select(1, s.k)),
    "shapes": lambda s, x, i: (functional.pad(x, (s.k, 0)), x.reshape(-1, s.k, 3), x.repeat(1, s.k)),
    "slopes": lambda s, x, i: (functional.leaky_relu(x, s.f), functional.elu(x, alpha=s.f), x * s.k + s.f),
    "a size beside them": lambda s, x, i: functional.pad(
        x, (s.k, torch.ceil(x.shape[0] / (s.k + 1)).to(torch.int64) * (s.k + 1) - x.shape[0])
    ),
    "windows": lambda s, x, i: functional.max_pool1d(x[None], s.k),
    "a list of an input's numbers": lambda s, x, i: (
        x[range(len(x)), [n - 1 for n in i]],
        x[torch.arange(len(i)), list(i)],
        x[range(len(x)), tuple(i)],
    ),
    "some of an input's numbers": lambda s, x, i: x[[0, 1], i.tolist()[:2]],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_that_tensors_hold(name):
    inputs = {"x": "N,6", "i": "N:int64:0:4"}
    result = ported(Holding(FUNCTIONS[name]).eval(), inputs, dims={"N": (2, 3, 4)}, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert ("list" in name or "input" in name) or any("the module's own tensors" in note for note in result.notes)


def test_a_part_that_is_nothing_but_a_loop_over_its_layers():
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 9, enable_nested_tensor=False)
    result = ported(layers.eval(), {"src": "5,N,4"}, dims={"N": (1, 2, 3)}, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
