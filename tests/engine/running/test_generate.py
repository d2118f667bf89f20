"""Generated tokens: what is chosen of given logits, where a text ends, and what cannot be generated."""

import math
import re

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L
from trtdsl.core.errors import ExecutionError

SHARES = torch.tensor([0.1, 0.5, 0.3, 0.06, 0.04])


def counting(**dims):
    """Whose next tokens have the probabilities SHARES, counted on from the sum of all tokens so far."""

    @td.network(
        inputs={
            "tokens": td.Input(("N", "S"), "int64", sample=(0, 5)),
            "starts": td.Input(("N",), "int32", sample=(0, 5)),
            "lengths": td.Input(("N",), "int32", sample=(1, 2)),
            "sums": td.State(("N", 1, 9, 1), "float32"),
        }
    )
    def counting(tokens, starts, lengths, sums):
        counted = F.arange(tokens.shape[1]) < lengths.to(torch.int64).unsqueeze(1)
        now = sums.sum((1, 2, 3)) + F.where(counted, tokens, 0).sum(1).to(torch.float32)
        slot = (F.arange(9) == starts.to(torch.int64).unsqueeze(1)).to(torch.float32).reshape(-1, 1, 9, 1)
        rows = torch.stack([SHARES.roll(shift) for shift in range(5)]).log()
        return {
            "next_sums": sums + slot * (now - sums.sum((1, 2, 3))).reshape(-1, 1, 1, 1),
            "logits": L.gather(tokens.network.constant(rows), now.to(torch.int64) % 5, 0),
        }

    return counting.define(dims=dims)


@pytest.fixture(scope="module")
def generator():
    return td.Generator(counting(N=(1, 2, 4000), S=(1, 2, 8)))


def test_greedy_tokens_of_ragged_prompts(generator):
    """The likeliest is 1 more than the sum, modulo 5: 1 + 2 gives 4, then 7 gives 3, then 10 gives 1."""
    assert generator([[1, 2], [4]], max_tokens=3) == [[4, 3, 1], [0, 0, 0]]
    assert generator([[1, 2]], max_tokens=3, temperature=0.5, top_k=1) == [[4, 3, 1]]
    assert generator([[1, 2]], max_tokens=3, temperature=2.0, top_p=0.1) == [[4, 3, 1]]
    assert generator([[1, 2]], max_tokens=3, temperature=1e-320) == [[4, 3, 1]]
    assert generator([[1, 2], [4]], max_tokens=3, stop=[3]) == [[4, 3], [0, 0, 0]]
    assert list(generator.stream([[1, 2], [4]], max_tokens=3, stop=[3]))[-1] == [None, 0]


@pytest.mark.parametrize(
    ("how", "allowed"),
    [({}, [0, 1, 2, 3, 4]), ({"top_k": 2}, [1, 2]), ({"top_p": 0.6}, [1, 2]), ({"top_p": 0.85}, [0, 1, 2])],
)
def test_drawn_tokens_have_the_probabilities_that_remain(generator, how, allowed):
    drawn = generator([[0]] * 4000, max_tokens=1, temperature=1.0, **how)
    shares = torch.bincount(torch.tensor(drawn)[:, 0], minlength=5) / 4000
    wanted = torch.zeros(5)
    wanted[allowed] = SHARES[allowed] / SHARES[allowed].sum()
    assert torch.allclose(shares, wanted, atol=0.04)
    assert drawn == generator([[0]] * 4000, max_tokens=1, temperature=1.0, **how)
    assert drawn != generator([[0]] * 4000, max_tokens=1, temperature=1.0, seed=1, **how)


