"""Programs whose text lacks sizes that TensorRT computes itself: lengths that a layer resizes by scales."""

import inspect
import math

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.caller import at_shell
from trtdsl.core.errors import ManifestDamagedError
from trtdsl.programs.handed import parse_size
from trtdsl.programs.plan import plain
from trtdsl.sizes.size import size_max, size_min

FLOAT = 4  # bytes
N, H, W = td.Dim("N", min=1, opt=2, max=4), td.Dim("H", min=2, opt=4, max=8), td.Dim("W", min=3, opt=5, max=9)
SIZES = {"N": 3, "H": 5, "W": 7}
DOUBLED = (3, 8, 10, 14)


def conv(x, stride=1):
    weight = torch.randn(8, 8, *[3] * (x.ndim - 2), generator=torch.Generator().manual_seed(0)).to(x.dtype)
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.ndim]
    return function(x, x.network.constant(weight), padding=1, stride=stride)


def image(net, height=H, width=W, dtype=torch.float32):
    return conv(net.input("x", (N, 8, height, width), dtype))


def scaled(x, *scales):
    return L.resize(x, "NEAREST", scales=(1, 1, *scales))


def twice(x, **options):
    return F.interpolate(x, scale_factor=2, **options)


def pyramid(net):
    fine = image(net, 2 * H, 2 * W)
    return fine, twice(conv(conv(fine, 2)))


def loop(x):
    return td.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, conv(h)), (0, x))[1]


CASES = {
    "one length": (lambda net: twice(image(net, H, 4)), (3, 8, 10, 8)),
    "two lengths": (lambda net: twice(image(net)), DOUBLED),
    "bilinear": (lambda net: twice(image(net), mode="bilinear"), DOUBLED),
    "half precision": (lambda net: twice(F.relu(image(net, dtype=torch.float16))), DOUBLED),
    "a sequence": (lambda net: twice(conv(net.input("x", (N, 8, H)))), (3, 8, 10)),
    "a volume": (lambda net: twice(conv(net.input("x", (N, 8, 3, H, W)))), (3, 8, 6, 10, 14)),
    "width alone": (lambda net: F.interpolate(image(net), scale_factor=(1, 2)), (3, 8, 5, 14)),
    "equal lengths": (lambda net: twice(image(net, H, H)), (3, 8, 10, 10)),
    "lengths that become equal": (lambda net: scaled(image(net, 2 * H, H), 2, 4), (3, 8, 20, 20)),
    "lengths that become different": (lambda net: scaled(image(net, H, H), 2, 4), (3, 8, 10, 20)),
    "a scaled batch": (lambda net: L.resize(image(net), "NEAREST", scales=(2, 1, 1, 1)), (6, 8, 5, 7)),
    "a fraction": (lambda net: scaled(image(net), 1.5, 1.5), (3, 8, 7, 10)),
    "a fraction that no float is": (lambda net: scaled(image(net), 1.3, 1.3), (3, 8, 6, 9)),
    "a fraction in torch's way": (
        lambda net: F.interpolate(image(net), scale_factor=1.5, mode="bilinear"),
        (3, 8, 7, 10),
    ),
    "one up, one down": (
        lambda net: F.interpolate(image(net, 4 * H), scale_factor=0.5, mode="bilinear"),
        (3, 8, 10, 3),
    ),
    "two in a row": (lambda net: twice(conv(twice(image(net)))), (3, 8, 20, 28)),
    "a fraction, then twice": (
        lambda net: twice(conv(F.interpolate(image(net), scale_factor=1.5, mode="bilinear"))),
        (3, 8, 14, 20),
    ),
    "in the middle": (lambda net: conv(scaled(image(net), 2, 4), stride=2), (3, 8, 5, 14)),
    "added": (lambda net: F.relu(torch.add(*pyramid(net))), DOUBLED),
    "concatenated": (lambda net: torch.cat(pyramid(net), 1), (3, 16, 10, 14)),
    "before a loop": (lambda net: loop(twice(image(net))), DOUBLED),
    "by the layer, before a loop": (lambda net: loop(scaled(image(net), 2, 2)), DOUBLED),
    "by the layer, behind a loop": (lambda net: scaled(loop(image(net)), 2, 2), DOUBLED),
    "flattened": (lambda net: twice(image(net)).flatten(2), (3, 8, 140)),
}


def network_of(write, **options):
    net = td.Network(**options)
    with net.current():
        net.output(write(net), "o")
    return net


def written(program):
    """The launch that writes the output, as it is or as another view, and the output."""
    (name,) = [name for name in program.tensors if plain(name) == "o"]
    views = {name, *(other for other, tensor in program.tensors.items() if tensor.view_of == name)}
    (launch,) = [each for each in program.launches if views & {operand.tensor for operand in each.writes}]
    return launch, program.tensors[name]


