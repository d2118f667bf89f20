"""Networks as authors write them: a function, its inputs, its weights and its torch reference."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ...core.author import authors_code, load_module, without_values
from ...core.backend import Backend, get_backend
from ...core.errors import DefinitionError, Location, UsageError, located, nearest
from ...core.files.names import check_characters, check_is_file, file_name, is_file
from ...core.files.reading import read_source
from ...core.lazy import network_files, ranges
from ...core.tensors.exact import Exact
from ...core.tensors.watched import by_default, uncollected
from ...sizes.profile import Profile, Range, as_bounds, as_profiles
from ..common import SHORT, Dim, dtype_name, folded, shape_text, table, to_write, torch
from ..input import Input, check_dims, dims_of
from ..network import Network
from ..precision import as_precision
from ..tensor import Tensor
from ..tuning.choices import Choices
from ..tuning.file import Case, Tuning, chosen_file, with_tuning
from ..tuning.precisions import Precisions, open_precision
from ..weights.files import weights_files
from ..weights.source import Scope, Source, Weights
from .reference import as_reference, check_forward, check_makes, evaluating, fill, outside_state, state_of, with_draws

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class NetworkSpec:
    """A network that can be defined: made by :func:`network`, whose arguments it has, found by :func:`load_spec`."""

    name: str
    function: Callable[..., Any]
    inputs: Mapping[str, Input]
    weights: Source | None = None
    reference: str | Callable[[], torch.nn.Module] | None = None
    file: Path | None = None
    profiles: tuple[Profile, ...] = ()
    unused: tuple[str, ...] = ()
    tied: Mapping[str, str] = field(default_factory=dict)
    buffers: bool = False
    constants: tuple[str, ...] = ()
    tolerance: Any = None
    leave_out: tuple[str, ...] = ()
    trivial: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The values that it was made for, where a function of its file made it; see :func:`load_spec`."""
    maker: str | None = None
    """The name of that function."""
    part_of: str | None = None
    draws: tuple[str | None, ...] = ()
    tuning: bool | str | PathLike[str] | Tuning | Choices = True
    """Which lowerings its calls take: those of ``NAME.tuning.json`` where it is (True), of another file or value."""
    _state: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_characters(self.name, "the network's name")
        if self.part_of is not None:
            file_name(self.part_of, ".engines.json", "part_of=")
        for profile in self.profiles:
            profile.check(self.dims, self.name)

    @property
    def dims(self) -> dict[str, Dim]:
        """The dynamic dimensions of the inputs by name."""
        return dims_of(self.inputs)

    @by_default
    @uncollected()
    def define(
        self,
        *,
        weights: Source | None = None,
        dims: Mapping[str, Range] | None = None,
        profiles: Sequence[Profile] | None = None,
        precision: str | PathLike[str] | Choices | None = None,
        backend: str | Backend | None = None,
        allow_nonfinite: bool = False,
        exact: bool | Exact = False,
    ) -> Network:
        """Runs the author's function and gives the :class:`Network`.

        ``precision`` "fp16" or "bf16" runs low what torch.autocast runs low, and ``"NAME.precision.json"`` each call as
        :func:`trtdsl.find_precision` found it. "int8" and "fp8" are each call that may be so, the others as with
        "fp16", by scales of drawn values, which a PrecisionWarning says. Inputs and outputs keep their dtypes.
        ``weights`` (a safetensors path or a mapping) replaces the spec's own. ``dims`` gives dimensions another range
        ``(min, opt, max)`` or one fixed size, ``profiles`` replaces the spec's own. Weights are compared with the
        reference's state_dict before the function runs, unless a package of the reference cannot be imported, and all
        of them must be used by it. ``exact`` keeps beside each
        constant what it would be without rounding, as a check needs it: without, a check allows for its rounding. Ranks
        that are evaluated together share one record of that.

        Raises DefinitionError (with the author's line), WeightsError, UsageError for a dimension that is not there.
        """
        replaced = self._replaced(dims or {})
        profiles = self._profiles(replaced, self.profiles if profiles is None else as_profiles(profiles))
        backend = backend if isinstance(backend, Backend) else get_backend(backend)
        how = {"weights": weights, "dims": dims, "profiles": profiles, "backend": backend}
        asked = self.asked(precision, **how, allow_nonfinite=allow_nonfinite)

        def others(network: Network) -> list[Network]:
            given = {"precision": asked, "allow_nonfinite": allow_nonfinite, "exact": network.exact or False}
            rank, ranks = self.part
            return [self.of_rank(other).define(**how, **given) for other in range(ranks) if other != rank]

        def defined(choices: Choices) -> Network:
            calls = asked.fresh() if isinstance(asked, Precisions) else None
            network = Network(self.name, backend=backend, precision=calls or asked, profiles=profiles)
            network.choices, network.is_from_spec = choices, True
            network.rank, network.ranks = self.part
            network.others = functools.cache(functools.partial(others, network))
            network.exact = exact if isinstance(exact, Exact) else Exact(decide=False) if exact else None
            unrounded = network.exact or contextlib.nullcontext()
            network.has_tensors = network.exact is not None and bool(self.made_constants())
            choices.folder = self._folder
            if calls is not None:
                calls.folder = self._folder
            network.fixed = {name: size for name, size in replaced.items() if isinstance(size, int)}
            opened = self.open_weights(weights)
            if opened is not None:
                opened.check(self._known_weights(), self.constants, allow_nonfinite=allow_nonfinite)
                network.unsearched = None if allow_nonfinite else opened
                if self.buffers:
                    with unrounded:
                        made = self.reference_buffers()
                        opened.add_buffers({name: made[name] for name in made if name not in self.constants})
            inputs = self._with_dims(replaced)
            with unrounded, network.current(), authors_code(self.function, folder=self._folder):
                with network.operation("input", location=self._place):  # of what is added here, whoever called define
                    tensors = [network.add_input(name, spec) for name, spec in inputs.items()]
                arguments = [*tensors, *([Scope(network, opened)] if opened is not None else [])]
                self._check_signature(len(arguments))
                outputs = self._outputs(self._called(arguments))
                with network.operation("output", location=self._place):
                    for name, tensor in outputs.items():
                        network.output(tensor, name)
                    network.check_states()
                if calls is not None:
                    calls.check(self.name, network.outputs)
                network.emit()
            if opened is not None and network.exact is not None:
                opened.let_go_of(network.exact)
            if calls is not None:
                calls.check_case(self.case(dims, calls), f"{backend.name} {backend.version}")
            if opened is not None:
                opened.check_all_used(self.unused)
            return network

        if isinstance(self.tuning, Choices):
            return defined(self.tuning.fresh())
        given = self.tuning if isinstance(self.tuning, Tuning) else self.tuning_file
        return with_tuning(given, backend, self.name, self.case(dims, asked), defined)

    def __reduce__(self) -> Any:
        """Another process loads the file again; only a spec of a file has one."""
        if self.file is None:
            raise UsageError(f"{self.name} is in no file that another process could load: write it into one")
        return _loaded, (f"{self.file.resolve()}:{self.name_in_file}", dict(self.settings), self.tuning)

    @property
    def part(self) -> tuple[int, int]:
        """Its rank, and how many ranks there are: settings of those names, of a network on several GPUs."""
        return self.settings.get("rank", 0), self.settings.get("ranks", 1)

    def of_rank(self, rank: int) -> NetworkSpec:
        """The part of another rank. UsageError for a spec that no function of a file makes."""
        if self.file is None or self.maker is None:
            raise UsageError(f"{self.name} is in no file whose function makes a network for each rank")
        return _loaded(f"{self.file.resolve()}:{self.maker}", {**self.settings, "rank": rank}, self.tuning)

    @property
    def name_in_file(self) -> str:
        """What :func:`load_spec` finds it by: its own name, or that of the function that makes it."""
        return self.maker or self.name

    def case(self, dims: Mapping[str, Range] | None = None, precision: Any = None) -> Case:
        """What tells a tuning of one definition from that of another."""
        asked = self.asked(precision)
        text = str(asked) if isinstance(asked, Precisions) else dtype_name(as_precision(asked) or torch.float32)
        return Case.of(text, self._with_dims(self._replaced(dims or {})), self.settings)

    def asked(self, precision: Any, **how: Any) -> Any:
        """A precision for each call, of a file or made for "int8" or "fp8", ``how`` being of :meth:`define`; else as it
        is. UsageError for a file that does not fit."""
        named = SHORT.get(name := dtype_name(precision), name) if isinstance(precision, str | torch.dtype) else ""
        if named in ("int8", "float8_e4m3fn"):
            return ranges.named_precisions(self, named, **how)
        return open_precision(precision, self.name)

    def tuned(self, tuning: bool | str | PathLike[str] | Tuning | Choices) -> NetworkSpec:
        """The spec with the lowerings of another tuning, or of none (False)."""
        return replace(self, tuning=tuning)

    @property
    def tuning_file(self) -> Path | None:
        """Where the lowerings of its calls stand; None for no tuning, and where there is no ``NAME.tuning.json``."""
        return chosen_file(self.tuning, self.name, self.weights, self.file)

    def __repr__(self) -> str:
        inputs = (f"{name}: {shape_text(each.shape)} {each.dtype}" for name, each in self.inputs.items())
        return f"NetworkSpec({self.name}: {', '.join(inputs)})"

    def _repr_html_(self) -> str:
        inputs = [(name, each.shape, each.dtype) for name, each in self.inputs.items()]
        ranges = [(name, *(dim.range or ("?", "?", "?"))) for name, dim in self.dims.items()]
        facts = {"file": self.file, "weights": self.weights, "reference": self.reference}
        named = [(name, fact if isinstance(fact, str) else _named(fact)) for name, fact in facts.items() if fact]
        return folded(
            f"NetworkSpec({self.name})",
            table(["input", "shape", "dtype"], inputs),
            table(["dimension", "min", "opt", "max"], ranges),
            table(["", ""], named),
        )

    def open_weights(self, weights: Source | None = None) -> Weights | None:
        """The given weights or the spec's own; None for a network without any."""
        source = self.weights if weights is None else weights
        with located(self._place if weights is None and self.file else None):
            return None if source is None else Weights(source, tied=self.tied)

    def reads(self, weights: Source | None = None) -> list[tuple[str, object]]:
        """The files that it is made and checked from, each with what it is: no command writes over one of these."""
        reference = self.reference
        if isinstance(reference, str):
            reference = self._reference_file(reference)
        elif reference is not None:
            reference = getattr(sys.modules.get(getattr(reference, "__module__", None) or ""), "__file__", None)
        paths = [getattr(given, "path", given) for given in (weights, self.weights)]
        sources = [
            ("weights", each) for path in paths if isinstance(path, (str, PathLike)) for each in weights_files(path)
        ]
        samples = [(f"sample of input {name!r}", given.sample) for name, given in self.inputs.items()]
        settings = [(f"setting {name!r}", v) for name, v in self.settings.items() if isinstance(v, PathLike)]
        tuning = self.tuning_file if self.tuning is True else self.tuning
        first = [("network", self.file), *sources, ("reference", reference), *samples]
        return [*first, *settings, ("tuning", tuning)]

    def expected_weights(self) -> dict[str, tuple[tuple[int, ...], str]] | None:
        """Name, shape and dtype of every weight of the reference; None where there is no reference."""
        if self.reference is None:
            return None
        if "expected" not in self._state:
            with self._reference() as module:
                state = state_of(module, keep_vars=True)
            firsts: dict[int, str] = {}
            self._state["first"] = {name: firsts.setdefault(id(tensor), name) for name, tensor in state.items()}
            self._state["outside"] = {*outside_state(module)}
            self._state["expected"] = {
                name: (tuple(tensor.shape), dtype_name(tensor.dtype)) for name, tensor in state.items()
            }
        return self._state["expected"]

    def _known_weights(self) -> dict[str, tuple[tuple[int, ...], str]] | None:
        """The reference's weights; None where a package that it needs cannot be imported, which a check says."""
        try:
            return self.expected_weights()
        except DefinitionError as error:
            if not isinstance(error.__cause__, ImportError):
                raise
            return None

    def first_names(self) -> Mapping[str, str]:
        """For every weight of the reference the first name of that tensor, which it may share with others."""
        self.expected_weights()
        return self._state.get("first", {})

    def reference_class(self) -> Callable[[], torch.nn.Module]:
        """What makes the reference module; imported the first time. Raises UsageError when it is not there."""
        if self.reference is None:
            raise UsageError(f"{self.name} has no reference to check against: {self._ask_for_reference()}")
        if callable(self.reference):
            return self.reference
        if "reference" not in self._state:
            path, attribute = self._reference_file(self.reference), self.reference.rpartition(":")[2]
            with located(self._place if self.file else None):
                check_is_file(path, f"the reference {self.reference!r} must be FILE.py:CLASS; no file {path}")
                read = read_source(path)
                module = load_module(path)
                if not hasattr(module, attribute):
                    near = nearest(attribute, [name for name, value in vars(module).items() if isinstance(value, type)])
                    raise UsageError(f"{path} has no {attribute!r} to be the reference{near}")
            self._state["reference"] = getattr(module, attribute)
            self._state["reference_read"] = path, read
        return self._state["reference"]

    @property
    def source_sha256(self) -> str | None:
        """The hash of its file as it was when it was loaded; as it is now where Python's own import loaded it."""
        if self.file is None:
            return None
        loader = getattr(self.function, "__globals__", {}).get("__loader__")
        return getattr(loader, "sha256", None) or hashlib.sha256(read_source(self.file)).hexdigest()

    @property
    def reference_is_current(self) -> bool:
        """Whether the file of a reference that was imported already is still the one that was imported."""
        path, read = self._state.get("reference_read", (None, b""))
        return path is None or (is_file(path) and read_source(path) == read)

    @property
    def reference_folder(self) -> Path | None:
        """The one whose modules the reference can import: that of its own file, or of the network's."""
        if not isinstance(self.reference, str):
            return self._folder
        return self._reference_file(self.reference).resolve().parent

    def _reference_file(self, reference: str) -> Path:
        return (Path() if self.file is None else self.file.parent) / reference.rpartition(":")[0]

    def _ask_for_reference(self) -> str:
        return to_write("give td.check or @td.network its reference=", "give @td.network(reference=…) one in its file")

    def reference_module(self, weights: Weights | None) -> torch.nn.Module:
        """The torch reference in evaluation mode with these weights loaded.

        Raises DefinitionError, with the author's line, where the class or its module fails.
        """
        with self._reference(values=weights is None) as module:
            evaluating(module)  # first, since it may change weights, as LoRA's does, which merges them
            if weights is not None:
                fill(module, weights, self.constants)
            return module

    def made_constants(self) -> set[str]:
        """Those of the ``constants`` that the reference's code makes as it runs: the weights have them rounded."""
        if self.constants:
            self._known_weights()
        return {*self.constants} - self._state.get("outside", set())

    def reference_buffers(self) -> dict[str, torch.Tensor]:
        """The tensors that the reference makes for itself: buffers and attributes outside of its state_dict."""
        with self._reference() as module:
            return {name: held for name, held in outside_state(module).items() if held.layout == torch.strided}

    @contextlib.contextmanager
    def _reference(self, *, values: bool = False) -> Iterator[torch.nn.Module]:
        """The module that the reference's class makes, its parameters filled only with ``values``.

        What goes wrong in making it, or with it inside the block, is the author's error.
        """
        make = self.reference_class()
        with authors_code(self.function, "the reference cannot be made: ", self.reference_folder):
            check_makes(make)
            try:
                with contextlib.nullcontext() if values else without_values():
                    module = make()
            except Exception:
                if values:
                    raise
                module = make()  # one that computes with its parameters while it is made, as a calibration does
            if not isinstance(module, torch.nn.Module):
                raise UsageError(f"{self.name}: the reference makes a {type(module).__name__}, not a torch.nn.Module")
            check_forward(module)
            yield with_draws(module, self.draws) if self.draws else module

    def _replaced(self, dims: Mapping[str, Range]) -> dict[str, int | Dim]:
        """Replacements for some dimensions: one size each, or the dimension with another range."""
        for name in dims:
            if name not in self.dims:
                raise UsageError(f"{self.name} has no dimension {name!r}: it has {', '.join(self.dims) or 'none'}")
        bounds = {name: as_bounds(name, given) for name, given in dims.items()}
        return {
            name: low if isinstance(dims[name], int) else Dim(name, min=low, opt=opt, max=high)
            for name, (low, opt, high) in bounds.items()
        }

    def _profiles(self, replaced: Mapping[str, int | Dim], profiles: Sequence[Profile]) -> list[Profile]:
        """What the profiles are where dimensions are replaced. UsageError for one that does not fit them."""
        dims = {**self.dims, **{name: dim for name, dim in replaced.items() if isinstance(dim, Dim)}}
        for profile in profiles:
            profile.check(dims, self.name)
        fixed = {name: size for name, size in replaced.items() if isinstance(size, int)}
        return [profile.fixed(fixed) for profile in profiles]

    def _with_dims(self, replaced: Mapping[str, int | Dim]) -> dict[str, Input]:
        return {name: spec.with_dims(replaced) for name, spec in self.inputs.items()}

    @property
    def _place(self) -> Location:
        """The file and line of the author's function."""
        return Location(self.function.__code__.co_filename, self.function.__code__.co_firstlineno)

    @property
    def _folder(self) -> Path | None:
        """That of the network's file."""
        return None if self.file is None else self.file.resolve().parent

    def _takes(self, count: int) -> bool:
        try:
            inspect.signature(self.function).bind(*[None] * count)
        except TypeError:
            return False
        return True

    def _called(self, arguments: Sequence[Any]) -> Any:
        """What the author's function gives. An input has the name of its parameter in there, not its own."""
        try:
            return self.function(*arguments)
        except NameError as error:
            parameters = list(inspect.signature(self.function).parameters)
            for name, parameter in zip(self.inputs, parameters, strict=False):
                if name not in parameters and f"'{name}'" in str(error):
                    error.args = (f"{error}: the input {name!r} is the parameter {parameter!r} here",)
            raise

    def _check_signature(self, count: int) -> None:
        names = list(inspect.signature(self.function).parameters)[:count]
        places = {name: place for place, name in enumerate(names) if place < len(self.inputs) or name != "w"}
        in_order = all(places.get(name, place) == place for place, name in enumerate(self.inputs))
        if self._takes(count) and in_order:
            return
        if self.weights is None and count > len(self.inputs) and self._takes(len(self.inputs)):
            raise UsageError(f"{self.name} takes no weights, and was given some", location=self._place)
        wanted = [*self.inputs, *(["w"] if self.weights is not None else [])]
        signature, plain = inspect.signature(self.function), inspect.Parameter.empty
        parameters = [each.replace(annotation=plain) for each in signature.parameters.values()]
        names = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        more = ""
        if self.weights is None and self._takes(len(self.inputs) + 1):
            more = "; an argument for weights needs weights=…, in @td.network or where it is checked or built"
        elif len(names) > len(wanted):
            lacking = [name for name in names[: len(names) - len(wanted) + len(self.inputs)] if name not in wanted]
            more = f"; inputs= lacks {', '.join(f'{name!r}: td.Input(SHAPE)' for name in lacking)}"
        raise DefinitionError(
            f"{self.name}{signature.replace(parameters=parameters, return_annotation=plain)} must take its inputs"
            f"{' and the weights' if self.weights is not None else ''}{', in this order' * (not in_order)}: "
            f"({', '.join(wanted)}){more}",
            location=self._place,
        )

    def _outputs(self, returned: Any) -> dict[str, Tensor]:
        if isinstance(returned, Tensor):
            return {"output": returned}
        if isinstance(returned, (tuple, list)) and returned:
            return {f"output_{index}": tensor for index, tensor in enumerate(returned)}
        if isinstance(returned, Mapping) and returned:
            return dict(returned)
        raise DefinitionError(
            f"{self.name} must return its outputs (a Tensor, a tuple, or a dict by name), "
            f"not {type(returned).__name__}",
            location=self._place,
        )


