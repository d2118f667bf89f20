"""MOE: a mixture of experts, each a gated linear unit."""

from __future__ import annotations

from collections.abc import Sequence

from .common import ShapeError, Tensor, add_layer, member, operation, torch
from .evaluation import Evaluate, Given, Node, Shapes, count, evaluates
from .quantize import dynamic_scales, narrow, spread


@operation
def moe(
    hidden: Tensor,
    experts: Tensor,
    scores: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    biases: Sequence[Tensor] = (),
    *,
    activation: str = "SILU",
    limit: float = float("inf"),
    alpha: float = 1.0,
    beta: float = 0.0,
) -> Tensor:
    """The sum of ``scores`` times the outputs of the chosen ``experts``: one IMoELayer, for Blackwell and Thor GPUs.

    ``hidden`` is (N, S, D); ``experts`` (int32) and ``scores`` are (N, S, K); ``gate`` and ``up`` are (E, D, I),
    ``down`` is (E, I, D), and ``biases`` are theirs, all three or none. An expert is ``down(up(x) *
    activation(gate(x)))``; ``limit``, ``alpha`` and ``beta`` are those of SwiGLU.

    >>> f = lambda name, *shape: net.input(name, shape, "float16")
    >>> e = net.input("e", (2, 3, 2), "int32")
    >>> moe(f("h", 2, 3, 8), e, f("s", 2, 3, 2), f("g", 4, 8, 16), f("u", 4, 8, 16), f("d", 4, 16, 8)).shape
    (2, 3, 8)
    """
    if len(biases) not in (0, 3):
        raise ShapeError("biases are those of gate, up and down, all three or none")

    kind = member(hidden.network.trt.MoEActType, activation, "activation")

    def add(target, hidden, experts, scores, gate, up, down, *biases):
        layer = target.definition.add_moe(hidden, experts, scores)
        if layer is None:
            return None
        layer.set_gated_weights(gate, up, down, kind)
        if biases:
            layer.set_gated_biases(*biases)
        layer.set_swiglu_params(limit, alpha, beta)
        return layer

    return add_layer(add, hidden, experts, scores, gate, up, down, *biases, shape=hidden.shape, fold=False)


def _flops(node: Node, shapes: Shapes) -> int:
    """Three matrix products for each chosen expert of each token."""
    gate = shapes.inputs[3]
    return count(shapes.inputs[1]) * (6 * gate[1] * gate[2] + 6 * gate[2] + 2 * gate[1])


@evaluates(
    "MOE",
    category="product",
    flops=_flops,
    unbuilt="MOE has kernels for Blackwell and Thor GPUs alone: write the experts as F.matmul with gathered weights, "
    "or build where there is such a GPU",
)
def _moe(node: Node) -> Evaluate:
    """Computed in float32 and rounded once.

    Assumed for SwiGLU, of which the documentation gives the defaults alone: the gate is cut at ``limit`` from above and
    the other factor on both sides, ``gate * sigmoid(alpha * gate) * (up + beta)``.
    """
    layer, dtype = node.layer, node.dtype
    node.known(layer.activation_type, ("SILU",), "activation")
    limit, alpha, beta = layer.swiglu_param_limit, layer.swiglu_param_alpha, layer.swiglu_param_beta
    quantized = node.backend.torch_dtype(layer.quantization_to_type) if node.has_input(9) else None
    block: tuple[int, ...] = tuple(layer.quantization_block_shape) if quantized is not None else ()
    scale_dtype = node.backend.torch_dtype(layer.dyn_q_output_scale_type) if block else None

    def requantized(x: torch.Tensor, scale: Given) -> torch.Tensor:
        """Through the quantized type and back, per token and expert."""
        if quantized is None or scale is None:
            return x
        if scale_dtype is None:
            steps = spread(scale, x.shape, -1)
        else:
            scales = dynamic_scales(x, (1, *block[3:]), quantized, scale_dtype, scale)
            steps = spread(scales * scale.float(), x.shape, -1)
        steps = torch.where(steps == 0, 1.0, steps)
        return narrow(x / steps, quantized).float() * steps

    def expert(x: torch.Tensor, weights: Sequence[torch.Tensor], scale: Given) -> torch.Tensor:
        gate, up, down, *biases = weights
        opened, raised = x @ gate, x @ up
        if biases:
            opened, raised = opened + biases[0], raised + biases[1]
        opened, raised = opened.clamp(max=limit), raised.clamp(-limit, limit)
        inner = opened * torch.sigmoid(alpha * opened) * (raised + beta)
        result = requantized(inner, scale) @ down
        return result + biases[2] if biases else result

    def evaluate(hidden: torch.Tensor, experts: torch.Tensor, scores: torch.Tensor, *parameters: Given) -> torch.Tensor:
        tokens = hidden.float().flatten(0, 1)
        chosen, factors = experts.flatten(0, 1), scores.float().flatten(0, 1)
        scale = parameters[6] if len(parameters) > 6 else None
        result = torch.zeros_like(tokens)
        for index in torch.unique(chosen).tolist():
            row, place = torch.where(chosen == index)
            weights = [tensor[index].float() for tensor in parameters[:6] if tensor is not None]
            output = expert(tokens[row], weights, scale) * factors[row, place].unsqueeze(1)
            result.index_add_(0, row, output)
        return result.reshape(hidden.shape).to(dtype)

    return evaluate
