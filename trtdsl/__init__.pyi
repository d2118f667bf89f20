"""What `import trtdsl as td` offers; each name is imported when it is first used."""

from . import functional as functional
from . import layers as layers
from .building.advise import Advice as Advice
from .building.advise import advise as advise
from .building.batch import build_several as build_several
from .building.build import Build as Build
from .building.build import build as build
from .building.buildable import Obstacle as Obstacle
from .building.buildable import obstacles as obstacles
from .building.find_precision import PrecisionReport as PrecisionReport
from .building.find_precision import find_precision as find_precision
from .building.precision_search import SQNR as SQNR
from .building.tune import TuneReport as TuneReport
from .building.tune import tune as tune
from .checking.check import check as check
from .checking.generation import check_generation as check_generation
from .checking.judging.equality import Tolerance as Tolerance
from .checking.judging.equality import compare as compare
from .checking.locate import CallReport as CallReport
from .checking.locate import compare_calls as compare_calls
from .checking.locate import locate_call as locate_call
from .checking.mutation.mutate import MutationReport as MutationReport
from .checking.mutation.mutate import mutate as mutate
from .checking.report import CheckReport as CheckReport
from .core.diagnosis import diagnose as diagnose
from .core.errors import BackendError as BackendError
from .core.errors import BuildError as BuildError
from .core.errors import CancelledError as CancelledError
from .core.errors import CorruptFileError as CorruptFileError
from .core.errors import DefinitionError as DefinitionError
from .core.errors import EngineError as EngineError
from .core.errors import ExecutionError as ExecutionError
from .core.errors import FeedError as FeedError
from .core.errors import MismatchError as MismatchError
from .core.errors import OutOfMemoryError as OutOfMemoryError
from .core.errors import ShapeError as ShapeError
from .core.errors import TrtdslError as TrtdslError
from .core.errors import UnsupportedError as UnsupportedError
from .core.errors import UsageError as UsageError
from .core.errors import WeightsError as WeightsError
from .core.version import __version__ as __version__
from .definition.input import Input as Input
from .definition.input import State as State
from .definition.network import Network as Network
from .definition.network import Output as Output
from .definition.operation import require as require
from .definition.precision import precision as precision
from .definition.spec.load import load_spec as load_spec
from .definition.spec.spec import NetworkSpec as NetworkSpec
from .definition.spec.spec import network as network
from .definition.tensor import Tensor as Tensor
from .definition.weights.source import Scope as Scope
from .definition.weights.source import Weights as Weights
from .display.stubs import stubs as stubs
from .display.summary import Summary as Summary
from .display.summary import inspect as inspect
from .display.summary import summarize as summarize
from .display.view.view import View as View
from .display.view.view import view as view
from .engine.bench import BenchReport as BenchReport
from .engine.bench import bench as bench
from .engine.compiling.config import BuildConfig as BuildConfig
from .engine.cpp import export_cpp as export_cpp
from .engine.engine import Engine as Engine
from .engine.engine import load_engine as load_engine
from .engine.program import program as program
from .engine.program import programs_alike as programs_alike
from .engine.refit import derive_weights as derive_weights
from .engine.run import run_files as run_files
from .engine.running.compare_runs import RunComparison as RunComparison
from .engine.running.compare_runs import compare_runs as compare_runs
from .engine.running.evaluate import evaluate_engine as evaluate_engine
from .engine.running.generate import Generator as Generator
from .engine.triton import export_triton as export_triton
from .functional.constants import of_constants as of_constants
from .functional.einsum.plan import EinsumPlan as EinsumPlan
from .functional.einsum.search import explain_einsum as explain_einsum
from .functional.pointwise.quantization import dequantize as dequantize
from .functional.pointwise.quantization import quantize as quantize
from .functional.scanning.control import cond as cond
from .functional.scanning.control import scan as scan
from .functional.scanning.control import while_loop as while_loop
from .interpreter.feeds import sample_feeds as sample_feeds
from .interpreter.interpret import Interpreter as Interpreter
from .interpreter.interpret import interpret as interpret
from .layers.collective import shard as shard
from .porting import from_module as from_module
from .porting import missing as missing
from .porting import port as port
from .porting.checkpoint import convert_weights as convert_weights
from .programs.compare import Comparison as Comparison
from .programs.compare import compare_programs as compare_programs
from .programs.devices import floor_of as floor_of
from .programs.graph import Launch as Launch
from .programs.hazards import Hazard as Hazard
from .programs.hazards import find_hazards as find_hazards
from .programs.program import Program as Program
from .sizes.dim import Dim as Dim
from .sizes.profile import Profile as Profile
from .sizes.size import Size as Size
from .sizes.size import size_max as size_max
from .sizes.size import size_min as size_min
from .sizes.size import size_sqrt as size_sqrt

__all__ = [
    "SQNR",
    "BackendError",
    "BenchReport",
    "Build",
    "BuildConfig",
    "BuildError",
    "CallReport",
    "CancelledError",
    "CheckReport",
    "Comparison",
    "CorruptFileError",
    "DefinitionError",
    "Dim",
    "EinsumPlan",
    "Engine",
    "EngineError",
    "ExecutionError",
    "FeedError",
    "Generator",
    "Hazard",
    "Input",
    "Interpreter",
    "Launch",
    "MismatchError",
    "MutationReport",
    "Network",
    "NetworkSpec",
    "Obstacle",
    "OutOfMemoryError",
    "Output",
    "PrecisionReport",
    "Profile",
    "Program",
    "RunComparison",
    "Scope",
    "ShapeError",
    "Size",
    "State",
    "Summary",
    "Tensor",
    "Tolerance",
    "TrtdslError",
    "TuneReport",
    "UnsupportedError",
    "UsageError",
    "View",
    "Weights",
    "WeightsError",
    "__version__",
    "bench",
    "build",
    "build_several",
    "check",
    "check_generation",
    "compare",
    "compare_calls",
    "compare_programs",
    "compare_runs",
    "cond",
    "convert_weights",
    "dequantize",
    "derive_weights",
    "diagnose",
    "explain_einsum",
    "export_cpp",
    "export_triton",
    "find_hazards",
    "find_precision",
    "floor_of",
    "from_module",
    "functional",
    "inspect",
    "interpret",
    "layers",
    "load_engine",
    "load_spec",
    "locate_call",
    "missing",
    "mutate",
    "network",
    "obstacles",
    "of_constants",
    "port",
    "precision",
    "program",
    "programs_alike",
    "quantize",
    "require",
    "run_files",
    "sample_feeds",
    "scan",
    "shard",
    "size_max",
    "size_min",
    "size_sqrt",
    "stubs",
    "summarize",
    "tune",
    "view",
    "while_loop",
]
