"""Scales of int8: each method beside what it is defined by, on values of which few are great."""

from __future__ import annotations

import pytest
import torch

from trtdsl.interpreter.calibration import METHODS, Seen

VALUES = torch.randn(50_000, generator=torch.Generator().manual_seed(0))
OUTLIER = torch.tensor([40.0, -float("inf")])


def seen():
    found = Seen()
    found.add(VALUES)
    found.add(OUTLIER)
    return found


def test_the_greatest_finite_value_and_one_in_ten_thousand():
    assert seen().scale("max") == pytest.approx(40 / 127, rel=1e-3)
    assert seen().scale("percentile") * 127 == pytest.approx(float(VALUES.abs().quantile(0.9999)), rel=0.1)


def test_the_least_error_is_that_of_torchs_own_fake_quantization():
    values = torch.cat([VALUES, OUTLIER[:1]])

    def error(scale):
        return float((torch.fake_quantize_per_tensor_affine(values, scale, 0, -127, 127) - values).square().sum())

    least = min(error(40 / 127 * part / 200) for part in range(20, 201))
    assert error(seen().scale("mse")) <= 1.02 * least
    assert error(seen().scale("mse")) < 0.9 * error(seen().scale("max"))


def test_entropy_clips_a_lone_value_and_keeps_a_uniform_range():
    assert 3 < seen().scale("entropy") * 127 < 20
    uniform = Seen()
    uniform.add(torch.rand(50_000, generator=torch.Generator().manual_seed(0)))
    assert uniform.scale("entropy") * 127 == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("method", METHODS)
def test_zeros_and_nothing_have_a_scale(method):
    assert Seen().scale(method) > 0
    zeros = Seen()
    zeros.add(torch.zeros(4))
    assert zeros.scale(method) > 0
