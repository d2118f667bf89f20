"""The numbers that TensorRT hands a plan's program from outside: sizes that its text does not compute.

They are inputs of the text. Some are size tensors of the network. Others are sizes of a layer's result, which TensorRT
computes of an IResizeLayer's scales, or of what an ITopKLayer keeps: ``LAYER_shapeInput`` and, for a second one,
``LAYER_shapeInput_U4``, in the order of the dimensions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import torch

from ..core.errors import DefinitionError, ManifestDamagedError
from ..definition.network import Network
from ..layers.constant import read_weights
from ..layers.evaluation import Node
from ..layers.shape import size_tensors
from ..sizes.dim import Dim
from ..sizes.size import SizeLike, bounds, floor_divide, size_max, size_min
from .plan import SHAPE_INPUT, ProgramText, plain

# Of a size in a manifest: terms of a product, factors, and quotients and extremes within each other, whose time doubles
# with each.
MOST_TERMS, MOST_FACTORS, MOST_WORK = 1000, 64, 1 << 13

MOST_LENGTH, MOST_DENOMINATOR = 1 << 20, 1000  # of a length that is resized by a scale, and of that scale as a ratio


def _less(a: SizeLike, b: SizeLike) -> SizeLike:
    return size_min(1, size_max(0, b - a))


def _differ(a: SizeLike, b: SizeLike) -> SizeLike:
    return size_min(1, size_max(a - b, b - a))


MOVED = ("SHUFFLE", "SQUEEZE", "UNSQUEEZE", "IDENTITY", "CAST")
FUNCTIONS: dict[str, Callable[..., SizeLike]] = {
    "LESS": _less,
    "GREATER": lambda a, b: _less(b, a),
    "EQUAL": lambda a, b: 1 - _differ(a, b),
    "NOT": lambda a: 1 - a,
    "AND": size_min,
    "OR": size_max,
    "XOR": _differ,
}
"""What is computed of sizes, and of truth values as 0 and 1, by the operation."""


def handed_sizes(network: Network, texts: Sequence[ProgramText]) -> dict[str, SizeLike]:
    """What the texts of a network's plan are handed, by name, as far as it is made of the network's dimensions."""
    found: dict[str, SizeLike] = {}
    for text in texts:
        names = [name for name in map(plain, text.names("inputs")) if name not in network.inputs]
        if names:
            found |= _size_tensors(network, names) | dict(_of_results(network, names))
    return {name: size for name, size in found.items() if _is_named(size)}


def _size_tensors(network: Network, names: Sequence[str]) -> dict[str, SizeLike]:
    """Those that are tensors of the network, made of sizes: one that was reshaped or cast, or a comparison, 0 or 1."""
    found: dict[str, SizeLike | None] = dict(size_tensors(network))
    definition = network.definition
    layers = [definition.get_layer(index) for index in range(definition.num_layers)]
    made = {layer.get_output(0).name: layer for layer in layers if layer.num_outputs}

    def size(name: str) -> SizeLike | None:
        if name not in found:
            found[name] = None  # a loop's own value has none
            node = Node(network.backend, made[name]) if name in made else None
            if node is not None and node.type in MOVED:
                found[name] = size(node.inputs[0].name)
            elif node is not None and node.type == "CONSTANT" and node.dtype == torch.int64:
                value = read_weights(network.backend, node.layer.weights, tuple(node.layer.shape), node.dtype)
                found[name] = int(value) if value.numel() == 1 else None
            elif node is not None and node.type in ("ELEMENTWISE", "UNARY"):
                operands, function = [size(each.name) for each in node.inputs], FUNCTIONS.get(node.layer.op.name)
                found[name] = function(*operands) if function is not None and None not in operands else None
        return found[name]

    loops = [layer for layer in layers if layer.type.name == "LOOP_OUTPUT" and layer.num_inputs > 1]
    lengths = {f"{layer.name}[length]": layer.get_input(1).name for layer in loops}
    return {name: own for name in names if (own := size(lengths.get(name, name))) is not None}


def _of_results(network: Network, names: Sequence[str]) -> Iterator[tuple[str, SizeLike]]:
    """Those of layers that resize, the lengths that change, where equal ones may count once; and those of top-k."""
    by_layer: dict[str, list[str]] = {}
    for name in names:
        match = SHAPE_INPUT.fullmatch(name)
        if match is not None and network.layers[match["layer"]].results:
            by_layer.setdefault(match["layer"], []).append(name)
    if not by_layer:
        return
    definition = network.definition
    layers = [definition.get_layer(index) for index in range(definition.num_layers)]
    # An output of the network has another name than its layer; layers of a loop have none.
    made = {layer.get_output(0).name: layer.name for layer in layers if layer.num_outputs}
    for layer in layers:
        own = by_layer.get(layer.name)
        node = Node(network.backend, layer) if own else None
        if own and node is not None and node.type == "TOPK":
            yield own[0], network.layers[layer.name].results[0].shape[node.layer.axes.bit_length() - 1]
        if not own or node is None or node.type != "RESIZE":
            continue
        source = node.inputs[0]
        tensor = network.inputs.get(source.name)
        results = (tensor,) if tensor is not None else network.layers[made.get(source.name, source.name)].results
        before = results[0].shape if results else ()
        sizes = [
            size
            for size in _changed(node, before, network.layers[layer.name].results[0].shape)
            if not isinstance(size, int)
        ]
        for each in (sizes, list(dict.fromkeys(sizes))):
            if len(each) == len(own):
                yield from zip(own, each, strict=True)
                break


def _changed(node: Node, before: Sequence[SizeLike], after: Sequence[SizeLike]) -> list[SizeLike]:
    """The sizes of a resize's result along the dimensions that it resizes; none where they are not known."""
    if len(before) != len(after):
        return []
    if not node.layer.scales:
        return [size for size, own in zip(after, before, strict=True) if size != own]
    axes = zip(after, before, node.layer.scales, strict=True)
    return [size if _is_named(size) else _scaled(own, scale) or size for size, own, scale in axes if scale != 1]


