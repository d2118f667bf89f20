"""torch.Tensor's methods, which :class:`~trtdsl.definition.tensor.Tensor` inherits."""

from .conversion import ConversionMethods as ConversionMethods
from .elements import ElementMethods as ElementMethods
from .reductions import ReductionMethods as ReductionMethods
from .shapes import ShapeMethods as ShapeMethods