def test_small_seeds_draw_as_others_do():
    """Chi-squared of 60 seeds for 12 distributions of 23 words: 22 each, give or take 2 for their mean."""
    rows = torch.randn(12, 23, generator=torch.Generator().manual_seed(0))

    @td.network(
        inputs={
            "tokens": td.Input((64, 1), "int64", sample=(0, 12)),
            **dict.fromkeys(("starts", "lengths"), td.Input((64,), "int32", sample=(0, 5))),
            "cache": td.State((64, 1, 9, 1)),
        }
    )
    def drawing(tokens, starts, lengths, cache):
        held = cache + (starts + lengths).to(torch.float32).reshape(-1, 1, 1, 1)
        return {"logits": L.gather(tokens.network.constant(rows), tokens.squeeze(1), 0), "next_cache": held}

    generator, found = td.Generator(drawing.define()), []
    for row, shares in enumerate(rows.softmax(-1)):
        drawn = [generator([[row]] * 64, max_tokens=1, temperature=1.0, seed=seed) for seed in range(60)]
        wanted = 60 * 64 * shares
        counts = torch.bincount(torch.tensor(drawn).flatten(), minlength=23)
        found.append(float(((counts - wanted) ** 2 / wanted).sum()))
    assert sum(found) / len(found) < 22 + 4 * 2


@pytest.mark.parametrize("most", [1, 2, 3])
def test_prompts_longer_than_a_step_are_fed_in_parts(most, generator):
    prompts = [[1, 2, 3, 4, 1], [2], [3, 4, 4]]
    found = td.Generator(counting(N=(1, 2, 4), S=(1, 1, most)))(prompts, max_tokens=3)
    assert found == generator(prompts, max_tokens=3)


def seen(sizes, steps=(1, 1, 2), **how):
    """Whose next token is how many tokens there were, and their sum, modulo 7, by a state of so many sizes."""

    @td.network(
        inputs={
            "tokens": td.Input(("N", "S"), "int64", sample=(0, 7)),
            **dict.fromkeys(("starts", "lengths"), td.Input(("N",), "int32", sample=(0, 3))),
            "total": td.State(("N", *sizes), **how),
        }
    )
    def seen(tokens, starts, lengths, total):
        counts = F.arange(tokens.shape[1]) < lengths.to(torch.int64).unsqueeze(1)
        new = F.where(counts, tokens + 1, 0).sum(1) + 0 * starts.to(torch.int64)
        total = total + new.to(torch.float32).reshape(-1, *sizes)
        return {"logits": F.one_hot(total.reshape(-1).to(torch.int64) % 7, 7), "next_total": total}

    return seen.define(dims={"N": (1, 2, 4), "S": steps})


def test_a_prompt_that_has_ended_leaves_a_state_that_has_no_slots():
    """Its second and third part have no token: (3 + 1) is 4, and 4 + 4 + 1 is 2; of the other 10 is 3, and 14 is 0."""
    assert td.Generator(seen((1,)))([[1, 1, 1, 1, 1], [3]], max_tokens=2) == [[3, 0], [4, 2]]


@pytest.mark.parametrize(
    ("sizes", "how", "capacity"),
    [
        ((1, 1), {}, 1),
        ((1, 1), {"slots": None}, math.inf),
        ((1,), {}, math.inf),
        ((1,), {"slots": 1}, 1),
        ((1, 1, 1), {"slots": -1}, 1),
    ],
)
def test_a_state_says_whether_it_has_a_slot_for_each_token(sizes, how, capacity):
    """Those of a recurrent network have none, of however many dimensions."""
    generator = td.Generator(seen(sizes, **how))
    assert generator.capacity == capacity
    if capacity == math.inf:
        assert generator([[1, 1, 1, 1, 1], [3]], max_tokens=2) == [[3, 0], [4, 2]]


@pytest.mark.parametrize("slots", [0, -3, 3, "1"])
def test_slots_that_a_state_does_not_have(slots):
    with pytest.raises(td.UsageError, match="slots"):
        td.State(("N", 4, 2), slots=slots)


