"""A reference that decides nothing by sizes is told from one that does, by the sizes themselves."""

import copy
import pickle

import pytest
import torch
from torch.nn import functional as TF

import trtdsl as td
from trtdsl.checking.judging.isolate import Reference
from trtdsl.core.tensors.exact import Exact
from trtdsl.sizes.followed import FollowedFloat, FollowedInt, followed

WEIGHT = torch.nn.Parameter(torch.ones(3, 3))
SETTLED = {
    "a shape": lambda x: x.reshape(x.shape[0], -1),
    "arithmetic": lambda x: x[: 2 * x.shape[0] // 3 + x.size(1) - 4],
    "what torch decides": lambda x: TF.interpolate(x[None, None], size=(x.shape[0] * 2, x.size(1)))[0, 0],
    "a scale": lambda x: x * x.shape[1] ** -0.5,
    "as many rounds": lambda x: sum(x[place] for place in range(x.shape[0])),
    "a list": lambda x: x + torch.tensor([0.0] * x.shape[1]),
    "a tensor of sizes": lambda x: (
        x + torch.tensor([x.shape[0] - 1.0, x.shape[0]]).mean() + torch.full((1,), x.shape[1])
    ),
    "a weight's size": lambda x: x if WEIGHT.shape[0] > 2 else -x,
    "values": lambda x: x if x.sum() > 0 else -x,
    "a number of its own": lambda x: x if WEIGHT.ndim > 1 else -x,
    "a rounded half": lambda x: x[: round(x.shape[0] / 2)],
}
DECIDED = {
    "a size": lambda x: x if x.shape[0] > 4 else -x,
    "a size of a result": lambda x: x if torch.cat([x, x]).shape[0] > 4 else -x,
    "the truth of a size": lambda x: x if -x.shape[0] % 4 else -x,
    "the least": lambda x: x[: min(x.shape[0], 4)],
    "a shape": lambda x: x if x.shape == (3, 4) else -x,
    "a table": lambda x: x * {3: 2.0}.get(x.shape[0], 1.0),
    "a set": lambda x: x if x.size(0) in {256, 512} else -x,
    "a name": lambda x: x * vars(torch).get(f"no{x.shape[0]}", 1.0),
    "an int": lambda x: x if int(x.shape[0] / 2) > 4 else -x,
    "a fraction": lambda x: x if x.shape[0] / 2 > 4 else -x,
    "a whole quotient": lambda x: x if (x.shape[0] / 4).is_integer() else -x,
    "a bit": lambda x: x if x.numel() & 1 else -x,
    "a remainder": lambda x: x if divmod(x.shape[0], 4)[1] else -x,
    "a stride": lambda x: x if x.stride(0) == 56 else -x,
    "a size that insists on its type": lambda x: x.reshape(insisting(x.shape[0]), -1),
}


def insisting(number):
    if type(number) is not int:
        raise TypeError("an int")
    return number


def decides(forward):
    class Module(torch.nn.Module):
        pass

    Module.forward = lambda self, x: forward(x)
    reference = Reference(Module, None, Exact())
    x = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(torch.as_tensor(reference({"x": x})), torch.as_tensor(forward(x)))
    assert reference.not_exact is None
    return reference.recording.asked.branches


@pytest.mark.parametrize("name", SETTLED)
def test_nothing_is_decided_by_a_size(name):
    assert not decides(SETTLED[name])


@pytest.mark.parametrize("name", DECIDED)
def test_something_is_decided_by_a_size(name):
    assert decides(DECIDED[name])


def test_they_are_numbers_in_every_respect():
    told = []
    n = followed(7, lambda: told.append(1))
    for made, expected in [
        (n + 1, 8), (1 + n, 8), (n - 0.5, 6.5), (2**n, 128), (n**2, 49), (pow(n, 2, 5), 4), (n // 2, 3), (7 / n, 1.0),
        (n % 4, 3), (-n, -7), (abs(-n), 7), (round(n / 2), 4), (divmod(n, 4), (1, 3)), (n * 1j, 7j),
    ]:  # fmt: skip
        assert made == expected and type(made) in (type(expected), FollowedInt, FollowedFloat)
    assert [1, 2] * followed(2, list) == [1, 2, 1, 2]
    assert type(copy.deepcopy(n)) is type(pickle.loads(pickle.dumps(n))) is int
    assert followed(True, list) is True and str(followed((2, 3.5), list)) == "(2, 3.5)"
    told.clear()
    assert type(n * 2 + 1.5) is FollowedFloat and not told
    assert n < 9 and told


def test_both_sides_of_a_branch_are_tried_and_of_none_where_there_is_none():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] == 9 else x

    shape = (td.Dim("N", min=1, opt=6, max=24), 3)
    spec = td.network(inputs={"x": td.Input(shape)}, reference=Model)(lambda x: x * 1)
    assert not td.check(spec).passed


def test_the_type_of_a_size_decides_nothing_of_what_is_compared():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x * 2 if type(x.shape[0]) is int else x * 3

    spec = td.network(inputs={"x": td.Input(("N", 3))}, reference=Model)(lambda x: x * 2)
    report = td.check(spec, dims={"N": (1, 4)})
    assert report.passed and not report.findings
