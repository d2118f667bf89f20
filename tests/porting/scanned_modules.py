"""Modules with loops over a dimension, whose length is dynamic."""

import torch
from torch import nn


class Selective(nn.Module):
    """A state space model's scan, as reference implementations of Mamba have it."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.rand(6, 4))
        self.project = nn.Linear(6, 14)

    def forward(self, x):
        n, length, width = x.shape
        delta, b, c = self.project(x).split([6, 4, 4], dim=-1)
        delta = nn.functional.softplus(delta)
        decay = torch.exp(torch.einsum("bld,dn->bldn", delta, -torch.exp(self.a)))
        given = torch.einsum("bld,bln,bld->bldn", delta, b, x)
        state = torch.zeros((n, width, 4), device=x.device)
        ys = []
        for i in range(length):
            state = decay[:, i] * state + given[:, i]
            ys.append(torch.einsum("bdn,bn->bd", state, c[:, i, :]))
        return torch.stack(ys, dim=1) + x


class LastAxis(nn.Module):
    """Tensors that the loop goes along in different dimensions, and the last state."""

    def forward(self, a, b, c):
        state = torch.zeros_like(a[:, :, 0])
        outs = []
        for i in range(a.shape[2]):
            state = a[:, :, i, :] * state + b[:, :, i, :]
            outs.append(torch.matmul(state, c[:, i, :].unsqueeze(-1))[:, :, 0])
        return torch.stack(outs, dim=-1), state


class Written(nn.Module):
    """A tensor that is written part by part, all of it and behind its first part."""

    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.rand(3))

    def forward(self, key, value):
        output = torch.zeros_like(key)
        shifted = torch.zeros(key.shape[0], key.shape[1] + 1, key.shape[2])
        top, bottom = torch.zeros_like(key[:, 0]), torch.zeros_like(key[:, 0])
        for t in range(key.size(1)):
            weight = torch.exp(key[:, t].float())
            output[:, t] = (top + weight * value[:, t]) / (bottom + weight)
            top = self.decay * top + weight * value[:, t]
            bottom = self.decay * bottom + weight
            shifted[:, t + 1, :] = bottom
        return output, shifted


class Cells(nn.Module):
    """Cells in layers, and a state that begins as None."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(5, 5), nn.GRUCell(5, 5)])
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        for cell in self.cells:
            h, outs = None, []
            for t in range(x.size(1)):
                h = cell(x[:, t], h)
                outs += [self.head(h).unsqueeze(1)] if cell is self.cells[-1] else [h]
            x = torch.stack(outs, 1) if cell is not self.cells[-1] else torch.cat(outs, dim=1)
        return x, h


class BothWays(nn.Module):
    """One state forwards, one backwards."""

    def __init__(self):
        super().__init__()
        self.ahead, self.back = nn.RNNCell(3, 4), nn.RNNCell(3, 4)

    def forward(self, x):
        n, length, _ = x.shape
        h, g = torch.zeros(n, 4), torch.zeros(n, 4)
        ahead, back = [], []
        for i in range(length):
            h, g = self.ahead(x[:, i], h), self.back(x[:, length - 1 - i], g)
            ahead.append(h)
            back.append(g)
        back.reverse()
        return torch.cat([torch.stack(ahead, 1), torch.stack(back, 1)], -1)


class Reversed(nn.Module):
    def forward(self, x):
        h, outs = torch.zeros_like(x[:, 0]), []
        for t in reversed(range(x.shape[1])):
            h = 0.5 * h + x[:, t]
            outs.append(h)
        return torch.stack(outs[::-1], dim=1)


class Filter(nn.Module):
    """Values of one and of two rounds before, which the first rounds do not have."""

    def forward(self, x):
        ys = [x[:, 0], x[:, 1]]
        for t in range(2, x.shape[1]):
            ys.append(0.5 * x[:, t] + 0.25 * x[:, t - 1] - 0.5 * ys[-1] + 0.125 * ys[-2])
        return torch.stack(ys, dim=1)