def _scaled(size: SizeLike, scale: float) -> SizeLike | None:
    """``size * scale`` rounded down, where a ratio gives TensorRT's product, in float32, at every size; else None."""
    if not _is_named(size) or bounds(size)[1] > MOST_LENGTH:
        return None
    lengths = torch.arange(bounds(size)[0], bounds(size)[1] + 1)
    products = (lengths.float() * torch.tensor(scale)).floor().long()
    for ratio in (Fraction(scale), Fraction(scale).limit_denominator(MOST_DENOMINATOR)):
        if ratio.numerator * bounds(size)[1] < 1 << 62 and torch.equal(
            products, lengths * ratio.numerator // ratio.denominator
        ):
            return floor_divide(size * ratio.numerator, ratio.denominator)
    return None


def _is_named(size: SizeLike) -> bool:
    """Whether a size is made of dimensions that have names."""
    return isinstance(size, int) or all(isinstance(atom, Dim) for atom in size.atoms())


def parse_size(text: str, dims: Mapping[str, Dim]) -> SizeLike:
    """A size as a manifest writes it: sums, products, quotients and extremes of dimensions and numbers.

    Raises ManifestDamagedError for any other text, and for one whose products or quotients would take
    long: of more than 1,000 terms or 64 factors, or about 12 quotients within each other.

    >>> parse_size("2*H + (H + 1)//2", {"H": td.Dim("H")}).value({"H": 4})
    10
    """

    work = 0

    def value(node: ast.expr, depth: int = 0) -> SizeLike:
        nonlocal work
        nested = isinstance(node, ast.Call) or (
            isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod))
        )
        depth += nested
        work += nested << depth
        if work > MOST_WORK:
            raise ValueError
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in dims:
                return dims[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand, depth)
            case ast.BinOp(left=left, op=operator, right=right):
                a, b = value(left, depth), value(right, depth)
                match operator:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult() if _terms(a) * _terms(b) <= MOST_TERMS:
                        return a * b
                    case ast.FloorDiv() if b != 0:
                        return floor_divide(a, b)
                    case ast.Mod() if b != 0:
                        return a - floor_divide(a, b) * b
            case ast.Call(func=ast.Name(id="max" | "min" as name), args=[left, right], keywords=[]):
                return (size_max if name == "max" else size_min)(value(left, depth), value(right, depth))
        raise ValueError

    try:
        if text.count("*") > MOST_FACTORS:
            raise ValueError
        return value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, DefinitionError):  # MemoryError: nested too deeply
        raise ManifestDamagedError(
            f"the manifest has a size {text[:200]!r} that is not made of its dimensions"
        ) from None


def _terms(size: SizeLike) -> int:
    return 1 if isinstance(size, int) else len(size.terms)
