"""torch's vocabulary: same names, same arguments, same meaning; written in terms of :mod:`trtdsl.layers`."""

from importlib import import_module as _import_module

from .absent import absent as __getattr__  # noqa: F401

# The names that each file offers; written by tools/make_contents.py. The stub has each with its parameters.
CONTENTS = {
    "aliases": (
        "absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh clip concat divide fix ger "
        "greater greater_equal less less_equal moveaxis multiply negative not_equal subtract "
        "swapaxes swapdims trapz true_divide upsample view_as"
    ),
    "detection.boxes": "box_convert box_area box_iou",
    "detection.regions": "roi_align deform_conv2d",
    "detection.suppression": "nms batched_nms",
    "einsum": "einsum einops_einsum",
    "indexing.assign": "setitem",
    "indexing.bags": "embedding_bag masked_scatter",
    "indexing.gather": (
        "gather index_select take take_along_dim embedding nonzero argwhere masked_select scatter "
        "scatter_add scatter_reduce index_add index_copy index_fill index_put"
    ),
    "indexing.index": "getitem",
    "indexing.search": "searchsorted bucketize isin bincount histc",
    "losses": (
        "l1_loss mse_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy "
        "multilabel_soft_margin_loss binary_cross_entropy_with_logits poisson_nll_loss "
        "gaussian_nll_loss hinge_embedding_loss soft_margin_loss margin_ranking_loss "
        "cosine_embedding_loss triplet_margin_loss nll_loss cross_entropy multi_margin_loss"
    ),
    "pointwise.activation": (
        "sigmoid tanh softsign logsigmoid tanhshrink relu relu6 hardsigmoid hardswish selu mish "
        "leaky_relu elu gelu silu softplus hardtanh celu prelu rrelu hardshrink softshrink "
        "threshold glu softmin log_softmax softmax dropout dropout1d dropout2d dropout3d "
        "alpha_dropout feature_alpha_dropout"
    ),
    "pointwise.arithmetic": (
        "add sub rsub mul div floor_divide remainder fmod maximum minimum fmax fmin clamp clamp_min "
        "clamp_max lerp addcmul addcdiv atan2 xlogy xlog1py copysign logaddexp logaddexp2 ldexp "
        "hypot heaviside"
    ),
    "pointwise.conversion": "to clone",
    "pointwise.elementary": (
        "exp log sqrt reciprocal sin cos tan sinh cosh asin acos atan asinh acosh atanh erf abs neg "
        "positive sign sgn square rsqrt exp2 expm1 log1p log2 log10 erfc deg2rad rad2deg sinc entr "
        "ndtr logit nan_to_num signbit"
    ),
    "pointwise.logic": (
        "eq ne lt le gt ge isnan isinf isposinf isneginf isfinite isclose logical_not logical_and "
        "logical_or logical_xor bitwise_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift "
        "bitwise_right_shift where masked_fill"
    ),
    "pointwise.powers": "pow",
    "pointwise.quantization": "quantize dequantize",
    "pointwise.rounding": "ceil floor trunc frac round",
    "products.attention": "scaled_dot_product_attention",
    "products.distances": "cosine_similarity pairwise_distance cdist pdist",
    "products.fusion": "fuse_conv_bn_weights",
    "products.linalg": "inverse solve det matrix_norm",
    "products.matmul": "matmul linear grouped_mm",
    "products.multi_head": "multi_head_attention_forward",
    "products.products": (
        "mm bmm mv dot vdot inner outer addmm addmv addr addbmm baddbmm multi_dot matrix_power "
        "tensordot kron cross vecdot bilinear"
    ),
    "reducing.cumulative": "cumsum cumprod logcumsumexp cummax cummin diff trapezoid cumulative_trapezoid",
    "reducing.normalization": "batch_norm layer_norm group_norm instance_norm rms_norm normalize local_response_norm",
    "reducing.order": "quantile cov corrcoef renorm",
    "reducing.reduction": (
        "sum mean prod nansum nanmean amax amin aminmax max min argmax argmin all any count_nonzero equal"
    ),
    "reducing.sort": "topk sort argsort msort kthvalue median one_hot",
    "reducing.statistics": "var std var_mean std_mean norm vector_norm dist logsumexp",
    "sampling.affine_grid": "affine_grid",
    "sampling.grid_sample": "grid_sample bilinear_sample",
    "sampling.interpolate": "interpolate upsample_nearest upsample_bilinear",
    "scanning.recurrent": "gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell",
    "scanning.recurrent_layers": "lstm gru rnn_tanh rnn_relu",
    "scanning.scan": "linear_recurrence associative_scan",
    "scanning.selective": "selective_scan",
    "shaping.allocate": "empty_strided scalar_tensor as_tensor logspace sum_to_size",
    "shaping.arrange": (
        "flip fliplr flipud rot90 roll pad constant_pad_nd channel_shuffle diagonal trace "
        "diag_embed diag diagflat unfold_dimension unfold fold"
    ),
    "shaping.create": (
        "full zeros ones empty full_like zeros_like ones_like empty_like new_full new_zeros "
        "new_ones new_empty fill arange linspace eye meshgrid cartesian_prod tensor tril triu"
    ),
    "shaping.join": (
        "cat stack hstack vstack dstack column_stack split split_with_sizes chunk tensor_split "
        "hsplit vsplit dsplit unbind narrow select slice_scatter select_scatter"
    ),
    "shaping.pixel_shuffle": "pixel_shuffle pixel_unshuffle",
    "shaping.reshape": (
        "reshape view reshape_as ravel unflatten flatten permute transpose unsqueeze squeeze t "
        "movedim atleast_1d atleast_2d atleast_3d expand expand_as broadcast_to broadcast_tensors "
        "repeat tile repeat_interleave"
    ),
    "shaping.tables": "tril_indices triu_indices unravel_index combinations block_diag as_strided",
    "spectral.complex_tensor": "view_as_complex view_as_real complex polar real imag conj angle",
    "spectral.fourier": "fft ifft rfft irfft fftn ifftn rfftn irfftn fft2 ifft2 rfft2 irfft2 fftshift ifftshift",
    "spectral.short_time": "stft istft",
    "windows.adaptive": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
        "adaptive_max_pool2d adaptive_max_pool3d"
    ),
    "windows.convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "windows.pooling": (
        "avg_pool1d lp_pool1d lp_pool2d lp_pool3d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d"
    ),
}

for _file, _names in CONTENTS.items():
    _module = _import_module(f".{_file}", __name__)
    globals().update((_name, getattr(_module, _name)) for _name in _names.split())
__all__ = sorted(" ".join(CONTENTS.values()).split())  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return __all__