class Parts(nn.Module):
    """The parts that unbind gives, two tensors' side by side, and a tensor that is gone through."""

    def forward(self, x, g):
        h = 0
        outs = []
        for x_t, g_t in zip(x.unbind(1), torch.unbind(g, dim=1)):
            h = g_t * h + (1 - g_t) * x_t
            outs.append(h)
        mem, spikes = torch.zeros(x.shape[0], 3), []
        for step, row in enumerate(torch.stack(outs)):
            mem = 0.5 * mem + row * x[:, step]
            spikes.append((mem > 1).float())
        return torch.stack(spikes), mem


class Nested(nn.Module):
    """A loop in a loop."""

    def forward(self, x):
        n, length, height, c = x.shape
        h = torch.zeros(n, c)
        outs = []
        for i in range(length):
            g = torch.zeros(n, c)
            for j in range(height):
                g = torch.tanh(g + x[:, i, j])
            h = h + g
            outs.append(h)
        return torch.stack(outs, dim=1)


class Half(nn.Module):
    """Half of the rounds, and what the last of them makes besides its state."""

    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1] // 2):
            y = h + x[:, t]
            h = torch.tanh(y)
        return y, h


class Tracker(nn.Module):
    """A Kalman filter."""

    def __init__(self):
        super().__init__()
        self.step = nn.Parameter(torch.eye(2) + 0.1)
        self.seen = nn.Parameter(torch.rand(1, 2))

    def forward(self, z):
        n = z.shape[0]
        x, p = torch.zeros(n, 2, 1), torch.eye(2).expand(n, 2, 2)
        means = []
        for t in range(z.shape[1]):
            x, p = self.step @ x, self.step @ p @ self.step.T + 0.5
            gain = p @ self.seen.T / (self.seen @ p @ self.seen.T + 0.5)
            x = x + gain @ (z[:, t].unsqueeze(-1) - self.seen @ x)
            p = p - gain @ self.seen @ p
            means.append(x.squeeze(-1))
        return torch.stack(means, dim=1)


class Layers(nn.Module):
    """Layers, each of which goes along the list of the one before; the last one from its end."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList(nn.GRUCell(3, 3) for _ in range(2))

    def forward(self, x):
        length = x.size(1)
        given = [x[:, t] for t in range(length)]
        for cell in self.cells:
            h, outs = x.new_zeros(x.size(0), 3), []
            for t in range(length):
                h = cell(given[t], h)
                outs.append(h)
            given = outs
        g, back = torch.zeros_like(h), []
        for t in reversed(range(length)):
            g = torch.tanh(g + given[t])
            back.append(g)
        return torch.stack(back[::-1], 1), h


class Sums(nn.Module):
    """A state in whole numbers, one in truth, and the module's own, which is changed in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("start", torch.ones(3))

    def forward(self, x):
        n = torch.zeros(x.shape[0], dtype=torch.long)
        seen = torch.zeros(x.shape[0], dtype=torch.bool)
        total = self.start.expand(x.shape[0], 3).clone()
        counts, totals = [], []
        for t in range(x.shape[1]):
            seen = seen | (x[:, t].sum(-1) > 0)
            n = n + seen.long()
            total *= 0.5
            total += x[:, t] / x.shape[1]
            counts.append(n)
            totals.append(total.clone())
        return torch.stack(counts, 1), seen, torch.stack(totals, 1) + torch.stack(totals, 1).flip(1)


