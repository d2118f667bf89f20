"""Text by a network with a cache, evaluated on the CPU: prompts of several lengths in one batch."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ..core.errors import UsageError
from ..core.lazy import torch
from ..definition.network import Network
from .interpret import Interpreter

OWN = ("tokens", "starts", "lengths")


class Generator:
    """Generates tokens by a network as ``networks/llama.py`` writes them, evaluated on the CPU.

    The network's inputs are ``tokens`` (N, S), ``starts`` (N) and ``lengths`` (N), integers, and caches (N, …, T, D);
    its outputs are ``logits`` (N, V), of each sequence's last token that counts, and ``next_NAME`` for each cache.
    ``tokenizer`` has ``encode(text)`` and ``decode(tokens)``: prompts and results are then texts.

    Raises UsageError for another network.

    >>> net = td.Network()
    >>> tokens, starts = net.input("tokens", (1, "S"), "int64"), net.input("starts", (1,), "int32")
    >>> lengths = net.input("lengths", (1,), "int32")
    >>> cache = net.input("cache", (1, 1, 9, 1))
    >>> net.output(cache + starts.to(torch.float32), "next_cache")
    >>> net.output(F.one_hot(tokens.sum(1) % 4 + 1, 6).to(torch.float32) + lengths.to(torch.float32), "logits")
    >>> td.Generator(net)([[1, 2, 3]], max_tokens=3)
    [[3, 4, 1]]
    """

    def __init__(self, network: Network, tokenizer: Any = None):
        caches = [name for name in network.inputs if name not in OWN]
        wanted = {"logits", *(f"next_{name}" for name in caches)}
        lacking = [*(name for name in OWN if name not in network.inputs), *sorted(wanted - network.outputs.keys())]
        if lacking or not caches:
            what = ", ".join(lacking) or "a cache"
            raise UsageError(f"the network {network.name!r} generates nothing: it lacks {what}. See networks/llama.py")
        self.network, self.tokenizer = network, tokenizer
        self._caches: dict[str, tuple[list[int], torch.dtype]] = {}
        for name in caches:
            cache = network.inputs[name]
            sizes = [size for size in cache.shape[1:] if isinstance(size, int)]
            if len(sizes) != cache.ndim - 1:
                raise UsageError(f"the cache {name} has dynamic sizes besides its batch, {cache.shape}: fix them")
            self._caches[name] = sizes, cache.dtype
        self._capacity = min((sizes[-2] for sizes, _ in self._caches.values() if len(sizes) > 1), default=math.inf)
        self._run = Interpreter(network)

    def __call__(self, prompts: Sequence[Any], **how: Any) -> list[Any]:
        """What follows each prompt, without the prompt; the arguments are those of :meth:`stream`."""
        results: list[list[int]] = [[] for _ in prompts]
        for step in self.stream(prompts, **how):
            for result, token in zip(results, step, strict=True):
                result.extend([] if token is None else [token])
        return results if self.tokenizer is None else [self.tokenizer.decode(result) for result in results]

    def stream(
        self,
        prompts: Sequence[Any],
        *,
        max_tokens: int = 64,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        stop: Collection[int] = (),
        seed: int = 0,
    ) -> Iterator[list[int | None]]:
        """The next token of each prompt, again and again; None for one that has ended.

        Prompts are lists of tokens, or texts where there is a tokenizer. ``temperature`` 0 takes the likeliest token,
        otherwise one is drawn, the same for the same ``seed``, of the ``top_k`` likeliest and of the fewest whose
        probabilities sum to ``top_p``. A token of ``stop`` ends its sequence and is its last.

        Raises UsageError for no prompt, an empty one, one that the cache does not hold with ``max_tokens``, and
        arguments out of their ranges.
        """
        texts: list[Any] = [
            self.tokenizer.encode(each) if isinstance(each, str) and self.tokenizer else each for each in prompts
        ]
        if not texts or any(isinstance(text, str) or not len(text) for text in texts):
            raise UsageError("prompts are lists of one token or more, or texts where the Generator has a tokenizer")
        longest = max(map(len, texts))
        if longest + max_tokens - 1 > self._capacity:
            raise UsageError(
                f"a prompt of {longest} tokens and max_tokens={max_tokens} do not fit into a cache of {self._capacity}"
            )
        if max_tokens < 1 or temperature < 0 or not 0 < top_p <= 1 or (top_k is not None and top_k < 1):
            raise UsageError("max_tokens and top_k are 1 or more, temperature 0 or more, top_p above 0 and at most 1")
        return self._steps(texts, max_tokens, (temperature, top_k, top_p), frozenset(stop), seed)

    def _steps(
        self,
        texts: Sequence[Sequence[int]],
        max_tokens: int,
        how: tuple[float, int | None, float],
        stop: frozenset[int],
        seed: int,
    ) -> Iterator[list[int | None]]:
        def given(name: str, values: Any) -> torch.Tensor:
            return torch.as_tensor(values).to(self.network.inputs[name].dtype)

        count, longest = len(texts), max(map(len, texts))
        tokens = given("tokens", [[*text, *[0] * (longest - len(text))] for text in texts])
        starts, lengths = given("starts", [0] * count), given("lengths", [len(text) for text in texts])
        caches = {name: torch.zeros(count, *sizes, dtype=dtype) for name, (sizes, dtype) in self._caches.items()}
        generator, alive = torch.Generator().manual_seed(seed), [True] * count
        for _ in range(max_tokens):
            found = self._run({"tokens": tokens, "starts": starts, "lengths": lengths, **caches})
            chosen = _chosen(found["logits"].float(), *how, generator)
            yield [token if lives else None for token, lives in zip(chosen.tolist(), alive, strict=True)]
            alive = [lives and token not in stop for token, lives in zip(chosen.tolist(), alive, strict=True)]
            if not any(alive):
                return
            caches = {name: found[f"next_{name}"] for name in caches}
            starts, lengths, tokens = starts + lengths, torch.ones_like(lengths), given("tokens", chosen[:, None])


def _chosen(
    logits: torch.Tensor, temperature: float, top_k: int | None, top_p: float, generator: torch.Generator
) -> torch.Tensor:
    """A token for each row (N, V)."""
    if temperature == 0:
        return logits.argmax(-1)
    values, places = (logits / temperature).sort(stable=True, dim=-1, descending=True)
    if top_k is not None:
        values[:, top_k:] = -math.inf
    weights = values.softmax(-1)
    weights[weights.cumsum(-1) - weights >= top_p] = 0  # what is before it suffices
    return places.gather(-1, torch.multinomial(weights, 1, generator=generator))[:, 0]
