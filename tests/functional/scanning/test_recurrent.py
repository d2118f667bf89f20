"""Recurrent layers beyond the records: sequences of several lengths as torch packs them, and half precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_close, evaluate, layer_types
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import trtdsl as td
import trtdsl.functional as F

KINDS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn_tanh": torch.nn.RNN}


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.booleans(),
    st.integers(1, 2),
)
def test_lengths_are_as_torchs_packed_sequences(name, lengths, both, layers):
    torch.manual_seed(0)
    module = KINDS[name](3, 4, layers, bidirectional=both)
    steps, batch = max(lengths), len(lengths)
    x, ends = torch.randn(steps, batch, 3), torch.tensor(lengths)
    packed = pack_padded_sequence(x, ends, enforce_sorted=False)
    with torch.no_grad():
        expected, state = module(packed)
    expected, _ = pad_packed_sequence(expected, total_length=steps)
    zeros = torch.zeros(layers * (1 + both), batch, 4)
    first = (zeros, zeros) if name == "lstm" else zeros
    params = [weight.detach() for weight in module._flat_weights]

    def network(x, ends):
        return getattr(F, name)(x, first, params, True, layers, 0.0, False, both, False, lengths=ends)

    got = evaluate(network, x, ends, dims=[("T", "N", 3) if batch > 1 else None, ("N",) if batch > 1 else None])
    assert_close(got[0], expected)
    for ours, theirs in zip(got[1:], state if name == "lstm" else (state,), strict=True):
        assert_close(ours, theirs)


def test_half_precision_keeps_the_cell_in_float32():
    """A cell that grows by 1e-3 a step from 8: float16 has no such steps there."""
    weights = [torch.zeros(4, 1), torch.zeros(4, 1), torch.tensor([-6.9, 30.0, 30.0, 30.0]), torch.zeros(4)]
    x = torch.zeros(200, 1, 1)
    h, c = torch.zeros(1, 1, 1), torch.full((1, 1, 1), 8.0)
    expected = torch.lstm(x, (h, c), weights, True, 1, 0.0, False, False, False)[2]
    half = [weight.half() for weight in weights]
    got = evaluate(lambda x: F.lstm(x, (h.half(), c.half()), half, True, 1, 0.0, False, False, False), x.half())[2]
    assert expected.item() > 8.15
    assert abs(got.item() - expected.item()) < 0.01


def test_the_input_product_is_outside_of_the_loop():
    net = td.Network()
    x, h = net.input("x", ("T", "N", 3)), net.input("h", (1, "N", 4))
    weights = [torch.ones(12, 3), torch.ones(12, 4), torch.ones(12), torch.ones(12)]
    with net.current():
        net.output(F.gru(x, h, weights, True, 1, 0.0, False, False, False)[0], "y")
    types = layer_types(net)
    assert types.index("MATRIX_MULTIPLY") < types.index("ITERATOR")
    assert types.count("MATRIX_MULTIPLY") == 2


@pytest.mark.parametrize("name", sorted(KINDS))
def test_two_directions_are_one_loop_of_two_launches_a_step(name):
    """One product and one kernel for the gates: as many launches as one direction takes."""
    steps, launches = 21, {}
    for both in (False, True):
        module = KINDS[name](64, 64, bidirectional=both).eval()
        net = td.Network()
        x, zeros = net.input("x", (steps, 4, 64)), torch.zeros(1 + both, 4, 64)
        params = [weight.detach() for weight in module._flat_weights]
        with net.current():
            first = (zeros, zeros) if name == "lstm" else zeros
            net.output(getattr(F, name)(x, first, params, True, 1, 0.0, False, both, False)[0], "y")
        assert layer_types(net).count("TRIP_LIMIT") == 1
        launches[both] = td.program(net).launch_count
        given = torch.randn(steps, 4, 64)
        with torch.no_grad():
            assert_close(td.interpret(net, {"x": given})["y"], module(given)[0])
    assert 2 * steps <= launches[False] <= 2 * steps + 9
    assert launches[True] <= launches[False] + 4


@pytest.mark.parametrize("count", [3, 5])
def test_a_wrong_number_of_weights_is_refused(count):
    net = td.Network()
    x, h = net.input("x", ("T", "N", 3)), net.input("h", (1, "N", 4))
    with pytest.raises(td.ShapeError, match=rf"gru of 1 layer in 1 direction takes 4 weights, not {count}") as caught:
        F.gru(x, h, [net.constant(torch.ones(12, 3))] * count, True, 1, 0.0, False, False, False)
    assert "as [w.weight_ih_l0, w.weight_hh_l0, w.bias_ih_l0, w.bias_hh_l0]" in str(caught.value)
