"""Feeds and reference outputs in a file: to compare with later, on another machine, or with an engine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.caller import option
from ..core.errors import FeedError, UsageError
from ..core.files import Output, write_atomically
from ..core.lazy import torch
from ..definition.network import Network
from ..interpreter.feeds import read_array
from ..interpreter.interpret import dims_of
from .judging.evidence import Evidence, Rules

SCHEMA = 1
Feeds = Mapping[str, Any]


@dataclass(frozen=True)
class SavedCase:
    """One set of feeds, with torch's results in the network's precision and in float64."""

    draw: str
    feeds: dict[str, torch.Tensor]
    own: dict[str, torch.Tensor]
    truth: dict[str, torch.Tensor] | None

    def evidence(self, network: Network, rules: Rules) -> Evidence:
        """The cases that a network is judged by."""
        return Evidence(
            self.feeds, list(network.outputs), rules, network.precision, dict(self.own), wide=lambda: self.truth
        )


def save(output: Output, network: Network, cases: Sequence[tuple[str, Evidence]]) -> None:
    """Writes feeds and results as safetensors; float64 results are computed where they are missing."""
    from safetensors.torch import save as as_bytes

    tensors: dict[str, torch.Tensor] = {}
    for index, (_, evidence) in enumerate(cases):
        own = {name: leaf for name, leaf in evidence.own.items() if isinstance(leaf, torch.Tensor)}
        for kind, values in (("feeds", evidence.feeds), ("torch", own), ("float64", evidence.truth or {})):
            for name, tensor in values.items():
                tensors[f"{index}/{kind}/{name}"] = tensor.detach().clone().contiguous()
    facts = {
        "schema": SCHEMA,
        "network": network.name,
        "precision": str(network.precision),
        "draws": [draw for draw, _ in cases],
        "torch": torch.__version__,
    }
    write_atomically(output, as_bytes(tensors, {"trtdsl_check": json.dumps(facts)}))


def load(path: str | os.PathLike[str], network: Network) -> list[SavedCase]:
    """The cases of a saved check.

    Raises UsageError for a file that is missing or is no saved check, and for one of another network or precision.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), "pt") as file:
            facts = json.loads((file.metadata() or {}).get("trtdsl_check", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError, ValueError) as error:
        raise UsageError(f"{path} is not a saved check: {error}") from None
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA or not isinstance(facts.get("draws"), list):
        raise UsageError(f"{path} is not a saved check: a check with {option('save', str(path))} makes one")
    if facts.get("precision") != str(network.precision):
        raise UsageError(f"{path} was saved in precision {facts.get('precision')}, not {network.precision}")
    cases = []
    for index, draw in enumerate(facts["draws"]):
        kinds: dict[str, dict[str, torch.Tensor]] = {"feeds": {}, "torch": {}, "float64": {}}
        for name, tensor in tensors.items():
            number, _, rest = name.partition("/")
            kind, _, label = rest.partition("/")
            if number == str(index) and kind in kinds:
                kinds[kind][label] = tensor
        cases.append(SavedCase(str(draw), kinds["feeds"], kinds["torch"], kinds["float64"] or None))
    if any(set(case.feeds) != set(network.inputs) for case in cases):
        raise UsageError(
            f"{path} was saved for other inputs: {', '.join(cases[0].feeds)}, not {', '.join(network.inputs)}"
        )
    return cases


def given_feeds(network: Network, given: Any) -> list[dict[str, torch.Tensor]]:
    """Feeds of the author's: a mapping from input names to arrays or .npy files, several in a list, a folder, or a
    callable that gives any of these.

    A folder has ``NAME.npy`` for each input, or folders with these. Raises UsageError for anything else, FeedError for
    feeds that do not fit the inputs.
    """
    if callable(given):
        given = given()
    if isinstance(given, (str, os.PathLike)):
        given = _in_folder(network, Path(given))
    if isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(item, Mapping) for item in given):
        raise UsageError(
            "feeds are a mapping from input names to arrays or .npy files, a list of such, a folder, or a function "
            f"that gives one of these, not {type(given).__name__}"
        )
    return [_as_tensors(network, feeds) for feeds in given]


def _as_tensors(network: Network, feeds: Feeds) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, feed in feeds.items():
        if isinstance(feed, (str, os.PathLike)):
            feed = read_array(name, feed)
        try:
            tensors[name] = torch.as_tensor(feed).detach().cpu().clone()
        except (TypeError, ValueError, RuntimeError) as error:
            raise FeedError(f"input {name!r} cannot be read as a tensor: {error}") from None
    return tensors


def _in_folder(network: Network, folder: Path) -> list[Feeds]:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder} of feeds")
    folders = sorted(path for path in folder.iterdir() if path.is_dir()) or [folder]
    samples = []
    for place in folders:
        missing = [name for name in network.inputs if not (place / f"{name}.npy").is_file()]
        if missing:
            raise UsageError(f"there is no {', '.join(f'{name}.npy' for name in missing)} in {place}")
        samples.append({name: place / f"{name}.npy" for name in network.inputs})
    return samples


def sizes_of(network: Network, feeds: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """The value of each dimension for some feeds; FeedError where they do not fit the inputs."""
    problems = [f"{name!r} is missing" for name in network.inputs if name not in feeds]
    problems += [f"there is no input {name!r}" for name in feeds if name not in network.inputs]
    for name in network.inputs:
        if name in feeds and feeds[name].ndim != len(network.inputs[name].shape):
            problems.append(f"{name!r} has shape {tuple(feeds[name].shape)}, not {network.inputs[name].shape}")
    if problems:
        raise FeedError("the feeds do not fit: " + "; ".join(problems))
    env = dims_of(network, {name: tuple(feed.shape) for name, feed in feeds.items()})
    profiles = network.profiles
    if not any(all(low <= env[name] <= high for name, (low, _, high) in p.ranges.items()) for p in profiles):
        at = ", ".join(f"{name} = {size}" for name, size in env.items())
        raise FeedError(f"the feeds do not fit: no profile has {at}: {'; '.join(map(str, profiles))}")
    return env
