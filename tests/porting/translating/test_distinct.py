"""What is as long as values say, without a bound: the values that differ, and elements as often as others say."""

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.porting import ported


class Calls(nn.Module):
    """A module whose forward is given."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, c):
        return self.function(x, c)


def voxels(x, c):
    cells, which, counts = torch.unique(c, dim=0, return_inverse=True, return_counts=True)
    sums = torch.zeros(cells.shape[0], 4).index_add(0, which, x)
    return sums / counts[:, None], cells, x - sums[which]


FUNCTIONS = {
    "of a whole tensor": lambda x, c: torch.unique(c, return_inverse=True, return_counts=True),
    "a method, of floats": lambda x, c: (x * 2).round().unique() * c.sum(),
    "of rows": voxels,
    "of columns": lambda x, c: (c.t().unique(dim=1), x),
    "how many": lambda x, c: x * len(torch.unique(c)),
    "of neighbours": lambda x, c: (*c[:, 0].unique_consecutive(True, return_counts=True), x),
    "rows as often": lambda x, c: x.repeat_interleave(c[:, 0], dim=0),
    "columns as often": lambda x, c: torch.repeat_interleave(x.t(), c[:, 1] + 1, dim=-1),
    "elements as often": lambda x, c: torch.repeat_interleave(x[:, 0], c[:, 0], output_size=int(c[:, 0].sum())),
    "places as often": lambda x, c: torch.repeat_interleave(c[:, 2]) + x.long().sum(),
    "as often as a constant says": lambda x, c: x.repeat_interleave(torch.tensor([1, 0, 3, 1]), dim=1) * c.sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_as_long_as_values_say_is_that_of_torch(name):
    module = Calls(FUNCTIONS[name])
    result = ported(module, {"x": "T,4", "c": "T,3:int64:0:3"}, dims={"T": (2, 5, 9)}, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict


def test_columns_of_a_dynamic_length_are_refused():
    with pytest.raises(td.TrtdslError, match="the size became a number"):
        ported(Calls(lambda x, c: torch.unique(c, dim=1)), {"x": "T,4", "c": "T,3:int64:0:3"}, dims={"T": (2, 5, 9)})
