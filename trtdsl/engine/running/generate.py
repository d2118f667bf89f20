"""Text by a network or an engine with a cache: prompts of several lengths in one batch."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.dtypes import dtype_name
from ...core.errors import ExecutionError, UsageError
from ...core.lazy import torch
from ...definition.network import Network
from ...interpreter.feeds import check_seed
from ...interpreter.interpret import Interpreter
from ...sizes.proof import extent
from ..engine import Engine
from .tokenizer import open_tokenizer

OWN = ("tokens", "starts", "lengths")
Run = Callable[[Mapping[str, "torch.Tensor"]], Mapping[str, "torch.Tensor"]]
"""One step: the inputs that are no states, and the outputs that are none."""


class Generator:
    """Generates tokens by a network as ``networks/llama.py`` writes them, evaluated on the CPU, or by its engine.

    The inputs are ``tokens`` (N, S), ``starts`` (N) and ``lengths`` (N), integers, and caches (N, …, T, D), each a
    :class:`~trtdsl.State`; the output besides is ``logits`` (N, V), of each sequence's last token that counts. A prompt
    longer than S is fed in parts. An engine keeps the caches on the GPU. ``tokenizer`` has ``encode(text)`` and
    ``decode(tokens)``, or names the folder of a checkpoint with a ``tokenizer.json``: prompts and results are then
    texts.

    Raises UsageError for another network, and for a folder without a tokenizer.

    >>> @td.network(
    ...     inputs={
    ...         "tokens": td.Input((1, "S"), "int64", sample=(0, 6)),
    ...         **dict.fromkeys(("starts", "lengths"), td.Input((1,), "int32", sample=(0, 6))),
    ...         "cache": td.State((1, 1, 9, 1)),
    ...     }
    ... )
    ... def counting(tokens, starts, lengths, cache):
    ...     last = L.gather(tokens, lengths - 1, 1, num_elementwise_dims=1)
    ...     return {"logits": F.one_hot(last % 6 + 1, 7), "next_cache": cache + starts.to(torch.float32)}
    >>> td.Generator(counting.define(dims={"S": (1, 4, 4)}))([[1, 2]], max_tokens=3)
    [[3, 4, 5]]
    """

    def __init__(self, source: Network | Engine, tokenizer: Any = None):
        self._model = _of_network(source) if isinstance(source, Network) else _of_engine(source)
        self.tokenizer = open_tokenizer(tokenizer) if isinstance(tokenizer, (str, os.PathLike)) else tokenizer

    def __call__(self, prompts: Sequence[Any], **how: Any) -> list[Any]:
        """What follows each prompt, without the prompt; the arguments are those of :meth:`stream`."""
        results: list[list[int]] = [[] for _ in prompts]
        for step in self.stream(prompts, **how):
            for result, token in zip(results, step, strict=True):
                result.extend([] if token is None else [token])
        return results if self.tokenizer is None else [self.tokenizer.decode(result) for result in results]

    def stream_text(self, prompt: str, **how: Any) -> Iterator[str]:
        """What follows one prompt, in pieces as they are made; the arguments are those of :meth:`stream`.

        Raises UsageError without a tokenizer.
        """
        if self.tokenizer is None:
            raise UsageError("a text needs a tokenizer: Generator(…, tokenizer=FOLDER)")
        tokens, shown = [], ""
        for (token,) in self.stream([prompt], **how):
            tokens.append(token)
            text = self.tokenizer.decode(tokens)
            if not text.endswith("\ufffd"):  # the first bytes of a character
                yield text[len(shown) :]
                shown = text
        if tokens and (rest := self.tokenizer.decode(tokens)[len(shown) :]):
            yield rest

    def stream(
        self,
        prompts: Sequence[Any],
        *,
        max_tokens: int = 64,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        stop: Collection[int] | None = None,
        seed: int = 0,
    ) -> Iterator[list[int | None]]:
        """The next token of each prompt, again and again; None for one that has ended.

        Prompts are lists of tokens, or texts where there is a tokenizer. ``temperature`` 0 takes the likeliest token,
        otherwise one is drawn, the same for the same ``seed``, of the ``top_k`` likeliest and of the fewest whose
        probabilities sum to ``top_p``. A token of ``stop`` (by default those with which the tokenizer's checkpoint ends
        a text) ends its sequence and is its last.

        Raises UsageError for no prompt, an empty one, one that the cache does not hold with ``max_tokens``, and
        arguments out of their ranges.
        """
        texts: list[Any] = [
            self.tokenizer.encode(each) if isinstance(each, str) and self.tokenizer else each for each in prompts
        ]
        if not texts or any(isinstance(text, str) or not len(text) for text in texts):
            raise UsageError("prompts are lists of one token or more, or texts where the Generator has a tokenizer")
        longest = max(map(len, texts))
        if longest + max_tokens - 1 > self.capacity:
            raise UsageError(
                f"a prompt of {longest} tokens and max_tokens={max_tokens} do not fit into a cache of {self.capacity}"
            )
        most = self._model.vocabulary
        unknown = [token for text in texts for token in text if not 0 <= token < most]
        if unknown:
            raise UsageError(f"there is no token {unknown[0]}: the network knows {most}")
        if max_tokens < 1 or not 0 <= temperature < math.inf or not 0 < top_p <= 1 or (top_k is not None and top_k < 1):
            raise UsageError("max_tokens and top_k are 1 or more, temperature 0 or more, top_p above 0 and at most 1")
        check_seed(seed)
        ends = getattr(self.tokenizer, "stop", ()) if stop is None else stop
        return self._steps(texts, max_tokens, (temperature, top_k, top_p), frozenset(ends), seed)

    @property
    def capacity(self) -> float:
        """Tokens that the caches hold."""
        return self._model.capacity

    def _steps(
        self,
        texts: Sequence[Sequence[int]],
        max_tokens: int,
        how: tuple[float, int | None, float],
        stop: frozenset[int],
        seed: int,
    ) -> Iterator[list[int | None]]:
        count, longest = len(texts), max(map(len, texts))
        # As they are, neighbouring small seeds begin alike.
        mixed = int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:4], "little")
        generator, alive = torch.Generator().manual_seed(mixed), [True] * count
        run, width = self._model.session(count), min(longest, self._model.longest)
        logits = torch.empty(0)
        for start in range(0, longest, width):
            parts = [list(text[start : start + width]) for text in texts]
            most = max(map(len, parts))
            rows = [[*part, *[0] * (most - len(part))] for part in parts]
            found = self._step(run, rows, [start] * count, [max(len(part), 1) for part in parts])
            ends = torch.tensor([len(part) > 0 for part in parts])  # what a row has no token for is overwritten later
            logits = torch.where(ends[:, None], found, logits) if len(logits) else found
        lengths = [len(text) for text in texts]
        for step in range(max_tokens):
            chosen = _chosen(logits, *how, generator).tolist()
            yield [token if lives else None for token, lives in zip(chosen, alive, strict=True)]
            alive = [lives and token not in stop for token, lives in zip(chosen, alive, strict=True)]
            if not any(alive) or step + 1 == max_tokens:
                return
            starts = [length + step for length in lengths]
            logits = self._step(run, [[token] for token in chosen], starts, [1] * count)

    def _step(self, run: Run, *values: Any) -> torch.Tensor:
        """The logits for tokens, starts and lengths, in float32."""
        feeds = {name: torch.as_tensor(given) for name, given in zip(OWN, values, strict=True)}
        dtypes = self._model.dtypes
        return run({name: feed.to(getattr(torch, dtypes[name])) for name, feed in feeds.items()})["logits"].float()


@dataclass(frozen=True)
class _Model:
    """What a generator asks of a network or an engine."""

    dtypes: Mapping[str, str]
    """Of the inputs that are no states."""
    longest: int
    """The most tokens of one step."""
    capacity: float
    vocabulary: Any
    """How many tokens there are."""
    session: Callable[[int], Run]
    """Steps of so many sequences, from empty caches on."""


def objection(inputs: Collection[str], outputs: Collection[str], states: Mapping[str, str]) -> str | None:
    """Why what has these does not generate; None where it does."""
    lacking = [
        *(each for each in OWN if each not in inputs),
        *(["logits"] if "logits" not in outputs else []),
        *([] if states else ["a td.State"]),
    ]
    others = [each for each in inputs if each not in OWN and each not in states]
    if lacking:
        return f"it lacks {', '.join(lacking)}"
    return f"it has an input {others[0]} that is no td.State" if others else None


def _check(name: str, inputs: Collection[str], outputs: Collection[str], states: Mapping[str, str]) -> None:
    """UsageError for what does not generate."""
    if what := objection(inputs, outputs, states):
        raise UsageError(f"the network {name!r} generates nothing: {what}. See networks/llama.py")


def _capacity(shapes: Mapping[str, Sequence[Any]]) -> float:
    """The slots of the smallest cache. UsageError for one of a dynamic size."""
    for name, shape in shapes.items():
        if not all(isinstance(size, int) for size in shape[1:]):
            raise UsageError(f"the state {name} has dynamic sizes besides its batch, {tuple(shape)}: fix them")
    return min((shape[-2] for shape in shapes.values() if len(shape) > 2), default=math.inf)


def _of_network(network: Network) -> _Model:
    states, interpreter = network.states, Interpreter(network)
    _check(network.name, network.inputs, network.outputs, states)
    shapes = {name: network.whole_shape(name) for name in states}
    capacity = _capacity(shapes)
    batch, length = network.inputs["tokens"].shape

    def session(count: int) -> Run:
        if isinstance(batch, int) and count != batch:
            raise UsageError(f"the network {network.name!r} takes {batch} prompts at a time, not {count}")
        held = {
            name: torch.zeros((count, *map(int, shape[1:])), dtype=network.inputs[name].dtype)
            for name, shape in shapes.items()
        }

        def run(feeds: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
            found = interpreter({**feeds, **held})
            held.update({name: found[output] for name, output in states.items()})
            return found

        return run

    dtypes = {name: dtype_name(network.inputs[name].dtype) for name in OWN}
    return _Model(dtypes, extent(length)[1], capacity, network.outputs["logits"].shape[-1], session)


def _of_engine(engine: Engine) -> _Model:
    manifest = engine.manifest
    if manifest is None:
        raise UsageError("an engine generates with its manifest, which says what its states are")
    inputs = manifest.inputs
    _check(manifest.network, inputs, manifest.outputs, manifest.states)
    batch = inputs["tokens"].shape[0]
    longest = max((profile["tokens"][-1][1] for profile in engine.signature.profiles if "tokens" in profile), default=1)

    def session(count: int) -> Run:
        made = engine.session(**({} if isinstance(batch, int) else {batch: count}))
        return lambda feeds: made.run(feeds, outputs="torch")

    capacity = _capacity({name: inputs[name].shape for name in manifest.states})
    dtypes = {name: inputs[name].dtype for name in OWN}
    return _Model(dtypes, longest, capacity, manifest.outputs["logits"].shape[-1], session)


def _chosen(
    logits: torch.Tensor, temperature: float, top_k: int | None, top_p: float, generator: torch.Generator
) -> torch.Tensor:
    """A token for each row (N, V)."""
    most = logits.amax(-1, keepdim=True)
    if most.isnan().any() or (temperature > 0 and most.isinf().any()):
        raise ExecutionError("the logits are no finite numbers: nothing can be generated from them")
    if temperature == 0:
        return logits.argmax(-1)
    # What lies below the greatest, which the smallest temperature leaves finite.
    values, places = (logits - most).double().div(temperature).sort(stable=True, dim=-1, descending=True)
    if top_k is not None:
        values[:, top_k:] = -math.inf
    weights = values.softmax(-1)
    weights[weights.cumsum(-1) - weights >= top_p] = 0  # what is before it suffices
    return places.gather(-1, torch.multinomial(weights, 1, generator=generator))[:, 0]
