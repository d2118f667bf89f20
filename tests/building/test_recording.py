"""What is recorded of a network on the author's data: groups of calls, their ranges, and what int8 would take."""

from __future__ import annotations

import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.building.recording import Recording
from trtdsl.definition.tuning.precisions import Precisions
from trtdsl.programs.devices import find_device

made = torch.Generator().manual_seed(0)
KERNEL, LARGE = (torch.randn(16, 16, 3, 3, generator=made) / 12 * size for size in (1, 1e5))
X = torch.rand(2, 16, 32, 32, generator=made) + 0.5


@td.network(inputs={"x": td.Input((2, 16, 32, 32))})
def convolutions(x):
    x = F.relu(F.conv2d(x, KERNEL, padding=1))
    y = F.conv2d(x, LARGE, padding=1)
    x = F.relu(y + x * 1e5) / 1e5
    return {"logits": F.relu(F.conv2d(x, KERNEL, padding=1) + x).mean((2, 3))}


def recorded():
    network = convolutions.define(precision=Precisions({}), exact=True)
    return Recording(network, [{"x": X}], lambda phase, done, total: None)


def test_calls_that_share_a_tensor_have_one_dtype_and_products_begin_another():
    recording = recorded()
    groups = [[call.site.key.function for call in group.calls] for group in recording.groups()]
    assert groups[0] == ["conv2d", "relu"]
    assert ["conv2d", "add", "relu", "mean"] in groups
    large = [call for call in recording.calls.values() if not call.fits("float16")]
    assert {call.site.key.function for call in large} >= {"conv2d", "mul", "add", "relu", "div"}
    assert recording.own.decibels()["logits"] > 100


def test_int8_takes_the_operands_of_products_and_sums_by_one_scale_a_tensor():
    recording = recorded()
    first, second, third = (call for call in recording.calls.values() if call.is_product)
    assert first.operands == ("x",) and recording.scale("x", "max", "int8") * 127 < 1.51
    assert list(first.work.values()) == [2 * X.numel() * 16 * 9]
    *_, added = (call for call in recording.calls.values() if len(call.operands) == 2)
    assert third.operands[0] in added.operands
    assert not second.fits("int8") and first.fits("int8")
    device = find_device("orin")
    assert first.gain("int8", device, 1.0) < 0  # as small as it is, the launch behind it costs more
