"""trtdsl: TensorRT networks written in Python with torch's vocabulary, and proven equal to torch without a GPU.

What a network is written with is imported at once; what works on written networks, when it is first used.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .tensor import Tensor as Tensor  # first: its methods call functional, which it imports at its foot

# isort: split

from .errors import BackendError as BackendError
from .errors import BuildError as BuildError
from .errors import CancelledError as CancelledError
from .errors import CorruptFileError as CorruptFileError
from .errors import DefinitionError as DefinitionError
from .errors import EngineError as EngineError
from .errors import ExecutionError as ExecutionError
from .errors import FeedError as FeedError
from .errors import MismatchError as MismatchError
from .errors import OutOfMemoryError as OutOfMemoryError
from .errors import ShapeError as ShapeError
from .errors import TrtdslError as TrtdslError
from .errors import UnsupportedError as UnsupportedError
from .errors import UsageError as UsageError
from .errors import WeightsError as WeightsError
from .functional.control import cond as cond
from .functional.control import scan as scan
from .functional.control import while_loop as while_loop
from .functional.quantization import dequantize as dequantize
from .functional.quantization import quantize as quantize
from .network import Input as Input
from .network import Network as Network
from .profile import Profile as Profile
from .shape import Dim as Dim
from .shape import Size as Size
from .shape import size_max as size_max
from .shape import size_min as size_min
from .spec import NetworkSpec as NetworkSpec
from .spec import load_spec as load_spec
from .spec import network as network
from .version import __version__ as __version__
from .weights import Scope as Scope
from .weights import Weights as Weights
from .weights import convert_weights as convert_weights

if TYPE_CHECKING:
    from .batch import build_several as build_several
    from .bench import BenchReport as BenchReport
    from .bench import bench as bench
    from .build import Build as Build
    from .build import build as build
    from .check import CheckReport as CheckReport
    from .check import check as check
    from .check import compare as compare
    from .check import sample_feeds as sample_feeds
    from .compare_layers import LayerReport as LayerReport
    from .compare_layers import compare_layers as compare_layers
    from .compare_layers import locate_difference as locate_difference
    from .config import BuildConfig as BuildConfig
    from .doctor import diagnose as diagnose
    from .engine import Engine as Engine
    from .engine import load_engine as load_engine
    from .functional.einsum.plan import EinsumPlan as EinsumPlan
    from .functional.einsum.report import explain_einsum as explain_einsum
    from .interpret import Interpreter as Interpreter
    from .interpret import interpret as interpret
    from .port import missing as missing
    from .port import port as port
    from .refit import derive_weights as derive_weights
    from .run import run_files as run_files
    from .summary import Summary as Summary
    from .summary import inspect as inspect
    from .summary import summarize as summarize
    from .triton import export_triton as export_triton

_LATER = {
    "build_several": ".batch",
    "BenchReport": ".bench",
    "bench": ".bench",
    "Build": ".build",
    "build": ".build",
    "CheckReport": ".check",
    "check": ".check",
    "compare": ".check",
    "sample_feeds": ".check",
    "LayerReport": ".compare_layers",
    "compare_layers": ".compare_layers",
    "locate_difference": ".compare_layers",
    "BuildConfig": ".config",
    "diagnose": ".doctor",
    "Engine": ".engine",
    "load_engine": ".engine",
    "EinsumPlan": ".functional.einsum.plan",
    "explain_einsum": ".functional.einsum.report",
    "Interpreter": ".interpret",
    "interpret": ".interpret",
    "missing": ".port",
    "port": ".port",
    "derive_weights": ".refit",
    "run_files": ".run",
    "Summary": ".summary",
    "inspect": ".summary",
    "summarize": ".summary",
    "export_triton": ".triton",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LATER[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


class _Package(ModuleType):
    """Keeps `td.check` the function: the import system would put the module of that name in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _LATER and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
