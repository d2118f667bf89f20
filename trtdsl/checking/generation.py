"""Whether a network with a cache generates the tokens of its reference."""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..core.backend import Backend
from ..core.caller import Positive, Seed, as_argument, option, to_write
from ..core.errors import MismatchError, UsageError
from ..core.lazy import torch
from ..definition.spec.load import NetworkLike, as_spec
from ..definition.spec.spec import NetworkSpec
from ..definition.weights.source import Source
from ..engine.running.generate import Generator
from ..sizes.profile import Range
from ..sizes.proof import extent

NEAR = 4.0
"""Times torch's own error: of two logits that are no further apart, neither is the greater."""
LENGTHS = (7, 4, 1)  # of the prompts, where none are given


@dataclass(frozen=True)
class Parting:
    """A token that the reference would not have taken after the same text."""

    prompt: int
    place: int
    """How many tokens were generated before."""
    token: int
    expected: int
    gap: float
    """How much greater the reference's logit of the expected token is."""
    error: float
    """Torch's own, of that text's logits in the coarsest dtype that the network computes in."""
    drawn: bool = False
    """Whether the tokens before it were drawn, and not generated."""

    @property
    def is_near(self) -> bool:
        """Whether the two are as good as equal in the network's precision; never where torch's own logits overflow."""
        return self.gap <= NEAR * self.error < float("inf")

    def __str__(self) -> str:
        kind = "near tie" if self.is_near else "differs"
        place = f"prompt {self.prompt}, token {self.place}{' after drawn ones' * self.drawn}"
        gap = f"{self.gap:.2g} greater, {NEAR:.0f} times torch's own error being {NEAR * self.error:.2g}"
        return f"{place} {kind}: {self.token}, not {self.expected}, whose logit is {gap}"


@dataclass(frozen=True)
class GenerationReport:
    """What :func:`check_generation` found."""

    network: str
    prompts: tuple[tuple[int, ...], ...]
    tokens: tuple[tuple[int, ...], ...]
    """What follows each prompt."""
    partings: tuple[Parting, ...]

    @property
    def passed(self) -> bool:
        """Whether every token is the reference's, near ties aside."""
        return all(parting.is_near for parting in self.partings)

    def __str__(self) -> str:
        count, verdict = sum(map(len, self.tokens)), "are" if self.passed else "ARE NOT"
        ties = sum(parting.is_near for parting in self.partings)
        besides = f", {ties} of them by near ties" if ties else ""
        said = f"{self.network}: {count} tokens {verdict} the reference's{besides}"
        return "\n".join([said, *map(str, self.partings)])

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {"schema": 1, "kind": "generation", "passed": self.passed, **asdict(self)}

    def raise_for_mismatch(self) -> GenerationReport:
        """The report itself; MismatchError naming the tokens that differ when it did not pass."""
        if not self.passed:
            raise MismatchError(str(self))
        return self


def check_generation(
    source: NetworkLike,
    reference: torch.nn.Module | None = None,
    *,
    prompts: Sequence[Sequence[int]] | None = None,
    n: int = 64,
    weights: Source | None = None,
    dims: Mapping[str, Range] | None = None,
    precision: str | os.PathLike[str] | None = None,
    backend: str | Backend | None = None,
    seed: int = 0,
) -> GenerationReport:
    """Compares tokens of :class:`~trtdsl.Generator`, on the CPU, with those of a whole model without a cache.

    That is ``n`` greedy ones, and as many after ones that are drawn: a greedy text may repeat what needs no memory.

    ``reference`` takes tokens (1, T) and gives logits (1, T, V), or an object that has ``logits``; without one it is
    the network's own, where that has a method ``whole`` which does, as one whose weights are rounded like the
    network's, and otherwise what transformers makes of the folder that the weights lie in. It reads each prompt with
    what the network was fed, once in float64 and once in the coarsest dtype that the network computes in, that of its
    caches included: a token that is not its likeliest is a near tie where the gap between the two is at most four times
    torch's own error, and differs otherwise. Tokens after a near tie are judged by the text that they follow. The
    prompts are three random ones unless they are given.

    Raises UsageError where there is no reference, and what :class:`~trtdsl.Generator` raises.
    """
    as_argument("seed", seed, Seed)
    named = to_write("n", "max_tokens")
    n = as_argument(named, n, Positive)
    spec = as_spec(source)
    model = reference if reference is not None else _own(spec, weights)
    network = spec.define(weights=weights, dims=dims, precision=precision, backend=backend)
    generator = Generator(network)
    random, words = torch.Generator().manual_seed(seed), int(network.outputs["logits"].shape[-1])
    if prompts is None:
        prompts = [torch.randint(0, words, (size,), generator=random).tolist() for size in LENGTHS]
        prompts = prompts[: extent(network.inputs["tokens"].shape[0])[1]]
    if texts := generator.texts_of(prompts):
        generator.check_room(texts, option(named, n), n)
    kinds = [network.precision or network.outputs["logits"].dtype]
    kinds += [network.inputs[name].dtype for name in network.states]
    coarse = max((kind for kind in kinds if kind.is_floating_point), key=lambda kind: torch.finfo(kind).eps)
    exact, own = (copy.deepcopy(model).eval().to(kind) for kind in (torch.float64, coarse))
    drawn = torch.randint(0, words, (n - 1, len(prompts)), generator=random).tolist()
    greedy, partings = [], []
    for sent in ([None] * (n - 1), drawn):
        steps = generator.stream(prompts, max_tokens=n, stop=())
        rows: list[Any] = [next(steps), *map(steps.send, sent)]
        greedy = greedy or rows
        for index, prompt in enumerate(prompts):
            text = [*prompt, *((fed or taken)[index] for fed, taken in zip(sent, rows))]
            truth, rounded = (_logits(module, text)[len(prompt) - 1 :] for module in (exact, own))
            for place, (row, near, tokens) in enumerate(zip(truth, rounded, rows, strict=True)):
                token, expected = tokens[index], int(row.argmax())
                if token != expected:
                    gap, error = float(row[expected] - row[token]), float((row - near).abs().max())
                    partings.append(Parting(index, place, token, expected, gap, error, sent is drawn))
    return GenerationReport(spec.name, tuple(map(tuple, prompts)), tuple(zip(*greedy)), tuple(partings))


def _logits(module: torch.nn.Module, tokens: Sequence[int]) -> torch.Tensor:
    """Those after each token (T, V), in float64."""
    with torch.no_grad():
        found = getattr(module, "whole", module)(torch.tensor([list(tokens)]))
    return getattr(found, "logits", found)[0].double()


def _own(spec: NetworkSpec, weights: Source | None) -> torch.nn.Module:
    opened = spec.open_weights(weights)
    if spec.reference is not None and hasattr(module := spec.reference_module(opened), "whole"):
        return module
    if opened is None or opened.path is None or not opened.path.is_dir():
        raise UsageError("give a reference, or the network's spec: of weights in a folder transformers makes one")
    try:
        transformers = importlib.import_module("transformers")
    except ImportError:
        raise UsageError("give a reference, or install transformers: pip install transformers") from None
    return transformers.AutoModelForCausalLM.from_pretrained(opened.path, local_files_only=True)