@pytest.mark.parametrize("steps", [2, (2, 2, 4)])
def test_a_network_of_several_tokens_a_step_alone(steps):
    with pytest.raises(td.UsageError, match="'seen' takes 2 tokens a step or more, and what it generates is fed one"):
        td.Generator(seen((1,), steps))


def test_a_range_that_has_no_prompts():
    with pytest.raises(td.UsageError, match="takes 0 prompts at a time, not 1"):
        td.Generator(counting(N=0, S=(1, 2, 8)))([[1]])


def test_texts_by_a_tokenizer(generator):
    class Digits:
        def encode(self, text):
            return [int(each) for each in text]

        def decode(self, tokens):
            return "".join(map(str, tokens))

    assert td.Generator(counting(N=1, S=(1, 2, 8)), Digits())(["12"], max_tokens=3) == ["431"]


def test_a_text_goes_on_with_the_space_before_its_first_word():
    """Which decoders of sentencepiece's kind, as Llama's and Mistral's, take from what they are given."""

    class Words:
        def encode(self, text):
            return ["abcde".index(word) for word in text.split()]

        def decode(self, tokens):
            return "".join(" " + "abcde"[token] for token in tokens)[1:]

    generate = td.Generator(counting(N=(1, 2, 4), S=(1, 2, 8)), Words())
    assert generate(["b c", "e"], max_tokens=3) == [" e d b", " a a a"]
    assert list(generate.stream_text("b c", max_tokens=3)) == [" e", " d", " b"]
    assert generate(iter([[1, 2]]), max_tokens=1) == [" e"]


@pytest.mark.parametrize(
    ("prompts", "how", "message"),
    [
        ([[1] * 7], {"max_tokens": 4}, "a prompt of 7 tokens and max_tokens=4 do not fit into a cache of 9"),
        ([], {}, "the network 'counting' takes 1 to 4000 prompts at a time, not 0"),
        ([[1]] * 4001, {}, "takes 1 to 4000 prompts at a time, not 4001"),
        ("12", {}, "prompts are a list of prompts, not '12'"),
        (5, {}, "prompts are a list of prompts, not 5"),
        (None, {}, "prompts are a list of prompts, not None"),
        *(
            ([prompt], {}, f"a prompt is a list of one token or more, or a text where there is a tokenizer, not {said}")
            for prompt, said in [
                ([], "[]"), ("12", "'12'"), (1, "1"), ([1.5], "[1.5]"), ([True], "[True]"), (["1"], "['1']"),
                ({1: 2}, "{1: 2}"), (b"12", "b'12'"), (torch.ones(2), "tensor([1., 1.])"),
            ]
        ),
        ([[1, 5]], {}, "there is no token 5: the network knows 5"),
        ([[-1]], {}, "there is no token -1: the network knows 5"),
        ([[1]], {"max_tokens": 0}, "max_tokens=0: expected int >= 1"),
        ([[1]], {"max_tokens": "3"}, "max_tokens='3': expected int, got str"),
        ([[1]], {"max_tokens": None}, "max_tokens=None: expected int, got None"),
        ([[1]], {"top_k": 0}, "top_k=0: expected int >= 1"),
        ([[1]], {"top_k": 1.5}, "top_k=1.5: expected int | None, got float"),
        ([[1]], {"top_p": 0.0}, "top_p=0.0: expected float > 0"),
        ([[1]], {"top_p": 1.1}, "top_p=1.1: expected float <= 1"),
        ([[1]], {"temperature": "1"}, "temperature='1': expected float, got str"),
        ([[1]], {"temperature": -1}, "temperature=-1: expected float >= 0"),
        ([[1]], {"temperature": float("nan")}, "temperature=nan: expected float >= 0"),
        ([[1]], {"temperature": float("inf")}, "temperature=inf: expected float <= 1e+300"),
        ([[1]], {"stop": 3}, "stop=3: expected list, got int"),
        ([[1]], {"stop": "3"}, "stop='3': expected list, got str"),
        ([[1]], {"stop": ["3"]}, "stop=['3']: [0]: expected int, got str"),
        ([[1]], {"seed": 2**64}, "seed=18446744073709551616: expected int <= 9223372036854775807"),
        ([[1]], {"seed": "a"}, "seed='a': expected int, got str"),
    ],
)  # fmt: skip
def test_what_cannot_be_generated_is_said_before_anything_runs(generator, prompts, how, message):
    with pytest.raises(td.UsageError, match=re.escape(message)) as caught:
        generator.stream(prompts, **{"max_tokens": 1, **how})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ([5, 1], "there is no token 5: the network knows 5"),
        ([1, -1], "there is no token -1: the network knows 5"),
        *(
            (sent, f"what is sent is a token for each of 2 prompts, not {sent!r}")
            for sent in ([], [1], [1, 2, 3], 7, "a", ["a", 1], [1.5, 1])
        ),
    ],
)
def test_what_is_sent_is_a_token_for_each_prompt(generator, sent, message):
    steps = generator.stream([[1, 2], [4]], max_tokens=3)
    next(steps)
    with pytest.raises(td.UsageError, match=re.escape(message)):
        steps.send(sent)


