"""What an Input refuses when it is made."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F


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


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: td.Input((1, 3, 4, 4), format="NHWC"),
            "the format of an input is None or 'channels_last', not 'NHWC'",
        ),
        (lambda: td.Input((1, 3, 4), format="channels_last"), "float32 of 4 or 5 dimensions, not float32 of 3"),
        (lambda: td.Input((1, 3, 4, 4), "float16", format="channels_last"), "4 or 5 dimensions, not float16 of 4"),
        (lambda: td.State((1, 3, 4, 4), format="channels_last"), "a state has no format"),
    ],
)
def test_a_format_is_channels_last_of_float32(make, said):
    with pytest.raises(td.UsageError, match=said):
        make()


@pytest.mark.parametrize(("shape", "convolution"), [((1, 3, 8, 8), F.conv2d), ((1, 3, 4, 8, 8), F.conv3d)])
def test_channels_last_saves_the_launch_that_transposes(shape, convolution):
    def made(form):
        net = td.Network()
        x = net.input("x", shape, format=form)
        y = convolution(x, torch.ones(4, 3, *(1 for _ in shape[2:])))
        net.output(td.Output(y, form), "y")
        return net

    launches = {form: [launch.kind for launch in td.program(made(form)).launches] for form in (None, "channels_last")}
    assert launches == {None: ["rearranging", "convolution", "rearranging"], "channels_last": ["convolution"]}
    feeds = {"x": torch.randn(shape)}
    evaluated = td.evaluate_engine(made("channels_last"), feeds)["y"]
    torch.testing.assert_close(evaluated, feeds["x"].sum(1, keepdim=True).expand_as(evaluated))


def test_an_output_s_format_is_refused_with_its_name():
    net = td.Network()
    with pytest.raises(td.UsageError, match="output 'y' that lies channels last is float32 of 4 or 5 dimensions, not"):
        net.output(td.Output(net.input("x", (2, 3)), "channels_last"), "y")