class InVain(nn.Module):
    """Parts of a weight and of an input that nothing depends on."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(16, 3))

    def forward(self, x, y):
        h = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            unused = x[:, t] * self.weight[t] + y[:, t]  # noqa: F841
            h = torch.tanh(h + x[:, t])
        return h + y.mean(1)


# -- loops that are no scan --------------------------------------------------------------------------------------------


class OneRound(nn.Module):
    """One round does something else, far from those that are traced first."""

    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h = h + x[:, t] * (2 if t == 7 else 1)
        return h


class Around(nn.Module):
    """Each round takes its part, and after five of them those are taken again."""

    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h = torch.tanh(h + x[:, t % 5])
        return h


class FarBack(nn.Module):
    """Each round takes what the one before made, until there are six."""

    def forward(self, x):
        hs = [torch.zeros_like(x[:, 0])]
        for t in range(x.shape[1]):
            hs.append(torch.tanh(hs[-1 if t < 6 else 0] + x[:, t]))
        return torch.stack(hs[1:], 1)


class OwnAtFirst(nn.Module):
    """The first round takes what it makes itself, where others take what the one before made."""

    def forward(self, x):
        before, outs = None, []
        for t in range(x.shape[1]):
            y = torch.tanh(x[:, t])
            outs.append(y + 2 * (y if before is None else before))
            before = y
        return torch.stack(outs, 1)


class Chosen(nn.Module):
    """Rows that the round itself chooses, and one list forwards and backwards."""

    def forward(self, x, table):
        h, outs = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            h = torch.tanh(h + x[:, t] + table[h.argmax(-1)])
            outs.append(h)
        return torch.stack(outs[::-1], 1), torch.stack(outs, 1)


class ItsNumber(nn.Module):
    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h = h + x[:, t] * t
        return h


class Alone(nn.Module):
    """One round's result is needed by itself."""

    def forward(self, x):
        h, outs = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            h = torch.tanh(h + x[:, t])
            outs.append(h)
        return h + outs[1]


class Growing(nn.Module):
    def forward(self, x):
        seen = x[:, :1]
        for t in range(1, x.shape[1]):
            seen = torch.cat([seen, x[:, t : t + 1] + seen.mean(1, keepdim=True)], 1)
        return seen


class ReadBack(nn.Module):
    """What one round writes, the next one reads from the same tensor."""

    def forward(self, x):
        y = torch.zeros_like(x)
        y[:, 0] = x[:, 0]
        for t in range(1, x.shape[1]):
            y[:, t] = x[:, t] + 0.5 * y[:, t - 1]
        return y


class Between(nn.Module):
    """The last round leaves something out, so that it is done between each round and the next."""

    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h = h + x[:, t]
            if t < x.shape[1] - 1:
                h = torch.tanh(h)
        return h


class Ended(nn.Module):
    """The last half of the rounds leaves something out."""

    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            h = h + x[:, t]
            if 2 * t < x.shape[1]:
                h = torch.tanh(h)
        return h


class Same(nn.Module):
    """A list that has one tensor as often as there are rounds."""

    def forward(self, x):
        total, outs = torch.zeros(x.shape[0], 3), []
        for t in range(x.shape[1]):
            total += x[:, t]
            outs.append(total)
        return torch.stack(outs, 1)


class Autoregressive(nn.Module):
    """As many rounds as the input is long, which go along nothing."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(3, 6), nn.Linear(6, 3)

    def forward(self, x):
        h, y, outs = torch.zeros(x.shape[0], 6), torch.zeros(x.shape[0], 3), []
        for _ in range(x.shape[1]):
            h = self.cell(y, h)
            y = self.out(h)
            outs.append(y)
        return torch.stack(outs, 1) + x


class InPieces(nn.Module):
    """Along the parts that split and chunk give, one of each size."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 6)

    def forward(self, x):
        h, outs = torch.zeros(x.shape[0], 6), []
        for piece in x.split(1, dim=1):
            h = self.cell(piece.squeeze(1), h)
            outs.append(h)
        g = torch.zeros_like(h)
        for piece in x.chunk(chunks=x.shape[1], dim=1):
            g = self.cell(piece[:, 0], g)
        return torch.stack(outs, 1), g


class Steps(nn.Module):
    """A number for each round, out of a tensor."""

    def forward(self, x):
        steps, total = torch.arange(x.shape[1]), torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            total = total + x[:, t] / (steps[t] + 1)
        return total


