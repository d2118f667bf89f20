"""Tensors that share memory: a port writes what torch computes, or refuses the line."""

import textwrap

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import trtdsl as td
from tests.support.port_oracle import assert_every_pass_keeps_the_meaning

X = torch.linspace(-2, 3, 24).reshape(4, 6)


class Module(nn.Module):
    """What a function computes, with a buffer and a view of it."""

    def __init__(self, source):
        super().__init__()
        lines = source if "\n" in source else source.replace("; ", "\n")
        space = {"torch": torch, "F": F, "nn": nn, "np": np}
        exec("def body(self, x):\n" + textwrap.indent(textwrap.dedent(lines), "    "), space)
        self.body = space["body"]
        self.register_buffer("table", torch.arange(6.0))
        self.part = self.table[1:4]

    def forward(self, x):
        return self.body(self, x)


EQUAL = [
    "y = x.clone(); y[:, 1:3] = y[:, 1:3]; y[:, 1:].copy_(y[:, 1:] * 2); return y",
    "y = x.clone(); y[:, 0:2] = y[:, 2:4]; y[:, 4:].copy_(y[:, :2]); return y",
    "y = x.clone(); torch.add(y, 1, out=y); torch.mul(y[:, :2], 2, out=y[:, :2]); return y",
    "y = x.clone(); torch.add(y[:, :3], 1, out=y[:, 3:]); return y",
    "y = x.clone(); v = y[:, 1:3]; w = y[:, 2:4]; v.add_(1); return (w, y)",
    "y = x.clone(); v = y.view(24); w = v[2:10]; w.mul_(3); return y",
    "y = x.clone(); v = y.view(24); w = v[2:10]; w.mul_(3); return (v, w)",
    "y = x.clone(); y.data.add_(1); return y",
    "y = x.clone(); d = y.data; d[:, 0] = 1; return (y, d)",
    "y = x.clone(); d = y.detach(); d.add_(1); return y",
    "y = x.clone(); d = y.detach(); y.add_(1); return d",
    "y = x.clone(); a, b = y.chunk(2, 1); a.mul_(2); return y",
    "y = x.clone(); a, b = y.chunk(2, 1); a.mul_(2); return (a, b)",
    "y = x.clone(); a, b = y.chunk(2, 0); a.mul_(2); y[2:4] = a; return y",
    "y = x.clone(); a, b = y.split([2, 4], 1); b.zero_(); return y * 2",
    "y = x.clone(); a = y.unbind(0); a[1].add_(5); return y",
    """
    y = x.clone()
    for r in y:
        r.add_(1)
    return y
    """,
    "x[:, 1] = 0; return x",
    "v = x[:, 1:3]; v.mul_(0.5); return x + 1",
    "y = x; x.add_(1); return y",
    "y = x.clone(); y[:, 1:4].index_add_(0, torch.tensor([0, 2]), x[:2, :3]); return y",
    "y = x.clone(); y[:, 2:].scatter_(1, torch.tensor([[0], [1], [2], [0]]), x[:, 5:]); return y",
    "y = x.clone(); y[torch.tensor([0, 1])] = y[torch.tensor([1, 2])]; return y",
    "y = x.clone(); y[y > 0] = y[y > 0] * 2; return y",
    "y = x.clone(); z = y.swapaxes(0, 1); z[0] = 7; return y",
    "y = x.clone(); y.swapaxes(0, 1).add_(1); return y",
    "y = x.clone(); z = y.T; z += 1; return y",
    "y = x.clone(); y.mT[0] += 1; return y",
    "y = x.clone(); z = y.permute(1, 0); y.add_(1); return z",
    "z = torch.complex(x, x + 1); z.imag = x; return torch.view_as_real(z)",
    "z = torch.complex(x, x + 1); r = torch.view_as_real(z); r[..., 0] = 1; return z.abs()",
    "z = torch.view_as_complex(x.reshape(4, 3, 2).clone()); z.real.mul_(2); return torch.view_as_real(z)",
    "z = torch.complex(x, x + 1); i = z.imag; z.real.add_(i); i *= 2; return (z.abs(), i)",
    "z = torch.complex(x, x + 1); r = z.real; z.mul_(2); r[0] = 3; return (r, torch.view_as_real(z))",
    "z = torch.complex(x, x + 1); w = z[1:]; w.imag.zero_(); z.imag = z.real; return (torch.view_as_real(z), w.real)",
    "z = torch.complex(x, x + 1); z.real, z.imag = z.imag + 1, z.real; return torch.view_as_real(z)",
    "z = torch.complex(x, x + 1); z.real.T[1] -= 4; z.imag *= -1; return torch.view_as_real(z)",
    "y = x.clone(); y.real.add_(1); return y",
    "y = x.clone(); y.unsqueeze(0).mul_(2); return y",
    "y = x.clone(); y.reshape(-1)[3] = 9; return y",
    "y = x.clone().t(); z = y.reshape(-1); z[3] = 9; return (y, z)",
    "y = x.clone(); f = y.flatten(); f += 1; return y",
    "y = x.clone(); y.select(1, 2).add_(1); return y",
    "y = x.clone(); y.narrow(1, 2, 3).add_(1); return y",
    "self.table[1:3] = x[0, :2]; return x + self.table",
    "y = x.clone(); l = [y] * 3; l[0].add_(1); return sum(l)",
    "y = x.clone(); torch.where(x > 0, y, -y, out=y); return y",
    "y = x.clone(); y[:, 1:].cumsum_(1); return y",
    "y = x.clone(); y[:] = y.flip(1); y[:, :2] = y[:, [1, 0]]; return y",
    "y = x.clone(); y[0], y[1] = (y[1], y[0]); return y",
    "y = x.clone(); y[0], y[1] = (y[1].clone(), y[0].clone()); return y",
    "y = x.clone(); y.addcmul_(y, y); return y",
    "y = x.clone(); v = y[0]; y.resize_(2, 6); return (y, v)",
    "y = x.clone(); y.transpose_(0, 1); return y",
    "y = x.clone(); z = y.view(24); y.t_(); return (y, z)",
    "y = x.clone(); z = y; y.unsqueeze_(0); y.add_(1); return z",
    "y = x.clone(); z = y.view(6, 4); nn.ReLU(inplace=True)(y); return z",
    "y = x * 1; z = y + 0; nn.ReLU(inplace=True)(y); return (z, y)",
    "y = x + 0; y.add_(1); return (x, y)",
    "y = x.float(); y.add_(1); return x",
    "y = x.contiguous(); y.add_(1); return x",
    "y = F.dropout(x, 0.5, False); y.add_(1); return x",
    "y = nn.Identity()(x); y.add_(1); return x",
    "y = x.to(torch.float32); y[0] = 1; return x",
    "y = x.clone(); v = [y[i] for i in range(4)]; v[2].zero_(); return torch.stack(v)",
    "t = torch.zeros(4); a = t.numpy(); a[1] = 3; return x[:, 0] + t",
    "t = torch.zeros(6); u = t.view(2, 3); u[0] = 1; return x + t",
    "t = torch.zeros(6); u = t[2:4]; u += x[0, :2]; return x + t",
    "t = torch.zeros(2, 3); u = t.view(6); t[0] = x[0, :3]; return x + u",
    "y = x.clone(); a, b = torch.tensor_split(y, 2, 1); a.mul_(2); return (y, b)",
    "y = x.clone(); y.ravel()[0] = 2; return y",
    "y = x.clone(); y.movedim(0, 1)[0] = 1; return y",
    "y = x.clone(); a, b = torch.hsplit(y, 2); b += 1; return (torch.hstack([a, b]), y)",
    "h = x.shape[1] // 2; y = x.clone(); y[:, :h], y[:, h:] = (y[:, h:], y[:, :h]); return y",
    "h = x.shape[1] // 2; y = x.clone(); y[:, :h] = -y[:, h:]; y[:, h:] = x[:, :h]; return y",
    "y = x.clone(); y[:, 1:].masked_scatter_(x[:, 1:] > 0, x); return y",
    "y = x.clone(); torch.atleast_3d(y).add_(1); return y",
    """
    y = x.clone()
    for i in range(1, 6):
        y[:, i] += y[:, i - 1]
    return y
    """,
    """
    y = x.clone()
    v = y.view(2, 2, 6)
    for i in range(2):
        for j in range(2):
            v[i, j] *= i + j + 1
    return (y, v)
    """,
    "y = x.clone(); y[:, 0] = (x > 0)[:, 1]; y[:, 1:3].copy_(x[:, :2].long()); return y",
    "y = x.long(); y[:, 0] += 3; y += y.clone(); return y",
    "z = torch.complex(x, x + 1); z[:, 0] = 1; return torch.view_as_real(z)",
    "z = torch.complex(x, x + 1); r = torch.view_as_real(z); z.mul_(2); return r",
    "y = torch.empty(8, 6); torch.cat([x, x * 2], 0, out=y); return y",
    "y = torch.zeros(2, 4, 6, 2); torch.stack([x, x + 1], 0, out=y[..., 1]); return y",
    "y = x.clone(); torch.clamp(y, -1, 1, out=y); return y",
    "y = x.clone(); y.T.index_fill_(0, torch.tensor([1, 3]), 5.0); return y",
    "y = x.clone(); v = y.unsqueeze(1); v.masked_fill_(v > 1, -1.0); return y",
    "y = x.clone(); y.unbind(1)[2].scatter_add_(0, torch.tensor([0, 0, 1]), x[0, :3]); return y",
    "d = {'a': x.clone()}; d['b'] = d['a'][:, :2]; d['b'].neg_(); d['a'].add_(1); return d",
    "y = x * 2; v = y[0]; return (y, v, y)",
    "y = x.clone(); a = y[1:]; b = a[:, 2:]; cc = b.t(); cc[0].zero_(); b.add_(1); a[0] = 9; return (y, a, b, cc)",
    "y = x.clone(); f = y.flatten(); g = f.view(3, 8); y[0] = 0; f[5] = 1; g[2] = 2; return (y, f, g)",
    "y = x.clone(); y.unflatten(1, (2, 3))[:, 1].mul_(-1); return y",
    "y = x[:1].clone(); e = y.expand(4, 6); y.add_(1); return e",
    "y = x.clone(); u = y.unfold(1, 3, 1); y.mul_(2); return u",
    "y = x.clone(); u = y.as_strided((3, 3), (2, 1)); y.mul_(2); return u",
    "return x.t().as_strided((3, 2), (1, 3)), x[1:].as_strided((2, 2), (6, 2)), x[:, 1:].as_strided((3, 2), (1, 3), 0)",
    "y = x.clone(); y[0].mul_(2); return y[:, 2:].as_strided((4, 2), (5, 1))",
    "y = x[:4, :4].clone(); d = y.diagonal(); y.mul_(2); return d",
    "z = torch.complex(x, x + 1); r = z.real; z *= 2; return r",
    "y = x.clone(); a, b = y.split(y.shape[1] // 2, 1); a += b; b *= 2; return y",
    "y = x.clone(); p = list(y.chunk(3, 1)); p[0].add_(p[2]); p[1].mul_(p[0]); return (torch.cat(p, 1), y)",
    "y = x.clone(); a, b, d = y.tensor_split((1, 4), dim=1); b.relu_(); return (y, d)",
    "y = x.reshape(2, 2, 6).clone(); p = y.permute(2, 0, 1); p[1] = 3; return y",
    "y = x.reshape(2, 2, 6).clone(); p = y.permute((-1, 0, 1)); p.add_(torch.arange(6.0)[:, None, None]); return y",
    "y = x.clone(); y.transpose(dim0=0, dim1=1).add_(1); return y",
    "y = x.clone(); y.select(-1, -2).add_(1); return y",
    "y = x.clone(); y.narrow(1, -2, 2).add_(1); return y",
    "y = x.clone(); torch.narrow(y, dim=1, start=1, length=2).add_(1); return y",
    "y = x.clone(); y[None, ..., 1:2].mul_(4); y[..., None][:, 2] = 8; return y",
    "y = x.clone(); y[::2, 1::3].mul_(4); return y",
    "y = x.clone(); y[:, [0, 1]] = y[:, [1, 0]]; return y",
    "y = x.clone(); y[:, :3], y[:, 3:] = (y[:, 3:].clone(), y[:, :3].clone()); return y",
    "y = x.clone(); m = y > 0; y[m] = 0; return (y, m)",
    "t = torch.arange(24.0).view(4, 6); r = t[1]; r += 1; t[0] = r; return x * t",
    "t = torch.arange(100.0); u = x.sum() + t; t += 1; return (u, x.sum() + t)",
    "a = np.zeros(6, dtype=np.float32); t = torch.from_numpy(a); u = x + t; a[2] = 5; return (u, x + t)",
    "a = np.zeros(99, np.float32); t = torch.from_numpy(a); u = x.sum() + t; a[2] = 5; return u, x.sum() + t",
    "y = torch.zeros(4, 6); torch.mul(x, 2, out=y[:, :]); return y",
    "v = self.table[2:4]; v.zero_(); return x * self.table",
    "y = x.clone(); z = y[:, :1]; z.squeeze_(1); z.add_(1); return z",
    "y = x.clone(); y[0].fill_(x[0, 0]); y[1].fill_(2); return y",
    "y = x.clone(); y += y.sum(); y -= y.mean(); return y",
    "y = x.clone(); y += y[0, 0].clone(); return y",
    "self.state = x * 2; self.state.add_(1); return self.state",
    """
    y = torch.zeros(4, 6)
    for i in range(4):
        y[i] = x[i] * i
    return y
    """,
]


