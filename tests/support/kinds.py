"""Every kind of file that trtdsl writes, each from beside the code that writes it."""

from trtdsl.building.manifest import MANIFEST
from trtdsl.checking.saved import SAVED_CHECK
from trtdsl.definition.tuning.file import file_kind
from trtdsl.display.stubs import STUB
from trtdsl.display.view.files import KINDS as VIEWS
from trtdsl.engine.compiling.config import TIMING_CACHE
from trtdsl.engine.cpp import PROJECT
from trtdsl.engine.loading.loader import ENGINE
from trtdsl.engine.loading.runtime_cache import RUNTIME_CACHE
from trtdsl.engine.refit import DERIVED_WEIGHTS
from trtdsl.engine.run import ARRAY
from trtdsl.engine.triton import TRITON_CONFIG
from trtdsl.porting.checkpoint import WEIGHTS

HTML, SVG = VIEWS["html"], VIEWS["svg"]
TUNING, PRECISION = file_kind("small"), file_kind("small", "precision")
KINDS = (
    *(ENGINE, MANIFEST, TUNING, PRECISION, SAVED_CHECK, DERIVED_WEIGHTS, WEIGHTS, ARRAY, STUB, *VIEWS.values()),
    *(RUNTIME_CACHE, TIMING_CACHE, TRITON_CONFIG, PROJECT),
)
