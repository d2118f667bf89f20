"""Functions that trtdsl lacks port by what torch itself makes of them, and give what torch gives."""

import itertools
import warnings

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # has operators of quantized_decomposed
from torch import nn
from torch.nn import functional
from torch.testing._internal.common_methods_invocations import op_db

import trtdsl as td
from trtdsl.porting.calls import leaves, rebuilt

aten = torch.ops.aten
ROWS = {"N": (1, 3, 6)}


class Calls(nn.Module):
    """A module whose forward is given."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def written(x):
    y = x * 1
    y[:, 1:].sin_().erfinv_()
    slopes = torch.gradient(x, dim=1)[0]
    slopes[:, 1:].mul_(2)
    return y + slopes


def unpooled(x):
    pooled, places = functional.max_pool2d(x.view(-1, 1, 2, 2), 2, return_indices=True)
    return functional.max_unpool2d(pooled, places, 2)


def of_lists(x):
    given = [x, x.mT @ x]
    scaled = [each.clone() for each in torch._foreach_addcmul(given, torch._foreach_mul(given, 2.0), given, value=0.5)]
    torch._foreach_mul_(scaled, [1.0, 2.0])
    torch._foreach_add_(scaled, given)
    return *torch._foreach_norm(scaled), *scaled


LIBRARY = torch.library.Library("trtdsl_tests_of_kernels", "DEF")
LIBRARY.define("running(Tensor x, float by) -> Tensor")
LIBRARY.define("kept(Tensor x) -> Tensor")
LIBRARY.impl("running", lambda x, by: x.cumsum(-1) * by, "CompositeExplicitAutograd")
LIBRARY.impl("kept", lambda x: x.sum(-1), "CPU")
LIBRARY.impl("kept", lambda x: x.new_empty(x.shape[:-1]), "Meta")


def quantized(x):
    named = torch.ops.quantized_decomposed
    levels = 0.05, 3, -128, 127, torch.int8
    return named.dequantize_per_tensor(named.quantize_per_tensor.default(x, *levels), *levels)


FUNCTIONS = {
    "a library's kernels in Python": lambda x: (
        torch.ops.trtdsl_tests_of_kernels.running(x, 3.0),
        torch.ops.trtdsl_tests_of_kernels.kept.default(x),
    ),
    "quantized by torch's export": quantized,
    "functions of lists": of_lists,
    "a decomposition of a Python function's operator": unpooled,
    "a reference in Python": lambda x: torch.float_power(x.abs(), 2.5),
    "a reference that makes constants": lambda x: torch.isreal(x) & x.isreal(),
    "code in C++ with sizes": lambda x: torch.nanquantile(x, 0.3, dim=0),
    "code in C++ that makes a tensor": lambda x: torch.vander(x[:, 0], N=3),
    "code in C++ with several results": lambda x: torch.gradient(x, dim=1)[0],
    "a decomposition": lambda x: functional.binary_cross_entropy_with_logits(x, x.sigmoid()),
    "a loss in Python": lambda x: functional.cross_entropy(x, x.argmax(1)),
    "a loss as an operator": lambda x: aten.mse_loss(x, x.flip(1), 2) + aten.mse_loss.default(x, x.cos()),
    "operators": lambda x: aten._prelu_kernel(x, x.cos()) + aten.native_dropout(x, 0.5, False)[0] + aten.rsub(x, 3, 2),
    "a reduction at places": lambda x: torch.index_reduce(x, 1, torch.tensor([0, 2, 2]), x[:, :3] * 2, "amax"),
    "a view's copy": lambda x: torch.view_copy(x, (x.shape[0], 2, 2)),
    "in place": written,
    "a rule of its own": lambda x: torch.distributions.Normal(0.0, 1.0).icdf(x.sigmoid()),
    "a solution by a factor": lambda x: torch.cholesky_solve(x.mT, 2 * torch.eye(4) + torch.ones(4, 4).tril()),
    "given out": lambda x: torch.float_power(x.abs(), 2, out=torch.empty(x.shape, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_way_of_torch_is_followed_at_all_sizes(name):
    spec = td.from_module(Calls(FUNCTIONS[name]), ["N,4"], dims=ROWS)
    td.check(spec).raise_for_mismatch()


def test_what_has_no_decomposition_is_refused_by_the_name_that_the_author_wrote():
    with pytest.raises(td.UnsupportedError, match=r"torch\.lcm has no counterpart.*") as error:
        td.from_module(Calls(lambda x: torch.lcm(x, x)), ["N,4:int64:1:9"], dims=ROWS).define()
    assert "prims" not in error.value.message


def test_a_write_to_a_copy_is_none_to_its_tensor():
    def forward(x):
        y = x * 1
        aten.alias_copy(y).add_(1)
        return y

    td.check(td.from_module(Calls(forward), ["N,4"], dims=ROWS)).raise_for_mismatch()


def test_what_torch_asks_of_sizes_is_asked_at_the_authors_line():
    """Of a size at which nothing would be traced, too."""
    text = """