def moved(program):
    """Each launch, how often it runs, and the bytes of its operands."""
    return [
        (each.name, each.times, [[operand.bytes for operand in side] for side in (each.reads, each.writes)])
        for each in program.launches
    ]


@pytest.mark.parametrize("case", CASES)
def test_a_size_that_tensorrt_computes_itself(case, tmp_path):
    write, shape = CASES[case]
    net = network_of(write)
    dims = {name: size for name, size in SIZES.items() if name in net.dims}
    (x,) = net.inputs.values()
    feed = torch.zeros([size if isinstance(size, int) else size.value(dims) for size in x.shape], dtype=x.dtype)
    assert tuple(td.interpret(net, {"x": feed})["o"].shape) == shape
    program = td.program(net, dims=dims)
    launch, output = written(program)
    assert output.shape == shape
    (operand,) = launch.writes
    assert operand.bytes == math.prod(shape) * x.dtype.itemsize
    # The author's dimensions, too, which say the shape at every size.
    assert (
        tuple(parse_size(size, net.dims).value(dims) if not size.isdigit() else int(size) for size in output.dims)
        == shape
    )

    engine = tmp_path / "resized.engine"
    td.build(net, engine, check=False)
    of_file = td.program(engine, dims=dims)
    assert moved(of_file) == moved(program)
    assert written(of_file)[1].dims == output.dims
    by_shape = td.program(engine, shapes={"x": tuple(feed.shape)})  # other sizes than those that it is tuned for
    assert (by_shape.dims, moved(by_shape)) == (program.dims, moved(program))
    engine.with_suffix(".engine.json").unlink()
    alone = td.program(engine, shapes={"x": tuple(feed.shape), "o": shape})
    assert moved(alone) == moved(program)
    assert written(alone)[1].shape == shape


def test_the_bytes_of_a_resize_by_hand():
    program = td.program(network_of(CASES["two lengths"][0]), dims=SIZES)
    pixels = 3 * 8 * 5 * 7 * FLOAT
    channels_last, convolution, resize = program.launches
    assert (channels_last.kind, convolution.kind) == ("rearranging", "convolution")
    assert [operand.bytes for operand in resize.reads] == [pixels]
    assert [operand.bytes for operand in resize.writes] == [4 * pixels]
    assert program.bytes == 2 * pixels + (2 * pixels + 8 * 8 * 9 * FLOAT) + 5 * pixels


@pytest.mark.parametrize("scale", [2, 1.5])
def test_a_resize_of_what_is_an_output_too(scale):
    def write(net):
        x = image(net)
        net.output(x, "interpolate")  # the name of a layer, too
        return scaled(x, scale, 1)

    output = written(td.program(network_of(write), dims=SIZES))[1]
    assert output.shape == (3, 8, math.floor(5 * scale), 7)
    assert output.bytes == math.prod(output.shape) * FLOAT


def test_each_profile_is_handed_its_own():
    net = network_of(
        lambda net: scaled(image(net), 2, 2),
        profiles=[td.Profile(N=1, H=4, W=4), td.Profile(N=2, H=(2, 4, 8), W=(3, 5, 9))],
    )
    for profile, shape in ((0, (1, 8, 8, 8)), (1, (2, 8, 8, 10))):
        assert written(td.program(net, profile=profile))[1].shape == shape


def test_what_an_engine_without_a_manifest_lacks(tmp_path):
    engine, line = tmp_path / "resized.engine", inspect.getsourcelines(twice)[1] + 1
    td.build(network_of(CASES["two lengths"][0]), engine, check=False)
    engine.with_suffix(".engine.json").unlink()
    shapes = {"x": (3, 8, 5, 7)}
    with pytest.raises(td.UsageError) as error:
        td.program(engine, shapes=shapes)
    assert str(error.value).startswith(
        f"the size of 'o' (of programs/test_handed_sizes.py:{line}) needs numbers that TensorRT computes for the layer "
        "'interpolate' outside of the program's text: interpolate_shapeInput, interpolate_shapeInput_U"
    )
    assert "shapes={'o': (" in str(error.value)
    with at_shell(), pytest.raises(td.UsageError, match="with --shape"):
        td.program(engine, shapes=shapes)
    first, second = str(error.value).partition("text: ")[2].partition(". ")[0].split(", ")
    program = td.program(engine, shapes=shapes, values={first: 10, second: 14})
    assert written(program)[1].shape == DOUBLED
    with pytest.raises(td.UsageError, match=r"resized.engine has no input 'U': it has x, "):
        td.program(engine, shapes=shapes, values={first: 10, second: 14, "U": 3})
    with pytest.raises(td.UsageError, match=rf"{first} = 100: one of them is not within 4 to 16"):
        td.program(engine, shapes=shapes, values={first: 100, second: 14})
    with pytest.raises(td.UsageError, match=r"the engine's o has the shape \(3, 8, 10, 14\), not \(3, 8, 12, 14\)"):
        td.program(engine, shapes={**shapes, "o": (3, 8, 12, 14)}, values={first: 10, second: 14})


