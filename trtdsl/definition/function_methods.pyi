"""Functions of trtdsl.functional as methods of Tensor; written by tools/make_contents.py."""

from typing import Any

from trtdsl import functional as F
from trtdsl.definition.tensor import Tensor

NAMES: tuple[str, ...]
OPERATORS: dict[str, str]
REFLECTED: tuple[str, ...]

class FunctionMethods:
    __slots__ = ()

    abs = F.abs
    absolute = F.abs
    acos = F.acos
    acosh = F.acosh
    add = F.add
    addbmm = F.addbmm
    addcdiv = F.addcdiv
    addcmul = F.addcmul
    addmm = F.addmm
    addmv = F.addmv
    addr = F.addr
    all = F.all
    amax = F.amax
    amin = F.amin
    aminmax = F.aminmax
    angle = F.angle
    any = F.any
    arccos = F.acos
    arccosh = F.acosh
    arcsin = F.asin
    arcsinh = F.asinh
    arctan = F.atan
    arctan2 = F.atan2
    arctanh = F.atanh
    argmax = F.argmax
    argmin = F.argmin
    argsort = F.argsort
    argwhere = F.nonzero
    as_strided = F.as_strided
    asin = F.asin
    asinh = F.asinh
    atan = F.atan
    atan2 = F.atan2
    atanh = F.atanh
    baddbmm = F.baddbmm
    bincount = F.bincount
    bitwise_and = F.bitwise_and
    bitwise_left_shift = F.bitwise_left_shift
    bitwise_not = F.bitwise_not
    bitwise_or = F.bitwise_or
    bitwise_right_shift = F.bitwise_right_shift
    bitwise_xor = F.bitwise_xor
    bmm = F.bmm
    broadcast_to = F.broadcast_to
    ceil = F.ceil
    cholesky = F.cholesky
    chunk = F.chunk
    clamp = F.clamp
    clamp_max = F.clamp_max
    clamp_min = F.clamp_min
    clip = F.clamp
    clone = F.clone
    conj = F.conj
    copysign = F.copysign
    corrcoef = F.corrcoef
    cos = F.cos
    cosh = F.cosh
    count_nonzero = F.count_nonzero
    cov = F.cov
    cross = F.cross
    cummax = F.cummax
    cummin = F.cummin
    cumprod = F.cumprod
    cumsum = F.cumsum
    deg2rad = F.deg2rad
    det = F.det
    diag = F.diag
    diag_embed = F.diag_embed
    diagflat = F.diagflat
    diagonal = F.diagonal
    diagonal_scatter = F.diagonal_scatter
    diff = F.diff
    dist = F.dist
    div = F.div
    divide = F.div
    dot = F.dot
    dsplit = F.dsplit
    eq = F.eq
    equal = F.equal
    erf = F.erf
    erfc = F.erfc
    exp = F.exp
    exp2 = F.exp2
    expand = F.expand
    expand_as = F.expand_as
    expm1 = F.expm1
    fix = F.trunc
    flatten = F.flatten
    fliplr = F.fliplr
    flipud = F.flipud
    floor = F.floor
    floor_divide = F.floor_divide
    fmax = F.fmax
    fmin = F.fmin
    fmod = F.fmod
    frac = F.frac
    gather = F.gather
    ge = F.ge
    ger = F.outer
    greater = F.gt
    greater_equal = F.ge
    gt = F.gt
    hardshrink = F.hardshrink
    heaviside = F.heaviside
    histc = F.histc
    hsplit = F.hsplit
    hypot = F.hypot
    imag = F.imag
    index_add = F.index_add
    index_copy = F.index_copy
    index_fill = F.index_fill
    index_put = F.index_put
    index_select = F.index_select
    inner = F.inner
    inverse = F.inverse
    isclose = F.isclose
    isfinite = F.isfinite
    isinf = F.isinf
    isnan = F.isnan
    isneginf = F.isneginf
    isposinf = F.isposinf
    istft = F.istft
    kron = F.kron
    kthvalue = F.kthvalue
    ldexp = F.ldexp
    le = F.le
    lerp = F.lerp
    less = F.lt
    less_equal = F.le
    log = F.log
    log10 = F.log10
    log1p = F.log1p
    log2 = F.log2
    log_softmax = F.log_softmax
    logaddexp = F.logaddexp
    logaddexp2 = F.logaddexp2
    logcumsumexp = F.logcumsumexp
    logical_and = F.logical_and
    logical_not = F.logical_not
    logical_or = F.logical_or
    logical_xor = F.logical_xor
    logit = F.logit
    logsumexp = F.logsumexp
    lt = F.lt
    masked_fill = F.masked_fill
    masked_scatter = F.masked_scatter
    masked_select = F.masked_select
    matmul = F.matmul
    matrix_power = F.matrix_power
    max = F.max
    maximum = F.maximum
    mean = F.mean
    median = F.median
    min = F.min
    minimum = F.minimum
    mm = F.mm
    moveaxis = F.movedim
    movedim = F.movedim
    msort = F.msort
    mul = F.mul
    multiply = F.mul
    mv = F.mv
    nan_to_num = F.nan_to_num
    nanmean = F.nanmean
    nansum = F.nansum
    narrow = F.narrow
    ne = F.ne
    neg = F.neg
    negative = F.neg
    new_empty = F.new_empty
    new_full = F.new_full
    new_ones = F.new_ones
    new_zeros = F.new_zeros
    nonzero = F.nonzero
    norm = F.norm
    not_equal = F.ne
    outer = F.outer
    positive = F.positive
    pow = F.pow
    prelu = F.prelu
    prod = F.prod
    quantile = F.quantile
    rad2deg = F.rad2deg
    ravel = F.ravel
    real = F.real
    reciprocal = F.reciprocal
    relu = F.relu
    remainder = F.remainder
    renorm = F.renorm
    repeat = F.repeat
    repeat_interleave = F.repeat_interleave
    reshape_as = F.reshape_as
    roll = F.roll
    rot90 = F.rot90
    round = F.round
    rsqrt = F.rsqrt
    scatter = F.scatter
    scatter_add = F.scatter_add
    scatter_reduce = F.scatter_reduce
    select = F.select
    select_scatter = F.select_scatter
    sgn = F.sgn
    sigmoid = F.sigmoid
    sign = F.sign
    signbit = F.signbit
    sin = F.sin
    sinc = F.sinc
    sinh = F.sinh
    slice_scatter = F.slice_scatter
    slogdet = F.slogdet
    softmax = F.softmax
    sort = F.sort
    split = F.split
    split_with_sizes = F.split_with_sizes
    sqrt = F.sqrt
    square = F.square
    squeeze = F.squeeze
    std = F.std
    stft = F.stft
    sub = F.sub
    subtract = F.sub
    sum = F.sum
    sum_to_size = F.sum_to_size
    swapaxes = F.transpose
    swapdims = F.transpose
    t = F.t
    take = F.take
    take_along_dim = F.take_along_dim
    tan = F.tan
    tanh = F.tanh
    tensor_split = F.tensor_split
    topk = F.topk
    trace = F.trace
    transpose = F.transpose
    tril = F.tril
    triu = F.triu
    true_divide = F.div
    trunc = F.trunc
    unbind = F.unbind
    unflatten = F.unflatten
    unsqueeze = F.unsqueeze
    var = F.var
    vdot = F.vdot
    view = F.view
    view_as = F.reshape_as
    vsplit = F.vsplit
    xlogy = F.xlogy

    def __add__(self, other: Any) -> Tensor: ...
    def __sub__(self, other: Any) -> Tensor: ...
    def __mul__(self, other: Any) -> Tensor: ...
    def __pow__(self, other: Any) -> Tensor: ...
    def __matmul__(self, other: Any) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __lt__(self, other: Any) -> Tensor: ...
    def __le__(self, other: Any) -> Tensor: ...
    def __gt__(self, other: Any) -> Tensor: ...
    def __ge__(self, other: Any) -> Tensor: ...
    def __truediv__(self, other: Any) -> Tensor: ...
    def __floordiv__(self, other: Any) -> Tensor: ...
    def __mod__(self, other: Any) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __and__(self, other: Any) -> Tensor: ...
    def __or__(self, other: Any) -> Tensor: ...
    def __xor__(self, other: Any) -> Tensor: ...
    def __radd__(self, other: Any) -> Tensor: ...
    def __rsub__(self, other: Any) -> Tensor: ...
    def __rmul__(self, other: Any) -> Tensor: ...
    def __rtruediv__(self, other: Any) -> Tensor: ...
    def __rfloordiv__(self, other: Any) -> Tensor: ...
    def __rmod__(self, other: Any) -> Tensor: ...
    def __rpow__(self, other: Any) -> Tensor: ...
    def __rmatmul__(self, other: Any) -> Tensor: ...
    def __rand__(self, other: Any) -> Tensor: ...
    def __ror__(self, other: Any) -> Tensor: ...
    def __rxor__(self, other: Any) -> Tensor: ...
