"""Ports the modules of torch_tensorrt's converter tests and checks each against itself.

The suite is `tests/py/dynamo/conversion` of github.com/pytorch/TensorRT; this script imports it from wherever it lies.
torch_tensorrt and TensorRT need not be installed: stand-ins take their places, and each test's module and inputs go to
`td.from_module`, `td.check` and a comparison on the test's own inputs. The package parameterized must be importable.

    python tools/converter_suite.py ~/TensorRT/tests/py/dynamo/conversion --results results.jsonl

Each module is judged in a process of its own. A result is kept with the commit of trtdsl, and counts for that commit
alone: a run that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from measured import Results, alone
from torch.overrides import TorchFunctionMode

PACKAGE = "converter_suite_tests"
STUBBED = ("torch_tensorrt", "tensorrt")
SECONDS = 60


# -- stand-ins -----------------------------------------------------------------------------------------------------


class Stub(types.ModuleType):
    """A module that has everything; what is asked of it is another one, which can be called and compared."""

    __path__: Sequence[str] = ()
    __version__ = "11.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return FIXED.get(name) or Stub(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else Stub("called")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stub for whatever torch_tensorrt would have."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.split(".")[0] in STUBBED:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        return Stub(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


class Given:
    """torch_tensorrt's Input: a shape or a range of shapes, a dtype, and perhaps the tensor itself."""

    def __init__(self, *args: Any, **options: Any):
        shape = args[0] if args else options.get("shape")
        self.shapes = tuple(
            tuple(shape if shape is not None else options[key]) for key in ("min_shape", "opt_shape", "max_shape")
        )
        self.dtype = options.get("dtype") or torch.float32
        self.tensor = options.get("torch_tensor")
        if options.get("shape_ranges"):
            self.shapes = tuple(map(tuple, options["shape_ranges"][0]))

    def example_tensor(self, which: str = "opt_shape") -> torch.Tensor:
        return self.example(("min_shape", "opt_shape", "max_shape").index(which))

    def example(self, which: int) -> torch.Tensor:
        if self.tensor is not None and tuple(self.tensor.shape) == self.shapes[which]:
            return self.tensor
        if self.dtype == torch.bool:
            return torch.rand(self.shapes[which]) < 0.5
        made = torch.rand(self.shapes[which])
        return made.to(self.dtype) if self.dtype.is_floating_point else (made * 2).to(self.dtype)


DTYPES = {"f32": torch.float32, "float": torch.float32, "float32": torch.float32, "f16": torch.float16}
DTYPES |= {"half": torch.float16, "float16": torch.float16, "i32": torch.int32, "int32": torch.int32}
DTYPES |= {"i64": torch.int64, "long": torch.int64, "b": torch.bool, "bool": torch.bool, "bf16": torch.bfloat16}
FIXED: dict[str, Any] = {
    "Input": Given,
    "ATOL": 1e-3,
    "RTOL": 1e-3,
    "UnsupportedOperatorException": RuntimeError,
    "dtype": types.SimpleNamespace(**DTYPES),
    "ENABLED_FEATURES": type("Features", (), {"__getattr__": lambda self, name: name != "tensorrt_rtx"})(),
    "is_tensorrt_version_supported": lambda version: True,
}


# -- the tests -----------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """One module with what it is given."""

    name: str
    module: Any
    inputs: Sequence[Any]
    feeds: Sequence[Any] | None = None
    comparators: Sequence[Any] = ()
    """The test's own comparisons, where it does not compare values."""


