"""What a check's verdict depends on, as one hash: where it is the same, an earlier verdict holds still."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.author import source_of
from ..core.errors import DefinitionError, UsageError
from ..core.files.reading import sha256_of
from ..core.files.writing import as_json
from ..core.imports import READ, Imports, imported
from ..core.lazy import torch
from ..core.reads import Hashes, hold, reads_of
from ..core.version import __version__
from ..definition.input import Input
from ..definition.network import Network
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Source
from ..interpreter.fingerprint import fingerprint
from .judging.evidence import as_tolerances
from .report import SCHEMA


class Sources:
    """The files of a network, its reference and its samples, with all that these import, as they are now."""

    def __init__(self, spec: NetworkSpec):
        self._spec, self.reference = spec, _reference(spec)
        self._made_at = self.reference or source_of(spec.reference)  # as that of a lambda
        samples = [Path(each.sample) for each in spec.inputs.values() if isinstance(each.sample, (str, PathLike))]
        self.proving = self._imports()
        network = set() if spec.file is None else imported([spec.file]).files
        self.hashes = {path: sha256_of(path) for path in {*self.proving.files, *network, *samples}}
        self._loaded = {path: READ.get(str(path)) for path in self.hashes}

    def _imports(self) -> Imports:
        """What the reference and the functions that draw samples import."""
        reference = [] if self._made_at is None else [self._made_at[1]]
        samples = (source_of(given.sample) for given in self._spec.inputs.values() if callable(given.sample))
        return imported([*reference, *(found[1] for found in samples if found is not None)])

    def are_loaded(self) -> bool:
        """Whether the reference and the samples that were loaded are those that their files hold now."""
        loaded = all(READ.get(str(path), self.hashes[path]) == self.hashes[path] for path in self.proving.files)
        return loaded and self._spec.reference_is_current

    def import_alike(self) -> bool:
        """Whether they import the same still: running them may make Python find what was not to be seen before."""
        return self._imports() == self.proving

    def read(self) -> Hashes | None:
        """What the reference's code and the samples' have read besides, until now; None where nobody can compare it."""
        own = {os.path.realpath(path) for path in self.proving.files}
        others = {os.path.realpath(path) for path in self.hashes} - own
        found: Hashes = {}
        for folder in {file.parent for file in (self._spec.file, self._made_at and self._made_at[1]) if file}:
            hashes = reads_of(folder).hashes(others)
            if hashes is None:
                return None
            found.update((self._name(path), value) for path, value in hashes.items() if path not in own)
        return found

    def have_read(self, known: Hashes) -> bool:
        """Whether nothing but ``known`` was read until now, and all of that is as it was."""
        now = self.read()
        return now is not None and now.keys() <= known.keys() and hold(known, self._folder)

    @property
    def _folder(self) -> str:
        file = self._spec.file if self._made_at is None else self._made_at[1]
        return os.path.realpath("." if file is None else file.parent)

    def _name(self, path: str) -> str:
        """A path as it is where the project stands in another folder."""
        return os.path.relpath(path, self._folder) if Path(path).is_relative_to(self._folder) else path

    def changed(self) -> Path | None:
        """The first file that has another hash now, had one when it was loaded meanwhile, or is not there any more."""
        for path, before in sorted(self.hashes.items()):
            if sha256_of(path) != before or READ.get(str(path)) not in (before, self._loaded[path]):
                return path
        return None


def proof_of(spec: NetworkSpec, weights: Source | None, sources: Sources | None = None) -> str | None:
    """The hash of all that a check of ``spec`` depends on besides the network itself.

    That is: the content of the reference's file, of the samples', and of every file that these import, in functions
    too; the versions of torch and of the packages that they import; the inputs' samples; tolerances and what is left
    out; weights that the network leaves aside. What it reads while it runs is not in it: :meth:`Sources.read` tells of
    that afterwards. None where the reference or a sample is not in a file under its name, and so may change unseen.
    """
    sources = sources or Sources(spec)
    reference, found = sources.reference, sources.proving
    if reference is None or not sources.are_loaded():
        return None
    samples = {name: _sample(given, sources) for name, given in spec.inputs.items()}
    if any(sample is None for sample in samples.values()):
        return None
    hashes = {path: sources.hashes[path] for path in found.files}
    opened = spec.open_weights(weights)
    facts = {
        "trtdsl": [__version__, SCHEMA],
        "torch": torch.__version__,
        "reference": reference[0],
        "files": _named(hashes, reference[1]),
        "packages": {name: _version(name) for name in sorted(found.packages)},
        "samples": samples,
        "tolerances": sorted((str(name), repr(given)) for name, given in as_tolerances(spec.tolerance).items()),
        "left_out": [spec.leave_out, spec.trivial],
        "weights": opened.sha256() if opened is not None and spec.unused else None,
    }
    return _sha256(as_json(facts, sort_keys=True).encode())


def subject_of(spec: NetworkSpec, network: Network, weights: Source | None) -> tuple[str, str]:
    """What a check is of, as :attr:`CheckReport.of` has it."""
    file = getattr(network.asked, "sha256", "")  # of a precision, which has the budget
    prints = [fingerprint(rank.definition, rank.backend) for rank in (network, *network.others())]
    defined = f"{' '.join(prints)} {network.precision} {file} {network.profiles}"
    sources = Sources(spec)
    known = str(reference_facts(spec)) if sources.are_loaded() else "a state of its files that is there no more"
    return _sha256(defined.encode()), proof_of(spec, weights, sources) or known


def reference_facts(spec: NetworkSpec) -> dict[str, str] | None:
    """The reference's name, the settings, a hash of its file and of those that it imports; None of one in no file."""
    reference = _reference(spec) or source_of(spec.reference)
    if reference is None:
        return None
    hashes = {path: sha256_of(path) for path in imported([reference[1]]).files}
    files = _sha256(as_json(_named(hashes, reference[1])).encode())
    settings = str({name: str(value) for name, value in sorted(spec.settings.items())})
    return {"name": reference[0].rpartition(":")[2], "settings": settings, "files_sha256": files}