class Every(nn.Module):
    def forward(self, x):
        total = torch.zeros_like(x[:, 0])
        for t in range(0, x.shape[1], 2):
            total = total * 0.5 + x[:, t]
        return total


class Averages(nn.Module):
    def forward(self, x):
        total = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            total = total + x[:, t] / (t + 2)
        return total


class Scattered(nn.Module):
    """Writes some elements of each part: at places, or in a slice."""

    def forward(self, x):
        order = x.sum(2).argsort(1)
        places, filled = torch.zeros_like(order), x * 2
        for i in range(x.shape[0]):
            places[i, order[i, :]] = torch.arange(x.shape[1])
        for i in range(x.shape[0]):
            filled[i, 1:] = x[i, 1:].exp()
        return places, filled


class Field(nn.Module):
    """A chain of labels, whose scores are taken at the number of the round and at tensors (pytorch-crf)."""

    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(3, 3))

    def forward(self, x, labels):
        x, labels, mask = x.transpose(0, 1), labels.t(), torch.ones_like(labels.t(), dtype=torch.uint8)
        rows = torch.arange(x.shape[1])
        own, every = x[0, rows, labels[0]], x[0]
        for i in range(1, x.shape[0]):
            own = own + self.moves[labels[i - 1], labels[i]] + x[i, rows, labels[i]]
            more = torch.logsumexp(every.unsqueeze(2) + self.moves + x[i].unsqueeze(1), dim=1)
            every = torch.where(mask[i].unsqueeze(1), more, every)
        return own - torch.logsumexp(every, dim=1)


class While(nn.Module):
    """Loops while a number that counts up is below a size, by the length of a list and from the second part on."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)

    def forward(self, x):
        rows, state = [], torch.zeros_like(x[:, 0])
        while len(rows) < x.size(1):
            state = self.cell(x[:, len(rows)], state)
            rows += [state]
        t, total, sums = 1, x[:, 0], []
        while t != x.shape[1]:
            total = total * 0.5 + x[:, t]
            sums.append(total)
            t += 1
        return torch.stack(rows, 1), state, torch.stack(sums)


class Across(nn.Module):
    """An index that goes on behind a tensor, in the same brackets."""

    def forward(self, x):
        rows, total = torch.arange(x.shape[0]), torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            total = total * 0.5 + x[rows, t]
        return total


class Best(nn.Module):
    """The best labels of a chain (pytorch-crf): back along a list that a loop has filled."""

    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        score, history = x[:, 0], []
        for t in range(1, x.shape[1]):
            score, place = (score.unsqueeze(2) + self.moves + x[:, t].unsqueeze(1)).max(1)
            history.append(place)
        best, label = score.max(1)
        labels = [label]
        for places in reversed(history):
            label = places.gather(1, label.unsqueeze(1)).squeeze(1)
            labels.append(label)
        labels.reverse()
        return torch.stack(labels, 1), best


class InTurn(nn.Module):
    """Loops that begin with what the last round of one before gives; one goes along all that it gives."""

    def forward(self, x):
        state, back, states = x[:, 0], torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = torch.tanh(state + x[:, t])
            states.append(state)
        for each in reversed(states):
            back = torch.sigmoid(back + each)
        for t in range(x.shape[1]):
            back = torch.tanh(back + x[:, t])
        for t in range(x.shape[1]):
            state = state + torch.tanh(back + x[:, t])
        return back, state


class Unneeded(nn.Module):
    """Parts that nothing needs, before a loop whose rounds ask for theirs."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.biases, self.weight = nn.Parameter(torch.randn(2, 9)), nn.Parameter(torch.randn(3, 9))

    def forward(self, x):
        own = self.biases[0]
        own.split(3), own.split(4)
        h = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            update, reset, new = (h @ self.weight + self.biases[1]).split(3, -1)
            h = torch.tanh(update + reset * new + x[:, t])
        return h
