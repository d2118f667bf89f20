"""The operations that a program asks of NVIDIA's libraries, computed by torch from what the statement says.

Every setting of a statement is used or known to change nothing; any other is refused by its name. Sums and products
of half precision are computed in float32 and rounded once, as the libraries do.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as nn

from ...core.errors import UnevaluatedProgramError
from ..grammar import Record
from ..host_sizes import literal

SILENT = frozenset(
    {"name", "layers", "stream", "kernel", "source", "workspace", "scratchspace", "runtime_tactic", "input"}
    | {"output", "deterministic", "speculate"}
)
"""Settings that say how a result is computed, not what it is."""
UNSET = ("false", "0", "0f32")
"""The values of what a statement does without."""
SINGLE = {"vector_scale", "simd", "simds"}
"""How many elements lie together, where they lie as the strides say."""


@dataclass
class Settings:
    """The settings of one statement, of which each must be asked for."""

    kind: str
    record: Record
    asked: set[str] = field(default_factory=set)

    def text(self, key: str, default: str = "") -> str:
        self.asked.add(key)
        return self.record.text(key, default)

    def flag(self, key: str) -> bool:
        value = self.text(key, "false")
        if value not in ("true", "false"):
            raise UnevaluatedProgramError(f"{self.kind} has {key}={value[:40]}, which is not known")
        return value == "true"

    def numbers(self, key: str) -> list[int]:
        self.asked.add(key)
        return [int(word) for word in self.record.texts(key)]

    def real(self, key: str, default: float = 0.0) -> float:
        """A float by the hexadecimal digits of its bits."""
        text = self.text(key).removesuffix("f32")
        if not text:
            return default
        try:
            return struct.unpack(">f", bytes.fromhex(text.zfill(8)))[0]
        except (ValueError, struct.error):
            raise UnevaluatedProgramError(f"{self.kind} has {key}={text[:40]}, which is not known") from None

    def finish(self) -> None:
        """Raises UnevaluatedProgramError for a setting that nobody asked for."""
        for key, value in self.record.fields.items():
            if key in self.asked or key in SILENT or value in UNSET:
                continue
            if key not in SINGLE or set(value.items if isinstance(value, Record) else [value]) != {"1"}:
                raise UnevaluatedProgramError(f"{self.kind} has the setting {key}, which is not known")


Tensors = Sequence[torch.Tensor]
Operation = Callable[[Settings, Tensors, Tensors], Sequence[torch.Tensor]]
"""Of the settings, the operands and where the results will lie (for their shapes and types): the results."""


def evaluate(kind: str, record: Record, inputs: Tensors, outputs: Tensors) -> None:
    """Computes one statement into its results.

    Raises UnevaluatedProgramError for an operation or a setting that is not known.
    """
    if kind not in OPERATIONS:
        raise UnevaluatedProgramError(f"the operation {kind} is not known")
    if not any(output.numel() for output in outputs):
        return
    settings = Settings(kind, record)
    try:
        results = OPERATIONS[kind](settings, inputs, outputs)
    except (
        RuntimeError,
        ValueError,
        TypeError,
        IndexError,
        KeyError,
    ) as error:  # settings that are not of its operands
        raise UnevaluatedProgramError(f"{kind} cannot be computed: {str(error)[:200]}") from None
    settings.finish()
    for result, output in zip(results, outputs, strict=True):
        if tuple(result.shape) != tuple(output.shape):
            raise UnevaluatedProgramError(
                f"{kind} gives the shape {tuple(result.shape)} where the program has {tuple(output.shape)}"
            )
        output.copy_(result if result.dtype == output.dtype else cast(result, output.dtype))


def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A conversion as the device does it: floats to integers towards zero, saturating, NaN to 0."""
    if not x.is_floating_point() or dtype.is_floating_point or dtype == torch.bool:
        return x.to(dtype)
    narrow = {torch.int8: torch.int32, torch.uint8: torch.int64}.get(dtype, dtype)
    wide = x.double().nan_to_num(0.0, torch.inf, -torch.inf)
    low, high = (0, 2**32 - 1) if dtype == torch.uint8 else (torch.iinfo(narrow).min, torch.iinfo(narrow).max)
    top = wide >= high
    whole = wide.clamp(low, high).trunc().masked_fill(top, 0).to(torch.int64).masked_fill(top, high)
    return whole.to(dtype)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """What is computed with: float32 for narrower types, int32 for bytes."""
    if x.is_floating_point():
        return x if x.dtype == torch.float64 else x.float()
    return x


