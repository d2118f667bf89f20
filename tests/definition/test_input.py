"""What an Input refuses when it is made."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.interpreter.feeds import make_feeds


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


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: td.Input(("N",), longest="T"), "longest is a size, such as 'T', of whole numbers, not T of float32"),
        (lambda: td.Input(("N",), "int64", longest=True), "longest is a size, .* not True of int64"),
        (lambda: td.Input(("N",), "int64", longest=2.5), "longest is a size, .* not 2.5 of int64"),
        (
            lambda: td.network(inputs={"lengths": td.Input(("N",), "int64", longest="T")}),
            "the longest of input 'lengths' is T, of which no input has the dimension",
        ),
        (
            lambda: td.Input(("N", "T"), longest="S", padding=0),
            "its longest the size of one of its dimensions, not 0 and",
        ),
        (lambda: td.Input(("N", "T"), padding=0), "the size of one of its dimensions, not 0 and None"),
        (
            lambda: td.Input(("N", "T"), longest="T", padding="0"),
            "an input's padding is a number, such as 0, .* not '0'",
        ),
        (lambda: td.Input(("N", "T"), descending=True), "descending has lengths, or a longest sequence"),
    ],
)
def test_a_longest_is_a_size_of_whole_numbers(make, said):
    with pytest.raises(td.UsageError, match=said):
        make()


def lengths_of(**more):
    @td.network(
        inputs={
            "x": td.Input((td.Dim("N", min=1, opt=3, max=6), 2 * td.Dim("T", min=2, opt=4, max=9))),
            "lengths": td.Input(("N",), "int64", longest=2 * td.Dim("T") - 1, **more),
        }
    )
    def network(x, lengths):
        return {"y": x * lengths.unsqueeze(1)}

    return network


@pytest.mark.parametrize(
    ("more", "least"),
    [({}, 1), ({"sample": (3, 5)}, 3), ({"sample": (8, 100)}, 7)]
    + [({"sample": lambda shape, generator: torch.arange(20, 20 - shape[0], -1)}, 7)],
)
@pytest.mark.parametrize("draw", ["normal", "large", "sparse", "ties"])
def test_drawn_lengths_reach_their_longest_and_not_beyond(more, least, draw):
    spec = lengths_of(**more)
    for seed in range(5):
        feeds = make_feeds(spec.inputs, spec.define(), {"N": 3, "T": 4}, torch.Generator().manual_seed(seed), draw)
        assert feeds["lengths"].max() == 7 and feeds["lengths"].min() >= least
    fixed = spec.define(dims={"T": 3})
    assert make_feeds(spec.inputs, fixed, {"N": 1}, torch.Generator())["lengths"].tolist() == [5]


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ((3, 5), {"dtype": "bool", "padding": 0}),
        ((3, 5), {"dtype": "bool", "padding": 1, "descending": True}),
        ((3, 5), {"dtype": "int64", "padding": 2, "sample": (0, 4)}),
        ((3, 5), {"dtype": "int64", "padding": 9, "sample": (0, 4)}),
        ((5, 3, 2), {"padding": 0.0}),
        ((3, 5, 2), {"padding": 0, "sample": (0.0, 1.0), "descending": True}),
        ((2, 3, 5), {"dtype": "int32", "padding": 0, "sample": (0, 2)}),
    ],
)
@pytest.mark.parametrize("draw", ["normal", "large", "sparse", "ties"])
def test_drawn_sequences_have_their_padding_behind_and_one_has_none(shape, more, draw):
    @td.network(inputs={"x": td.Input(shape, longest=5, **more)})
    def network(x):
        return {"y": x * 2 if more.get("dtype") != "bool" else x.float()}

    net, axis = network.define(), shape.index(5)
    for seed in range(5):
        x = make_feeds(network.inputs, net, {}, torch.Generator().manual_seed(seed), draw)["x"]
        own = (x != more["padding"]).movedim(axis, max(axis, 1))
        own = own.any(-1) if shape[-1] == 2 else own
        lengths = own.sum(-1)
        torch.testing.assert_close(own, torch.arange(5) < lengths[..., None])
        assert lengths.max() == 5 and lengths.min() >= 1
        assert not more.get("descending") or lengths.tolist() == sorted(lengths.tolist(), reverse=True)
        td.interpret(net, {"x": x})
    with pytest.raises(td.FeedError, match=rf"has 0 steps that are not {more['padding']}, and the .* is 5: pad a"):
        td.interpret(net, {"x": torch.full_like(x, more["padding"])})


def test_lengths_that_do_not_reach_their_longest_are_refused():
    net = lengths_of().define()
    x, said = torch.ones(2, 8), "the greatest of input 'lengths' is 6, and the network is for lengths whose greatest is"
    assert td.interpret(net, {"x": x, "lengths": torch.tensor([7, 2])})["y"][0, 0] == 7
    for run in (td.interpret, td.evaluate_engine):
        with pytest.raises(td.FeedError, match=rf"{said} 2\*T - 1 = 7: pad a batch to its longest alone"):
            run(net, {"x": x, "lengths": torch.tensor([6, 2])})
