"""One record per function: what its tests need to know beyond torch's OpInfo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

FLOAT, INT, BOOL = torch.float32, torch.int64, torch.bool


@dataclass(frozen=True)
class Call:
    """A sample of our own, for functions that torch has no OpInfo of."""

    input: object
    args: tuple = ()
    kwargs: dict | None = None


@dataclass(frozen=True)
class Record:
    """How a function is tested against torch."""

    name: str
    opinfo: str = ""
    """The OpInfo's name where it is another."""
    dtypes: tuple[torch.dtype, ...] = (FLOAT, INT, BOOL)
    constants: tuple[int | str, ...] = ()
    """Arguments (by position after the first, or by name) that are constants, as weights are; "input" is the first."""
    weights: tuple[int | str, ...] = ()
    """Arguments that are constants where the others have dynamic dimensions."""
    tolerance: float = 1e-5
    call: Callable = lambda function: function
    """Makes of our function one that takes the sample's arguments."""
    reference: Callable | None = None
    """What is compared with, instead of the OpInfo's own function."""
    outputs: Callable = lambda result: result
    """What of the results is compared, where torch promises less than one answer."""
    static: tuple[int, ...] = ()
    """Axes that stay static where the others are dynamic: the channels of a convolution."""
    function: str = ""
    """The function in F where the record is of a method of Tensor."""
    samples: Callable | None = None
    """Samples of our own besides, or where torch has no OpInfo."""

    def __post_init__(self):
        if not self.opinfo:
            object.__setattr__(self, "opinfo", self.name)
        if not self.function:
            object.__setattr__(self, "function", self.name)


def _same(names, prefix="", **options):
    return [Record(name, prefix + name, **options) for name in names.split()]


def _aliases(pairs):
    """Functions of which torch has the samples under another name."""
    return [Record(name, other) for name, other in (pair.split("=") for pair in pairs.split())]


def _values(result):
    """Values alone: of equal elements torch may name any index."""
    return result[0]


def _as_tensor(result):
    return torch.tensor(result) if isinstance(result, bool) else result


def _grouped_samples():
    rows, matrices = _tensors((6, 4), (3, 4, 8))
    for ends in ([2, 2, 6], [0, 5, 6]):
        yield Call(rows, (matrices,), {"offs": torch.tensor(ends, dtype=torch.int32)})
    yield Call(rows[:2], (matrices,), {"offs": torch.tensor([1, 1, 2], dtype=torch.int32)})
    yield Call(matrices, (matrices.mT.contiguous(),))


def _inference(function):
    """torch's dropouts, where training is True unless said otherwise; ours are for inference."""
    return lambda input, p=0.5, training=False, inplace=False: function(input, p, training, inplace)