class OnThisMachine(TorchFunctionMode):
    """Tensors that a test makes on a GPU are made here."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def here(given: Any) -> Any:
            on_gpu = str(given).startswith("cuda") if isinstance(given, (str, torch.device)) else False
            return "cpu" if on_gpu else given

        return func(*map(here, args), **{key: here(given) for key, given in (kwargs or {}).items()})


def collected(folder: Path, pattern: str) -> Iterator[Case]:
    """Every module that a test of the suite runs, in order."""
    sys.meta_path.insert(0, Finder())
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda *args: types.SimpleNamespace(major=9, minor=0)
    torch.Tensor.cuda = lambda self, *args, **options: self
    torch.nn.Module.cuda = lambda self, *args, **options: self
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[PACKAGE] = package
    found: list[Case] = []
    harness = types.ModuleType(f"{PACKAGE}.harness")

    class DispatchTestCase(unittest.TestCase):
        def setUp(self) -> None:
            torch.manual_seed(3)

        def run_test(self, mod: Any, inputs: Sequence[Any], *args: Any, **options: Any) -> None:
            found.append(Case(self.id().removeprefix(f"{PACKAGE}."), mod, list(inputs)))

        def run_test_with_dynamic_shape(
            self,
            mod: Any,
            input_specs: Sequence[Any],
            *args: Any,
            pyt_inputs: Any = None,
            use_example_tensors: bool = True,
            **options: Any,
        ) -> None:
            if pyt_inputs is None and not use_example_tensors:
                pyt_inputs = [spec.example(1) if spec.tensor is None else spec.tensor for spec in input_specs]
            found.append(Case(self.id().removeprefix(f"{PACKAGE}."), mod, list(input_specs), pyt_inputs))

        def run_test_compare_tensor_attributes_only(
            self, mod: Any, inputs: Sequence[Any], expected_ops: Any, comparators: Sequence[Any], **options: Any
        ) -> None:
            self.run_test(mod, inputs)
            found[-1].comparators = comparators

    harness.DispatchTestCase = harness.TRTTestCase = DispatchTestCase
    sys.modules[harness.__name__] = harness
    for file in sorted(folder.glob(pattern)):
        try:
            module = importlib.import_module(f"{PACKAGE}.{file.stem}")
        except Exception as error:
            print(f"{file.name} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        for test in _flat(suite):
            if not isinstance(test, DispatchTestCase):
                continue
            outcome = unittest.TestResult()
            with OnThisMachine():
                test.run(outcome)
            problems = [text.strip().splitlines()[-1] for _, text in outcome.errors + outcome.failures]
            for problem in problems:
                print(f"{test.id()}: {problem[:200]}", file=sys.stderr)
            if not any("not raised" in problem for problem in problems):  # what torch_tensorrt is to refuse
                yield from found
            found.clear()


def attention_on_cpu() -> torch.library.Library:
    """The forms of attention that torch has for GPUs alone, so that their modules run here."""

    def attended(q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: Any) -> Any:
        dtype = q.dtype
        q, k, v = (x if x.dtype == torch.float64 else x.float() for x in (q, k, v))  # exact values are float64
        scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
        scores = scores if bias is None else scores + bias
        if causal:
            scores = scores.masked_fill(
                torch.ones(scores.shape[-2:], dtype=torch.bool).tril().logical_not(), -torch.inf
            )
        return (scores.softmax(-1) @ v).to(dtype)

    def efficient(
        q: Any, k: Any, v: Any, bias: Any, log: bool, p: float = 0, causal: bool = False, *, scale: Any = None
    ):
        none = torch.zeros((), dtype=torch.int64)
        return attended(q, k, v, bias, causal, scale), q.new_zeros(0, dtype=torch.float32), none, none

    def flash(q: Any, k: Any, v: Any, p: float = 0, causal: bool = False, debug: bool = False, *, scale: Any = None):
        none, length = torch.zeros((), dtype=torch.int64), q.shape[-2]
        log = q.new_zeros(0, dtype=torch.float32)
        return attended(q, k, v, None, causal, scale), log, none, none, length, k.shape[-2], none, none, none

    library = torch.library.Library("aten", "IMPL")
    library.impl("_scaled_dot_product_efficient_attention", efficient, "CPU")
    library.impl("_scaled_dot_product_flash_attention", flash, "CPU")
    return library


def _flat(suite: Any) -> Iterator[Any]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test


# -- judging -------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What became of one module: equal, wrong, or what was refused."""

    name: str
    verdict: str
    detail: str = ""


WAYS = ("axes", "sizes", "greatest")  # how dimensions are named: see _inputs


def judged(case: Case) -> Outcome:
    """What becomes of a module, with the dimensions named in the way that serves best."""
    import trtdsl as td

    dynamic = any(isinstance(given, Given) for given in case.inputs)
    best: Outcome | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in WAYS if dynamic else ("axes",):
            try:
                outcome = _checked(td, case, way)
            except td.TrtdslError as error:
                outcome = Outcome(case.name, "refused", str(error))
            except Exception as error:
                outcome = Outcome(case.name, "broken", f"{type(error).__name__}: {error}")
            if outcome.verdict == "equal":
                return outcome
            best = best or outcome
    assert best is not None
    return best


def _checked(td: Any, case: Case, way: str) -> Outcome:
    from trtdsl.checking.judging.equality import describe

    module = case.module.eval() if hasattr(case.module, "eval") else case.module
    specs, feeds = _inputs(td, case, way)
    spec = None
    try:
        spec = td.from_module(module, specs)
    except td.UnsupportedError as error:
        if "draws random numbers" not in str(error):
            raise
    if spec is None or spec.draws:  # the suite's harness takes every module through fx, which draws such numbers once
        module = torch.fx.symbolic_trace(module)
        spec = td.from_module(module, specs)
    network = spec.define(exact=True)
    drawn = {name: torch.rand(spec.inputs[name].shape) for name in spec.draws if name is not None}
    if case.comparators:
        says = _disagrees(td, case, network, module, feeds, drawn)
        return Outcome(case.name, "wrong" if says else "equal", says and f"the test's own {says} says so")
    for verdict, given in (
        ("wrong", [dict(zip(spec.inputs, tensors)) | drawn for tensors in feeds]),
        ("drawn wrong", None),
    ):
        try:
            report = td.check(spec, network=network, feeds=given)
        except td.TrtdslError as error:
            if given is None and "the reference fails" in str(error):  # on its own inputs it does not
                return Outcome(case.name, "equal")
            raise
        for name, (drawn, output) in report.worst().items():  # an output that shows nothing is as the test wants it
            if not output.passed:
                return Outcome(case.name, verdict, f"{drawn.dims}: {name}: {describe(output)}")
    return Outcome(case.name, "equal")


