"""torch's vocabulary: same names, same arguments, same meaning; written in terms of :mod:`trtdsl.layers`.

In the examples, ``net`` is a new ``td.Network()``.
"""

from importlib import import_module as _import_module
from types import FunctionType as _Function

from .absent import absent as __getattr__  # noqa: F401

# The files that offer functions, by room; written by tools/make_contents.py. The stub has each with its parameters.
FILES = {
    ".": "detection einsum",
    ".indexing.": "gather index search",
    ".pointwise.": "activation arithmetic elementary logic quantization",
    ".products.": "attention linalg products",
    ".reducing.": "cumulative normalization reduction statistics",
    ".sampling.": "grid_sample interpolate",
    ".scanning.": "recurrent scan",
    ".shaping.": "arrange create join reshape",
    ".spectral.": "complex_tensor fourier",
    ".windows.": "adaptive convolution pooling",
}

_modules = [_import_module(room + file, __name__) for room, files in FILES.items() for file in files.split()]
_functions = {
    name: made
    for module in (*_modules, _import_module(".aliases", __name__))
    for name, made in vars(module).items()
    if isinstance(made, _Function) and hasattr(made, "__wrapped__")  # under @operation
    if module.__name__.endswith("aliases") or (made.__module__, made.__name__) == (module.__name__, name)
}
globals().update(_functions)
__all__ = sorted(_functions)  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return __all__
