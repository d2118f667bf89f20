"""Sizes that small tensors and arrays of numpy hold: they come back as the sizes that they were."""

import numpy as np
import pytest
import torch

import trtdsl as td
from trtdsl.interpreter.interpret import Interpreter

F = torch.nn.functional
DIMS = {"N": (1, 2, 3), "H": (3, 5, 9), "W": (4, 6, 11)}


def iterated(x):
    shapes = torch.as_tensor([(x.shape[2], x.shape[3]), (2, x.shape[3] // 2)])
    return [F.interpolate(x, size=(int(h), int(w))) for h, w in shapes]


def reduced(x):
    shapes = torch.as_tensor([(x.shape[2], x.shape[3]), (2, x.shape[3] // 2)], dtype=torch.long)
    start = torch.cat((shapes.new_zeros((1,)), shapes.prod(1).cumsum(0)[:-1]))
    rows = x.flatten(2)
    return [rows[:, :, : h * w].reshape(x.shape[0], -1, h, w) for h, w in shapes], rows.repeat(1, 1, 2)[
        :, :, start[1] :
    ]


def written(x):
    half = torch.tensor(x.shape[-2:]) // 2
    held = torch.empty(2, 2, dtype=torch.long)
    held[0, 0], held[0, 1] = half.tolist()
    held[1] = half * 2
    (h, w), whole = held.tolist()
    return x[:, :, :h, :w], x.new_zeros(whole[0], whole[1]) + x.mean()


def made(x):
    rounded = (torch.tensor([x.shape[3], x.shape[2]]).flip(0).float() / 2).ceil().long()
    return torch.arange(rounded[0]) + x.mean(), torch.zeros(rounded[0], rounded[1]) + x.sum(), x * rounded[1].item()


def overwritten(x):
    held = torch.tensor([x.shape[2], x.shape[3]])
    held[0] = 2
    held += 1
    return x[:, :, : held[0], : held[1]]


def arrays(x):
    shape = np.array(x.shape[2:])
    quarter, half = (shape + 3) // 4, np.ceil(np.array(x.shape[-2:]) / 2).astype(int)
    return x[:, :, : quarter[0], : quarter[1]], x[:, :, : half[0], : half[1]]


def products(x):
    flat = x.reshape(x.shape[0], np.prod(x.shape[1:]))
    return flat, x.reshape(-1, int(np.prod(x.shape[2:]))), x / np.sqrt(x.shape[-1]) + np.log2(x.shape[2])


def beside_a_constant(x):
    kernel = torch.tensor([4, 3])
    pads = [max((-(-size // 2) - 1) * 2 + kernel[axis] - size, 0) for axis, size in enumerate(x.shape[2:])]
    whole = F.pad(x, [pads[1] // 2, pads[1] - pads[1] // 2, pads[0] // 2, pads[0] - pads[0] // 2])
    return F.max_pool2d(whole, (4, 3), 2), x.new_ones(int(kernel[0] * x.shape[2] - 1))


def from_numpy(x):
    sides = torch.from_numpy(np.array([x.shape[3], x.shape[2]], dtype=np.float32))
    return x * sides.sum(), x.mean() * torch.tensor(np.asarray(x.shape[2:]) * 2), x + np.fft.fft(np.ones(2)).real[0]


STEP, WIDTH = torch.tensor(2), torch.tensor(5)


def compared(x):
    """As audio codecs of transformers pad, whose strides are tensors."""
    length = x.shape[-1]
    steps = torch.ceil((length - STEP) / STEP + 1).to(torch.int64) - 1
    more = steps * STEP + STEP - length
    left, right = WIDTH // 2, WIDTH - WIDTH // 2 + more
    widest = max(left, right)
    if length <= widest:
        x = F.pad(x, (0, widest - length + 1))
    return F.pad(x, (left, right, 0, 0), "reflect"), x * (1 if length < WIDTH else 2)


def bounded(x):
    height, width = torch.tensor(x.shape[2]), torch.tensor(x.shape[3])
    few = torch.where(height > width, width, height)
    most = torch.maximum(height, width).clamp(min=5)
    return x[:, :, :few, :few], F.pad(x, (0, most)), x[:, :, : torch.minimum(height, torch.tensor(4)).clamp_max(3)]


class Applied(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    "function",
    [iterated, reduced, written, made, overwritten, arrays, products, beside_a_constant, from_numpy, compared, bounded],
    ids=lambda f: f.__name__,
)
def test_sizes_in_tensors_and_arrays_stay_sizes(function):
    network = td.from_module(Applied(function), {"x": "N,3,H,W"}, dims=DIMS).define()
    run = Interpreter(network)
    for n, h, w in ((1, 3, 4), (2, 5, 6), (3, 9, 11), (1, 8, 5), (2, 4, 9)):
        x = torch.randn(n, 3, h, w)
        wanted = torch.utils._pytree.tree_leaves(function(x))
        for got, want in zip(run({"x": x}).values(), wanted, strict=True):
            torch.testing.assert_close(got, want, check_dtype=False)


RUNS = []
TABLE = {32 * 32: 1.0}


def looked_up(x):
    RUNS.append(tuple(x.shape))
    return x * TABLE.get(x.shape[2] * x.shape[3], 1.0) + 2.0


def test_more_sizes_than_are_tried_are_refused_at_once():
    RUNS.clear()
    with pytest.raises(td.UnsupportedError, match="where H = 16, W = 17: .* needs H.W == 1024"):
        td.from_module(Applied(looked_up), {"x": "1,3,H,W"}, dims={"H": (16, 32, 40), "W": (16, 32, 40)})
    assert len(RUNS) < 20