def test_a_product_that_tensorrt_rounds_is_a_ratio():
    """In float32, 10 * 0.7 is 7, and the exact product of 10 and the number nearest to 0.7 is less."""
    height = td.Dim("H", min=10, opt=20, max=40)
    program = td.program(network_of(lambda net: scaled(image(net, height, 4), 0.7, 1)), dims={"N": 3, "H": 10})
    assert written(program)[1].shape == (3, 8, 7, 4)


def test_a_product_that_no_ratio_gives_stays_unknown():
    """430 * 1.3 is 559 in float32, and 330 * 1.3 less than 429."""
    height = td.Dim("H", min=10, opt=20, max=440)
    net = network_of(lambda net: scaled(image(net, height, 4), 1.3, 1))
    with pytest.raises(td.UsageError, match="TensorRT computes for the layer 'resize' outside of the program's text"):
        td.program(net)
    assert written(td.program(net, dims={"N": 3, "H": 10}, shapes={"o": (3, 8, 13, 4)}))[1].shape == (3, 8, 13, 4)


def test_a_manifest_with_other_sizes(tmp_path):
    engine = tmp_path / "resized.engine"
    td.build(network_of(CASES["one length"][0]), engine, check=False)
    manifest = engine.with_suffix(".engine.json")
    text = manifest.read_text()
    assert '"interpolate_shapeInput": "2*H"' in text
    for other, error in (
        ('"interpolate_shapeInput": 8', ManifestDamagedError),
        ('"interpolate_shapeInput": "2*Z"', td.CorruptFileError),
        ('"interpolate_shapeInput": "H//0"', td.CorruptFileError),
    ):
        manifest.write_text(text.replace('"interpolate_shapeInput": "2*H"', other))
        with pytest.raises(error):
            td.program(engine)


@pytest.mark.parametrize(
    "size",
    [2 * H, H // 2, (3 * H) // 2, (H + 1) // 2 * 2, H % 3, -H + W, H * W // 5, size_max(H, W + 1), size_min(2 * H, W)],
    ids=str,
)
def test_sizes_are_read_as_they_are_written(size):
    read = parse_size(str(size), {"H": H, "W": W})
    for h, w in ((2, 9), (5, 7), (8, 3)):
        assert read.value({"H": h, "W": w}) == size.value({"H": h, "W": w})


CONDITIONS = {
    ">": lambda n, h: n > h,
    ">=": lambda n, h: n >= h,
    "<": lambda n, h: n < 3 * h - 2,
    "<=": lambda n, h: n * h <= 2 * n + h,
    "==": lambda n, h: n == h,
    "!=": lambda n, h: n != 3,
    "remainder": lambda n, h: n % 2 == 1,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_branch_on_sizes_is_evaluated_and_told(name, tmp_path):
    """TensorRT compares the sizes, and hands the program what came out: the one branch runs, and is counted."""
    condition = CONDITIONS[name]
    n, h = (td.Dim(each, min=1, opt=4, max=16) for each in "NH")
    net = td.Network()
    x = net.input("x", (n, h, 3))
    net.output(td.cond(condition(*x.shape[:2]), lambda x: x.softmax(-1).exp(), lambda x: x * 2, (x,)), "y")
    path = tmp_path / "branch.engine"
    td.build(net, path, check=False)
    for sizes in ((1, 1), (2, 3), (3, 2), (5, 5), (16, 4)):
        x = torch.rand(*sizes, 3)
        holds = condition(*sizes)
        want = x.softmax(-1).exp() if holds else x * 2
        for source in (net, path):
            torch.testing.assert_close(td.evaluate_engine(source, {"x": x})["y"], want)
            program = td.program(source, shapes={"x": x.shape})
            assert not program.notes
            assert any("Exp" in launch.name for launch in program.launches) == holds


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_is_handed_its_length(reverse):
    def step(carried, x):
        return (carried[0] + x, carried[1] * 0.5 + x), carried[0] * carried[1]

    net = td.Network()
    x = net.input("x", (td.Dim("T", min=1, opt=4, max=8), 3))
    (total, _), products = td.scan(step, (torch.zeros(3), torch.ones(3)), x, reverse=reverse)
    net.output(products, "products")
    net.output(total, "total")
    feed, carried, want = torch.rand(5, 3), (torch.zeros(3), torch.ones(3)), []
    for row in feed.flip(0) if reverse else feed:
        carried, product = step(carried, row)
        want.append(product)
    found = td.evaluate_engine(net, {"x": feed})
    torch.testing.assert_close(found["total"], carried[0])
    torch.testing.assert_close(found["products"], torch.stack(want[::-1] if reverse else want))
