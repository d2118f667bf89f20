"""Sparse tensors in forward: what is written computes with the dense ones."""

import re

import pytest
import torch
from torch import nn

import trtdsl as td

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:.*[Ss]parse.*")]

EDGES = (torch.rand(6, 6, generator=torch.Generator().manual_seed(0)) > 0.5).float()


class Of(nn.Module):
    """What a function gives of features, an adjacency matrix of the module's and its weights."""

    def __init__(self, of):
        super().__init__()
        places = EDGES.nonzero().t()
        self.of, self.weight = of, nn.Parameter(torch.randn(8, 4))
        self.register_buffer("adjacency", torch.sparse_coo_tensor(places, torch.rand(places.shape[1]), (6, 6)))
        self.register_buffer("places", places)
        self.values = nn.Parameter(torch.rand(places.shape[1]))
        self.outside = EDGES.to_sparse()

    def forward(self, x):
        return self.of(self, x)


def convolved(self, x):
    """Kipf's GCN."""
    adjacency = self.adjacency.coalesce() if self.adjacency.is_sparse else self.adjacency
    return torch.spmm(adjacency, x @ self.weight), adjacency @ x, torch.sparse.mm(adjacency.t(), x)


def batched(self, x):
    """Chebyshev convolutions, one sample after the other."""
    return torch.stack([torch.sparse.mm(self.adjacency, each) for each in x.reshape(-1, 6, 2)])


def learned(self, x):
    """SpGAT: edges with values of their own."""
    return torch.sparse.mm(torch.sparse_coo_tensor(self.places, self.values, (6, 6)), x)


def normalized(self, x):
    """DHG: degrees of constants, in forward."""
    degrees = torch.sparse.sum(self.outside, 1).to_dense()
    values = self.outside.coalesce().values() / degrees[self.outside.coalesce().indices()[0]]
    return torch.sparse.mm(torch.sparse_coo_tensor(self.outside.coalesce().indices(), values, (6, 6)), x)


def attended(self, x):
    return torch.sparse.mm(torch.sparse.softmax(self.outside, dim=1), x)


def turned(self, x):
    """TopoModelX: a dense matrix that is made sparse."""
    return torch.sparse.mm((x @ x.t()).relu().to_sparse(), x)


@pytest.mark.parametrize("of", [convolved, batched, learned, normalized, attended, turned])
def test_what_is_computed_of_sparse_tensors_is_that_of_dense_ones(of):
    torch.manual_seed(0)
    td.check(td.from_module(Of(of).eval(), {"x": "6,8"})).raise_for_mismatch()


def test_edges_may_be_inputs():
    class Edges(nn.Module):
        def forward(self, x, edges, weights):
            return torch.sparse.mm(torch.sparse_coo_tensor(edges, weights, (x.shape[0], x.shape[0])), x)

    inputs, dims = {"x": "V,3", "edges": "2,M:int64:0:4", "weights": "M"}, {"V": (4, 5, 9), "M": (2, 6, 12)}
    td.check(td.from_module(Edges(), inputs, dims=dims)).raise_for_mismatch()


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (lambda self, x: torch.sparse.mm(torch.sparse_coo_tensor(self.places, x.flatten()[:1]), x), "give its size"),
        (lambda self, x: torch.where(self.adjacency, x[:, :6], 0), "where of a sparse tensor: a network has dense"),
    ],
)
def test_what_no_dense_tensor_says_is_refused(of, said):
    with pytest.raises(td.UnsupportedError, match=re.escape(said)) as raised:
        td.from_module(Of(of), {"x": "6,8"})
    assert raised.value.location.file == __file__
