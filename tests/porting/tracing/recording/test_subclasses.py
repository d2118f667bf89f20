"""Tensors of the author's own classes are what these make of them."""

from __future__ import annotations

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
    "sizes": lambda m, x: x.as_subclass(Named).reshape(x.as_subclass(Named).shape[0], 2, 4),
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


@pytest.mark.parametrize("name", CASES)
def test_a_class_of_the_authors_is_followed(name):
    td.check(td.from_module(Module(name), ["N,8"])).raise_for_mismatch()
