"""Compositions of functions: random networks get what torch gets from the same source."""

import pytest
import torch
from support import layer_types
from support.random_networks import RandomNetwork, defined, differences, program_differences

import trtdsl as td

pytestmark = pytest.mark.long

SOME, MORE = 600, 12000


def compare(start, end):
    """Networks of these numbers; a failure shows the source."""
    for seed in range(start, end):
        case = RandomNetwork(seed)
        found = differences(case, defined(case))
        assert not found, "\n".join([f"network {seed}, {case.inputs}:", case.text(), *found])


@pytest.mark.parametrize("start", range(0, SOME, 20))
def test_random_networks_are_torchs(start):
    compare(start, start + 20)


@pytest.mark.heavy
@pytest.mark.parametrize("start", range(SOME, MORE, 300))
def test_more_random_networks_are_torchs(start):
    compare(start, start + 300)


def compare_programs(start, end):
    cases = [RandomNetwork(seed) for seed in range(start, end)]
    outcomes = program_differences(cases)
    wrong = [case for case in cases if isinstance(outcomes[case.seed], list) and outcomes[case.seed]]
    assert not wrong, "\n".join(f"network {c.seed}, {c.inputs}:\n{c.text()}\n{outcomes[c.seed]}" for c in wrong)
    unknown = [outcome for outcome in outcomes.values() if isinstance(outcome, str)]
    assert len(unknown) <= len(cases) // 4, unknown


@pytest.mark.parametrize(("start", "end"), [(0, 16), (22594, 22595)])  # the latter: docs/traps/builder-outputs.md
def test_the_programs_of_random_networks_give_what_torch_gives(start, end):
    compare_programs(start, end)


@pytest.mark.heavy
@pytest.mark.parametrize("start", range(SOME, MORE, 24))
def test_more_programs_of_random_networks_give_what_torch_gives(start):
    compare_programs(start, start + 24)


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 7, 11, 380, 431, 3271, 3606])
def test_the_builder_takes_random_networks(seed, tmp_path):
    case = RandomNetwork(seed)
    engine = tmp_path / "random.engine"
    td.build(defined(case, ranged=True), engine, check=False)
    sizes = {"N": 3, "H": 5} if case.dynamic else None
    assert td.program(engine, dims=sizes).launches


def test_the_networks_hold_what_is_deferred():
    """Among the first two hundred: values used twice, early outputs, nested loops and branches, half precision, dynamic
    sizes."""
    cases = [RandomNetwork(seed) for seed in range(200)]
    text = "\n".join(case.text() for case in cases)
    wanted = ["conv2d", "conv_transpose2d", "linear", "batch_norm", "loop", "branch", "einsum", "max_pool2d", "prelu"]
    wanted += ["multi_head_attention_forward", "scaled_dot_product_attention", "instance_norm", "interpolate"]
    assert not [name for name in wanted if text.count(f"F.{name}(") < 3]
    assert sum(case.dynamic for case in cases) > 30
    for dtype, name in ((torch.float16, "float16"), (torch.bfloat16, "bfloat16")):
        assert sum(case.dtype == dtype for case in cases) > 10 < sum(case.precision == name for case in cases) + 1
    assert text.count("lambda hh:") > 10 < text.count("F.running(") + text.count("F.until(")
    assert sum(bool(case.early) for case in cases) > 100
    kinds = {kind for case in cases[:50] for kind in layer_types(defined(case))}
    assert {"CONVOLUTION", "DECONVOLUTION", "MATRIX_MULTIPLY", "SCALE", "LOOP_OUTPUT", "CONDITION"} <= kinds
