"""Ways to sample an image bilinearly, side by side: launches, bytes, memory, engine, build time; latency on a GPU.

    python tools/bench/sampling.py

Every way is checked against torch through the interpreter before it is measured (at a smaller size of the same kind).
The first three are what people have today: torch functions, exported by torch.onnx.export and read by OnnxParser, and
layers added by hand.
"""

import functools
import io
import platform
import statistics
import time
import warnings

import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.backend import has_cuda_device
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.engine import Engine
from trtdsl.engine.program import program_of_plan

CASES = {  # image, points
    "(1, 1, 480, 640)": ((1, 1, 480, 640), (480, 640)),
    "(1, 64, 120, 160)": ((1, 64, 120, 160), (120, 160)),
    "(8, 256, 64, 64)": ((8, 256, 64, 64), (64, 64)),
    "RAFT look-up, (3410, 1, 55, 62) at 7 x 7": ((3410, 1, 55, 62), (7, 7)),
}


def torch_sample(image, coords):
    """torch's own: pixels to normalised coordinates and grid_sample."""
    size = torch.tensor([image.shape[3] - 1, image.shape[2] - 1], dtype=coords.dtype, device=coords.device)
    return torch.nn.functional.grid_sample(image, coords * 2 / size - 1, align_corners=True)


def four_gathers(image, coords):
    """As people write it: four pixels by advanced indexing, each weighted, and what lies outside masked."""
    n, _, h, w = image.shape
    x, y = coords[..., 0], coords[..., 1]
    x0, y0 = torch.floor(x), torch.floor(y)
    total = 0
    batch = torch.arange(n, device=image.device).reshape(n, 1, 1)
    for px, wx in ((x0, x0 + 1 - x), (x0 + 1, x - x0)):
        for py, wy in ((y0, y0 + 1 - y), (y0 + 1, y - y0)):
            inside = (px >= 0) & (px <= w - 1) & (py >= 0) & (py <= h - 1)
            pixels = image[batch, :, py.clamp(0, h - 1).long(), px.clamp(0, w - 1).long()]  # (N, Ho, Wo, C)
            total = total + pixels * (wx * wy * inside).unsqueeze(-1)
    return total.permute(0, 3, 1, 2)


def gather_elements(image, coords):
    """As mmcv's bilinear_grid_sample has it: a padded image, and torch.gather with indices for every channel."""
    n, c, h, w = image.shape
    _, ho, wo, _ = coords.shape
    x, y = coords.reshape(n, 1, -1, 2)[..., 0], coords.reshape(n, 1, -1, 2)[..., 1]
    x0, y0 = torch.floor(x), torch.floor(y)
    padded = torch.nn.functional.pad(image, (1, 1, 1, 1)).reshape(n, c, -1)
    total = 0
    for px, wx in ((x0, x0 + 1 - x), (x0 + 1, x - x0)):
        for py, wy in ((y0, y0 + 1 - y), (y0 + 1, y - y0)):
            column, row = (px + 1).clamp(0, w + 1).long(), (py + 1).clamp(0, h + 1).long()
            index = (row * (w + 2) + column).expand(-1, c, -1)
            total = total + torch.gather(padded, 2, index) * (wx * wy)
    return total.reshape(n, c, ho, wo)


def exported(function, image, coords):
    """The network that OnnxParser makes of the exported function."""

    class Module(torch.nn.Module):
        def forward(self, image, coords):
            return function(image, coords)

    network = td.Network(function.__name__)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        feeds = (torch.zeros(image), torch.zeros(coords))
        names = ["image", "coords"]
        torch.onnx.export(
            Module(), feeds, buffer, dynamo=False, opset_version=17, input_names=names, output_names=["y"]
        )
    parser = network.trt.OnnxParser(network.definition, network.backend.logger)
    if not parser.parse(buffer.getvalue()):
        raise SystemExit(f"the parser refuses {function.__name__}")
    network.outputs = {"y": None}
    return network


def written(name, lower):
    """A function that makes a network by calling ``lower(image, coords)``."""

    def make(image, coords):
        network = td.Network(name)
        with network.current():
            network.output(lower(network.input("image", image), network.input("coords", coords)), "y")
        return network

    return make


def four_gather_nd(image, coords):
    """As it is written with TensorRT's layers: GatherND at (n, y, x) for each of the four pixels."""
    n, _, h, w = image.shape
    x, y = coords[..., 0], coords[..., 1]
    x0, y0 = F.floor(x), F.floor(y)
    batch = F.arange(n).reshape(n, 1, 1).expand(x.shape)
    pixels = image.permute(0, 2, 3, 1)
    total = None
    for px, wx in ((x0, x0 + 1.0 - x), (x0 + 1.0, x - x0)):
        for py, wy in ((y0, y0 + 1.0 - y), (y0 + 1.0, y - y0)):
            row, column = F.clamp(py, 0.0, h - 1.0), F.clamp(px, 0.0, w - 1.0)
            inside = F.logical_and(F.eq(row, py), F.eq(column, px)).to("float32")
            index = F.stack([batch, row.to("int64"), column.to("int64")], -1)
            part = L.gather(pixels, index, 0, "ND") * (wx * wy * inside).unsqueeze(-1)
            total = part if total is None else total + part
    return total.permute(0, 3, 1, 2)