def _disagrees(
    td: Any, case: Case, network: Any, module: Any, feeds: Sequence[Sequence[torch.Tensor]], drawn: Any
) -> str:
    """The name of the test's own comparator that says that the network differs, which is given what a module draws."""
    for tensors in feeds:
        expected = module(*(tensor.clone() for tensor in tensors))
        got = td.interpret(network, dict(zip(network.inputs, tensors)) | drawn)
        expected = expected if isinstance(expected, (tuple, list)) else (expected,)
        for compare, arguments in case.comparators:
            if not all(compare(mine, its, *arguments) for mine, its in zip(got.values(), expected)):
                return compare.__name__
    return ""


def _inputs(td: Any, case: Case, way: str) -> tuple[list[Any], list[list[torch.Tensor]]]:
    """td.Inputs or tensors for the port, and tensors to feed: the test's own, or one set for each end of the ranges.

    By "axes", sizes of one range on one axis are one dimension; by "sizes", all sizes of one range. By "greatest" all
    have their greatest size, the only one that the suite itself feeds: some modules run at no other.
    """
    if case.feeds is not None:
        feeds = [[_single(torch.as_tensor(given)) for given in case.feeds]]
    elif way == "greatest" or not any(isinstance(given, Given) for given in case.inputs):
        feeds = [
            [_single(given.example(2) if isinstance(given, Given) else torch.as_tensor(given)) for given in case.inputs]
        ]
    else:
        feeds = [
            [_single(given.example(which) if isinstance(given, Given) else given) for given in case.inputs]
            for which in range(3)
        ]
    if way == "greatest":
        return list(feeds[0]), feeds
    specs: list[Any] = []
    dims: dict[Any, Any] = {}
    for place, given in enumerate(case.inputs):
        if not isinstance(given, Given):
            specs.append(feeds[0][place])
            continue
        sizes = []
        for axis, (low, opt, high) in enumerate(zip(*given.shapes)):
            key = (low, opt, high) if way == "sizes" else (axis - len(given.shapes[0]), low, opt, high)
            if low != high and key not in dims:
                dims[key] = td.Dim(f"d{len(dims)}", min=low, opt=opt, max=high)
            sizes.append(dims[key] if low != high else low)
        kind = str(given.dtype).removeprefix("torch.")
        drawn = None if given.dtype.is_floating_point or given.dtype == torch.bool else (0, 2)
        specs.append(td.Input(tuple(sizes), kind, drawn))
    return specs, feeds


def _single(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="tests/py/dynamo/conversion of pytorch/TensorRT")
    parser.add_argument("--files", default="test_*.py", help="which files, such as test_pad*.py")
    parser.add_argument("--part", default="1/1", help="which slice of all modules, such as 2/4")
    parser.add_argument("--results", type=Path, help="a file of results: what has this commit is not judged again")
    parser.add_argument("--only", default="", help="only tests with this in their names")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    found = Results(options.results)
    known = {row["name"]: Outcome(**row) for row in found.rows}
    counts: Counter[str] = Counter()
    names: Counter[str] = Counter()
    kept = attention_on_cpu()
    importlib.import_module("trtdsl.core.backend").get_backend("auto")  # imported once, not in each process
    for index, case in enumerate(collected(options.folder, options.files)):
        names[case.name] += 1
        if names[case.name] > 1:  # a test may run several modules
            case.name = f"{case.name} ({names[case.name]})"
        if index % parts != part - 1 or options.only not in case.name:
            continue
        outcome = known.get(case.name)
        if outcome is None:
            try:
                outcome = alone(judged, case, seconds=SECONDS)
            except RuntimeError as error:
                outcome = Outcome(case.name, "broken", str(error))
            found.add(asdict(outcome))
        counts[outcome.verdict] += 1
        if outcome.verdict != "equal":
            print(f"{outcome.verdict}: {outcome.name}: {outcome.detail}", flush=True)
    print(dict(counts), sum(counts.values()))
    del kept


if __name__ == "__main__":
    main()
