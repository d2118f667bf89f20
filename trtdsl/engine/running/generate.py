"""Text by a network or an engine with a cache: prompts of several lengths in one batch."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Generator as Steps
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import fields

from ...core.caller import Finite, Positive, Seed, as_argument, option
from ...core.dtypes import dtype_name
from ...core.errors import ExecutionError, UsageError
from ...core.files.reading import Count
from ...core.lazy import torch
from ...definition.network import Network
from ...definition.spec.load import NetworkLike, as_spec
from ...definition.tensor import Tensor
from ...interpreter.interpret import Interpreter
from ...sizes.proof import extent
from ..engine import Engine
from ..loading.manifest import Entry
from .tokenizer import open_tokenizer

OWN = ("tokens", "starts", "lengths")
CODING = ("encode", "decode")
Run = Callable[[Mapping[str, "torch.Tensor"]], Mapping[str, "torch.Tensor"]]
"""One step: the inputs that are no states, and the outputs that are none."""
Prompt = Annotated[list[int], Meta(min_length=1)]
Sent = list[int | None]


class Sampling(Struct, frozen=True):
    """How tokens are chosen of logits, and where a text ends."""

    max_tokens: Positive
    temperature: Finite
    top_k: Positive | None
    top_p: Annotated[float, Meta(gt=0, le=1)]
    stop: frozenset[Count]
    seed: Seed


class Generator:
    """Generates tokens by a network as ``networks/llama.py`` writes them, evaluated on the CPU, or by its engine.

    The inputs are ``tokens`` (N, S), S from 1 on, ``starts`` (N) and ``lengths`` (N), integers, and states, each a
    :class:`~trtdsl.State`, such as caches (N, …, T, D); the output besides is ``logits`` (N, V), of each sequence's
    last token that counts. A prompt longer than S is fed in parts; 0 tokens count of a sequence whose prompt ended in
    an earlier one. An engine keeps the states on the GPU. ``tokenizer`` has ``encode(text)`` and ``decode(tokens)``, or
    names the folder of a checkpoint with a ``tokenizer.json``: prompts and results are then texts.

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

    def __init__(self, source: NetworkLike | Engine, tokenizer: Any = None):
        self._model = _of_engine(source) if isinstance(source, Engine) else _of_network(as_spec(source).define())
        self.tokenizer = open_tokenizer(tokenizer) if isinstance(tokenizer, (str, os.PathLike)) else tokenizer
        if tokenizer is not None and not all(callable(getattr(self.tokenizer, each, None)) for each in CODING):
            raise UsageError(f"a tokenizer has encode and decode, or is the name of a folder, not {tokenizer!r:.60}")

    def __call__(self, prompts: Sequence[Any], **how: Any) -> list[Any]:
        """What follows each prompt, without the prompt; the arguments are those of :meth:`stream`."""
        prompts = self.texts_of(prompts)
        texts = zip(*self.stream(prompts, **how), strict=True)
        results = [[token for token in text if token is not None] for text in texts]
        if self.tokenizer is None:
            return results
        return [self._text_after(prompt)(result) for prompt, result in zip(prompts, results, strict=True)]

    def stream_text(self, prompt: str, **how: Any) -> Iterator[str]:
        """What follows one prompt, in pieces as they are made; the arguments are those of :meth:`stream`.

        Raises UsageError without a tokenizer.
        """
        if self.tokenizer is None:
            raise UsageError("a text needs a tokenizer: Generator(…, tokenizer=FOLDER)")
        (asked,), tokens, shown = self.texts_of([prompt]), [], ""
        text_of, is_open = self._text_after(asked), getattr(self.tokenizer, "is_open", lambda token: False)
        for (token,) in self.stream([asked], **how):
            tokens.append(token)
            text = text_of(tokens)
            if not text.endswith("\ufffd") and not is_open(token):  # as are the first bytes of a character
                yield text[len(shown) :]
                shown = text
        if rest := text_of(tokens)[len(shown) :]:
            yield rest

    def _text_after(self, prompt: Sequence[int]) -> Callable[[Sequence[int]], str]:
        """What tokens add to a prompt's text: by themselves they may lose the space before their first word."""
        before = self.tokenizer.decode(prompt)

        def text_of(tokens: Sequence[int]) -> str:
            whole = self.tokenizer.decode([*prompt, *tokens])
            return whole[len(before) :] if whole.startswith(before) else self.tokenizer.decode(tokens)

        return text_of

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
    ) -> Steps[list[int | None], list[int | None] | None, None]:
        """The next token of each prompt, again and again; None for one that has ended.

        What is sent, a token for each prompt, is fed in place of those; None leaves one as it is.

        Prompts are lists of tokens, or texts where there is a tokenizer. ``temperature`` 0 takes the likeliest token,
        otherwise one is drawn, the same for the same ``seed``, of the ``top_k`` likeliest and of the fewest whose
        probabilities sum to ``top_p``. A token of ``stop`` (by default those with which the tokenizer's checkpoint ends
        a text) ends its sequence and is its last.

        Raises UsageError for no prompt, an empty one, one that the cache does not hold with ``max_tokens``, and
        arguments out of their ranges.
        """
        texts, model = self.texts_of(prompts), self._model
        given = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        given["stop"] = getattr(self.tokenizer, "stop", ()) if stop is None else stop
        how = Sampling(**{each.name: as_argument(each.name, given[each.name], each.type) for each in fields(Sampling)})
        fewest, greatest = zip(*(batch for batch, _ in model.steps))
        least, most = max(min(fewest), 1), max(greatest)
        if not least <= len(texts) <= most:
            many = f"{min(least, most)}" if least >= most else f"{least} to {most}"
            raise UsageError(f"{model.name} takes {many} prompts at a time, not {len(texts)}")
        self.check_room(texts, option("max_tokens", how.max_tokens), how.max_tokens)
        for text in texts:
            self._check_known(text)
        return self._steps(texts, how)

    def _check_known(self, tokens: Iterable[int]) -> None:
        """UsageError for a token that the network does not know."""
        for token in tokens:
            if not 0 <= token < self._model.vocabulary:
                raise UsageError(f"there is no token {token}: the network knows {self._model.vocabulary}")

    def check_room(self, prompts: Iterable[Sequence[int]], said: str, count: int) -> None:
        """UsageError where the caches do not hold the longest prompt and so many tokens more, but the last."""
        longest = max(map(len, prompts))
        if longest + count - 1 > self.capacity:
            raise UsageError(f"a prompt of {longest} tokens and {said} do not fit into a cache of {self.capacity}")

    def texts_of(self, prompts: Sequence[Any]) -> list[list[int]]:
        """The tokens of prompts. UsageError for what are none."""
        if isinstance(prompts, (str, bytes)) or not isinstance(prompts, Iterable):
            raise UsageError(f"prompts are a list of prompts, not {prompts!r:.60}")
        return [self._tokens_of(each) for each in prompts]

    def _tokens_of(self, prompt: Any) -> list[int]:
        found = self.tokenizer.encode(prompt) if isinstance(prompt, str) and self.tokenizer is not None else prompt
        with suppress(UsageError):
            return as_argument("prompts", found, Prompt)
        raise UsageError(
            f"a prompt is a list of one token or more, or a text where there is a tokenizer, not {prompt!r:.60}"
        )

    @property
    def capacity(self) -> float:
        """Tokens that the caches hold."""
        return self._model.capacity

    def _steps(
        self, texts: Sequence[Sequence[int]], how: Sampling
    ) -> Steps[list[int | None], list[int | None] | None, None]:
        count, longest = len(texts), max(map(len, texts))
        # As they are, neighbouring small seeds begin alike.
        mixed = int.from_bytes(hashlib.sha256(str(how.seed).encode()).digest()[:4], "little")
        generator, alive = torch.Generator().manual_seed(mixed), [True] * count
        run, start, logits = self._model.session(count), 0, torch.empty(0)
        while start < longest:
            width = self._model.width(count, longest - start)
            parts = [list(text[start : start + width]) for text in texts]
            rows = [[*part, *[0] * (width - len(part))] for part in parts]
            found = self._step(run, rows, [start] * count, [len(part) for part in parts])
            ends = torch.tensor([len(part) > 0 for part in parts])
            logits = torch.where(ends[:, None], found, logits) if len(logits) else found
            start += width
        for step in range(how.max_tokens):
            chosen = _chosen(logits, how, generator).tolist()
            sent = yield [token if lives else None for token, lives in zip(chosen, alive, strict=True)]
            chosen = chosen if sent is None else self._sent(sent, chosen)
            alive = [lives and token not in how.stop for token, lives in zip(chosen, alive, strict=True)]
            if not any(alive) or step + 1 == how.max_tokens:
                return
            starts = [len(text) + step for text in texts]
            logits = self._step(run, [[token] for token in chosen], starts, [1] * count)

    def _sent(self, sent: Any, chosen: Sequence[int]) -> list[int]:
        """The tokens that are fed: those that were sent, and the chosen one where that is None."""
        given: list[int | None] = []
        with suppress(UsageError):
            given = as_argument("tokens", sent, Sent)
        if len(given) != len(chosen):
            raise UsageError(f"what is sent is a token for each of {len(chosen)} prompts, not {sent!r:.60}")
        self._check_known(token for token in given if token is not None)
        return [own if token is None else token for token, own in zip(given, chosen, strict=True)]

    def _step(self, run: Run, *values: Any) -> torch.Tensor:
        """The logits for tokens, starts and lengths, in float32."""
        feeds = {name: torch.as_tensor(given) for name, given in zip(OWN, values, strict=True)}
        dtypes = self._model.dtypes
        return run({name: feed.to(getattr(torch, dtypes[name])) for name, feed in feeds.items()})["logits"].float()


