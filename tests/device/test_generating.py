"""Text by an engine, whose caches stay on the GPU: the tokens of the interpreted network."""

import json
import math

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L


def following(*, state=td.State, prompt=(1, 2, 3)):
    """Whose next token is the sum of all that it has seen, modulo 11, by a cache of seven slots."""
    n, s = td.Dim("N", min=1, opt=2, max=3), td.Dim("S", min=1, opt=2, max=3)

    @td.network(
        inputs={
            "tokens": td.Input((n, s), "int64", sample=(0, 11)),
            "starts": td.Input((n,), "int32", sample=(0, 4)),
            "lengths": td.Input((n,), "int32", sample=(1, 2)),
            "cache": state((n, 1, 7, 1)),
        },
        profiles=[td.Profile(S=1), td.Profile(S=prompt)],
    )
    def following(tokens, starts, lengths, cache):
        rows = tokens.to(torch.float32).unsqueeze(1).unsqueeze(-1)
        new = L.kv_cache_update(cache, rows, starts)
        end = (starts + lengths).to(torch.int64).unsqueeze(1)
        total = F.where(F.arange(7) < end, new.flatten(1), 0.0).sum(1)
        return {"next_cache": new, "logits": F.one_hot(total.to(torch.int64) % 11, 11)}

    return following


@pytest.fixture
def engine(machine, tmp_path):
    td.build(following(), tmp_path / "following.engine", check=False)
    return td.load_engine(tmp_path / "following.engine")


def test_an_engine_generates_what_its_network_does(engine):
    """1 + 2 gives 3, then 6, then 12 % 11; a prompt of five tokens is fed in two parts, as three are the most."""
    prompts = [[1, 2], [3, 1, 4, 1, 5], [10]]
    wanted = [[3, 6, 1], [3, 6, 1], [10, 9, 7]]
    assert td.Generator(following().define())(prompts, max_tokens=3) == wanted
    assert td.Generator(engine)(prompts, max_tokens=3) == wanted
    assert td.Generator(engine)(prompts[:1], max_tokens=3, stop=[6]) == [[3, 6]]


def test_a_prompt_is_fed_in_steps_that_a_profile_takes(machine, tmp_path):
    """Steps of one token and of three alone: a prompt of five is one of three and two of one."""
    td.build(following(prompt=3), tmp_path / "a.engine", check=False)
    generate = td.Generator(td.load_engine(tmp_path / "a.engine"))
    for prompts in ([[1, 2], [3, 1, 4, 1, 5], [10]], [[1, 2]], [[4, 4, 4]]):
        assert generate(prompts, max_tokens=2) == td.Generator(following().define())(prompts, max_tokens=2)


def test_a_step_copies_no_cache(machine, engine):
    steps = td.Generator(engine).stream([[1]], max_tokens=3)
    next(steps)
    next(steps)
    before = machine.counts["cudaMemcpyAsync"]
    next(steps)
    assert machine.counts["cudaMemcpyAsync"] - before == 4  # tokens, starts, lengths; logits


def test_what_an_engine_does_not_generate(machine, engine, tmp_path):
    with pytest.raises(td.UsageError, match="do not fit into a cache of 7"):
        td.Generator(engine)([[1] * 6], max_tokens=3)
    with pytest.raises(td.UsageError, match="takes 1 to 3 prompts at a time, not 4"):
        td.Generator(engine)([[1]] * 4, max_tokens=3)
    td.build(following(state=td.Input), tmp_path / "plain.engine", check=False)
    with pytest.raises(td.UsageError, match="'following' generates nothing: it lacks a td.State"):
        td.Generator(td.load_engine(tmp_path / "plain.engine"))
    bare = td.load_engine(tmp_path / "following.engine", manifest=False)
    with pytest.raises(td.UsageError, match="an engine generates with its manifest"):
        td.Generator(bare)


def test_an_engine_whose_state_has_no_slots(machine, tmp_path):
    """Its manifest says so; an earlier one says nothing, and no more is filled than its last dimension but one."""

    def without(shape):
        return td.State(shape, slots=None)

    manifest = td.build(following(state=without), tmp_path / "a.engine", check=False).manifest
    assert manifest["slots"] == {} and td.Generator(td.load_engine(tmp_path / "a.engine")).capacity == math.inf
    path = tmp_path / "a.engine.json"
    for entry, capacity in (({"slots": {"cache": 2}}, 7), ({}, 7)):
        facts = {name: value for name, value in json.loads(path.read_text()).items() if name != "slots"}
        path.write_text(json.dumps(facts | entry))
        assert td.Generator(td.load_engine(tmp_path / "a.engine")).capacity == capacity
    path.write_text(json.dumps(facts | {"slots": {"cache": 4}}))
    with pytest.raises(td.CorruptFileError, match="slots: 'cache' must be a state, and 4 one of its dimensions"):
        td.load_engine(tmp_path / "a.engine")
