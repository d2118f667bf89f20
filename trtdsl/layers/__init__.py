"""TensorRT's vocabulary: one function per layer, with its evaluator and its cost beside it."""

from .activation import activation as activation
from .cast import cast as cast
from .cast import identity as identity
from .concatenation import concatenation as concatenation
from .constant import constant as constant
from .convolution import convolution as convolution
from .convolution import deconvolution as deconvolution
from .elementwise import elementwise as elementwise
from .elementwise import select as select
from .fill import linspace as linspace
from .gather import gather as gather
from .grid_sample import grid_sample as grid_sample
from .matrix_multiply import matrix_multiply as matrix_multiply
from .pooling import pooling as pooling
from .reduce import reduce as reduce
from .reduce import softmax as softmax
from .resize import resize as resize
from .scale import scale as scale
from .shape import shape as shape
from .shuffle import shuffle as shuffle
from .shuffle import squeeze as squeeze
from .shuffle import unsqueeze as unsqueeze
from .slice import slice as slice
from .unary import unary as unary
