"""Operators whose exact values are computed in another way than torch's own: against torch in float64."""

import pytest
import torch
from torch import nn

from trtdsl.core.tensors.exact import Exact


@pytest.mark.parametrize("kernel", [(3, 1), (3, 3), (1, 1), (2, 5)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_is_that_of_torch_in_float64(kernel, stride, bias):
    conv = nn.Conv2d(3, 5, kernel, stride, padding=(2, 1), dilation=(2, 1), bias=bias)
    x, exact = torch.randn(2, 3, 9, 700 if kernel[1] == 3 else 7), Exact()
    with torch.no_grad(), exact:
        got = exact.of(conv(x))
    with torch.no_grad():
        torch.testing.assert_close(got, conv.double()(x.double()), rtol=1e-13, atol=1e-14)


def test_the_nearest_element_is_torchs_in_float32():
    for length, target in [(7, 98), (29, 58), (41, 123)]:
        x = torch.arange(length, dtype=torch.float32)[None, None]
        exact = Exact()
        with exact:
            y = nn.functional.interpolate(x, target)
        assert torch.equal(exact.of(y), nn.functional.interpolate(x, target).double())


def test_fake_quantization_has_an_exact_scale():
    exact = Exact()
    with exact:
        y = torch.fake_quantize_per_tensor_affine(torch.tensor([0.1, 0.26]), 0.1, 0, -128, 127)
    torch.testing.assert_close(exact.of(y), torch.tensor([0.1, 0.3], dtype=torch.float64), rtol=1e-15, atol=0)


@pytest.mark.parametrize("each", [False, True], ids=["per tensor", "per channel"])
@pytest.mark.parametrize("rounds", [True, False])
def test_fake_quantization_of_half_precision_has_exact_values_with_its_observer_off(each, rounds):
    x, scale = torch.tensor([[0.1, 0.26], [0.5, 90.0]]), torch.tensor([0.1, 0.3][: each + 1])
    flags, exact = [torch.tensor([flag], dtype=torch.int64) for flag in (0, rounds)], Exact()
    with exact:
        y = torch.fused_moving_avg_obs_fake_quant(
            x.half(), *flags, -128 * scale, 127 * scale, scale, torch.zeros(1 + each, dtype=torch.int32),
            0.01, -128, 127, 0, each,
        )  # fmt: skip
    step = scale.double()[:, None]
    expected = ((x.double() / step).round().clamp(-128, 127) * step) if rounds else x.double()
    torch.testing.assert_close(exact.of(y), expected, rtol=1e-6, atol=0)
    assert not exact.rounded


def test_of_equal_values_the_first_comes_first():
    x = torch.tensor([2.0, 3.0, 3.0, 1.0, 3.0])
    with Exact():
        assert x.sort(descending=True).indices.tolist() == [1, 2, 4, 0, 3]
        assert x.topk(2).indices.tolist() == [1, 2]
        few = (torch.arange(64) * 7) % 4  # of many integers torch's own unstable sort gives others first
        assert few.sort(stable=False).indices.tolist() == sorted(range(64), key=lambda place: int(few[place]))
        assert few.topk(17).indices.tolist() == sorted(range(64), key=lambda place: -int(few[place]))[:17]


def test_the_best_lie_in_memory_as_torchs_own_do():
    x = torch.randn(2, 3, 8)
    for dim in (-1, 1):
        own = torch.topk(x, 2, dim)
        with Exact():
            values, indices = torch.topk(x, 2, dim)
        assert (values.stride(), indices.stride()) == (own.values.stride(), own.indices.stride())
        assert indices.view(2, -1).shape == (2, indices[0].numel())  # of a part of more, there is no such view


def test_distances_of_many_rows_are_exact():
    exact = Exact()
    with exact:
        x = 1000 + torch.arange(90.0).reshape(30, 3) / 7
        y = torch.cdist(x, x)  # of more than 25 rows torch subtracts squares
    expected = (exact.of(x)[:, None] - exact.of(x)).pow(2).sum(-1).sqrt()
    torch.testing.assert_close(exact.of(y), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_of_queries_that_share_one_of_keys(causal):
    """In float16 as in float64: it was computed in float16, and a right network differed from it."""
    torch.manual_seed(0)
    operands = [torch.randn(2, heads, 6, 8, dtype=torch.float16) for heads in (4, 2, 2)]

    def attended(operands):
        return nn.functional.scaled_dot_product_attention(*operands, is_causal=causal, enable_gqa=True)

    with Exact() as exact:
        found = attended(operands)
    torch.testing.assert_close(exact.of(found), attended([x.double() for x in operands]), rtol=1e-12, atol=1e-12)
    assert not exact.rounded