def _named(hashes: Mapping[Path, str | None], reference: Path) -> list[list[str | None]]:
    """Hashes by the names of the files, which are the same where the project stands in another folder."""
    folder = reference.parent
    named = [(str(path.relative_to(folder) if path.is_relative_to(folder) else path.name), path) for path in hashes]
    return [[name, hashes[path]] for name, path in sorted(named)]


def _reference(spec: NetworkSpec) -> tuple[str, Path] | None:
    """The reference's name and file. It is loaded first, since it may put folders on Python's path."""
    if isinstance(spec.reference, str):
        if spec.file is None:
            return None
        path = spec.file.parent / spec.reference.rpartition(":")[0]
        with suppress(DefinitionError, UsageError):  # which is told where the reference is needed
            spec.reference_class()
        return (spec.reference, path.resolve()) if path.is_file() else None
    return source_of(spec.reference, named=True)


def _sample(given: Input, sources: Sources) -> list[Any] | None:
    """An input's sample as a fact; None for a function that is in no file."""
    sample, dtype = given.sample, str(given.dtype)
    dtype += "" if given.longest is None else f", longest {given.longest}"
    dtype += "" if given.padding is None else f", padding {given.padding}"
    dtype += ", descending" * given.descending
    dtype += "" if given.below is None else f", below {given.below}"
    if sample is None or isinstance(sample, tuple):
        return ["range", sample, dtype]
    if isinstance(sample, (str, PathLike)):
        return ["file", sources.hashes[Path(sample)], dtype]
    found = source_of(sample)
    if found is None or not inspect.isfunction(sample) or sample.__code__.co_freevars:
        return None  # what it closes over, or is bound to, is in no file
    return ["function", found[0], dtype]


def _version(package: str) -> str:
    folders = [entry for entry in sys.path if isinstance(entry, str)]  # Python's own search fails at others
    for found in importlib.metadata.distributions(name=package, path=folders):
        return found.version
    return ", ".join(map(_version, sorted(set(importlib.metadata.packages_distributions().get(package, [])))))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
