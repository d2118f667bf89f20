"""torch's second names: each is the very function that it stands for."""

from .indexing import gather
from .pointwise import arithmetic, elementary, logic
from .products import products
from .reducing import cumulative
from .sampling import interpolate
from .shaping import join, reshape

absolute = elementary.abs
arccos = elementary.acos
arccosh = elementary.acosh
arcsin = elementary.asin
arcsinh = elementary.asinh
arctan = elementary.atan
arctan2 = arithmetic.atan2
arctanh = elementary.atanh
argwhere = gather.nonzero
clip = arithmetic.clamp
concat = join.cat
divide = arithmetic.div
fix = elementary.trunc
ger = products.outer
greater = logic.gt
greater_equal = logic.ge
less = logic.lt
less_equal = logic.le
moveaxis = reshape.movedim
multiply = arithmetic.mul
negative = elementary.neg
not_equal = logic.ne
subtract = arithmetic.sub
swapaxes = reshape.transpose
swapdims = reshape.transpose
trapz = cumulative.trapezoid
true_divide = arithmetic.div
upsample = interpolate.interpolate
view_as = reshape.reshape_as