@pytest.mark.parametrize("source", EQUAL, ids=range(len(EQUAL)))
def test_writes_and_views_mean_what_they_do_in_torch(source):
    assert_every_pass_keeps_the_meaning(Module(source), {"x": X}, source)


REFUSED = {
    "writes to memory that it also reads": [
        "y = x.clone(); y[..., 1:3] = y[..., 0:2]; return y",
        "y = x.clone(); y[1:] += y[:-1]; return y",
        "y = x.clone(); y[:, 1:].copy_(y[:, :-1]); return y",
        "y = x.clone()[:, :4]; y[:] = y.t(); return y",
        "y = x[:4, :4].clone(); y.copy_(y.t()); return y",
        "y = x.clone(); torch.add(y[:, :3], 1, out=y[:, 1:4]); return y",
        "y = x[:4, :4].clone(); torch.matmul(y, y, out=y); return y",
        "y = x.clone(); y.index_add_(0, torch.tensor([0, 2]), y[:2]); return y",
        "y = x.clone(); y.index_copy_(0, torch.tensor([0, 1]), y[1:3]); return y",
        "y = x.clone(); y.scatter_(1, torch.tensor([[0], [1], [2], [0]]), y[:, 5:]); return y",
        "y = x.clone(); y[torch.tensor([0, 1])] = y[1:3]; return y",
        "y = x.clone(); torch.cumsum(y, 1, out=y); return y",
        "y = x[:4, :4].clone(); y.addmm_(y, y); return y",
        "y = x.clone(); y[:, 1:].addcmul_(y[:, :-1], x[:, 1:]); return y",
        "y = x.clone(); y.mul_(y[:, :1]); return y",
        "y = x.clone(); y -= y[0]; return y",
    ],
    "several elements are one place in memory|shares memory with one that": [
        "y = x[:, :1].expand(4, 6); y.add_(1); return (y, x)",
        "y = x[:, :1].clone(); z = y.expand(4, 6); z[:, 2] = 5; return y",
        "y = x.clone(); z = y.as_strided((5, 3), (1, 1), 0); z.add_(1); return y",
        "y = x.clone(); z = y.as_strided((5, 3), (1, 1), 0); z.copy_(x[:1, :3].expand(5, 3)); return y",
        "y = x.clone(); u = y.unfold(1, 3, 1); u.zero_(); return y",
        "y = x.clone(); u = y.unfold(1, 3, 1); u[:, 0] = 3; return (y, u)",
        "z = torch.zeros(1, 6).expand(4, 6); z[1] = x[1]; return z",
        "z = torch.broadcast_to(x[:1], (4, 6)); z[1] = 2.0; return x",
        "a, b = torch.meshgrid(x[:, 0], x[0], indexing='ij'); a.add_(1); return (x, b)",
    ],
    "shares memory with one that .* changed in place": [
        "y = x.clone(); z = y.as_strided((4, 5), (6, 1), 1); z.add_(1); return y",
        "y = x.clone(); u = y.unfold(1, 2, 2); u.mul_(2); return y",
        "self.part.add_(1); return x + self.table",
        "z = x + self.table; self.part.add_(1); return z + self.table",
        "y = x.clone()[None]; z = y[0]; y.squeeze_(0); z.add_(1); return y",
        "y = x.expand_as(x); y.add_(1); return x",
        "y = x.clone(); y.view(torch.int32).add_(1); return y",
    ],
    "a tensor's memory cannot be set": [
        "y = x.clone(); y.set_(x * 2); return y",
    ],
    "writes to several tensors": [
        "v = torch.empty(4); i = torch.empty(4, dtype=torch.int64); torch.max(x, 1, out=(v, i)); return (v, i)",
    ],
}