# -- products and convolutions -----------------------------------------------------------------------------------------


def _epilogue(
    settings: Settings,
    result: torch.Tensor,
    rest: list[torch.Tensor],
    alpha: float | torch.Tensor,
    beta: float,
    dtype: torch.dtype,
) -> torch.Tensor:
    """What follows a product: alpha, an operand to add, a bias, an activation, the rounding to int8 or fp8, whose scale
    alpha has. ``rest`` are the operands left."""
    if isinstance(alpha, torch.Tensor):
        result = (result * alpha).float()
    elif alpha != 1.0:
        result = result * alpha
    if settings.flag("accu"):
        result = result + beta * _wide(rest.pop(0)).reshape(result.shape)
    elif beta:
        raise UnevaluatedProgramError(f"{settings.kind} has a beta and nothing to add")
    if settings.flag("bias"):
        result = result + _wide(rest.pop(0))
    if rest:
        raise UnevaluatedProgramError(f"{settings.kind} has {len(rest)} operands more than are known")
    low, high = settings.real("relu_low"), settings.real("relu_high")
    if settings.flag("relu"):
        result = torch.where(result < low, low, torch.where(result > high, high, result))
    scale = settings.real("gelu_scale", 1.0)
    if settings.flag("gelu_erf"):
        result = nn.gelu(result) * scale
    if settings.flag("sigmoid"):
        result = torch.sigmoid(result)
    if settings.flag("tanh"):
        result = torch.tanh(result)
    if settings.flag("swish"):
        result = nn.silu(result)
    if not settings.flag("quantize"):
        return result
    return result.clamp(-448, 448) if dtype == torch.float8_e4m3fn else result.round().clamp(-128, 127)


def _scales(settings: Settings, inputs: Tensors) -> tuple[float | torch.Tensor, float, list[torch.Tensor]]:
    """alpha, which quantized products have for each channel, beta, and the operands behind them."""
    alpha, beta = settings.real("alpha", 1.0), settings.real("beta")
    rest = list(inputs[2:])
    given = [settings.flag("scalar_alpha_from_opnd"), settings.flag("scalar_beta_from_opnd")]
    if len(rest) < 2:
        raise UnevaluatedProgramError(f"{settings.kind} has no alpha and beta among its operands")
    own = [each if scale.numel() != 1 else float(scale) for each, scale in zip((alpha, beta), rest, strict=False)]
    if rest[1].numel() != 1 and not bool((rest[1] == beta).all()):
        raise UnevaluatedProgramError(f"{settings.kind} has a beta for each channel, which is not known")
    each = rest[0].double() if rest[0].numel() != 1 else own[0] if given[0] else alpha
    return each, own[1] if given[1] else beta, rest[2:]


def _convolution(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    x, weight = _wide(inputs[0]), _wide(inputs[1])
    alpha, beta, rest = _scales(settings, inputs)
    spatial = x.dim() - 2
    stride, dilation = settings.numbers("strides"), settings.numbers("dilation")
    extents = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], dilation, strict=True)]
    before, after = _padding(settings, x.shape[2:], extents, stride)
    groups = int(settings.text("nbr_groups", "1"))
    if not x.is_floating_point():
        x, weight = x.double(), weight.double()
    # A size that is rounded up has windows that reach behind the padding, into zeros.
    whole = zip(outputs[0].shape[2:], stride, extents, x.shape[2:], before, after, strict=True)
    after = [max(last, (n - 1) * step + extent - size - first) for n, step, extent, size, first, last in whole]
    x = nn.pad(x, list(itertools.chain(*reversed(list(zip(before, after, strict=True))))))
    result = CONVOLUTIONS[spatial](x, weight, None, stride, 0, dilation, groups)
    return [_epilogue(settings, result, rest, alpha, beta, outputs[0].dtype)]


CONVOLUTIONS = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}
TRANSPOSED = {1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d}


