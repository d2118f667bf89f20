"""Recurrent networks: one step as torch's cells take it, which `td.scan` and Python's own loops repeat; and all steps
as nn.LSTM, nn.GRU and nn.RNN run them, with layers, directions, projections and lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...core.errors import DefinitionError, ShapeError, UnsupportedError, several
from ..common import L, Tensor, family, member, operation, require_rank, torch
from ..operands import along
from ..pointwise.activation import relu, sigmoid, tanh
from ..products.linalg import linear
from ..shaping.arrange import flip
from ..shaping.create import counted, filled
from ..shaping.join import cat, chunk, stack, unbind

State = tuple[Tensor, ...]
Step = Callable[[Tensor, Tensor, State], State]
"""What a cell does: the gates' part of the input, that of the hidden state, and the state give the next state."""


class Weights(NamedTuple):
    """The parameters of one layer in one direction, in torch's order."""

    w_ih: Tensor
    w_hh: Tensor
    b_ih: Tensor | None = None
    b_hh: Tensor | None = None
    w_hr: Tensor | None = None


def _lstm_step(inner: Tensor, hidden: Tensor, state: State) -> State:
    """The next h and c from the gates' part of the input (…, N, 4 * hidden), that of h, and h and c."""
    write, forget, new, out = chunk(inner + hidden, 4, -1)
    cell = sigmoid(forget) * state[1] + sigmoid(write) * tanh(new)
    return sigmoid(out) * tanh(cell), cell


def _gru_step(inner: Tensor, hidden: Tensor, state: State) -> State:
    """The next h from the gates' part of the input (…, N, 3 * hidden), that of h, and h."""
    reset, update, new = chunk(inner, 3, -1)
    reset_h, update_h, new_h = chunk(hidden, 3, -1)
    reset, update = sigmoid(reset + reset_h), sigmoid(update + update_h)
    new = tanh(new + reset * new_h)
    return (new + update * (state[0] - new),)


def _rnn_step(activation: Callable[[Tensor], Tensor]) -> Step:
    """The next h from the input's part (…, N, hidden) and that of h."""
    return lambda inner, hidden, state: (activation(inner + hidden),)


def _cell(
    step: Step,
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    return step(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), (hx,))[0]


gru_cell, rnn_tanh_cell, rnn_relu_cell = family(
    _cell,
    "The next state (N, hidden) of {}.",
    gru_cell=(_gru_step, "a gated recurrent unit, as torch.nn.GRUCell has it: two products and the gates"),
    rnn_tanh_cell=(_rnn_step(tanh), "torch.nn.RNNCell: two products, their sum, and its tanh"),
    rnn_relu_cell=(_rnn_step(relu), "torch.nn.RNNCell: two products, their sum, and its relu"),
)


