"""What many tests need: a network of one function, and closeness relative to the scale."""

from __future__ import annotations

import torch

import trtdsl as td


def evaluate(function, *tensors, dims=None, **kwargs):
    """``function`` of inputs like ``tensors``, as a real TensorRT network, interpreted on them.

    ``dims`` gives for each tensor its network shape, where names stand for dynamic dimensions.
    """
    net = td.Network()
    inputs = [
        net.input(f"x{index}", shape if shape is not None else tensor.shape, tensor.dtype)
        for index, (tensor, shape) in enumerate(zip(tensors, dims or [None] * len(tensors), strict=True))
    ]
    with net.current():
        result = function(*inputs, **kwargs)
    results = result if isinstance(result, (tuple, list)) else (result,)
    for index, output in enumerate(results):
        net.output(output, f"y{index}")
    got = td.interpret(net, {f"x{index}": tensor for index, tensor in enumerate(tensors)})
    values = tuple(got[f"y{index}"] for index in range(len(results)))
    return values if isinstance(result, (tuple, list)) else values[0]


def assert_close(got, expected, tolerance=1e-5):
    """Equal dtype and shape; float values within ``tolerance`` of the greatest expected one; NaN and Inf the same."""
    assert got.dtype == expected.dtype, f"{got.dtype} instead of {expected.dtype}"
    assert got.shape == expected.shape, f"{tuple(got.shape)} instead of {tuple(expected.shape)}"
    if not expected.dtype.is_floating_point:
        assert torch.equal(got, expected)
        return
    finite = expected[torch.isfinite(expected)]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    torch.testing.assert_close(got.double(), expected.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def layer_types(network):
    """The types of a network's layers, in order."""
    definition = network.definition
    return [definition.get_layer(index).type.name for index in range(definition.num_layers)]


def unnoticed_weights(spec, weights, dims, by=1.01):
    """The weights of whose change by a hundredth a comparison of the network with its reference would not tell.

    It is the reference's weights that change, one tensor at a time: the network has been interpreted once.
    """
    feeds = td.sample_feeds(spec, dims, torch.Generator().manual_seed(0))
    ((name, got),) = td.interpret(spec.define(weights=weights, dims=dims), feeds).items()
    reference = spec.reference_module(spec.open_weights(weights))
    unnoticed = []
    with torch.no_grad():
        assert td.compare(name, got, reference(*feeds.values())).passed
        for key, tensor in reference.state_dict().items():
            if key.endswith("num_batches_tracked"):
                continue
            before = tensor.clone()
            tensor.mul_(by)
            if td.compare(name, got, reference(*feeds.values())).passed:
                unnoticed.append(key)
            tensor.copy_(before)
    return unnoticed
