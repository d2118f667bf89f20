"""Modules made at random: every pass of a port keeps their meaning."""

import pytest
import torch

from tests.support.port_modules import K, M, N, Source
from tests.support.port_oracle import assert_every_pass_keeps_the_meaning

MODULES, BATCHES = 400, 4


def module_of(seed):
    """A module made at random, what it is fed, and its source."""
    source = Source(seed).text()
    space = {"__name__": f"module_{seed}"}
    exec(compile(source, f"module_{seed}.py", "exec"), space)
    torch.manual_seed(seed)
    return space["Module"](), {"a": torch.randn(N, M, K), "b": torch.randn(N, M, K)}, source


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_modules_keep_their_meaning(batch):
    for seed in range(batch, MODULES, BATCHES):
        module, inputs, source = module_of(seed)
        assert_every_pass_keeps_the_meaning(module, inputs, f"seed {seed}\n{source}")
