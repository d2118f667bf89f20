"""Names that functional does not have: the nearest ones, or why there is none."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.functional.absent as absent


@pytest.mark.parametrize(
    ("name", "hint"),
    [("layernorm", "layer_norm"), ("conv2", "conv2d"), ("softmaks", "softmax"), ("interpolat", "interpolate")],
)
def test_the_nearest_names_are_said(name, hint):
    with pytest.raises(AttributeError, match=rf"no '{name}' \(nearest: .*{hint}.*dir\(trtdsl.functional\)"):
        getattr(F, name)


@pytest.mark.parametrize("name", ["randn", "svd", "unique"])
def test_absent_functions_give_the_reason(name):
    assert not hasattr(F, name)
    with pytest.raises(td.UnsupportedError, match=rf"F\.{name} (is random|needs|is made of others)"):
        getattr(F, name)


@pytest.mark.parametrize("name", sorted(name for name in dir(torch.nn.functional) if name.endswith(absent.LOSSES)))
def test_what_needs_a_target_is_absent_for_one_reason(name):
    with pytest.raises(td.UnsupportedError, match=rf"F\.{name} compares with a target.*F\.log_softmax"):
        getattr(F, name)


def test_every_loss_that_torch_has_a_module_of_is_absent():
    modules = [name for name in dir(torch.nn.modules.loss) if name.endswith("Loss") and name[0] != "_"]
    losses = [name for name in dir(torch.nn.functional) if name.endswith(absent.LOSSES)]
    assert len(losses) >= len(modules) > 15


def test_a_missing_function_gives_the_reason():
    there = {name for name in absent.REASONS if name in vars(F)}
    assert not there
    assert not hasattr(F, "__path_of_nothing__")


def test_a_method_of_a_tensor_is_named_by_its_nearest():
    x = td.Network().input("x", (2, 3))
    with pytest.raises(AttributeError, match=r"no 'softmaks': .*nearest: softmax"):
        _ = x.softmaks


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        self.norm, self.fc = torch.nn.LayerNorm(4), torch.nn.Linear(4, 5)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(self.body(x), 2)
        x = self.norm(torch.flatten(x, 2).mean(-1))
        return torch.softmax(torch.cat([self.fc(x), torch.zeros(2, 1)], dim=1), dim=1)


def test_a_modules_own_forward_runs_on_tensors():
    module = Module().eval()
    x = torch.randn(2, 3, 6, 8, generator=torch.Generator().manual_seed(0))
    net = td.Network()
    net.output(module(net.input("x", x.shape)), "y")
    with torch.no_grad():
        torch.testing.assert_close(td.interpret(net, {"x": x})["y"], module(x))


def test_an_argument_that_the_namesake_does_not_take_is_said():
    x = td.Network().input("x", (2, 3))
    with pytest.raises(td.DefinitionError, match=r"torch's own sum on a trtdsl Tensor is F\.sum"):
        td.Tensor.__torch_function__(torch.sum, (td.Tensor,), (x,), {"initial": 3})
    with pytest.raises(td.DefinitionError, match="torch's own svd does not take a trtdsl Tensor"):
        torch.svd(x)
