"""Feeds and reference outputs in a file: to compare with later, on another machine, or with an engine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from ..core.caller import option
from ..core.errors import SavedCheckDamagedError, TrtdslError, UsageError
from ..core.files.names import check_is_file
from ..core.files.reading import Count, Text, as_struct, check_schema, parse_json
from ..core.files.writing import Kind, Output, as_json, write_atomically
from ..core.lazy import torch
from ..core.reads import Hashes
from ..core.tensors.exact import Exact
from ..definition.network import Network
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Weights
from ..interpreter.feeds import sizes_of
from ..interpreter.reading import working_precision
from .judging.evidence import Evidence, Rules
from .proof import Sources, reference_facts

SAVED_CHECK = Kind("a saved check", r'.{8}\{"__metadata__":\{"trtdsl_check":')
SCHEMA = 2
UNREPEATABLE = "reads a pipe, a connection or another program's output, or files that change while it runs"
Feeds = Mapping[str, Any]


def save(output: Output, spec: NetworkSpec, network: Network, cases: Sequence[tuple[str, Evidence]]) -> None:
    """Writes feeds and results as safetensors; float64 results are computed where they are missing.

    The file says what it is of (the network, the reference, sizes, draws) and has a hash of all that it holds.
    """
    from safetensors.torch import save as as_bytes

    tensors: dict[str, torch.Tensor] = {}
    for index, (_, evidence) in enumerate(cases):
        own = {name: leaf for name, leaf in evidence.own.items() if isinstance(leaf, torch.Tensor)}
        for kind, values in (("feeds", evidence.feeds), ("torch", own), ("float64", evidence.truth or {})):
            for name, tensor in values.items():
                tensors[f"{index}/{kind}/{name}"] = tensor.detach().clone().contiguous()
    draws = tuple(DrawEntry(draw, sizes_of(network, evidence.feeds)) for draw, evidence in cases)
    precision, reference, read = str(network.precision), reference_facts(spec), what_was_read(spec)
    facts = Facts(SCHEMA, network.name, precision, reference, read, draws, str(torch.__version__))
    facts.sha256 = _digest(facts, tensors)
    write_atomically(output, as_bytes(tensors, {"trtdsl_check": as_json(to_builtins(facts))}))


def what_was_read(spec: NetworkSpec) -> Hashes:
    """The files that the reference's code has read. UsageError where it read what nobody can compare later, and where
    the results are of another state of its files than the one that would be told of here."""
    sources = Sources(spec)
    if not sources.are_loaded():
        raise UsageError(f"{spec.name}: files of its reference changed since they were loaded: check again to save it")
    read = sources.read()
    if read is None and reference_facts(spec) is not None:
        raise UsageError(
            f"{spec.name}: its check cannot be saved, since none would count: the code of the reference {UNREPEATABLE}"
        )
    return read or {}


class DrawEntry(Struct, forbid_unknown_fields=True):
    """One set of feeds."""

    draw: Text
    sizes: dict[str, Count]


class Facts(Struct, forbid_unknown_fields=True):
    """What a file says of its tensors."""

    schema: int
    network: str
    precision: str
    reference: dict[str, str] | None
    read: dict[str, str | None]
    draws: Annotated[tuple[DrawEntry, ...], Meta(min_length=1)]
    torch: str
    sha256: str = ""


def _digest(facts: Facts, tensors: Mapping[str, torch.Tensor]) -> str:
    """A hash of everything that a saved check holds besides this hash."""
    rest = {name: value for name, value in to_builtins(facts).items() if name != "sha256"}
    digest = hashlib.sha256(as_json(rest, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode("utf-8", "surrogatepass"))
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load(
    path: str | os.PathLike[str],
    spec: NetworkSpec,
    network: Network,
    trivial: Collection[str] = (),
    *,
    rules: Rules | None = None,
    exact: Exact | None = None,
) -> list[tuple[str, Evidence]]:
    """What a saved check has: the kinds of values, each with torch's results for them.

    Raises UsageError for a file that is missing, SavedCheckDamagedError for one that is no saved check or is not as it
    was saved; UsageError for one of another network, precision, reference or of other inputs, and for results that are
    nowhere finite or no results of an output; outputs in ``trivial`` need not be finite.
    """
    facts, tensors = _read(path)
    if facts.sha256 != _digest(facts, tensors):
        raise SavedCheckDamagedError(
            f"{path} is not as it was saved: its tensors or what it says of them were changed. Save again"
        )
    if facts.network != network.name:
        raise UsageError(f"{path} was saved for the network {facts.network!r}, not {network.name!r}")
    if facts.precision != str(network.precision):
        raise UsageError(f"{path} was saved in precision {facts.precision}, not {network.precision}")
    here = reference_facts(spec)
    if spec.reference is not None and (here != facts.reference or (here and not Sources(spec).have_read(facts.read))):
        raise UsageError(
            f"{path} was saved with another reference, other settings or another state of its files: save it again; "
            f"none counts where the code of the reference {UNREPEATABLE}"
        )
    working, cases = working_precision(network), []
    for index, fact in enumerate(facts.draws):
        kinds: dict[str, dict[str, Any]] = {"feeds": {}, "torch": {}, "float64": {}}
        for kind, values in kinds.items():
            begin = f"{index}/{kind}/"
            values.update((name[len(begin) :], tensors.pop(name)) for name in list(tensors) if name.startswith(begin))
        if set(kinds["feeds"]) != set(network.inputs):
            given, wanted = ", ".join(kinds["feeds"]), ", ".join(network.inputs)
            raise UsageError(f"{path} was saved for other inputs: {given}, not {wanted}")
        if fact.sizes != sizes_of(network, kinds["feeds"]):
            raise SavedCheckDamagedError(f"{path} is not as it was saved: the feeds have other sizes than it says")
        feeds, own, truth = kinds["feeds"], kinds["torch"], kinds["float64"] or None
        how = rules or Rules(), network.precision, working
        cases.append((fact.draw, Evidence(feeds, *how, own, truth, exact)))
    if tensors:
        raise SavedCheckDamagedError(f"{path} is not as it was saved: it says nothing of {min(tensors)!r}")
    problem = next(_problems([evidence for _, evidence in cases], trivial), None)
    if problem is not None:
        raise UsageError(f"{path} proves nothing: {problem}")
    return cases


def _read(path: str | os.PathLike[str]) -> tuple[Facts, dict[str, torch.Tensor]]:
    """What a file says, and its tensors. SavedCheckDamagedError for one that is no saved check."""
    check_is_file(path, f"there is no saved check {path}: a check with {option('save', str(path))} makes one")
    try:
        opened = Weights(path)
        text = (opened.metadata() or {}).get("trtdsl_check", "")
        facts = parse_json(text.encode(), "what it says of itself", "saved check's", UsageError)
        check_schema(facts, (SCHEMA,), "it", UsageError)
        return as_struct(facts, Facts, "", UsageError), {name: opened.get(name) for name in opened.shapes}
    except TrtdslError as error:
        made = f"a check with {option('save', str(path))} makes one"
        raise SavedCheckDamagedError(f"{path} is not a saved check, or damaged ({error.message}): {made}") from None


def _problems(cases: Sequence[Evidence], trivial: Collection[str]) -> Iterator[str]:
    """Why results cannot judge a network: float64 results that are not those of the same outputs, or not finite."""
    if len({case.truth is None for case in cases}) > 1:
        yield "some cases have float64 results, and others none"
    finite: dict[tuple[str, str], bool] = {}
    for case in cases:
        results: Any = case.own  # tensors, as they were saved
        exact: Mapping[str, torch.Tensor] = results if case.truth is None else case.truth
        if exact.keys() != results.keys():
            yield f"there is one result alone of {min(exact.keys() ^ results.keys())!r}"
            return
        for name, own in results.items():
            if exact[name].shape != own.shape or exact[name].is_floating_point() != own.is_floating_point():
                yield f"the float64 result of {name!r} is {exact[name].dtype} {tuple(exact[name].shape)}"
            for kind, result in (("own", own), ("exact", exact[name])):
                some = not result.numel() or bool(torch.isfinite(result).any())
                finite[name, kind] = finite.get((name, kind), False) or some
    yield from (f"{name!r} is nowhere finite" for (name, _), some in finite.items() if not some and name not in trivial)
