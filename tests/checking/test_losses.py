"""What each call loses is the noise of its results beside their exact values."""

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.losses import precision_losses

WEIGHT = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) / 8


@td.network(inputs={"x": td.Input((32, 64))})
def net(x):
    return {"y": F.tanh(F.linear(x, WEIGHT))}


def test_the_decibels_are_those_of_float64(tmp_path):
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(1))
    file = tmp_path / "net.precision.json"
    td.find_precision(net, data=[x], allow="fp16", output=file)
    text = file.read_text().replace('"float32"', '"float16"')
    file.write_text(text)
    network = net.define(precision=str(file), exact=True)
    losses = {each.call: each for each in precision_losses(network, {"x": x})}
    half, exact = (x.half().float() @ WEIGHT.half().float().T).half(), x.double() @ WEIGHT.double().T

    def decibels(got, wanted):
        return 10 * float((wanted.square().sum() / (got.double() - wanted).square().sum()).log10())

    assert losses["linear"].after == pytest.approx(decibels(half, exact), abs=0.5)
    assert losses["tanh"].before == losses["linear"].after
    assert losses["tanh"].after == pytest.approx(decibels(half.float().tanh().half(), exact.tanh()), abs=0.5)
