"""F.affine_grid against torch, through the interpreter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_close, evaluate

import trtdsl as td
import trtdsl.functional as F


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
@settings(max_examples=150, deadline=None)
@given(
    st.integers(2, 3), st.booleans(), st.lists(st.integers(1, 9), min_size=5, max_size=5), st.booleans(), st.booleans()
)
def test_affine_grid(dims, align_corners, sizes, constant, dynamic):
    n, c, *spatial = sizes[: dims + 2]
    theta = torch.randn(n, dims, dims + 1, generator=torch.Generator().manual_seed(sum(sizes)))
    expected = torch.nn.functional.affine_grid(theta, (n, c, *spatial), align_corners=align_corners)
    if constant:
        with td.Network().current() as net:
            grid = F.affine_grid(net.constant(theta), (n, c, *spatial), align_corners)
        assert grid.is_constant
        assert_close(grid.data, expected)
        return
    image = torch.zeros(n, c, *spatial)
    names = ("N", "C", "D", "H", "W")[: dims + 2]
    shapes = [("N", dims, dims + 1), names] if dynamic else None
    got = evaluate(lambda theta, image: F.affine_grid(theta, image.shape, align_corners), theta, image, dims=shapes)
    assert_close(got, expected)


def test_align_corners_matters():
    theta = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    grids = [evaluate(lambda theta, a=a: F.affine_grid(theta, (1, 1, 3, 3), a), theta) for a in (True, False)]
    assert grids[0].max() == 1
    assert grids[1].max() == pytest.approx(2 / 3)


def test_half_precision_is_computed_in_float32():
    theta = torch.randn(1, 2, 3).half()
    got = evaluate(lambda theta: F.affine_grid(theta, (1, 1, 50, 60), False), theta)
    expected = torch.nn.functional.affine_grid(theta.float(), (1, 1, 50, 60), align_corners=False)
    assert_close(got, expected.half(), 1e-3)


@pytest.mark.parametrize(
    ("theta", "size", "message"),
    [
        ((1, 2, 3), (1, 1, 4), "a size of 4 or 5 values"),
        ((1, 3, 4), (1, 1, 4, 4), "theta for 2 dimensions is .N, 2, 3."),
        ((2, 3), (1, 1, 4, 4), "theta for 2 dimensions"),
        ((2, 2, 3), (1, 1, 4, 4), "the batches of both do not match: 2 and 1"),
        ((1, 2, 3), (1, 1, 0, 4), "sizes must be positive"),
    ],
)
def test_bad_arguments_have_one_clear_error(theta, size, message):
    with pytest.raises((ValueError, RuntimeError, NotImplementedError)):
        torch.nn.functional.affine_grid(torch.zeros(theta), size, align_corners=False)
    with pytest.raises(td.DefinitionError, match=message) as error:
        F.affine_grid(td.Network().input("theta", theta), size, align_corners=False)
    assert error.value.location.file == __file__