@dataclass(frozen=True)
class _Model:
    """What a generator asks of a network or an engine."""

    name: str
    dtypes: Mapping[str, str]
    """Of the inputs that are no states."""
    steps: Sequence[Sequence[tuple[int, int]]]
    """For each profile the fewest and the most sequences, and the fewest and the most tokens of a step."""
    capacity: float
    vocabulary: Any
    """How many tokens there are."""
    session: Callable[[int], Run]
    """Steps of so many sequences, from empty caches on."""

    def width(self, count: int, left: int) -> int:
        """The most tokens that a step of so many sequences takes of those that are left: profiles may have gaps."""
        taken = [batch[0] <= count <= batch[1] and size[0] <= left and min(size[1], left) for batch, size in self.steps]
        return max([1, *taken])


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


def _model(
    name: str,
    inputs: Mapping[str, Tensor | Entry],
    outputs: Mapping[str, Tensor | Entry],
    states: Mapping[str, str],
    slots: Mapping[str, int],
    steps: Sequence[Sequence[tuple[int, int]]],
    session: Callable[[int], Run],
) -> _Model:
    """UsageError for what does not generate."""
    if what := objection(inputs, outputs, states):
        raise UsageError(f"the network {name!r} generates nothing: {what}. See networks/llama.py")
    capacity: Any = math.inf
    for each in states:
        shape = inputs[each].shape
        if not all(isinstance(size, int) for size in shape[1:]):
            raise UsageError(f"the state {each} has dynamic sizes besides its batch, {tuple(shape)}: fix them")
        capacity = min(capacity, shape[slots[each]] if each in slots else math.inf)
    dtypes = {each: dtype_name(inputs[each].dtype) for each in OWN}
    if (least := min(size[0] for _, size in steps)) > 1:
        raise UsageError(
            f"the network {name!r} takes {least} tokens a step or more, and what it generates is fed one by one"
        )
    return _Model(f"the network {name!r}", dtypes, steps, capacity, outputs["logits"].shape[-1], session)


