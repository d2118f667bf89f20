"""Tensors of the author's own classes are what these make of them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import nn

import trtdsl as td


class Named(torch.Tensor):
    def twice(self):
        return self * 2


class Told(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, Told):
            result.told = True
        return result


class Subtracts(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        func = torch.sub if func in (torch.Tensor.add, torch.add) else func
        return super().__torch_function__(func, types, args, kwargs or {})


class Unwraps(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {})) + 1


class Scale(NamedTuple):
    value: torch.Tensor
    scale: torch.Tensor


class Scaled(Scale):
    """No tensor, which torch's functions take as one."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        def plain(given):
            if isinstance(given, Scaled):
                return given.value * given.scale
            return [*map(plain, given)] if isinstance(given, (list, tuple)) else given

        return func(*plain(args), **{key: plain(each) for key, each in (kwargs or {}).items()})


class WithScale(torch.Tensor):
    """One with arguments of its own."""

    @staticmethod
    def __new__(cls, x, scale):
        return torch.Tensor._make_subclass(cls, x)

    def __init__(self, x, scale):
        self.scale = scale


class Itself(torch.Tensor):
    """One that looks for itself among the types of a call, and gives plain tensors."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        types = tuple(torch.Tensor if each is Itself else each for each in types)
        return torch.Tensor.__torch_function__(func, types, args, kwargs)


class Doubled:
    """One whose way is an instance's."""

    def __init__(self, value):
        self.value = value

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*(each.value * 2 if isinstance(each, Doubled) else each for each in args), **(kwargs or {}))


def no_tensor(module, x):
    weight = Scaled((module.linear.weight * 8).round(), torch.tensor(0.5))
    y = nn.functional.linear(x, weight, bias=module.linear.bias)
    return torch.cat([torch.relu(Scaled(y, y.mean())), y * weight[0].sum()], 1)


def methods(module, x):
    found = module.linear(x.as_subclass(Named))
    return found.twice() if isinstance(found, Named) else found


def written(module, x):
    copy = x.clone()
    named = copy.as_subclass(Named)
    named[:, 0] = 3
    return copy


CASES = {
    "methods": methods,
    "what a call keeps": lambda m, x: x.as_subclass(Told) * x.as_subclass(Told).relu().told,
    "a module's function": lambda m, x: nn.functional.layer_norm(m.linear(x.as_subclass(Told)), (8,)),
    "another function": lambda m, x: torch.add(x.as_subclass(Subtracts), m.table) + m.table,
    "more than a function": lambda m, x: x.as_subclass(Unwraps) * m.table,
    "and back": lambda m, x: x.as_subclass(Subtracts).as_subclass(torch.Tensor) + m.table,
    "a view": written,
    "made by _make_subclass": lambda m, x: WithScale(m.linear(x), x.mean()) * WithScale(x, x.sum()).scale,
    "made of a tensor": lambda m, x: m.linear(Itself(x)) + Itself(x).sum(),
    "given": lambda m, x: Itself(m.linear(x)),
    "sizes": lambda m, x: x.as_subclass(Named).reshape(x.as_subclass(Named).shape[0], 2, 4),
    "no tensor": no_tensor,
    "an instance's": lambda m, x: torch.add(m.linear(x), Doubled(x)),
    "among others": lambda m, x: torch.cat([x.as_subclass(Named), x], 0),
}


class Module(nn.Module):
    def __init__(self, name):
        super().__init__()
        torch.manual_seed(0)
        self.name, self.linear = name, nn.Linear(8, 8)
        self.register_buffer("table", torch.randn(8))

    def forward(self, x):
        return CASES[self.name](self, x)


@pytest.mark.filterwarnings("ignore:Defining your:DeprecationWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_class_of_the_authors_is_followed(name):
    td.check(td.from_module(Module(name), ["N,8"])).raise_for_mismatch()


def test_zeros_that_are_made_a_tensor_again_pad_by_a_size():
    """As separators of speech pad to whole chunks: the number of zeros stays a size."""

    class Padded(nn.Module):
        def forward(self, x):
            gap = 10 - (5 + x.shape[2] % 10) % 10
            return torch.cat([x, torch.Tensor(torch.zeros(x.shape[0], 3, gap)).type(x.type())], dim=2)

    text = td.port(Padded(), {"x": "N,3,T"}, dims={"T": (20, 40, 60)})
    assert "F.pad(x, [0, 10 - (5 + x.shape[2] % 10) % 10])" in text and "td.require" not in text