def asking(x):
    if has_torch_function_unary(x):
        return handle_torch_function(asking, (x,), x)
    return x * 2 if x.shape[0] == 77 else x * 3
"""
    made = {name: held for name, held in vars(functional).items() if "torch_function" in name}
    exec(compile(text, functional.__file__, "exec"), made)
    spec = td.from_module(Calls(lambda x: made["asking"](x)), ["N,4"], dims={"N": (1, 3, 600)})
    for count, factor in ((76, 3.0), (77, 2.0)):
        (found,) = td.interpret(spec.define(), {"tensors_0": torch.ones(count, 4)}).values()
        assert torch.equal(found, torch.full((count, 4), factor))


NAMES = [
    *("alias_copy", "as_strided_copy", "diagonal_copy", "expand_copy", "narrow_copy", "permute_copy", "squeeze_copy"),
    *("t_copy", "transpose_copy", "unbind_copy", "unfold_copy", "unsqueeze_copy", "view_copy", "split_with_sizes_copy"),
    *("float_power", "gradient", "isreal", "nanquantile", "native_batch_norm", "native_layer_norm", "vander"),
    *("cholesky_solve", "diagonal_scatter", "erfinv", "logdet", "linalg.vander"),
    *("nn.functional.huber_loss", "nn.functional.smooth_l1_loss", "nn.functional.kl_div"),
    *("nn.functional.cross_entropy", "nn.functional.nll_loss", "nn.functional.binary_cross_entropy_with_logits"),
    *("nn.functional.multi_margin_loss", "nn.functional.multilabel_margin_loss", "nn.functional.triplet_margin_loss"),
]


def samples(name, count=3):
    """Calls of the function, as a method too where it is one, and in place."""
    for op in (each for each in op_db if each.name == name):
        forms = itertools.cycle([each for each in (op.op, op.method_variant) if each is not None])
        given = op.sample_inputs("cpu", torch.float32, requires_grad=False)
        taken = [
            each for each in given if all(x.numel() for x in leaves((each.input, each.args)) if torch.is_tensor(x))
        ]
        for sample in taken[:: max(len(taken) // count, 1)][:count]:
            yield next(forms), (sample.input, *sample.args), sample.kwargs


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_torchs_samples_give_what_torch_gives(name):
    for function, args, kwargs in samples(name):
        given = [each for each in leaves((args, kwargs)) if torch.is_tensor(each)]

        def called(*tensors, function=function, args=args, kwargs=kwargs):
            each = iter(tensors)
            args, kwargs = rebuilt((args, kwargs), lambda leaf: next(each) if torch.is_tensor(leaf) else leaf)
            return function(*args, **kwargs)

        network = td.from_module(Calls(called), given).define()
        found = td.interpret(network, dict(zip(network.inputs, given))).values()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what kl_div will be
            wanted = [each for each in leaves(function(*args, **kwargs)) if torch.is_tensor(each)]
        for own, its in zip(found, wanted, strict=True):
            torch.testing.assert_close(own, its, check_dtype=its.dtype != torch.float64, equal_nan=True)
