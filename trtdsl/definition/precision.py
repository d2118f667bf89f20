"""In which precision each call computes: as torch.autocast has it, as a file says, or as the author says.

Autocast's lists are CUDA's, where engines run: https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference. A
function in neither runs in the dtype of its operands; several of them are promoted, as always.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..core.lazy import CURRENT_NETWORK, quantization, torch
from ..core.tensors.memory import contiguous, flat
from ..core.tensors.trees import mapped
from .common import SHORT, Location, UsageError, as_dtype, dtype_name, nearest
from .tensor import Operation, Tensor, reached, swapped
from .tuning.choices import Site, SiteKey
from .tuning.precisions import GROUP, NARROW, PER_TENSOR, Precisions, narrow_dtype


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LOW = _names(
    """
    addbmm addmm addmv addr baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    einops_einsum einsum gru gru_cell linear lstm lstm_cell matmul mm multi_dot mv prelu rnn_relu rnn_relu_cell
    rnn_tanh rnn_tanh_cell scaled_dot_product_attention
    """
)
FLOAT32 = _names(
    """
    acos asin cdist cosh cosine_similarity cumprod cumsum dist exp expm1 group_norm layer_norm log log10 log1p log2
    log_softmax norm normalize pdist pow prod reciprocal renorm rsqrt sinh softmax softmin softplus sum tan
    vector_norm
    """
)
WIDEST = _names("addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot")
MULTIPLYING = frozenset({"conv1d", "conv2d", "conv3d", "linear", "matmul"})
"""Functions of one operand and a constant weight that compute in narrow dtypes where a precision says so. A sum of two
operands takes what such calls quantize, and attention without a mask quantizes its operands itself."""
LOOPS = frozenset({"cond", "scan", "while_loop"})
COMPOSED = frozenset({"multi_head_attention_forward"})
"""Functions of which torch's own is made of others in these lists: the parts follow them."""


FOLLOWING = tuple(
    f"trtdsl.functional.{room}" for room in ("shaping", "indexing", "pointwise.quantization", "scanning.control")
)
"""Functions that only move values, convert them as the author says, or run functions of his: no precision is theirs."""
CONTROL = FOLLOWING[-1]


def as_precision(precision: Any) -> torch.dtype | None:
    """The low dtype of ``"fp16"`` or ``"bf16"`` (or torch's); None for ``"fp32"`` and None. UsageError for another."""
    dtype = torch.float32 if precision is None else _dtypes().get(dtype_name(precision))
    if dtype is None:
        raise UsageError(
            "precision is 'fp32', 'fp16' or 'bf16' (also 'float16', …), and of a @td.network 'int8', 'fp8' or the path "
            f"of a file, not {precision!r:.60}{nearest(str(precision), _dtypes())}; `trtdsl precision` finds one for "
            "each call"
        )
    return None if dtype == torch.float32 else dtype


def _dtypes() -> dict[str, torch.dtype]:
    return {name: as_dtype(SHORT[each]) for each in ("fp32", "fp16", "bf16") for name in (each, SHORT[each])}


@contextmanager
def precision(precision: str) -> Iterator[None]:
    """Calls inside compute in ``"fp32"``, ``"fp16"`` or ``"bf16"``, whatever the network's precision is.

    Their floating-point operands are cast, weights included. Functions that only move values, such as ``F.reshape``,
    and conversions, such as ``x.float()``, keep the dtype that they are given. The innermost block counts.

    Raises UsageError for what is no precision, and where no network is being defined.

    >>> @td.network(inputs={"x": td.Input((2, 3))})
    ... def net(x):
    ...     with td.precision("fp32"):
    ...         large = x * 60000 + x * 60000
    ...     return large / 60000
    >>> net.define(precision="fp16").outputs["output"].dtype
    torch.float32
    """
    dtype = torch.float32 if precision is None else as_precision(precision) or torch.float32
    network = CURRENT_NETWORK.get()
    if precision is None or network is None:
        why = "takes 'fp32', 'fp16' or 'bf16', not None" if precision is None else "is for a network being defined"
        raise UsageError(f"td.precision {why}: call it in a @td.network function, or inside `with net.current():`")
    if network.precision is None and dtype != torch.float32:
        network.precision = dtype
    policy = network.policy or Policy()
    with swapped(network, policy=policy), swapped(policy, blocks=[*policy.blocks, dtype]):
        yield


