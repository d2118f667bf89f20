"""Copies in another order by numpy, against torch's own."""

import pytest
import torch

from trtdsl.core.tensors.memory import contiguous, reshaped

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3, 2), (1, 1, 1), (4, 3, 2)])
def test_copies_are_torchs(dtype: torch.dtype, shape: tuple[int, ...]):
    data = (torch.arange(24)[: torch.Size(shape).numel()].view(shape) % 7).to(dtype)
    for view in (data, data.permute(tuple(reversed(range(data.ndim)))), data.expand(2, *shape)):
        copied = contiguous(view)
        assert copied.is_contiguous() and copied.dtype == dtype and copied.shape == view.shape
        assert torch.equal(copied, view)
        assert torch.equal(reshaped(view, (view.numel(),)), view.reshape(view.numel()))


def test_views_stay_views():
    data = torch.arange(6.0).view(2, 3)
    assert contiguous(data).data_ptr() == data.data_ptr()
    assert reshaped(data, (3, 2)).data_ptr() == data.data_ptr()
    assert reshaped(data.T, (3, 2, 1)).data_ptr() == data.data_ptr()