def _of_network(network: Network) -> _Model:
    interpreter, inputs = Interpreter(network), network.inputs

    def session(count: int) -> Run:
        held = {
            name: torch.zeros((count, *map(int, network.whole_shape(name)[1:])), dtype=inputs[name].dtype)
            for name in network.states
        }

        def run(feeds: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
            found = interpreter({**feeds, **held})
            held.update({name: found[output] for name, output in network.states.items()})
            return found

        return run

    steps = [[extent(size) for size in inputs["tokens"].shape]] if "tokens" in inputs else []
    return _model(network.name, inputs, network.outputs, network.states, network.slots, steps, session)


def _of_engine(engine: Engine) -> _Model:
    manifest = engine.manifest
    if manifest is None:
        raise UsageError("an engine generates with its manifest, which says what its states are")
    inputs, slots = manifest.inputs, manifest.slots
    if slots is None:
        slots = {name: len(inputs[name].shape) - 2 for name in manifest.states if len(inputs[name].shape) > 2}

    def session(count: int) -> Run:
        batch = inputs["tokens"].shape[0]
        made = engine.session(**({} if isinstance(batch, int) else {batch: count}))
        return lambda feeds: made.run(feeds, outputs="torch")

    ranges = [profile["tokens"] for profile in engine.signature.profiles if "tokens" in profile]
    steps = [list(zip(low, high)) for low, _, high in ranges]
    return _model(manifest.network, inputs, manifest.outputs, manifest.states, slots, steps, session)


def _chosen(logits: torch.Tensor, how: Sampling, generator: torch.Generator) -> torch.Tensor:
    """A token for each row (N, V)."""
    most = logits.amax(-1, keepdim=True)
    if most.isnan().any() or (how.temperature > 0 and most.isinf().any()):
        raise ExecutionError("the logits are no finite numbers: nothing can be generated from them")
    if how.temperature == 0:
        return logits.argmax(-1)
    # What lies below the greatest, which the smallest how.temperature leaves finite.
    values, places = (logits - most).double().div(how.temperature).sort(stable=True, dim=-1, descending=True)
    if how.top_k is not None:
        values[:, how.top_k :] = -math.inf
    weights = values.softmax(-1)
    weights[weights.cumsum(-1) - weights >= how.top_p] = 0  # what is before it suffices
    return places.gather(-1, torch.multinomial(weights, 1, generator=generator))[:, 0]