@operation
def lstm_cell(
    input: Tensor,
    hx: tuple[Tensor, Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The next state and cell (N, hidden) of a torch.nn.LSTMCell: two products and the gates.

    >>> x, h, c = net.input("x", ("N", 4)), net.input("h", ("N", 2)), net.input("c", ("N", 2))
    >>> [y.shape for y in F.lstm_cell(x, (h, c), net.constant(torch.ones(8, 4)), net.constant(torch.ones(8, 2)))]
    [(N, 2), (N, 2)]
    """
    h, c = _lstm_step(linear(input, w_ih, b_ih), linear(hx[0], w_hh, b_hh), tuple(hx))
    return h, c


def _recurrent(
    kind: tuple[str, Step, int],
    input: Tensor,
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    lengths: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """A recurrent network: its name in messages, its step, and of how many tensors its state is."""
    name, step, states = kind
    if train and dropout:
        raise UnsupportedError(f"dropout={dropout} in training is random: an engine is for inference")
    first = (hx,) if isinstance(hx, Tensor) else tuple(hx)
    if len(first) != states:
        raise DefinitionError(f"the first state of {name} is {several(states, 'tensor')}, not {len(first)}")
    projected = first[0].shape[-1] != first[-1].shape[-1]
    weights = _by_layer(name, params, has_biases, num_layers, 1 + bidirectional, projected)
    output, ends = _run(input, first, weights, step, batch_first, lengths)
    return output, *ends


@member(_recurrent, ("lstm", _lstm_step, 2))
def lstm():
    """A long short-term memory (torch.nn.LSTM): all hidden states, the last ones, and the last cells.

    ``input`` is (T, N, features), or (N, T, features) with ``batch_first``; ``hx`` the first states h and c, each
    (layers * directions, N, hidden), h of the projected size where there are projections. ``params`` are the flat
    weights as nn.LSTM has them: for each layer and direction w_ih, w_hh, b_ih, b_hh (with ``has_biases``), and w_hr
    where c is wider than h. With ``lengths`` (N,) of int64 the sequences end there, as packed ones do: states stay, and
    results are 0 behind the end.

    Per layer and direction an IMatrixMultiplyLayer of the whole input, then per layer one ILoop with the recurrent
    product, which takes both directions at once. In half precision states and gates are float32, products half.

    Raises UnsupportedError for dropout in training, ShapeError for a wrong number of weights.

    >>> x, h, c = net.input("x", ("T", "N", 4)), net.input("h", (1, "N", 2)), net.input("c", (1, "N", 2))
    >>> weights = [net.constant(torch.ones(8, 4)), net.constant(torch.ones(8, 2))]
    >>> [y.shape for y in F.lstm(x, (h, c), weights, False, 1, 0.0, False, False, False)]
    [(T, N, 2), (1, N, 2), (1, N, 2)]
    """


gru, rnn_tanh, rnn_relu = family(
    _recurrent,
    "{}: all hidden states and the last ones, as :func:`lstm`.",
    gru=(("gru", _gru_step, 1), "Gated recurrent units (torch.nn.GRU)"),
    rnn_tanh=(("rnn_tanh", _rnn_step(tanh), 1), "A plain recurrent network (torch.nn.RNN) with tanh"),
    rnn_relu=(("rnn_relu", _rnn_step(relu), 1), "A plain recurrent network (torch.nn.RNN) with relu"),
)


def _by_layer(
    name: str, params: Sequence[Tensor], has_biases: bool, layers: int, directions: int, projected: bool
) -> list[list[Weights]]:
    """The flat weights by layer and direction."""
    each = 2 + 2 * has_biases + projected
    wanted = each * layers * directions
    if len(params) != wanted:
        what = f"{name} of {several(layers, 'layer')} in {several(directions, 'direction')}"
        names = ["weight_ih", "weight_hh", *["bias_ih", "bias_hh"] * has_biases, *["weight_hr"] * projected]
        first = ", ".join(f"w.{each}_l0" for each in names)
        raise ShapeError(f"{what} takes {wanted} weights, not {len(params)}: params is a list, as [{first}]")
    parts = [[*params[start : start + each]] for start in range(0, wanted, each)]
    made = [Weights(*part[: each - projected], w_hr=part[-1] if projected else None) for part in parts]
    return [made[start : start + directions] for start in range(0, len(made), directions)]


def _run(
    input: Tensor, first: State, weights: list[list[Weights]], step: Step, batch_first: bool, lengths: Tensor | None
) -> tuple[Tensor, State]:
    """All layers and directions, and the last state of each."""
    require_rank(input, "a recurrent network takes (T, N, features)", 3)
    directions = len(weights[0])
    for state in first:
        if state.ndim != 3 or state.shape[0] != len(weights) * directions:
            raise ShapeError(f"the first state has {len(weights) * directions} entries for layers and directions")
    x = L.shuffle(input, [1, 0, 2]) if batch_first else input
    inside = None
    if lengths is not None:
        if lengths.ndim != 1 or lengths.dtype not in (torch.int32, torch.int64):
            raise DefinitionError("lengths are a vector of int32 or int64")
        before = L.unsqueeze(counted(x.network, x.shape[0]), [1]) < L.unsqueeze(lengths, [0])
        inside = L.unsqueeze(before, [2])  # which steps (T, N, 1) lie before the end of their sequence
    last: list[State] = []
    for layer, own in enumerate(weights):
        begin = tuple(along(state, 0, layer * directions, directions) for state in first)
        x, ended = _layer(x, begin, own, step, inside, f"layer {layer}{' forward and backward' * (directions > 1)}")
        last.append(ended)
    ends = tuple(cat(states) for states in zip(*last, strict=True))
    return (L.shuffle(x, [1, 0, 2]) if batch_first else x), ends


def _layer(
    x: Tensor, first: State, directions: Sequence[Weights], step: Step, inside: Tensor | None, name: str
) -> tuple[Tensor, State]:
    """One layer: results (T, N, directions * hidden) and the last states (directions, N, hidden), typed as ``x``.

    Two directions are one loop over tensors with a dimension for them, the second of which runs backwards: one product
    and one kernel for the gates in every step, instead of two.
    """
    dtype, wide = x.dtype, torch.float32
    both = len(directions) > 1
    given = _as_run([linear(x, weights.w_ih, weights.b_ih) for weights in directions])  # of all steps at once
    w_hh = _together([weights.w_hh for weights in directions])
    b_hh = _together([None if weights.b_hh is None else L.unsqueeze(weights.b_hh, [0]) for weights in directions])
    w_hr = _together([weights.w_hr for weights in directions])
    assert w_hh is not None
    loop = L.Loop(x.network, name)
    loop.count(x.shape[0])
    inner = loop.iterator(L.cast(given, wide))
    here = None if inside is None else loop.iterator(_as_run([inside] * len(directions)))
    state = tuple(loop.recurrence(L.cast(part if both else L.squeeze(part, [0]), wide)) for part in first)
    hidden = L.cast(linear(L.cast(state[0], dtype), w_hh, b_hh), wide)
    following = step(inner, hidden, state)
    if w_hr is not None:
        narrow = linear(L.cast(following[0], dtype), w_hr)
        following = (L.cast(narrow, wide), *following[1:])
    result = following[0]
    if here is not None:
        result = L.select(here, result, filled(x.network, (1,) * result.ndim, 0.0, wide))
        following = tuple(L.select(here, new, old) for new, old in zip(following, state, strict=True))
    for before, after in zip(state, following, strict=True):
        loop.next(before, after)
    collected = L.cast(loop.concatenate(result, x.shape[0]), dtype)
    last = (L.cast(loop.last_value(part), dtype) for part in state)
    if not both:
        return collected, tuple(L.unsqueeze(part, [0]) for part in last)
    forwards, backwards = unbind(collected, 1)
    return cat([forwards, flip(backwards, 0)], 2), tuple(last)


def _as_run(results: list[Tensor]) -> Tensor:
    """What each direction takes step by step: (T, N, …) of one, (T, 2, N, …) of two, the second in reverse."""
    return stack([results[0], flip(results[1], 0)], 1) if len(results) > 1 else results[0]


def _together(weights: Sequence[Tensor | None]) -> Tensor | None:
    """The weights of each direction as one tensor; None where there are none."""
    given = [weight for weight in weights if weight is not None]
    return stack(given) if len(given) > 1 else given[0] if given else None