def normalised(image, coords):
    h, w = image.shape[2:]
    return coords * torch.tensor([2 / (w - 1), 2 / (h - 1)]) - 1.0


def sample(lowering):
    return lambda image, coords: F.grid_sample(image, normalised(image, coords), align_corners=True, lowering=lowering)


WAYS = {
    "four gathers, exported from torch": functools.partial(exported, four_gathers),
    "GatherElements, exported from torch": functools.partial(exported, gather_elements),
    "four GatherND layers": written("four_gather_nd", four_gather_nd),
    "F.bilinear_sample": written("bilinear", lambda image, at: F.bilinear_sample(image, at, padding_mode="zeros")[0]),
    'F.grid_sample, "native"': written("native", sample("native")),
}


def zoom(network, image, coords, factor, lowering):
    """A zoom into the middle by a constant grid along the axes."""
    x = network.input("image", image)
    theta = network.constant(torch.tensor([[[factor, 0, 0], [0, factor, 0.0]]]).repeat(image[0], 1, 1))
    grid = F.affine_grid(theta, (*image[:2], *coords[1:3]), align_corners=True)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True, lowering=lowering)


def zoomed(factor, lowering):
    def make(image, coords):
        network = td.Network("zoom")
        network.output(zoom(network, image, coords, factor, lowering), "y")
        return network

    return make


ZOOMS = {
    'constant zoom, "taps"': zoomed(0.5, "taps"),
    'constant zoom, "auto" ("resize")': zoomed(0.5, "auto"),
    'whole image, "auto" (IResizeLayer)': zoomed(1.0, "auto"),
}


def points(image, coords, generator):
    size = torch.tensor([image[3], image[2]], dtype=torch.float32)
    return torch.rand(coords, generator=generator) * (size + 4) - 2


def verify():
    """Every way gives torch's result, at a small size, points outside of the image among them."""
    image, coords = (2, 3, 11, 13), (2, 5, 7, 2)
    generator = torch.Generator().manual_seed(0)
    x, at = torch.randn(image, generator=generator), points(image, coords, generator)
    expected = torch_sample(x, at)
    for name, make in WAYS.items():
        network = make(image, coords)  # keeps the constants that the definition points to
        (got,) = td.interpret(network.definition, {"image": x, "coords": at}).values()
        if not torch.allclose(got, expected, atol=1e-4):
            raise SystemExit(f"{name} differs from torch by {(got - expected).abs().max():.1e}")


def row(name, network, latency=None):
    plan = compile_engine(network)
    seconds = plan.statistics.seconds
    program = program_of_plan(plan, network)
    cells = [name, f"{program.launch_count:,}", f"{program.bytes:,}", f"{program.rearranged_bytes:,}"]
    cells += [f"{plan.statistics.activation_memory:,}", f"{len(plan.data):,}"]
    cells.append(f"{seconds:.2f} s")
    if latency is not None:
        cells.append(latency(plan))
    return "| " + " | ".join(map(str, cells)) + " |"


# -- on a machine with a GPU -------------------------------------------------------------------------------------------


def microseconds(run):
    """The median of 50 runs, by CUDA's clock, after ten to warm up."""
    for _ in range(10):
        run()
    times = []
    for _ in range(50):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3)
    return f"{statistics.median(times):.1f} µs"


def engine_latency(feeds, plan):
    engine = Engine(plan.data)
    return microseconds(lambda: engine(**feeds))


def torch_rows(feeds):
    for name, function in (("torch", torch_sample), ("torch.compile", torch.compile(torch_sample))):
        print(f"| {name} | | | | | | | {microseconds(functools.partial(function, **feeds))} |", flush=True)


def main():
    verify()
    gpu = has_cuda_device() and torch.cuda.is_available()
    backend = td.Network().backend
    where = f", {torch.cuda.get_device_name()}" if gpu else ", no GPU"
    print(
        f"{platform.system()} {platform.machine()}{where}, torch {torch.__version__}, {backend.name} {backend.version}"
    )
    latency = " latency |" if gpu else ""
    for title, (image, size) in CASES.items():
        coords = (image[0], *size, 2)
        heads = "launches | bytes moved | rearranged | activation memory, bytes | engine, bytes | build"
        print(f"\n| {title} | {heads} |{latency}")
        print("|---" * 7 + "|" + ("---|" if gpu else ""), flush=True)
        feeds, timed = {}, None
        if gpu:
            generator = torch.Generator().manual_seed(0)
            x, at = torch.randn(image, generator=generator), points(image, coords, generator)
            feeds = {"image": x.cuda(), "coords": at.cuda()}
            timed = functools.partial(engine_latency, feeds)
        for name, make in WAYS.items():
            print(row(name, make(image, coords), timed), flush=True)
        if "RAFT" not in title:
            only = {"image": feeds["image"]} if gpu else {}
            for name, make in ZOOMS.items():
                print(
                    row(name, make(image, coords), functools.partial(engine_latency, only) if gpu else None), flush=True
                )
        if gpu:
            torch_rows(feeds)


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"\nThe whole run took {time.perf_counter() - started:.0f} s.")