def _named(fact: object) -> str:
    """A path or the name of a class; of a mapping of weights not the values."""
    if hasattr(fact, "__fspath__"):
        return str(fact)
    return getattr(fact, "__qualname__", f"a {type(fact).__name__}")


def _loaded(name: str, settings: Mapping[str, Any], tuning: Any) -> NetworkSpec:
    """The spec as it was in the process that sent it."""
    return network_files.load_spec(name, settings).tuned(tuning)


def _as_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def _as_inputs(given: Any) -> dict[str, Input]:
    """The inputs by name; UsageError for anything else."""
    if not isinstance(given, Mapping):
        raise UsageError(f"inputs is a dict of td.Input(…) by name, not {given!r}: write @td.network(inputs={{…}})")
    for name, spec in given.items():
        if not isinstance(spec, Input):
            raise UsageError(f"input {name!r} is a td.Input(…), not {spec!r}")
    check_dims(given)
    return dict(given)


def _names_nearest(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which says of an unknown keyword what it is nearest to, and keeps its type."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> R:
        for name in named:
            if name not in known:
                raise UsageError(f"@td.{function.__name__} has no {name!r}{nearest(name, known)}")
        return function(*given, **named)

    return call


@_names_nearest
def network(
    *without_parentheses: Any,
    inputs: Mapping[str, Input] | None = None,
    weights: Source | None = None,
    reference: str | torch.nn.Module | Callable[[], torch.nn.Module] | None = None,
    profiles: Sequence[Profile] = (),
    name: str | None = None,
    unused: str | Sequence[str] = (),
    tied: Mapping[str, str] | None = None,
    buffers: bool = False,
    constants: str | Sequence[str] = (),
    tolerance: Any = None,
    leave_out: str | Sequence[str] = (),
    trivial: str | Sequence[str] = (),
    part_of: str | None = None,
    draws: Sequence[str | None] = (),
) -> Callable[[Callable[..., Any]], NetworkSpec]:
    """Makes a :class:`NetworkSpec` of the function below it.

    The function takes a Tensor for each of ``inputs`` and, where there are ``weights``, a
    :class:`~trtdsl.Scope` over them; it returns a Tensor, a tuple, or a dict of outputs by name. ``weights`` (a
    safetensors file, the folder or the index of a published checkpoint, or a mapping, which is copied) and
    ``reference`` (``"FILE.py:CLASS"``, a class or function that makes a torch module without arguments, or a module)
    are relative to the function's file. ``profiles`` are the sets of sizes that an engine is tuned for, instead of one
    over the whole ranges of the dimensions; an engine serves each feed by the first that holds it. Weights that the
    network leaves aside are named in ``unused``, one by one or by module; names of one tensor in ``tied``, such as
    ``{"lm_head.weight": "embed.weight"}``: a checkpoint may hold either. With ``buffers`` the scope also has what the
    reference makes for itself and does not store: buffers and attributes that are not in its state_dict. ``constants``
    are names that the weights have besides: what the module's code computes or draws. Where the reference has a buffer
    of such a name, a check gives it that value. Networks of one file that are ``part_of`` the same serve some of
    its sizes each: ``trtdsl build FILE.py`` builds all of them, and :func:`load_engine` of ``NAME.engines.json``, which
    it writes, runs each set of sizes by the first engine that serves it. ``draws`` names the inputs that the reference
    draws for itself, as by ``torch.randn``, in the order of its calls, None for what it still draws: a check gives them
    to it.

    Three say what a check allows, and it repeats them: ``tolerance`` is a part of each slice such as 1e-3, or a mapping
    of these by output; ``leave_out`` names outputs of the reference that the network has not, ``trivial`` outputs that
    may be constant, empty or not finite.

    Raises UsageError, with its line, for what is none of these, and for a profile with an unknown dimension or a range
    that is not within its Dim's.

    >>> @td.network(inputs={"x": td.Input(("N", 3))})
    ... def double(x):
    ...     return {"y": x * 2}
    >>> double.define().outputs["y"].shape
    (N, 3)
    """
    made = as_reference(reference)
    tensors = _as_inputs(inputs)
    for drawn in draws:
        if drawn is not None and drawn not in tensors:
            raise UsageError(f"draws= names inputs, and there is no {drawn!r}{nearest(str(drawn), tensors)}")

    def make(function: Callable[..., Any]) -> NetworkSpec:
        if not hasattr(function, "__code__"):
            raise UsageError(f"@td.network makes a network of a function, not of {function!r:.60}")
        file = Path(function.__code__.co_filename)
        located = file if is_file(file) else None
        path = (located.parent if located else Path()) / weights if isinstance(weights, (str, PathLike)) else weights
        return NetworkSpec(
            name or function.__name__,
            function,
            tensors,
            path,
            made,
            located,
            profiles=as_profiles(profiles),
            unused=_as_names(unused),
            tied=dict(tied or {}),
            buffers=buffers,
            constants=_as_names(constants),
            tolerance=tolerance,
            leave_out=_as_names(leave_out),
            trivial=_as_names(trivial),
            part_of=part_of,
            draws=tuple(draws),
        )

    return make
