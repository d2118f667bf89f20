"""All modules of torch.nn with all settings and inputs that torch's own suite has for them."""

import itertools
import warnings

import pytest
import torch
from torch import nn

import trtdsl as td

pytestmark = pytest.mark.long
TRIVIAL = {
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LayerNorm",
    "RMSNorm",
    "ReLU6",
    "Softmax",
    "LogSoftmax",
    "Softmin",
}
"""Of which torch has samples without elements, or with one result for all inputs."""
MOST = 12  # samples of one module: torch has 90 of Transformer


def infos():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
    left = (info for info in module_db if "Loss" not in info.name and "Fractional" not in info.name)  # 64 bits only
    return {info.name.removeprefix("nn."): info for info in left}


class Fed(nn.Module):
    """A module, and in a call of it the places of tensors, which are the inputs."""

    def __init__(self, module, args, kwargs):
        super().__init__()
        self.module, self.call = module, (args, kwargs)

    def forward(self, *tensors):
        given = iter(tensors)
        args, kwargs = self.call
        args = [next(given) if isinstance(each, torch.Tensor) else each for each in args]
        return self.module(
            *args, **{key: next(given) if isinstance(each, torch.Tensor) else each for key, each in kwargs.items()}
        )


def samples(info):
    """Modules in evaluation mode and the tensors that they take; those of which torch refuses its own are left out."""
    made = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
    for sample in made:
        args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
        try:
            module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).eval()
            with torch.no_grad():
                module(*args, **kwargs)
        except Exception:
            continue
        yield Fed(module, args, kwargs), [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]


@pytest.mark.parametrize("name", infos())
@pytest.mark.filterwarnings("ignore")
def test_it_is_torchs(name):
    torch.manual_seed(0)
    count = 0
    for module, tensors in itertools.islice(samples(infos()[name]), MOST):
        spec = td.from_module(module, tensors)
        report = td.check(spec, trivial=["output"]) if name in TRIVIAL else td.check(spec)
        report.raise_for_mismatch()
        count += 1
    assert count
