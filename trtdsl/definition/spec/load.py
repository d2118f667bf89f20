"""A network however it came: a spec, one that is written already, or its file, in which a name may be wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from os.path import exists
from pathlib import Path
from typing import Any

from ...core.author import authors_code, load_module
from ...core.files.names import LONGEST, is_file, is_folder, nearest_beside, why_barred
from ...core.files.reading import others_beside
from ..common import DefinitionError, UsageError, nearest, torch
from ..network import Network
from ..settings import place_of, read_settings, returns_a_network
from ..weights.source import Source, Weights
from .reference import as_reference
from .spec import NetworkSpec


def load_spec(
    name: str | PathLike[str], settings: Mapping[str, Any] | None = None, *, text: bytes | None = None
) -> NetworkSpec:
    """The spec in ``FILE.py`` or ``FILE.py:NAME``; without a name, the one called like the file, or the only one.

    NAME may be a function of the file that makes a spec, with parameters of the types str, int, float, bool, Path or
    ``Literal[…]``, None beside each, and ``-> td.NetworkSpec``: ``settings`` are their values, or texts of them. The
    spec is called as the function gives it a ``name``, otherwise as the function. ``text`` stands for what is in the
    file, for an edit that is tried.

    Raises UsageError when there is no such file or spec, and for settings that are unknown, missing or badly typed;
    DefinitionError when the file or the function raises.
    """
    return open_file(name, text).spec(settings)


@dataclass(frozen=True)
class NetworkFile:
    """What a network's file defines, with the name of the network that is asked for, if any."""

    path: Path
    wanted: str
    names: Mapping[str, Any]

    @cached_property
    def specs(self) -> dict[str, NetworkSpec]:
        """Its networks by their names."""
        return {spec.name: spec for spec in self.names.values() if isinstance(spec, NetworkSpec)}

    def spec(self, settings: Mapping[str, Any] | None = None) -> NetworkSpec:
        """As :func:`load_spec`."""
        path, specs = self.path, self.specs
        makers = {name: function for name, function in self.names.items() if returns_a_network(function)}
        wanted = self.wanted or _chosen(path, specs, makers, self.names)
        if wanted in makers and wanted not in specs:
            return _made(path, wanted, makers[wanted], settings or {})
        if wanted not in specs:
            raise UsageError(_no_such_network(path, wanted, self.names, [*specs, *makers]))
        if settings:
            raise UsageError(f"{path}:{wanted} takes no settings, such as {next(iter(settings))!r}: it is one network")
        return specs[wanted]

    def parts(self) -> tuple[str, list[NetworkSpec]]:
        """The name of a network that is in parts, each for some of the sizes, and these; of no parts otherwise."""
        stem, wholes = self.path.stem, {spec.part_of for spec in self.specs.values()}
        whole = self.wanted or (stem if stem in wholes else next(iter(wholes), None) if len(wholes) == 1 else None)
        return whole or "", [spec for spec in self.specs.values() if whole and spec.part_of == whole]


def open_file(name: str | PathLike[str], text: bytes | None = None) -> NetworkFile:
    """The file in ``FILE.py`` or ``FILE.py:NAME``, run once. Raises what :func:`load_spec` does of a file."""
    if not isinstance(name, (str, PathLike)):
        raise UsageError(f"a network is the name of its file, not {name!r}")
    file, _, wanted = str(name).partition(".py:")
    path = Path(f"{file}.py" if wanted or not file.endswith(".py") else file)
    if not is_file(path):
        raise UsageError(_not_a_network(str(name), path))
    return NetworkFile(path, wanted, vars(load_module(path, text)))


def _chosen(path: Path, specs: Mapping[str, NetworkSpec], makers: Mapping[str, Any], names: Mapping[str, Any]) -> str:
    """The name of the network of a file that is meant where none is given."""
    several = specs or makers
    if not several:
        raise UsageError(f"{path} defines no network: {_to_port(path, names) or MARK}")
    if path.stem in several or len(several) == 1:
        return path.stem if path.stem in several else next(iter(several))
    raise UsageError(
        f"{path} has several networks: name one, as {path}:{next(iter(several))} (of {', '.join([*specs, *makers])})"
    )


MARK = "mark a function with @td.network(inputs=…)"


def _to_port(path: Path, names: Mapping[str, Any], wanted: str = "") -> str:
    """How a network is made of a torch module of the file, where it has one (that is called ``wanted``)."""
    modules = (
        name
        for name, value in names.items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == names["__name__"]
    )
    name = next((name for name in modules if wanted in ("", name)), None)
    return f"{name} is a torch module, of which `trtdsl port {path}:{name}` writes a network" if name else ""


def _no_such_network(path: Path, wanted: str, names: Mapping[str, Any], known: Sequence[str]) -> str:
    """What is wrong with a name that is no network's."""
    if inspect.isfunction(names.get(wanted)):
        return (
            f"{path}:{wanted} is a function, and not marked as one that makes a network: write @td.network(inputs=…) "
            f"above it, or for one with settings `def {wanted}(…) -> td.NetworkSpec`"
        )
    there = _to_port(path, names, wanted) or (f"it has {', '.join(known)}" if known else f"it has none: {MARK}")
    return f"{path} has no network {wanted!r}{nearest(wanted, known)}: {there}"


