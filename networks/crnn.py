"""CRNN (Shi, Bai and Yao, TPAMI 2017): the text in an image of any width, by convolutions and a bidirectional LSTM.

Its weights are made by `python tools/make_weights.py crnn`.
"""

import trtdsl as td
import trtdsl.functional as F

N, W = td.Dim("N", min=1, opt=4, max=16), td.Dim("W", min=32, opt=128, max=512)
POOLING = {0: (2, 2, 0), 1: (2, 2, 0), 3: ((2, 2), (2, 1), (0, 1)), 5: ((2, 2), (2, 1), (0, 1))}
LAYERS, DIRECTIONS, HIDDEN = 2, ("", "_reverse"), 256


def features(x: td.Tensor, w: td.Scope):
    """Columns (W // 4 + 1, N, 512) of the image."""
    for k in range(7):
        x = F.conv2d(x, w[f"conv{k}"].weight, w[f"conv{k}"].bias, padding=0 if k == 6 else 1)
        if f"norm{k}" in w:
            norm = w[f"norm{k}"]
            x = F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        x = F.relu(x)
        if k in POOLING:
            x = F.max_pool2d(x, *POOLING[k])
    return x.squeeze(2).permute(2, 0, 1)


def lstm(x: td.Tensor, w: td.Scope):
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    params = [w[f"{name}_l{k}{way}"] for k in range(LAYERS) for way in DIRECTIONS for name in names]
    zeros = x.new_zeros(LAYERS * len(DIRECTIONS), x.shape[1], HIDDEN)
    output, _, _ = F.lstm(x, (zeros, zeros), params, True, LAYERS, 0.0, False, True, False)
    return output


@td.network(
    inputs={"x": td.Input((N, 1, 32, W))},
    weights="../weights/crnn.safetensors",
    reference="reference/crnn.py:Model",
)
def crnn(x: td.Tensor, w: td.Scope):
    x = lstm(features(x, w), w.rnn)
    return {"log_probabilities": F.log_softmax(F.linear(x, w.fc.weight, w.fc.bias), 2)}