@pytest.mark.parametrize(
    ("reason", "source"), [(reason, each) for reason, sources in REFUSED.items() for each in sources]
)
def test_what_depends_on_the_order_in_memory_is_refused(reason, source):
    with pytest.raises(td.UnsupportedError, match=reason) as raised:
        td.from_module(Module(source), {"x": X})
    assert raised.value.location is not None


class Halves(nn.Module):
    """Writes to views of what it is given."""

    def forward(self, x):
        a, b = x.chunk(2, -1)
        a.tanh_()
        b += a
        return x


class Outer(nn.Module):
    """Goes on with what a module and a function have written to."""

    def __init__(self):
        super().__init__()
        self.halves = nn.ModuleList(Halves() for _ in range(2))

    def forward(self, x):
        y = x * 1.5
        whole = self.halves[0](y)
        rows = self.halves[1](y[1:3])
        doubled(y.t())
        return y, whole, rows


def doubled(x):
    x[..., 1:] *= 2
    return x


def test_writes_of_modules_and_functions_reach_their_caller():
    assert_every_pass_keeps_the_meaning(Outer(), {"x": X})
    td.check(td.from_module(Outer(), {"x": X})).raise_for_mismatch()


@pytest.mark.parametrize("length", [(2, 4, 9), (6, 6, 7)])
def test_views_of_dynamic_sizes_are_written_to(length):
    source = """
    half = x.shape[1] // 2
    y = x.clone()
    a, b = y.split([half, x.shape[1] - half], 1)
    a *= 2
    b.t()[0] += a[:, 0]
    y.view(-1, x.shape[1])[:, :half] -= 1
    return y, a
    """
    spec = td.from_module(Module(source), {"x": "N,T"}, dims={"N": (1, 2, 3), "T": length})
    td.check(spec).raise_for_mismatch()


class Conjugated(nn.Module):
    def forward(self, x):
        z = torch.complex(x, x + 1)
        c = z.conj()
        z.mul_(2)
        return torch.view_as_real(c.resolve_conj()), torch.view_as_real(torch.conj_physical(z)), (z * c).real


def test_conjugates_are_of_the_values_that_are_there_when_they_are_read():
    td.check(td.from_module(Conjugated(), {"x": X})).raise_for_mismatch()


def test_a_place_of_values_that_is_written_is_refused_with_what_to_write():
    module = Module("x = x.clone(); x[:, self.place(x)] = 1.0; return x")
    module.place = lambda x: x.argmax() % 3
    with pytest.raises(td.UnsupportedError, match=r"index with a tensor of one element \(place.reshape\(1\)\)"):
        td.from_module(module, {"x": X})
    module.place = lambda x: (x.argmax() % 3).reshape(1)
    td.check(td.from_module(module, {"x": X})).raise_for_mismatch()