def _made(path: Path, name: str, maker: Callable[..., Any], given: Mapping[str, Any]) -> NetworkSpec:
    """The network that a function of a file makes for these settings."""
    try:
        settings = read_settings(maker, given)
    except UsageError as error:
        raise UsageError(f"{path}:{name}: {error.message}") from None
    with authors_code(maker, folder=path.resolve().parent):
        spec = maker(**settings)
    if not isinstance(spec, NetworkSpec):
        raise DefinitionError(
            f"{name} must return a td.NetworkSpec, not {type(spec).__name__}: return the function that "
            "@td.network(inputs=…) marks",
            location=place_of(maker),
        )
    own = spec.name if spec.name != getattr(spec.function, "__name__", "") else name
    rank, ranks = settings.get("rank", 0), settings.get("ranks", 1)
    if not 0 <= rank < ranks:
        raise UsageError(f"{path}:{name}: there is no rank {rank} among {ranks}: they are 0 to {ranks - 1}")
    return replace(spec, name=f"{own}.rank{rank}" if ranks > 1 else own, settings=settings, maker=name)


OTHER_FILES = {
    ".safetensors": "weights, not a network: name the network's file, as NETWORK.py --weights {}",
    ".pt": "a torch checkpoint: make weights of it with `trtdsl weights convert {} MODEL.safetensors`, and name the "
    "network's file, as NETWORK.py --weights MODEL.safetensors",
    ".engine": "an engine: `trtdsl run {}` and `trtdsl bench {}` take it; name the network's file here, as NETWORK.py",
    ".json": "not a network: name the network's file, as NETWORK.py",
    ".onnx": "an ONNX model, which trtdsl does not read: write the network as NETWORK.py",
}
OTHER_FILES |= dict.fromkeys((".pth", ".ckpt", ".bin"), OTHER_FILES[".pt"])
OTHER_FILES |= dict.fromkeys((".plan", ".trt"), OTHER_FILES[".engine"])


def _not_a_network(name: str, path: Path) -> str:
    """What is wrong with the name of a network that has no file ``path``, and what to write instead."""
    given = Path(name)
    if len(given.name) > LONGEST:
        return f"no network file {str(given)[:60]}...: no file has a name that long"
    if is_folder(given):
        found = ", ".join(str(file) for file in sorted(given.glob("*.py"))[:5])
        return f"{given} is a folder: name a network's file in it{f', such as {found}' * bool(found)}"
    if barred := why_barred(given):
        return barred
    if exists(path):
        return f"{path} is not a regular file"
    if given.suffix in OTHER_FILES and (is_file(given) or given.suffix != ".engine"):
        return f"{given} is {OTHER_FILES[given.suffix].replace('{}', str(given))}"
    if given.suffix in OTHER_FILES and not is_file(path):
        return f"there is no file {given}{others_beside(given)}"
    if is_file(given):
        return f"{given} is not a Python file: a network is written in NETWORK.py"
    stem, _, wanted = name.rpartition(":")
    if is_file(f"{stem}.py"):
        return f"no network file {path}: write {stem}.py:{wanted}"
    return f"no network file {path}{nearest_beside(path, '.py')}"


NetworkLike = NetworkSpec | Network | str | PathLike[str]
Reference = str | Callable[[], "torch.nn.Module"]
"""``"FILE.py:CLASS"``, what makes a module, or a module itself, which is a callable."""


@dataclass(frozen=True)
class WrittenSpec(NetworkSpec):
    """The spec of a :class:`Network` that is written already: its definition is that network."""

    network: Network | None = None

    def define(self, **options: Any) -> Network:
        """The network, whose constants are ``exact`` or not. UsageError for other options, which came too late."""
        options.pop("exact", None)
        given = [f"{name}=" for name, value in options.items() if value is not None and value is not False]
        if given or self.network is None:
            raise UsageError(f"the network {self.name!r} is written already: {', '.join(given)} would change nothing")
        self.network.check_states()
        return self.network

    def open_weights(self, weights: Source | None = None) -> Weights | None:
        """None. UsageError for weights, which came too late."""
        self.define(weights=weights)
        return None

    def _ask_for_reference(self) -> str:
        return "give td.check its reference=, a torch module"


def as_spec(source: NetworkLike, reference: Reference | None = None) -> NetworkSpec:
    """The spec of a network that is given as a spec, as a :class:`Network`, or by its file (``FILE.py:NAME``).

    ``reference`` takes the place of the spec's own; a module is copied when it is run. Raises UsageError for what is
    none of these, and what :func:`load_spec` raises.

    >>> net = td.Network("double")
    >>> net.output(net.input("x", (3,)) * 2, "y")
    >>> as_spec(net).name, as_spec(net).define() is net
    ('double', True)
    """
    if isinstance(source, Network):
        spec: NetworkSpec = WrittenSpec(source.name, _written, source.input_specs, network=source)
    elif isinstance(source, (str, PathLike)):
        spec = load_spec(str(source))
    elif isinstance(source, NetworkSpec):
        spec = source
    else:
        raise UsageError(f"a network is a NetworkSpec, a td.Network or the name of its file, not {source!r}")
    if reference is None:
        return spec
    return replace(spec, reference=as_reference(reference), _state={})


def as_network(source: NetworkLike | Any) -> Any:
    """The network of a spec or a file, defined as they say; another as it is: a Network or an INetworkDefinition."""
    return as_spec(source).define() if isinstance(source, (NetworkSpec, str, PathLike)) else source


def _written(*arguments: Any) -> Any:
    raise UsageError("this network is written already, and has no function to define it again")
