"""Makes the weights of the networks: random, calibrated, and the same at every run, on any number of cores.

    python tools/make_weights.py [NAME …] [--to FOLDER]

A freshly initialised network says little about its port: activations fade or explode, and batch norms are identities.
Here every weight is drawn so that it matters, and one pass over sample inputs sets each layer's scale and each batch
norm's statistics such that activations stay of order one.

All of it is computed in float64 by one thread and rounded then. In float32 a sum's last bits depend on how many threads
share it, and those of a logarithm on the CPU's instructions; a rounding that tips over changes every layer behind it.
"""

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import trtdsl as td  # noqa: E402

# name -> (network file, dimensions of the sample that calibrates it)
NETWORKS = {
    "stgcn": ("networks/stgcn.py", {"N": 1}),
    "stgcn_ntu": ("networks/stgcn.py:stgcn_ntu", {"N": 1}),
    "mamba": ("networks/mamba.py", {"N": 1, "T": 64}),
    "raft_small": ("networks/raft_small.py", {"N": 1, "H8": 16, "W8": 20}),
    "stn": ("networks/stn.py", {"N": 8}),
    "mobilefacenet": ("networks/mobilefacenet.py", {"N": 4}),
    "vit": ("networks/vit.py", {"N": 4}),
    "ddrnet": ("networks/ddrnet.py", {"N": 1, "H": 128, "W": 128}),
    "crnn": ("networks/crnn.py", {"N": 2, "W": 64}),
    "yolo": ("networks/yolo.py", {"N": 4, "H32": 5, "W32": 5}),
    "slowfast": ("networks/slowfast.py", {"N": 2, "T": 16, "H": 112, "W": 112}),
}


def small_steps(module):
    """Flows of a few pixels, so that look-ups stay in the image; calibrated, every update would move by as much."""
    module.update_block.flow_head.conv2.weight.mul_(0.125)
    module.update_block.flow_head.conv2.bias.mul_(0.125)


def near_identity(module):
    """Transformations that turn and shift an image and leave most of it in sight."""
    module.fc_loc[2].weight.mul_(0.25)
    module.fc_loc[2].bias.copy_(module.fc_loc[2].bias / 4 + torch.tensor([1.0, 0, 0, 0, 1, 0]))


def quiet_branches(module):
    """Residual branches that add a little, as trained ones do.

    A batch norm behind a ReLU takes away the mean and enlarges what is left, rounding errors too: by a fifth to a half
    in each block whose branch is as loud as its input, so that after sixteen blocks float32 and float64 are 5e-5 apart.
    """
    for name, parameter in module.named_parameters():
        if name.endswith("c_bn.weight"):
            parameter.mul_(0.25)


def scores_apart(module):
    """Scores in the middle of the sigmoid: where it is flat, rounding alone would decide which box is the better."""
    for to_boxes, to_scores in zip(module.model[-1].cv2, module.model[-1].cv3, strict=True):
        to_boxes[2].weight.mul_(0.25)
        to_scores[2].weight.mul_(0.125)


PREPARATIONS = {"slowfast": quiet_branches}  # before the calibration
ADJUSTMENTS = {"raft_small": small_steps, "stn": near_identity, "yolo": scores_apart}  # after it

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
LINEAR = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d)


def randomise(module, generator):
    """Draws every parameter: matrices by their fan-in, vectors and scales around what they are."""
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        matrix = name.endswith(("weight", "proj")) or ".weight_" in name  # the last: of a recurrent network
        if parameter.ndim >= 2 and matrix:
            parameter.copy_(noise / parameter[0].numel() ** 0.5)
        elif name.endswith("bias"):
            parameter.copy_(0.3 * noise)
        else:
            parameter.copy_(parameter + 0.3 * noise.clamp(-2, 2))


def calibrate(module, feeds):
    """Scales each linear layer to outputs of variance one and gives each batch norm its statistics, in one pass."""

    def before_norm(norm, args):
        (x,) = args
        axes = [axis for axis in range(x.ndim) if axis != 1]
        norm.running_mean.copy_(rounded(x.mean(axes)))
        norm.running_var.copy_(rounded(x.var(axes, unbiased=False) + 0.05))

    def after_linear(layer, args, output):
        layer.weight.copy_(rounded(layer.weight / output.std()))
        return layer.forward(*args)

    hooks = []
    for part in module.modules():
        if isinstance(part, NORMS):
            hooks.append(part.register_forward_pre_hook(before_norm))
        elif isinstance(part, LINEAR):
            hooks.append(part.register_forward_hook(after_linear))
    module(*feeds)
    for hook in hooks:
        hook.remove()


def rounded(x):
    """Twelve bits of mantissa: what another machine's rounding would change is cut off."""
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp(torch.round(mantissa * 4096) / 4096, exponent)


@contextmanager
def reproducible():
    """Inside, torch computes in float64 with one thread."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)


@torch.no_grad()
def make(name, folder):
    file, dims = NETWORKS[name]
    spec = td.load_spec(str(ROOT / file))
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    torch.manual_seed(0)
    with reproducible():
        module = spec.reference_class()().double().eval()
        randomise(module, generator)
        if name in PREPARATIONS:
            PREPARATIONS[name](module)
        feeds = td.sample_feeds(spec, dims, generator).values()
        calibrate(module, [feed.double() if feed.is_floating_point() else feed for feed in feeds])
        if name in ADJUSTMENTS:
            ADJUSTMENTS[name](module)
    path = folder / f"{name}.safetensors"
    save_file({key: value.contiguous() for key, value in module.float().state_dict().items()}, path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}; all by default")
    parser.add_argument("--to", type=Path, default=ROOT / "weights", metavar="FOLDER")
    arguments = parser.parse_args()
    for name in arguments.names or NETWORKS:
        if name not in NETWORKS:
            parser.error(f"no network {name!r}: one of {', '.join(NETWORKS)}")
        print(make(name, arguments.to))


if __name__ == "__main__":
    main()
