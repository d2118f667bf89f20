"""Modules made at random: every pass of a port keeps their meaning."""

import pytest
import torch

import trtdsl as td
from tests.support.port_modules import K, M, N, Source
from tests.support.port_oracle import assert_every_pass_keeps_the_meaning

pytestmark = pytest.mark.long

MODULES, BATCHES = 400, 4
FAKE = 40  # that are traced as users' are; the others are traced with real tensors, which takes half the time


def with_values(inputs):
    """Real tensors in the place of fake ones: what is judged here are the passes after the trace."""
    return {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype, *_) in inputs.items()}


def cheaper(monkeypatch):
    """A trace with real tensors, made once."""
    monkeypatch.setattr("trtdsl.porting.tracing.trace.without_values", with_values)
    monkeypatch.setattr("trtdsl.porting.tracing.agree._Traces._check_steady", lambda *_: None)


def module_of(seed):
    """A module made at random, what it is fed, and its source."""
    made = Source(seed)
    source = made.text()
    space = {"__name__": f"module_{seed}"}
    exec(compile(source, f"module_{seed}.py", "exec"), space)
    torch.manual_seed(seed)
    module, length = space["Module"](), 7 if made.dynamic else M
    inputs = {"a": torch.randn(N, length, K), "b": torch.randn(N, length, K)}
    dynamic = [dict.fromkeys(inputs, f"{N},M,{K}"), {"M": (4, 5, 7)}] if made.dynamic else [None, None]
    return module, inputs, source, *dynamic


def judged(seeds):
    """How many of the modules are refused; fails where a pass changes the meaning of one."""
    refused = 0
    for seed in seeds:
        module, inputs, source, *dynamic = module_of(seed)
        try:
            assert_every_pass_keeps_the_meaning(module, inputs, f"seed {seed}\n{source}", *dynamic)
        except td.UnsupportedError:  # a view that is written to, and its base read afterwards
            refused += 1
    return refused


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_modules_keep_their_meaning(monkeypatch, batch):
    seeds = range(batch, MODULES, BATCHES)
    refused = judged(seeds[: FAKE // BATCHES])
    cheaper(monkeypatch)
    assert refused + judged(seeds[FAKE // BATCHES :]) < len(seeds) / 10


@pytest.mark.heavy
@pytest.mark.parametrize("batch", range(10))
def test_many_more_random_modules(monkeypatch, batch):
    cheaper(monkeypatch)
    judged(range(MODULES + batch, MODULES + 20_000, 10))