def _deconvolution(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    x, weight = _wide(inputs[0]), _wide(inputs[1])
    alpha, beta, rest = _scales(settings, inputs)
    stride, dilation = settings.numbers("strides"), settings.numbers("dilation")
    before = settings.numbers("lpadding")
    settings.numbers("rpadding")
    if settings.text("padding_mode", "0") not in ("0", "1"):
        raise UnevaluatedProgramError(f"{settings.kind} has a padding_mode that is not known")
    groups = int(settings.text("nbr_groups", "1"))
    whole = TRANSPOSED[x.dim() - 2](x, weight, None, stride, 0, 0, groups, dilation)
    for axis, (first, size) in enumerate(zip(before, outputs[0].shape[2:], strict=True), 2):
        missing = first + size - whole.shape[axis]
        if missing > 0:  # output padding: rows that no input reaches
            whole = nn.pad(whole, [0, 0] * (whole.dim() - 1 - axis) + [0, missing])
        whole = whole.narrow(axis, first, size)
    return [_epilogue(settings, whole, rest, alpha, beta, outputs[0].dtype)]


def _padding(
    settings: Settings, sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The padding in front and behind, by TensorRT's PaddingMode: explicit, or as much as SAME needs."""
    mode = settings.text("padding_mode", "0")
    before, after = settings.numbers("lpadding"), settings.numbers("rpadding")
    if mode in ("0", "1"):
        return before, after
    if mode not in ("2", "3"):
        raise UnevaluatedProgramError(f"{settings.kind} has the padding_mode {mode[:10]}, which is not known")
    totals = [
        max((-(-size // stride) - 1) * stride + extent - size, 0)
        for size, stride, extent in zip(sizes, strides, extents, strict=True)
    ]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (less, more) if mode == "2" else (more, less)


def _product(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    a, b = _wide(inputs[0]), _wide(inputs[1])
    alpha, beta, rest = _scales(settings, inputs)
    a = a.mT if settings.flag("trA") else a
    b = b.mT if settings.flag("trB") else b
    if not a.is_floating_point():
        a, b = a.double(), b.double()
    return [_epilogue(settings, torch.matmul(a, b), rest, alpha, beta, outputs[0].dtype)]


# -- pooling -----------------------------------------------------------------------------------------------------------


def _windows(settings: Settings, x: torch.Tensor, y: torch.Tensor, fill: float) -> torch.Tensor:
    """The windows of a pooling along an axis of their own behind."""
    sizes, stride = settings.numbers("sizes"), settings.numbers("strides")
    dilation = settings.numbers("dilation") or [1] * len(sizes)
    if any(step != 1 for step in dilation):
        raise UnevaluatedProgramError(f"{settings.kind} with a dilation is not known")
    before, _ = _padding(settings, x.shape[2:], sizes, stride)
    steps = zip(y.shape[2:], sizes, stride, before, x.shape[2:], strict=True)
    after = [(count - 1) * step + size - first - length for count, size, step, first, length in steps]
    x = nn.pad(x, list(itertools.chain(*reversed(list(zip(before, after, strict=True))))), value=fill)
    for axis, (size, step) in enumerate(zip(sizes, stride, strict=True), 2):
        x = x.unfold(axis, size, step)
    return x.flatten(-len(sizes))


def _max_pool(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    x = _wide(inputs[0])
    fill = -torch.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    return [_scaled(settings, _windows(settings, x, outputs[0], fill).amax(-1), inputs, outputs[0].dtype)]


def _average_pool(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    x, inclusive = _wide(inputs[0]), settings.flag("inclusive")
    if inclusive:
        _check_divisor(settings, x.shape[2:], outputs[0].shape[2:])
    total = _windows(settings, x, outputs[0], 0.0).sum(-1)
    counted = _windows(settings, torch.ones_like(x[:1, :1]), outputs[0], float(inclusive)).sum(-1)
    return [_scaled(settings, total / counted, inputs, outputs[0].dtype)]


def _check_divisor(settings: Settings, lengths: Sequence[int], counts: Sequence[int]) -> None:
    """Raises where windows that count the padding reach behind it: a size that is rounded up has such."""
    sizes, stride = settings.numbers("sizes"), settings.numbers("strides")
    ends = map(sum, zip(lengths, *_padding(settings, lengths, sizes, stride), strict=True))
    if any((count - 1) * step + size > end for count, step, size, end in zip(counts, stride, sizes, ends, strict=True)):
        raise UnevaluatedProgramError("avgpool divides windows that reach behind the padding by what is not known")


def _scaled(settings: Settings, pooled: torch.Tensor, inputs: Tensors, dtype: torch.dtype) -> torch.Tensor:
    """What was pooled; rounded by alpha for each channel where int8 is quantized again, which a beta of 1 tells."""
    plain = all(x.numel() == 1 and float(x) == own for x, own in zip(inputs[1:], (1.0, 0.0), strict=False))
    given = settings.real("alpha", 1.0), settings.real("beta"), len(inputs)
    known = plain or (dtype == torch.int8 and bool((inputs[-1] == 1).all()))
    if given not in ((1.0, 0.0, 1), (1.0, 0.0, 3)) or not known:
        raise UnevaluatedProgramError(f"{settings.kind} with this alpha or beta is not known")
    return pooled if plain else (pooled * inputs[1].reshape(-1, *[1] * (pooled.dim() - 2))).round().clamp(-128, 127)


# -- element by element, and what only moves ---------------------------------------------------------------------------


def _elementwise(compute: Callable[..., torch.Tensor]) -> Operation:
    def operation(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
        scale = settings.real("alpha")  # says what a constant operand is
        if scale != 0 and not any(x.numel() == 1 and float(x) == scale for x in inputs):
            raise UnevaluatedProgramError(f"{settings.kind} has an alpha that is none of its operands")
        result = compute(*map(_wide, inputs))
        return [result.expand(outputs[0].shape) if result.shape != outputs[0].shape else result]

    return operation


def _divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _relu(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    x = _wide(inputs[0])
    return [torch.where(x < 0, torch.zeros_like(x), x)]


def _copy(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    (x,) = inputs
    if x.shape != outputs[0].shape and x.numel() == outputs[0].numel() and x.is_contiguous():
        x = x.reshape(outputs[0].shape)
    return [x]


def _set(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    value = literal(settings.text("src"))
    if value is None:
        raise UnevaluatedProgramError(f"memset has the value {settings.text('src')[:40]}, which is not known")
    return [torch.full_like(output, value) for output in outputs]


def _concat(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    axis = settings.text("axis")
    if not axis.isdigit():
        raise UnevaluatedProgramError("concat has no axis")
    return [torch.cat(list(inputs), int(axis))]


REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda x: x.sum(0),
    "prod": lambda x: x.prod(0),
    "max": lambda x: x.amax(0),
    "min": lambda x: x.amin(0),
    "avg": lambda x: x.mean(0),
}


def _ranks_reduced(settings: Settings, inputs: Tensors, outputs: Tensors) -> list[torch.Tensor]:
    """Of all ranks' operands."""
    reduce = REDUCTIONS.get(settings.text("reduction_op"))
    if reduce is None:
        raise UnevaluatedProgramError(f"{settings.kind} reduces by what is not known")
    operands = torch.stack(list(inputs))
    return [reduce(operands.float() if operands.dtype in (torch.float16, torch.bfloat16) else operands)]


TORCHS = (
    "add", "sub", "mul", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "round", "trunc", "sin", "cos",
    "erf", "floor", "ceil", "eq", "ne", "gt", "ge", "lt", "le",
)  # fmt: skip
"""Operations that torch has by the same name."""
ELEMENTWISE: dict[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, name) for name in TORCHS},
    "div": _divide,
    "min": torch.minimum,
    "max": torch.maximum,
    "silu": nn.silu,
    "sqr": torch.square,
    "neq": torch.ne,
    "geq": torch.ge,
    "leq": torch.le,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "not": torch.logical_not,
    "select": torch.where,
}

OPERATIONS: dict[str, Operation] = {
    "corrltn": _convolution,
    "deconvolution": _deconvolution,
    "fully_connected": _product,
    "maxpool": _max_pool,
    "avgpool": _average_pool,
    "relu": _relu,
    "cast": lambda settings, inputs, outputs: [cast(inputs[0], outputs[0].dtype)],
    "copy": _copy,
    "move": _copy,
    "reshape": _copy,
    "memset": _set,
    "concat": _concat,
    "comm_allreduce": _ranks_reduced,
    "comm_reduce_scatter": _ranks_reduced,
    "comm_allgather": lambda settings, inputs, outputs: [torch.cat(list(inputs))],
    **{name: _elementwise(compute) for name, compute in ELEMENTWISE.items()},
}
"""By the name of the statement."""
