"""An engine evaluated on the CPU: its program runs from the plan's own bytes, without TensorRT and without a GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from ...core.dtypes import as_dtype
from ...core.errors import ProgramDamagedError, UnevaluatedProgramError, UsageError, noted
from ...core.files.names import as_path, is_file
from ...core.tensors.watched import by_default
from ...definition.call import Operand
from ...definition.network import Network
from ...definition.spec.load import load_spec
from ...definition.spec.spec import NetworkSpec
from ...interpreter.feeds import by_name, check_longest, check_written, fit, shared_out, whole
from ...programs.evaluation.built_here import is_known
from ...programs.evaluation.contents import Contents
from ...programs.evaluation.evaluator import Evaluation, Observer, evaluate_programs
from ...programs.handed import handed_sizes
from ...programs.plan import DTYPES, PlanTexts, ProgramText, plain, read_plan
from ...programs.reader import Given, sizes_at
from ...sizes.profile import Profile
from ..compiling.compiler import compile_engine
from ..compiling.config import BuildConfig
from ..loading.loader import judge, read_engine_file, read_header
from ..loading.manifest import manifest_path, read_manifest
from ..program import given_of_manifest, replaced_inputs

Evaluate = Callable[[Mapping[str, Any]], dict[str, torch.Tensor]]


def evaluate_engine(
    engine: Network | NetworkSpec | str | PathLike[str] | bytes,
    feeds: Mapping[str, Any],
    *,
    profile: int = 0,
    trust: bool = False,
    observe: Observer | None = None,
    count: bool = False,
) -> dict[str, torch.Tensor]:
    """The outputs of an engine for these ``feeds``, computed on the CPU from the program in its file.

    ``engine`` is an engine's file (or its bytes), or a network, which is built here first. The plan of TensorRT-RTX
    holds its whole program as text: launches, memory, constants and the C++ source of every generated kernel. All of
    it is run as it stands, in the memory that the engine lays out; library operations are computed by torch, kernels
    are compiled by a C++ compiler. ``docs/engine-evaluated.md`` says what that shows and what not.

    Kernels of a file are compiled and run only if trtdsl built it on this machine, or with ``trust``. ``observe`` is
    called after each launch with its place in the program and its results; with ``count`` the place has the bytes that
    the launch touched, each once, as ``touched``: ``(read, written)``. A library's operation touches its operands.

    Raises UnevaluatedProgramError for what is not known (an operation, a header, no compiler), ProgramFaultError for a
    launch that reads what nothing wrote or what was overwritten, writes outside of its tensors or races with another,
    UnreadableProgramError, ProgramDamagedError, and FeedError for feeds that are not the engine's inputs: in names,
    dtypes, sizes or the ``profile``'s ranges.

    >>> net = td.Network()
    >>> net.output(F.relu(net.input("x", (2, 3))) * 2, "y")
    >>> evaluate_engine(net, {"x": torch.tensor([[1.0, -2.0, 3.0], [0.0, 4.0, -5.0]])})["y"].tolist()
    [[2.0, 0.0, 6.0], [0.0, 8.0, 0.0]]
    """
    return evaluator_of(engine, profile=profile, trust=trust, observe=observe, count=count)(feeds)


def evaluator_of(
    engine: Network | NetworkSpec | str | PathLike[str] | bytes,
    *,
    profile: int = 0,
    trust: bool = False,
    observe: Observer | None = None,
    count: bool = False,
) -> Evaluate:
    """A function that evaluates an engine for the feeds that it is given: see :func:`evaluate_engine`."""
    if isinstance(engine, (str, PathLike)) and Path(str(engine).partition(":")[0]).suffix == ".py":
        engine = load_spec(str(engine))
    if isinstance(engine, NetworkSpec):
        engine = engine.define()
    if isinstance(engine, Network):
        return evaluator_of_plan(compile_engine(engine, BuildConfig(tf32=False)).data, engine, profile, observe, count)
    return _of_file(engine, profile, trust, observe, count)


def evaluator_of_plan(
    data: bytes, network: Network, profile: int = 0, observe: Observer | None = None, count: bool = False
) -> Evaluate:
    """The same of a network's own plan; those of other ranks are built here."""
    plans = [(compile_engine(other, BuildConfig(tf32=False)).data, other) for other in network.others()]
    together = [_of_plan(bytes(plan), other, profile) for plan, other in plans]
    together.insert(network.rank, _of_plan(bytes(data), network, profile, observe, count))

    def run(feeds: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        check_written(network.states, by_name(feeds))
        found = _evaluated(together, shared_out(network, feeds))
        return {name: whole(network, name, [each[name] for each in found]) for name in found[0]}

    return run


def _of_plan(
    data: bytes, network: Network, profile: int, observe: Observer | None = None, count: bool = False
) -> _Rank:
    texts = read_plan(data, network.backend.name, network.backend.version, "the network's plan")
    named = {name: tensor.shape for name, tensor in network.inputs.items()}
    given = Given({}, {}, named, handed_sizes(network, texts.of_profile(profile)))
    ranks = {name: len(tensor.shape) for name, tensor in network.outputs.items()}
    expected = {name: Operand(tensor.shape, tensor.dtype) for name, tensor in network.inputs.items()}
    served = network.profiles[profile : profile + 1]

    def refuse(tensors: Mapping[str, torch.Tensor], env: Mapping[str, int]) -> None:
        network.constraints.refuse(env)
        check_longest(network.input_specs, tensors, {**network.fixed, **env})

    told = ranks, expected, served, replaced_inputs(network), refuse
    return _Rank(data, texts, given, profile, (observe, count), *told)


def _of_file(
    source: str | PathLike[str] | bytes, profile: int, trust: bool, observe: Observer | None, count: bool
) -> Evaluate:
    path = None if isinstance(source, bytes) else as_path(source, "an engine")
    data = source if isinstance(source, bytes) else read_engine_file(Path(source))
    label = "the engine" if path is None else str(path)
    header, sha256 = read_header(data, label), hashlib.sha256(data).hexdigest()
    manifest = read_manifest(path) if path is not None and is_file(manifest_path(path)) else None
    judge(data, manifest, header, label)
    if not trust and not is_known(sha256):
        raise UsageError(
            f"{label} was not built by trtdsl on this machine, and evaluating it compiles and runs the kernels in it: "
            "say trust=True (--trust) if you know who built it"
        )

    def refuse(tensors: Mapping[str, torch.Tensor], env: Mapping[str, int]) -> None:
        if manifest is not None:
            manifest.signature.check_requirements({name: tuple(each.shape) for name, each in tensors.items()})

    with noted(ProgramDamagedError, f"in {label}"):
        texts = read_plan(data, header.product, header.version, label)
        given, expected, served, replaced = Given({}), None, [], {}
        if manifest is not None:
            held, states = manifest.in_place or {}, manifest.states
            replaced = held if isinstance(held, dict) else {name: states[name] for name in held if name in states}
            given = given_of_manifest(manifest, {}, profile)
            expected = {
                name: Operand(tuple(shape), as_dtype(manifest.inputs[name].dtype))
                for name, shape in given.named.items()
            }
            served = [Profile(**manifest.profiles[profile].dims)]
        ranks = {} if manifest is None else {name: len(tensor.shape) for name, tensor in manifest.outputs.items()}
        alone = _Rank(data, texts, given, profile, (observe, count), ranks, expected, served, replaced, refuse)

    def run(feeds: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        check_written({} if manifest is None else manifest.states, by_name(feeds))
        return _evaluated([alone], [feeds])[0]

    return run


def _inputs_of(text: ProgramText, fed: Mapping[str, Any]) -> dict[str, Operand]:
    """The inputs of a program that are fed, with its dtypes: others may be sizes that the host computes.

    What has no dimensions for the network has one of 1 for its program, and may be fed either way.
    """
    found = {}
    for name in text.names("inputs"):
        tensor = text.tensors.get(name)
        if tensor is not None and plain(name) in fed:
            sizes = tuple(size if isinstance(size, int) else -1 for size in tensor.dims)
            sizes = () if sizes == (1,) and getattr(fed[plain(name)], "ndim", 0) == 0 else sizes
            found[plain(name)] = Operand(sizes, as_dtype(DTYPES.get(tensor.dtype, tensor.dtype)))
    return found


@dataclass
class _Rank:
    """One profile's program, mostly the only rank."""

    data: bytes = field(repr=False)
    texts: PlanTexts
    given: Given
    profile: int
    how: tuple[Observer | None, bool]
    ranks: Mapping[str, int]
    """Those of the outputs, as far as they are known."""
    expected: Mapping[str, Operand] | None
    """The inputs; where nothing says them, they have the program's dtypes."""
    served: Sequence[Profile]
    replaced: Mapping[str, str]
    """Inputs that are one memory with an output, by whose name the program calls them."""
    refuse: Callable[[Mapping[str, torch.Tensor], Mapping[str, int]], None]
    """Raises FeedError for feeds and dimensions' sizes that are not served, though in a profile's ranges."""

    def __post_init__(self) -> None:
        own = self.texts.of_profile(self.profile)
        if not own:
            raise UsageError(f"the engine has no profile {self.profile}")
        if len(own) > 1:
            raise UnevaluatedProgramError(
                f"the engine has {len(own)} programs that follow each other, which is not evaluated"
            )
        self.text, self.contents = next(iter(own)), Contents(self.data)
        self.constants = self.contents.constants(self.text, self.texts.programs)

    def fed(self, feeds: Mapping[str, Any]) -> tuple[Evaluation, Mapping[str, torch.Tensor]]:
        """A run of the program, and the values of its inputs."""
        expected = _inputs_of(self.text, by_name(feeds)) if self.expected is None else self.expected
        tensors, env = fit(expected, feeds, self.served)
        self.refuse(tensors, env)
        tensors |= {output: tensors[name] for name, output in self.replaced.items() if name in tensors}
        at = replace(self.given, shapes={name: tuple(tensor.shape) for name, tensor in tensors.items()}, dims={})
        return Evaluation(self.text, self.contents, self.constants, sizes_at(self.text, at), *self.how), tensors

    def named(self, found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The outputs as the network has them."""
        ranks = self.ranks
        unnamed, missing = [name for name in found if name not in ranks], [name for name in ranks if name not in found]
        if missing and len(unnamed) == len(missing):  # a program may call outputs by other names, in the same order
            found |= {name: found[own] for name, own in zip(missing, unnamed, strict=True)}
        elif missing:
            raise UnevaluatedProgramError(f"no launch of the program gives the output {missing[0]}: it is an input")
        return {name: found[name].reshape(()) if ranks[name] == 0 else found[name] for name in ranks} or found


@by_default
def _evaluated(ranks: Sequence[_Rank], feeds: Sequence[Mapping[str, Any]]) -> list[dict[str, torch.Tensor]]:
    found = evaluate_programs([rank.fed(own) for rank, own in zip(ranks, feeds, strict=True)])
    return [rank.named(outputs) for rank, outputs in zip(ranks, found, strict=True)]
