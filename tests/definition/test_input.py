"""What an Input refuses when it is made."""

import pytest
import torch

import trtdsl as td


@pytest.mark.parametrize(
    ("dtype", "sample"),
    [
        ("float32", (-1e39, 0)), ("float16", (0, 65536)), ("float32", (float("nan"), 1)),
        ("float32", (0, float("inf"))),
        ("int64", (0, 2**63 + 1)), ("int8", (-129, 0)), ("uint8", (-1, 5)), ("bool", (0, 3)),
    ],
)  # fmt: skip
def test_a_sample_lies_in_its_dtype(dtype, sample):
    with pytest.raises(td.UsageError, match=f"an input's sample of {dtype} lies between"):
        td.Input((2,), dtype, sample=sample)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
def test_the_high_end_of_integers_is_not_drawn(dtype):
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    assert td.Input((2,), dtype, sample=(least, most + 1)).sample == (least, most + 1)


@pytest.mark.parametrize("dtype", ["complex64", "bits8", "qint8"])
def test_a_sample_of_what_tensorrt_lacks_is_refused_for_its_dtype(dtype):
    with pytest.raises(td.TrtdslError, match=dtype):
        td.network(inputs={"x": td.Input((2,), dtype, sample=(0, 1))})(lambda x: x).define()
