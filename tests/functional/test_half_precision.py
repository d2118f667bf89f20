"""Results that half precision has, of intermediate values that it does not have."""

import pytest
import torch
import torch.nn.functional as TF
from support import evaluate

import trtdsl.functional as F

G = torch.Generator().manual_seed(0)
X, Y, Z = ((torch.rand((2, 6, 5, 4), generator=G) * 1e5 - 5e4).half() for _ in range(3))
EQUAL = torch.zeros(1, 70_000).half()  # more than float16 counts
HIGH = (torch.rand((2, 3, 7, 6), generator=G) * 1e4 + 5e4).half()

# name -> (ours, torch's, operands)
CASES = {
    "std": (lambda x: F.std(x, 1), lambda x: x.std(1), [X]),
    "std_mean": (lambda x: F.std_mean(x, (1, 2))[0], lambda x: torch.std_mean(x, (1, 2))[0], [X]),
    "celu": (lambda x: F.celu(x, 0.25), lambda x: TF.celu(x, 0.25), [X]),
    "addcmul": (lambda *x: F.addcmul(*x, value=1e-6), lambda *x: torch.addcmul(*x, value=1e-6), [X, Y, Z]),
    "addcdiv": (
        lambda *x: F.addcdiv(*x, value=1e-4),
        lambda *x: torch.addcdiv(*x, value=1e-4),
        [X, Y, Z.abs() / 1e7 + 1e-3],
    ),
    "lerp": (lambda x, y: F.lerp(x, y, 0.3), lambda x, y: torch.lerp(x, y, 0.3), [X, Y]),
    "lerp by a tensor": (F.lerp, torch.lerp, [X, Y, (Z / 5e4).abs()]),
    "log_softmax": (lambda x: F.log_softmax(x, 1), lambda x: TF.log_softmax(x, 1), [EQUAL]),
    "logsumexp": (lambda x: F.logsumexp(x, 1), lambda x: torch.logsumexp(x, 1), [EQUAL]),
    "softmax": (lambda x: F.softmax(x, 1), lambda x: TF.softmax(x, 1), [EQUAL]),
    "avg_pool2d, divided": (
        lambda x: F.avg_pool2d(x, 3, divisor_override=10),
        lambda x: TF.avg_pool2d(x, 3, divisor_override=10),
        [HIGH],
    ),
    "avg_pool2d, rounded up": (
        lambda x: F.avg_pool2d(x, 4, 3, 1, True, True),
        lambda x: TF.avg_pool2d(x, 4, 3, 1, True, True),
        [HIGH],
    ),
}


SPREAD = (torch.randn(4, 64, generator=G) * torch.logspace(-6, 4.5, 64)).half()


@pytest.mark.parametrize("number", [1e5, 3e7, 100_000, 1e-6, -1e-9])
@pytest.mark.parametrize("op", ["mul", "div"])
def test_a_number_that_float16_has_no_digits_of_is_multiplied_as_torch_does(op, number):
    want = getattr(torch, op)(SPREAD, number)
    assert bool((want.isfinite() & (want != 0)).any())
    torch.testing.assert_close(evaluate(lambda x: getattr(F, op)(x, number), SPREAD), want, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gelu_where_one_and_the_error_function_cancel(dtype):
    x = torch.linspace(-4, -2, 50).to(dtype)
    want = TF.gelu(x.double()).to(dtype)
    got = evaluate(lambda x: F.gelu(x), x)
    torch.testing.assert_close(got, want, rtol=2 * float(torch.finfo(dtype).eps), atol=0.0)


@pytest.mark.parametrize("name", CASES)
def test_what_lies_between_operands_and_result_does_not_overflow(name):
    ours, theirs, operands = CASES[name]
    want = theirs(*(operand.double() for operand in operands)).half()
    assert want.isfinite().all()
    atol = 1e-6 * float(want.abs().max())
    torch.testing.assert_close(evaluate(ours, *operands), want, rtol=2e-3, atol=atol)