class Policy:
    """What says in which dtype a call computes: a block of :func:`precision`, else ``calls``, else autocast's lists.

    With both ``calls`` and ``autocast`` the calls are those that a file names, each in the dtype of autocast's lists.
    """

    def __init__(self, autocast: torch.dtype | None = None, calls: Precisions | None = None):
        self.autocast, self.calls = autocast, calls
        self.blocks: list[torch.dtype] = []
        self.sources: dict[SiteKey, set[SiteKey | None]] = {}
        """The calls whose results each one takes, where they have a precision each; None for the network's inputs."""

    def cast(self, call: Operation, function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments of an author's call in the dtype that it computes in; what it calls takes dtypes as they are.

        A call without one has its operands in the widest of their dtypes.
        """
        if not self.blocks and self.calls is None:
            followed = None if self.autocast is None else follow(function.__name__, self.autocast, args, kwargs)
            if followed is None and function.__name__ in COMPOSED:
                call.precision = self.autocast
            return followed or (args, kwargs)
        control, around = function.__module__ == CONTROL, call.body_of
        if around is not None and around.site is not None and not self.blocks:
            call.site, call.low = around.site, around.low
            if call.low is not None:
                return follow(function.__name__, call.low, args, kwargs) or (args, kwargs)
        computed = [x for x in _tensors((args, kwargs)) if not x.is_constant]
        if not computed:
            return args, kwargs
        wanted, scales, dtype = None, (), ""
        if control or not function.__module__.startswith(FOLLOWING):
            wanted = self.blocks[-1] if self.blocks else None
            if self.calls is not None and call.location is not None and around is None:
                wanted, scales, dtype = self._of_call(self.calls, call, call.location, wanted, args, kwargs)
                if control and wanted != torch.float32:  # what is carried is as autocast has it
                    call.low = wanted
                    return args, kwargs
        if control and self.calls is not None:
            wanted = torch.float32  # what is carried keeps its dtype
        if wanted is None:
            dtypes = {x.dtype for x in computed}
            wanted = torch.float32 if len(dtypes) > 1 else dtypes.pop()
        narrow = {id(x): _quantized(x, scale, dtype) for x, scale in zip(computed, scales, strict=False) if scale}
        if call.narrow == "float8_e4m3fn" and not call.name.startswith("conv"):
            # views of a tensor, and what is computed twice, are one to builders, and have one scale
            call.peers = call.network.shared(("weights", *scales, computed[0].shape[-1]), list)
            call.peers += [x for x in _tensors((args, kwargs))[1:2] if x.is_constant]
        return _cast(args, wanted, narrow), _cast(kwargs, wanted, narrow)

    def _of_call(
        self, calls: Precisions, call: Operation, location: Location, given: torch.dtype | None, args: Any, kwargs: Any
    ) -> tuple[torch.dtype, tuple[float, ...], str]:
        """The dtype of a call of a network whose calls have one each, the scales of its operands, and their dtype."""
        key = calls.key(location.file, call.within, call.name, call.name)
        tensors = _tensors((args, kwargs))
        varying = [x for x in tensors if not x.is_constant]
        asked = calls.wanted(key) or self._unnamed(call.name, varying) if given is None else dtype_name(given)
        weights = [x.ndim for x in tensors[1:2] if x.is_constant]
        fits = weights > [2] if call.name.startswith("conv") else weights == [2]
        product = fits and call.name in MULTIPLYING and len(varying) == 1
        attends = call.name == "scaled_dot_product_attention" and len(varying) == len(tensors) == 3
        attends = attends and kwargs.get("lowering", "auto") == "auto"
        ways = ["float32", "float16", "bfloat16"]
        if product or (call.name == "add" and len(varying) == 2):
            ways += ["int8", *[PER_TENSOR] * product]
        if attends or "int8" in ways:
            ways.append("float8_e4m3fn")
        if product and call.name == "linear" and tensors[1].data.shape[1] % GROUP == 0:
            ways.append("int4")
        scales: tuple[float, ...] = calls.scales.get(key, ()) if asked in NARROW else ()
        if asked in NARROW and (
            asked not in ways or len(scales) != (1 if attends else len(varying) * (asked != "int4"))
        ):
            asked, scales = "float32", ()  # which the file does not say: another network's
        place = calls.claim()
        described = tuple(map(_described, tensors))  # sizes and dtypes do not name a call
        how = tuple(ways), asked, given is not None, scales, f"{_hash((args, kwargs)):08x}"
        calls.take(place, Site(key, location, described, *how, "dtype"))
        call.site, self.sources[key] = key, _sources(args, kwargs)
        if asked not in NARROW:
            return _dtypes()[asked], (), ""
        call.narrow = asked if product else ""
        if attends:
            call.step, scales = max(scales), ()  # one for its operands
        return torch.float16, scales, narrow_dtype(asked)

    def _unnamed(self, name: str, varying: list[Tensor]) -> str:
        """The dtype of a call that the file does not name: float32, or that of autocast's lists; a loop has the low
        one, which calls inside follow."""
        low, dtypes = self.autocast, {x.dtype for x in varying}
        if low is None or name in FLOAT32:
            return "float32"
        is_low = name in LOW or name in LOOPS or name in COMPOSED
        return dtype_name(low if is_low else torch.float32 if len(dtypes) > 1 else dtypes.pop())


def _described(x: Tensor) -> str:
    """What a file says of an operand: its rank, and the weights that it is of, or the calls that made it.

    So calls that changed places, which are alike in all else, do not get the dtypes of each other.
    """
    made = (f"{key.function} {key.ordinal}" for key in _sources((x,), {}) if key is not None)
    of = ", ".join(sorted(x.weight_names if x.is_constant else made))
    return f"{x.ndim}-D of {of}" if of else f"{x.ndim}-D"


def _hash(tree: Any, before: int = 0) -> int:
    """Of the numbers of a call, and of constants that no weights file has: other weights are no other network."""
    if isinstance(tree, dict):
        return _hash([part for item in sorted(tree.items()) for part in item], before)
    if isinstance(tree, (tuple, list)):
        for part in tree:
            before = _hash(part, before)
        return before
    if isinstance(tree, Tensor) and tree.is_constant and not tree.weight_names:
        return zlib.crc32(flat(contiguous(tree.data)).view(torch.uint8).numpy(), before)  # pyright: ignore[reportArgumentType]
    said = repr(tree) if isinstance(tree, (bool, int, float, str, type(None))) else type(tree).__name__
    return zlib.crc32(said.encode(), before)


def _quantized(x: Tensor, scale: float, dtype: str) -> Tensor:
    """A value rounded to a narrow dtype, in float16: once for all calls that take it so."""
    makers = {key.function for key in _sources((x,), {}) if key is not None}
    apart = dtype == "float8_e4m3fn" and not makers.isdisjoint(("mul", "div"))  # of a tensor with a scale of its own

    def make() -> Tensor:
        return quantization.rounded(x.to(torch.float16), scale, dtype, apart=apart)

    return x.network.shared((dtype, x, scale), make)


def is_low(x: Any) -> bool:
    """Whether it is a Tensor of half precision."""
    return isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16)


def follow(name: str, low: torch.dtype, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """The arguments of a function in the dtype that it runs in; None for a function that no list has."""
    if name in LOW:
        wanted = low
    elif name in FLOAT32 or (name in WIDEST and any(x.dtype == torch.float32 for x in _tensors((args, kwargs)))):
        wanted = torch.float32
    else:
        return None
    return _cast(args, wanted), _cast(kwargs, wanted)


def _tensors(tree: Any) -> list[Tensor]:
    """The Tensors that a precision is for."""
    found: list[Any] = []
    mapped(tree, found.append)
    return [x for x in found if isinstance(x, Tensor) and _is_plain(x.dtype)]


def _sources(args: Any, kwargs: Any) -> set[SiteKey | None]:
    """The calls that made the operands, past those that only move values."""

    def makers(operands: Iterable[Tensor | None]) -> list[Any]:
        return [x.node for x in operands if x is not None and not x.is_constant]

    def before(node: Any) -> list[Any]:
        return [] if node is None or node.operation.site is not None else makers(node.operands)

    found = reached(makers(_tensors((args, kwargs))), before)
    return {node and node.operation.site for node in found if node is None or node.operation.site is not None}


def _is_plain(dtype: torch.dtype) -> bool:
    """Whether it is one that calls compute in: no integer's, and none that values are quantized to."""
    return dtype in (torch.float32, torch.float16, torch.bfloat16)


def _cast(tree: Any, dtype: torch.dtype, instead: Mapping[int, Tensor] = {}) -> Any:
    def cast(leaf: Any) -> Any:
        if id(leaf) in instead:
            return instead[id(leaf)]
        return leaf.to(dtype) if isinstance(leaf, Tensor) and _is_plain(leaf.dtype) else leaf

    return mapped(tree, cast)
