"""int8 by NVIDIA's ModelOpt, through ONNX, beside `td.find_precision` on the same data: SQNR, launches, bytes, floor.

    python tools/bench/quantizers.py [NAME ...] [--device orin]

ModelOpt (`pip install 'nvidia-modelopt[onnx]'`, which brings onnxruntime) quantizes the exported module by each of its
methods of calibration, with float16 around. TensorRT's parser reads the result, whose program and interpretation are
compared. `find_precision` gets as its budget ModelOpt's best SQNR, less one decibel. SQNR is against float64, the least
of all outputs, on other samples than the four of the calibration.
"""

import argparse
import os
import platform
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import trtdsl as td  # noqa: E402
import trtdsl.functional as F  # noqa: E402
from trtdsl.checking.judging.quality import Quality  # noqa: E402
from trtdsl.core.author import load_module  # noqa: E402
from trtdsl.core.backend import get_backend  # noqa: E402
from trtdsl.engine.compiling.onnx import parse_onnx  # noqa: E402

METHODS = ("max", "entropy")
drawn = torch.Generator().manual_seed(0)
KERNELS = [torch.randn(32, 3 if i == 0 else 32, 3, 3, generator=drawn) / (5 if i == 0 else 12) for i in range(10)]
BIASES = [torch.randn(32, generator=drawn) / 4 for _ in range(10)]
HEADS = [torch.randn(64, 32, generator=drawn) / 4, torch.randn(10, 64, generator=drawn) / 6]


class Small(torch.nn.Module):
    """Ten convolutions and two linear layers."""

    def __init__(self):
        super().__init__()
        for number, weight in enumerate((*KERNELS, *BIASES, *HEADS)):
            self.register_buffer(f"weight{number}", weight.clone(), persistent=False)

    def forward(self, x):
        weights = [self.get_buffer(f"weight{number}") for number in range(22)]
        for kernel, bias in zip(weights[:10], weights[10:20], strict=True):
            x = torch.relu(torch.nn.functional.conv2d(x, kernel, bias, padding=1))
        x = torch.relu(torch.nn.functional.linear(x.mean((2, 3)), weights[20]))
        return {"y": torch.nn.functional.linear(x, weights[21])}


@td.network(inputs={"x": td.Input((4, 3, 64, 64))}, reference=Small)
def small(x):
    for kernel, bias in zip(KERNELS, BIASES, strict=True):
        x = F.relu(F.conv2d(x, kernel, bias, padding=1))
    x = F.relu(F.linear(x.mean((2, 3)), HEADS[0]))
    return {"y": F.linear(x, HEADS[1])}


def feeds_of(spec, sizes, seeds):
    return [td.sample_feeds(spec, sizes, torch.Generator().manual_seed(seed)) for seed in seeds]


def truth(module, feeds):
    """The module's outputs in float64."""
    made = module.double()(*(feed.double() if feed.is_floating_point() else feed for feed in feeds.values()))
    module.float()
    return list(made.values() if isinstance(made, dict) else made if isinstance(made, tuple) else (made,))


def quality(run, samples, truths):
    """The least SQNR of an output."""
    found = Quality()
    for feeds, exact in zip(samples, truths, strict=True):
        got = list(run(feeds).values())
        found.add({str(i): x.float() for i, x in enumerate(got)}, {str(i): x for i, x in enumerate(exact)})
    return min(found.decibels().values())


def row(name, label, decibels, program, device):
    floor = td.floor_of(program, device).seconds * 1e3
    cells = (name, label, f"{decibels:.1f}", f"{program.launch_count:,}", f"{program.bytes:,}", f"{floor:.3f}")
    print("| " + " | ".join(cells) + " |", flush=True)


def theirs(spec, module, samples, folder, method):
    """The file that ModelOpt makes of the exported module."""
    import modelopt.onnx.quantization as modelopt

    plain, made = folder / "plain.onnx", folder / f"{method}.onnx"
    names = list(samples[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not plain.exists():
            given = tuple(samples[0].values())
            torch.onnx.export(module, given, str(plain), dynamo=False, input_names=names, opset_version=19)
        data = {name: torch.cat([each[name] for each in samples]).numpy() for name in names}
        modelopt.quantize(
            str(plain), quantize_mode="int8", calibration_data=data, calibration_method=method,
            calibration_eps=["cpu"], high_precision_dtype="fp16", output_path=str(made), log_level="ERROR",
        )  # fmt: skip
    return made


def compared(name, device):
    """The rows of a network."""
    spec = small if name == "small" else td.load_spec(str(ROOT / "networks" / f"{name}.py"))
    with tempfile.TemporaryDirectory() as text:
        folder, weights = Path(text), None
        if spec.weights and not spec.weights.exists():
            weights = load_module(ROOT / "tools" / "make_weights.py").make(name, folder)
        sizes = (spec.profiles[0] if spec.profiles else td.Profile()).within(spec.dims).at("opt")
        calibrating, samples = feeds_of(spec, sizes, range(4)), feeds_of(spec, sizes, range(10, 12))
        module = spec.reference_module(spec.open_weights(weights)).eval()
        with torch.no_grad():
            truths = [truth(module, feeds) for feeds in samples]
        best = 0.0
        for method in METHODS:
            try:
                file = theirs(spec, module, calibrating, folder, method)
                network = parse_onnx(file, get_backend())
                decibels = quality(lambda feeds, network=network: td.interpret(network, feeds), samples, truths)
                row(name, f"ModelOpt, {method}", decibels, td.program(file), device)
                best = max(best, decibels)
            except Exception as error:  # another project's errors
                print(f"| {name} | ModelOpt, {method} | {type(error).__name__}: {' '.join(str(error).split())[:90]} |")
        file = folder / "found.precision.json"
        td.find_precision(
            spec, data=calibrating, allow=("fp16", "int8"), budget=max(best - 1, 20.0), device=device,
            weights=weights, dims=sizes, output=file,
        )  # fmt: skip
        for label, precision in (("fp16", "fp16"), ("find_precision", str(file))):
            network = spec.define(weights=weights, dims=sizes, profiles=[], precision=precision)
            run = td.Interpreter(network)
            row(name, label, quality(run, samples, truths), td.program(network), device)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=("small", "mobilefacenet", "vit"))
    parser.add_argument("--device", default="orin")
    options = parser.parse_args()
    backend = get_backend()
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, ", end="")
    print(f"{backend.name} {backend.version}, nvidia-modelopt {version('nvidia-modelopt')}; floors are estimates.\n")
    print(f"| network | int8 by | SQNR, dB | launches | bytes moved | floor on {options.device}, ms |\n|" + "---|" * 6)
    for name in options.names:
        compared(name, options.device)


if __name__ == "__main__":
    main()
