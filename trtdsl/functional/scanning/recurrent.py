"""One step of a recurrent network, as torch's cells take it; `td.scan` and Python's own loops repeat it."""

from __future__ import annotations

from collections.abc import Callable

from ..common import Tensor, operation
from ..family import family
from ..pointwise.activation import relu, sigmoid, tanh
from ..pointwise.arithmetic import add, mul, sub
from ..products.matmul import linear
from ..shaping.join import chunk

State = tuple[Tensor, ...]


def lstm_step(inner: Tensor, hidden: Tensor, state: State) -> State:
    """The next h and c from the gates' part of the input (…, N, 4 * hidden), that of h, and h and c."""
    write, forget, new, out = chunk(add(inner, hidden), 4, -1)
    cell = add(mul(sigmoid(forget), state[1]), mul(sigmoid(write), tanh(new)))
    return mul(sigmoid(out), tanh(cell)), cell


def gru_step(inner: Tensor, hidden: Tensor, state: State) -> State:
    """The next h from the gates' part of the input (…, N, 3 * hidden), that of h, and h."""
    reset, update, new = chunk(inner, 3, -1)
    reset_h, update_h, new_h = chunk(hidden, 3, -1)
    reset, update = sigmoid(add(reset, reset_h)), sigmoid(add(update, update_h))
    new = tanh(add(new, mul(reset, new_h)))
    return (add(new, mul(update, sub(state[0], new))),)


@operation
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """The next state (N, hidden) of a gated recurrent unit, as torch.nn.GRUCell has it: two products and the gates.

    >>> net = td.Network()
    >>> x, h = net.input("x", ("N", 4)), net.input("h", ("N", 2))
    >>> F.gru_cell(x, h, net.constant(torch.ones(6, 4)), net.constant(torch.ones(6, 2))).shape
    (N, 2)
    """
    return gru_step(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), (hx,))[0]


@operation
def lstm_cell(
    input: Tensor,
    hx: tuple[Tensor, Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The next state and cell (N, hidden) of a long short-term memory, as torch.nn.LSTMCell has it.

    Two products and the gates.

    >>> net = td.Network()
    >>> x, h, c = net.input("x", ("N", 4)), net.input("h", ("N", 2)), net.input("c", ("N", 2))
    >>> [y.shape for y in F.lstm_cell(x, (h, c), net.constant(torch.ones(8, 4)), net.constant(torch.ones(8, 2)))]
    [(N, 2), (N, 2)]
    """
    h, c = lstm_step(linear(input, w_ih, b_ih), linear(hx[0], w_hh, b_hh), tuple(hx))
    return h, c


def _rnn_cell(
    activation: Callable[[Tensor], Tensor],
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    return activation(add(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh)))


rnn_tanh_cell, rnn_relu_cell = family(
    _rnn_cell,
    """The next state (N, hidden) of torch.nn.RNNCell: two products, their sum, and its {}.

    >>> net = td.Network()
    >>> x, h = net.input("x", ("N", 4)), net.input("h", ("N", 2))
    >>> F.{name}(x, h, net.constant(torch.ones(2, 4)), net.constant(torch.ones(2, 2))).shape
    (N, 2)
    """,
    rnn_tanh_cell=(tanh, "tanh"),
    rnn_relu_cell=(relu, "relu"),
)
