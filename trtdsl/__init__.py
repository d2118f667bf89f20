"""trtdsl: TensorRT networks written in Python with torch's vocabulary, and proven equal to torch without a GPU.

The contents page is ``__init__.pyi``: each name is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

del lazy_loader
