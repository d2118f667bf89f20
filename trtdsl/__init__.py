"""trtdsl: TensorRT networks written in Python with torch's vocabulary, and proven equal to torch without a GPU.

The contents page is ``__init__.pyi``: each name is imported when it is first used.
"""

import typing as _typing

import lazy_loader as _lazy_loader

_import, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> _typing.Any:
    if name in __all__:
        return _import(name)
    from .core.errors import no_attribute

    raise no_attribute(__name__, name, __all__)