def test_what_is_sent_may_leave_a_token_as_it_is(generator):
    plain, steps = (generator.stream([[1, 2], [4]], max_tokens=3, stop=()) for _ in range(2))
    first, second = next(plain), next(plain)
    assert next(steps) == first
    assert steps.send([None, (first[1] + 1) % 5])[0] == second[0]


def test_arguments_of_numpy_and_torch(generator):
    """Among them a stop of torch's, whose elements equal no int in a set."""
    how = {"max_tokens": np.int64(3), "temperature": torch.tensor(0.0), "stop": torch.tensor([3])}
    for prompts in (
        [range(1, 3)],
        [np.array([1, 2])],
        [[np.int64(1), torch.tensor(2)]],
        torch.tensor([[1, 2]]),
        (each for each in [(1, 2)]),
    ):
        assert generator(prompts, **how) == [[4, 3]]


def test_what_is_no_source_or_tokenizer():
    with pytest.raises(td.UsageError, match="a network is a NetworkSpec, a td.Network or the name of its file, not 5"):
        td.Generator(5)
    with pytest.raises(td.UsageError, match="a tokenizer has encode and decode, or is the name of a folder, not 5"):
        td.Generator(counting(N=1, S=(1, 2, 8)), 5)


def test_logits_that_are_no_numbers():
    """Of token 0 they are NaN, of 1 minus infinity."""

    @td.network(
        inputs={
            "tokens": td.Input((1, "S"), "int64", sample=(0, 5)),
            **dict.fromkeys(("starts", "lengths"), td.Input((1,), "int32", sample=(0, 5))),
            "cache": td.State((1, 1, 9, 1)),
        }
    )
    def broken(tokens, starts, lengths, cache):
        logits = (tokens[:, :1].to(torch.float32) - 1).log()
        held = cache + (starts + lengths).to(torch.float32).reshape(1, 1, 1, 1)
        return {"logits": F.cat([logits] * 5, 1), "next_cache": held}

    generator = td.Generator(broken.define(dims={"S": (1, 2, 4)}))
    assert generator([[2]], max_tokens=1) == generator([[1]], max_tokens=1) == [[0]]
    for token, temperature in ((0, 0.0), (0, 1.0), (1, 1.0)):
        with pytest.raises(ExecutionError, match="the logits are no finite numbers"):
            generator([[token]], max_tokens=1, temperature=temperature)


def test_a_network_without_a_cache_generates_nothing():
    net = td.Network("plain")
    net.output(F.relu(net.input("x", (3,))), "y")
    with pytest.raises(
        td.UsageError, match="'plain' generates nothing: it lacks tokens, starts, lengths, logits, a td.State"
    ):
        td.Generator(net)