def _tensors(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def _fold_samples():
    for kernel, options in (
        (2, {}),
        ((2, 3), {"stride": 2}),
        (3, {"padding": 1}),
        ((3, 2), {"stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)}),
    ):
        columns = torch.nn.functional.unfold(_tensors((2, 3, 8, 9))[0], kernel, **options)
        yield Call(columns, ((8, 9), kernel), options)
        yield Call(columns[0], ((8, 9), kernel), options)


def _setitem_samples():
    x, row, places = _tensors((4, 5, 6), (4, 6), (4, 3, 6))
    index, mask = torch.tensor([3, 0, -2]), torch.arange(20).reshape(4, 5) % 3 == 0
    every = slice(None)
    for item, value in (
        (1, 7.0),
        ((every, 2), row),
        ((every, slice(1, 4)), places),
        ((every, slice(None, None, 2)), places),
        ((..., -1), 7.0),
        ((every, index), places),
        ((index, every, index), 7.0),
        ((1, every, index), 7.0),
        (mask, 7.0),
        ((every, mask.T[:, 0]), row[:, None]),
        (mask, _tensors((7, 6))[0]),
    ):
        yield Call(x, (item, value))


def _assigned(x, index, value):
    x[index] = value
    return x


def _lp_pool_samples(ndim):
    shape = (2, 3, 8, 7, 9)[: ndim + 2]
    for norm_type, options in ((2, {}), (1, {"stride": 1}), (2, {"stride": 3, "ceil_mode": True}), (3, {"stride": 2})):
        (x,) = _tensors(shape)
        yield Call(x.abs(), (norm_type, 3), options)
        yield Call(x[0].abs(), (norm_type, 2), options)


def _dropout_samples():
    yield Call(_tensors((2, 3, 4))[0], (0.3,), {"training": False})


def _to_samples():
    """OpInfo's samples are all of float64, which TensorRT does not have."""
    for source in (FLOAT, torch.float16, INT, torch.int32, BOOL):
        for target in (FLOAT, torch.float16, torch.bfloat16, INT, torch.int32, BOOL):
            x = _tensors((2, 3))[0].mul(3).to(source)
            yield Call(x, (target,))
            yield Call(x, (torch.empty((), dtype=target),))
            yield Call(x, ("cpu", target), {"non_blocking": True})


def _cell_samples(gates):
    for hidden, bias in ((2, True), (5, False)):
        x, h, c, w_ih, w_hh, b_ih, b_hh = _tensors(
            (3, 4), (3, hidden), (3, hidden), (gates * hidden, 4), (gates * hidden, hidden), *[(gates * hidden,)] * 2
        )
        biases = (b_ih, b_hh) if bias else (None, None)
        yield Call(x, ((h, c) if gates == 4 else h, w_ih, w_hh, *biases))


def _recurrent_samples(gates):
    """Layers, directions, biases, the order of dimensions; the weights are the first two axes' of torch's modules."""
    for layers, both, bias, batch_first, projection in (
        (1, False, True, False, 0),
        (1, True, False, False, 0),
        (2, True, True, True, 0),
        (3, False, True, False, 0),
        *(((2, True, True, False, 3),) if gates == 4 else ()),
    ):
        kind = {1: torch.nn.RNN, 3: torch.nn.GRU, 4: torch.nn.LSTM}[gates]
        torch.manual_seed(0)
        options = {"proj_size": projection} if projection else {}
        module = kind(4, 5, layers, bias=bias, bidirectional=both, batch_first=batch_first, **options)
        entries = layers * (1 + both)
        x, h, c = _tensors((6, 6, 4), (entries, 6, projection or 5), (entries, 6, 5))
        params = [weight.detach() for weight in module._flat_weights]
        yield Call(x, ((h, c) if gates == 4 else h, params, bias, layers, 0.0, False, both, batch_first))


def _cartesian_samples():
    yield Call(torch.arange(3), (torch.arange(2), torch.tensor([5, 7, 9, 11])))
    yield Call(torch.arange(3.0), (torch.rand(2),))
    yield Call(torch.arange(3.0))


def _as_tensor_samples():
    for data in (1.5, [1, 2], [[1.0, 2], [3, 4]], torch.arange(3)):
        for dtype in (None, torch.float16, torch.int64):
            yield Call(data, kwargs={"dtype": dtype})


def _as_strided_samples():
    for size, stride, offset in (
        ((3, 2), (4, 1), 1),
        ((2, 2, 3), (1, 6, 2), None),
        ((4,), (0,), 5),
        ((0, 2), (1, 1), 0),
    ):
        yield Call(_tensors((3, 4))[0], (size, stride, offset))


def _shapes_alone(result):
    """Of what is not initialized, its shape and dtype."""
    return result.new_zeros(result.shape)


def _tensor_samples():
    for data, options in ((1.5, {}), ([1, 2], {}), ([[1.0, 2], [3, 4]], {"dtype": torch.float16}), ([True], {})):
        yield Call(torch.zeros(2), (data,), options)


ELEMENTARY = _same(
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf erfc exp exp2 expm1 floor frac log log10 "
    "log1p log2 logit nan_to_num neg positive rad2deg reciprocal round rsqrt sgn sigmoid sign signbit sin sinc "
    "sinh sqrt square tan tanh trunc"
) + [
    *_same("entr ndtr", "special."),
    *_aliases("absolute=abs arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh arctan=atan arctanh=atanh"),
    *_aliases("negative=neg fix=trunc"),
]
ARITHMETIC = _same(
    "add addcdiv addcmul atan2 clamp clamp_max clamp_min copysign div floor_divide fmax fmin fmod heaviside hypot "
    "lerp logaddexp logaddexp2 maximum minimum mul pow remainder rsub sub true_divide xlogy"
) + [
    *_aliases("clip=clamp arctan2=atan2 multiply=mul subtract=sub divide=div"),
    Record("xlog1py", "special.xlog1py"),
    Record("ldexp"),
]
LOGIC = [
    *_same(
        "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor eq ge gt isclose "
        "isfinite isinf isnan isneginf isposinf le logical_and logical_not logical_or logical_xor lt masked_fill ne"
    ),
    *_aliases("greater=gt greater_equal=ge less=lt less_equal=le not_equal=ne"),
    Record("isin"),
    Record("equal", outputs=_as_tensor),
    Record("where", call=lambda where: lambda input, condition, other: where(condition, input, other)),
]
REDUCTIONS = [
    *_same(
        "all amax amin aminmax any argmax argmin count_nonzero cumprod cumsum dist logcumsumexp logsumexp max mean "
        "median min nanmean nansum norm prod std std_mean sum var var_mean"
    ),
    Record("vector_norm", "linalg.vector_norm"),
    Record("matrix_norm", "linalg.matrix_norm"),
    *_same("corrcoef cov cummax cummin cumulative_trapezoid diff renorm trapezoid"),
    Record("quantile", constants=(0, "q")),
    Record("trapz", "trapezoid"),
]
SHAPES = [
    *_same(
        "atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to cat chunk clone column_stack constant_pad_nd "
        "diag diag_embed diagflat diagonal diagonal_scatter dsplit dstack expand expand_as flatten flip fliplr flipud "
        "hsplit hstack meshgrid movedim narrow permute ravel repeat reshape reshape_as roll rot90 select "
        "select_scatter slice_scatter split split_with_sizes squeeze stack t tile trace transpose tril triu unbind "
        "unflatten unsqueeze view view_as vsplit vstack"
    ),
    *_same("channel_shuffle pad unfold", "nn.functional."),
    *_same("block_diag combinations sum_to_size"),
    Record("as_strided", "none", samples=_as_strided_samples, reference=torch.as_strided),
    *_aliases("concat=cat moveaxis=movedim swapaxes=transpose swapdims=transpose"),
    *(
        Record(name, call=lambda to, name=name: lambda x, **options: getattr(x, name)(), function="to")
        for name in ("bfloat16", "bool", "float", "half", "int", "long")
    ),
    Record("to", samples=_to_samples, reference=lambda x, *args, **kwargs: x.to(*args, **kwargs)),
    Record("repeat_interleave", constants=(0, "repeats")),
    Record("tensor_split", constants=(0, "indices_or_sections", "tensor_indices_or_sections")),
    Record("unfold_dimension", "unfold"),
    Record("fold", samples=_fold_samples, reference=torch.nn.functional.fold),
]
CREATION = [
    Record("logspace", constants=("input", 0), dtypes=(FLOAT,)),
    *_same("arange eye fill full full_like linspace new_full new_ones new_zeros ones ones_like zeros zeros_like"),
    *_same("empty empty_like empty_strided new_empty", outputs=_shapes_alone),
    *_same("scalar_tensor tril_indices triu_indices"),
    Record("as_tensor", samples=_as_tensor_samples, reference=torch.as_tensor),
    Record("cartesian_prod", samples=_cartesian_samples, reference=torch.cartesian_prod),
    Record(
        "tensor",
        samples=_tensor_samples,
        call=lambda tensor: lambda input, *args, **options: tensor(*args, **options),
        reference=lambda input, *args, **options: torch.tensor(*args, **options),
    ),
]
INDEXING = [
    *_same(
        "argsort argwhere gather index_add index_copy index_fill index_put index_select masked_select msort nonzero "
        "scatter scatter_add scatter_reduce sort take take_along_dim"
    ),
    *_same("bucketize histc masked_scatter searchsorted"),
    Record("unravel_index", dtypes=(INT,)),
    Record("bincount", dtypes=(INT,), constants=("input",)),
    Record(
        "embedding_bag",
        "nn.functional.embedding_bag",
        call=lambda bag: lambda weight, index, **options: bag(index, weight, **options),
    ),
    Record("getitem", "__getitem__"),
    Record("setitem", samples=_setitem_samples, reference=_assigned, opinfo="none"),
    Record("topk", outputs=_values),
    Record("kthvalue", outputs=_values),
    Record("one_hot", "nn.functional.one_hot"),
    Record(
        "embedding",
        "nn.functional.embedding",
        call=lambda embedding: lambda weight, index, **options: embedding(index, weight, **options),
    ),
]
PRODUCTS = [
    *_same("addbmm addmm addmv addr baddbmm bmm cdist cross dot inner kron matmul mm mv outer tensordot vdot"),
    *_same("bilinear cosine_similarity linear pairwise_distance pdist", "nn.functional."),
    Record("grouped_mm", samples=_grouped_samples, reference=torch.nn.functional.grouped_mm, opinfo="none"),
    Record("det", "linalg.det", tolerance=1e-4),
    Record("slogdet", "linalg.slogdet", tolerance=1e-4),
    Record("inverse", "linalg.inv", tolerance=1e-4),
    Record("solve", "linalg.solve", tolerance=1e-4),
    Record("cholesky", "linalg.cholesky", tolerance=1e-4),
    Record("solve_triangular", "linalg.solve_triangular", tolerance=1e-4),
    *_same("matrix_power multi_dot vecdot", "linalg."),
    Record("ger", "outer"),
    Record("einsum", call=lambda einsum: lambda tensors, equation: einsum(equation, tensors)),
]
LAYERS = [
    *_same(
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
        "adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_unpool1d "
        "max_unpool2d max_unpool3d",
        "nn.functional.",
    ),
    *(
        Record(f"{name}{ndim}d", f"nn.functional.{name}{ndim}d", static=(-1 - ndim,), weights=(0, "weight"))
        for name in ("conv", "conv_transpose")
        for ndim in (1, 2, 3)
    ),
    *_same("group_norm", "nn.functional.", static=(1,)),
    *_same("batch_norm instance_norm layer_norm local_response_norm normalize rms_norm", "nn.functional."),
    *(
        Record(
            f"lp_pool{ndim}d",
            samples=lambda ndim=ndim: _lp_pool_samples(ndim),
            reference=getattr(torch.nn.functional, f"lp_pool{ndim}d"),
        )
        for ndim in (1, 2, 3)
    ),
    *(
        Record(
            name,
            samples=lambda gates=gates: _cell_samples(gates),
            reference=getattr(torch, name),
            static=(1,),
            weights=(1, 2, 3, 4),
        )
        for name, gates in (("gru_cell", 3), ("lstm_cell", 4), ("rnn_tanh_cell", 1), ("rnn_relu_cell", 1))
    ),
    *(
        Record(
            name,
            opinfo="none",
            samples=lambda gates=gates: _recurrent_samples(gates),
            reference=getattr(torch, name),
            constants=(1,),
            static=(-1,),
        )
        for name, gates in (("gru", 3), ("lstm", 4), ("rnn_tanh", 1), ("rnn_relu", 1))
    ),
]
ACTIVATIONS = [
    *_same(
        "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish prelu relu relu6 "
        "rrelu selu silu softmin softplus softshrink softsign tanhshrink threshold",
        "nn.functional.",
    ),
    *_same("scaled_dot_product_attention", "nn.functional.", static=(-1,)),
    # Scores of some thousands: rounding moves a softmax by more than elsewhere.
    *_same("multi_head_attention_forward", "nn.functional.", tolerance=1e-4, static=(-1,)),
    *_same("log_softmax softmax"),
    *(
        Record(name, f"nn.functional.{name}", reference=_inference(getattr(torch.nn.functional, name)))
        for name in ("alpha_dropout", "dropout", "dropout2d", "dropout3d", "feature_alpha_dropout")
    ),
    Record("dropout1d", samples=_dropout_samples, reference=torch.nn.functional.dropout1d),
]
SAMPLING = _same(
    "grid_sample interpolate pixel_shuffle pixel_unshuffle upsample_bilinear upsample_nearest", "nn.functional."
)
FAMILIES = {
    "Functions of elements": ELEMENTARY,
    "Arithmetic": ARITHMETIC,
    "Comparisons, logic and bits": LOGIC,
    "Reductions": REDUCTIONS,
    "Shapes": SHAPES,
    "Creation": CREATION,
    "Indexing and sorting": INDEXING,
    "Products": PRODUCTS,
    "Convolution, pooling, normalization": LAYERS,
    "Activations and attention": ACTIVATIONS,
    "Sampling and resizing": SAMPLING,
}
RECORDS = {record.name: record for family in FAMILIES.values() for record in family}

# Functions that are tested elsewhere, in files of their own.
ELSEWHERE = {
    "fake_quantize_per_channel_affine",
    "fake_quantize_per_tensor_affine",
    "fused_moving_avg_obs_fake_quant",
    "affine_grid",
    "angle",
    "associative_scan",
    "batched_nms",
    "bilinear_sample",
    "box_area",
    "box_convert",
    "box_iou",
    "complex",
    "conj",
    "deform_conv2d",
    "dequantize",
    "einops_einsum",
    "fft",
    "fft2",
    "fftn",
    "fftshift",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "imag",
    "irfft",
    "irfft2",
    "irfftn",
    "istft",
    "linear_recurrence",
    "nms",
    "polar",
    "quantize",
    "real",
    "rfft",
    "rfft2",
    "rfftn",
    "roi_align",
    "selective_scan",
    "stft",
    "upsample",
    "view_as_complex",
    "view_as_real",
}
