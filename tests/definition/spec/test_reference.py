"""What a reference has beside its tensors."""

import functools
import re

import pytest
import torch

import trtdsl as td
from trtdsl.definition.spec.reference import fill, state_of, with_hooks
from trtdsl.definition.weights.source import Weights


def test_a_state_that_is_no_tensor_is_left_to_the_module():
    class Versioned(torch.nn.Linear):
        def get_extra_state(self):
            return {"version": 2}

        def set_extra_state(self, state):
            assert state == {"version": 2}

    assert list(state_of(Versioned(3, 2))) == ["weight", "bias"]
    spec = td.from_module(Versioned(3, 2), ["N,3"], dims={"N": (1, 2, 3)})
    assert td.check(spec).passed


class Standardized(torch.nn.Linear):
    """As FBA-Matting's convolutions: going into evaluation mode changes the weights, each time."""

    def train(self, mode=True):
        self.weight.data = (self.weight - self.weight.mean(1, keepdim=True)) * 1.5
        return super().train(mode)


def test_weights_are_filled_into_a_module_that_is_in_evaluation_mode_already():
    spec = td.from_module(Standardized(3, 2).eval(), ["N,3"], dims={"N": (1, 2, 3)})
    assert td.check(spec).passed


def doubled(reference):
    @td.network(inputs={"x": td.Input(("N", 3))}, reference=reference)
    def double(x):
        return x * 2

    return double


class Double(torch.nn.Module):
    def __init__(self, times=2):
        super().__init__()
        self.times = times

    def forward(self, x):
        return x * self.times


def test_a_module_is_a_reference_of_a_network():
    module = Double().train()
    assert td.check(doubled(module), dims={"N": (1, 2, 3)}).passed
    assert not td.check(doubled(Double(3)), dims={"N": 2}).passed
    assert module.training  # a copy of it was run


@pytest.mark.parametrize("given", ["Double", "models:Double", 5])
def test_what_is_no_reference_is_told_what_is(given):
    with pytest.raises(td.UsageError, match="reference is 'FILE.py:CLASS', a class or a torch.nn.Module, not"):
        doubled(given)


def test_what_makes_no_module_without_arguments_says_what_it_needs():
    for reference in (lambda x: x * 2, functools.partial(lambda y, x: x * y, 2)):
        with pytest.raises(td.UsageError, match="is called without arguments .*, and needs x: give a module"):
            td.check(doubled(reference), dims={"N": 2})


def test_inputs_in_another_order_than_the_parameters():
    """They go to the function in order: two of one shape would change places without a word."""
    inputs = {"a": td.Input((2, 3)), "b": td.Input((2, 3))}

    @td.network(inputs=inputs)
    def ratio(b, a):
        return a / b

    @td.network(inputs=inputs, weights={"c": torch.ones(3)})
    def scaled(w, a, b):
        return a * w.c + b

    for spec, wanted in ((ratio, "inputs, in this order: (a, b)"), (scaled, "weights, in this order: (a, b, w)")):
        with pytest.raises(td.DefinitionError, match=re.escape(wanted)):
            spec.define()


def test_a_file_of_a_torch_module_is_told_to_be_ported(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("import torch\nfrom torch.nn import Linear\n\nclass Net(torch.nn.Module):\n    pass\n")
    for name in (path, f"{path}:Net"):
        with pytest.raises(td.UsageError, match=rf"Net is a torch module, of which `trtdsl port {path}:Net` writes"):
            td.load_spec(name)
    with pytest.raises(td.UsageError, match="has no network 'Linear': it has none: mark a function"):
        td.load_spec(f"{path}:Linear")


def layers_in_a_class_of_their_own():
    layers = [torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)]

    def in_turn(x):
        for layer in layers:
            x = layer(x)
        return x

    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(layers)

        def forward(self, x):
            return in_turn(x)

    return Layers()


class CalledBack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.call = lambda x: self.fc(x)

    def forward(self, x):
        return self.call(x)


@pytest.mark.parametrize("make", [layers_in_a_class_of_their_own, CalledBack])
def test_functions_that_use_modules_use_those_of_the_copy(make):
    module, x = make(), torch.ones(2, 3)
    before = module(x)
    made = with_hooks(module)
    for parameter in made.parameters():
        parameter.data.zero_()
    assert isinstance(made, type(module)) and not made(x).any()
    assert torch.equal(module(x), before) and before.any()


KEPT = {}


class KeepsByAHook(torch.nn.Module):
    """Its hook knows the dict that it keeps by a global name, as MiDaS does."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.kept = torch.nn.Linear(4, 5), torch.nn.Linear(5, 3), KEPT
        self.first.register_forward_hook(lambda module, given, result: KEPT.update(first=result))

    def forward(self, x):
        return self.second(self.first(x)), self.kept["first"]


def test_what_a_hook_writes_is_what_the_copy_reads():
    module, x = KeepsByAHook(), torch.randn(3, 4)
    copy = with_hooks(module)
    torch.testing.assert_close(copy(x)[1], module.first(x))
    td.check(td.from_module(module, ["N,4"], dims={"N": (1, 2, 3)})).raise_for_mismatch()


class OfADistribution(torch.nn.Module):
    """Its distribution has views of its parameters, which torch's load_state_dict changes with them."""

    def __init__(self):
        super().__init__()
        self.loc, self.scale = torch.nn.Parameter(torch.zeros(4)), torch.nn.Parameter(torch.ones(4))
        self.distribution = torch.distributions.Normal(self.loc, self.scale)

    def forward(self, x):
        return self.distribution.log_prob(x)


@pytest.mark.parametrize("grad", [True, False])
def test_views_of_parameters_are_of_the_copy(grad):
    with torch.set_grad_enabled(grad):
        module = OfADistribution()
    copy = with_hooks(module)
    fill(copy, Weights({"loc": torch.ones(4), "scale": torch.full((4,), 2.0)}), [])
    x = torch.randn(3, 4)
    torch.testing.assert_close(copy(x), torch.distributions.Normal(1.0, 2.0).log_prob(x))
    torch.testing.assert_close(module(x), torch.distributions.Normal(0.0, 1.0).log_prob(x))
    td.check(td.from_module(module, ["N,4"], dims={"N": (1, 2, 3)})).raise_for_mismatch()


class OfOneMemory(torch.nn.Module):
    """Its parameters share their memory, and stand in a list, too; a part of one is held in another dtype."""

    def __init__(self):
        super().__init__()
        both = torch.randn(4, 4)
        self.first, self.second = torch.nn.Parameter(both[:2]), torch.nn.Parameter(both[2:])
        self.listed = [self.first, self.second]
        self.bits, self.both = self.second.detach().view(torch.int32), both

    def forward(self, x):
        return x @ self.listed[0] + self.listed[1] @ x


def test_parameters_that_share_memory_stay_parameters_of_the_copy():
    module = OfOneMemory()
    copy = with_hooks(module)
    assert [*copy.state_dict()] == ["first", "second"]
    assert copy.listed[0] is copy.first and copy.listed[1] is copy.second
    assert (
        torch.equal(copy.bits, module.bits)
        and torch.equal(copy.both, module.both)
        and torch.equal(copy.second, module.second)
    )
    copy.second.data.zero_()
    assert module.second.all() and copy.first.all()
