"""Complex values and Fourier transforms against torch's own."""

import pytest
import torch
from support import assert_close, evaluate

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine


def pairs(*shape, seed=0):
    return torch.randn(*shape, 2, generator=torch.Generator().manual_seed(seed))


def both(network, reference, *tensors, dims=None, tolerance=1e-5):
    """The same on pairs: complex results are compared as pairs."""

    def as_pairs(*inputs):
        result = network(*inputs)
        return F.view_as_real(result) if hasattr(result, "imag") and not isinstance(result, td.Tensor) else result

    expected = reference(*tensors)
    expected = torch.view_as_real(expected.resolve_conj()) if expected.is_complex() else expected
    assert_close(evaluate(as_pairs, *tensors, dims=dims), expected, tolerance)


def _of_layers(lib):
    return torch.nn.functional if lib is torch else lib


@pytest.mark.parametrize(
    "act",
    [
        lambda z, w, lib: z + w,
        lambda z, w, lib: z - w * 2,
        lambda z, w, lib: 3 - z,
        lambda z, w, lib: z * w,
        lambda z, w, lib: z / w,
        lambda z, w, lib: 1 / z,
        lambda z, w, lib: (z * 1e-21) / (w * 1e-21) + (z * 1e21) / (w * 1e21),
        lambda z, w, lib: z / 2.5,
        lambda z, w, lib: z**3,
        lambda z, w, lib: z * (1 - 2j),
        lambda z, w, lib: z @ w.transpose(0, 1),
        lambda z, w, lib: z.conj() * 1j,
        lambda z, w, lib: (z * 0.1).exp(),
        lambda z, w, lib: z.abs(),
        lambda z, w, lib: z.angle(),
        lambda z, w, lib: z.real * z.imag,
        lambda z, w, lib: z[:, 1:].flatten(0).unsqueeze(0),
        lambda z, w, lib: z.permute(1, 0).sum(0),
        lambda z, w, lib: lib.movedim(lib.stack([z[:, :4], w[:, :4]] * 2), 2, 1) + z[:, :4].movedim((1, 0), (0, 1)),
        lambda z, w, lib: lib.atleast_3d(z) + lib.atleast_1d(w)[..., None],
        lambda z, w, lib: lib.polar(z.abs(), w.angle()),
        lambda z, w, lib: lib.einsum("ic,jc->ij", z, w),
        lambda z, w, lib: lib.einsum("ic,jc->ij", (z, w)),
        lambda z, w, lib: lib.einsum("ic,jc,kc->ijk", z, w, w),
        lambda z, w, lib: lib.tensordot(z, w, ([1], [1])),
        lambda z, w, lib: lib.bmm(z.unsqueeze(0), w.transpose(0, 1).unsqueeze(0)),
        lambda z, w, lib: lib.outer(z[0], w[1]),
        lambda z, w, lib: lib.inner(z[0], w[1]),
        lambda z, w, lib: lib.kron(z, w),
        lambda z, w, lib: lib.complex(z.imag, w.real),
        lambda z, w, lib: z * lib.view_as_real(w).sum(-1),
        lambda z, w, lib: z.real * w + w.imag - z,
        lambda z, w, lib: z.real / (w + 3),
        lambda z, w, lib: z.real + 1j * w.imag,
        lambda z, w, lib: lib.exp(lib.mul(w.imag, -1j)),
        lambda z, w, lib: lib.reshape(lib.add(z.real, w), (5, -1)),
        lambda z, w, lib: lib.abs(lib.pow(z, 2)) - lib.sum(z.imag, 0),
        lambda z, w, lib: (z.real + 1j).imag + w.real,
        lambda z, w, lib: z.index_select(1, torch.tensor([2, 0])).repeat_interleave(2, 0).tile(1, 2),
        lambda z, w, lib: lib.tril(z.moveaxis(0, 1)).broadcast_to((2, 5, 4)) + lib.triu(w.swapdims(0, 1)),
        lambda z, w, lib: z.gather(1, torch.tensor([[2, 0]] * 4)).ravel() + w.unfold(1, 2, 2).sum(-1).reshape(-1),
        lambda z, w, lib: z[:, :1] + w.real * 1j,
        lambda z, w, lib: z.real.to(torch.complex64) * w.to(torch.complex64).T.T,
        lambda z, w, lib: lib.where(z.real > 0, z, w),
        lambda z, w, lib: (z * 1e-7 + 1).log() * 1e7,
        lambda z, w, lib: (z * 0).log().real.clamp(min=-9) + lib.log(w),
        lambda z, w, lib: lib.sqrt(z) * lib.reciprocal(w) + lib.square(z),
        lambda z, w, lib: lib.tanh(z) + z.sin() * lib.cos(w) - lib.tan(z * 0.3),
        lambda z, w, lib: lib.sinh(z) * w.cosh() + z.rsqrt() + lib.sgn(w),
        lambda z, w, lib: lib.cumprod(z, 1) + w.prod(1, keepdim=True),
        lambda z, w, lib: z**-2 + w**0 + z**0.5 + z**w + z**w.real + 2.5**z,
        lambda z, w, lib: (z == z) & (w != z) & lib.isfinite(z) & ~lib.isnan(w),
        lambda z, w, lib: lib.cat([z, w.real], 1) - lib.stack((z, w), 1).flatten(1),
        lambda z, w, lib: (lib.zeros_like(z) + w) * lib.ones_like(z) * lib.full_like(w, 2 - 1j),
        lambda z, w, lib: lib.zeros_like(z, dtype=torch.float32) + z.real,
        lambda z, w, lib: lib.masked_fill(z, w.real > 0, 1j) + lib.where(w.real > 0, 0.0, w),
        lambda z, w, lib: z @ w.mH + z.detach() @ w.H,
        lambda z, w, lib: lib.vdot(z[0], w[1]) + lib.dot(z[0], w[1]) + lib.add(z, w, alpha=2),
        lambda z, w, lib: lib.select_scatter(z, w[0], 0, 1) + lib.index_put(z, (torch.tensor([0, 2]),), w[:2]),
        lambda z, w, lib: _of_layers(lib).linear(z, w, w[:, 0]) + _of_layers(lib).pad(z, (1, -2), value=2.0),
    ],
)
def test_complex_arithmetic(act):
    both(
        lambda x, y: act(F.view_as_complex(x), F.view_as_complex(y), F),
        lambda x, y: act(torch.view_as_complex(x), torch.view_as_complex(y), torch),
        pairs(4, 5),
        pairs(4, 5, seed=1),
        dims=[("N", 5, 2), ("N", 5, 2)],
    )


def test_a_convolution_of_complex_values():
    def convolved(x, y, lib, layers):
        z, w = lib.view_as_complex(x), lib.view_as_complex(y)
        return layers.conv1d(z, w[:3, :4, None], w[0, :3])

    both(
        lambda x, y: convolved(x, y, F, F),
        lambda x, y: convolved(x, y, torch, torch.nn.functional),
        *(pairs(4, 5), pairs(4, 5, seed=1)),
    )


def test_the_angle_of_real_values_that_are_not_finite_or_negative_zero():
    both(F.angle, torch.angle, torch.tensor([-2.0, -0.0, 0.0, 3.0, float("inf"), float("-inf"), float("nan")]))


def test_rotary_embeddings():
    """Queries turned by complex constants, as LLaMA's own code has it."""
    turns = torch.polar(torch.ones(6, 4), torch.outer(torch.arange(6.0), 10000.0 ** -torch.arange(0, 1, 0.25)))
    x = torch.randn(2, 6, 3, 8, generator=torch.Generator().manual_seed(0))

    def rotated(x, lib):
        z = lib.view_as_complex(x.reshape(2, 6, 3, 4, 2))
        return lib.view_as_real(z * turns[:, None]).flatten(3)

    both(lambda x: rotated(x, F), lambda x: rotated(x, torch), x)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("length", [None, 5, 12])
def test_one_dimension(norm, length):
    x = torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(0))
    signal = x[..., 0].contiguous()
    for name in ("fft", "ifft"):
        both(
            lambda x, name=name: getattr(F, name)(F.view_as_complex(x), length, 1, norm),
            lambda x, name=name: getattr(torch.fft, name)(torch.view_as_complex(x), length, 1, norm),
            x,
            dims=[("N", 8, 2)],
        )
    for name in ("fft", "rfft"):
        both(
            lambda x, name=name: getattr(F, name)(x, length, 1, norm),
            lambda x, name=name: getattr(torch.fft, name)(x, length, 1, norm),
            signal,
            dims=[("N", 8)],
        )
    both(
        lambda x: F.irfft(F.view_as_complex(x), length, 1, norm),
        lambda x: torch.fft.irfft(torch.view_as_complex(x), length, 1, norm),
        x,
    )


def test_several_dimensions():
    x = pairs(3, 4, 6)
    for name in ("fft2", "ifft2", "fftn", "ifftn", "fftshift", "ifftshift"):
        both(
            lambda x, name=name: getattr(F, name)(F.view_as_complex(x)),
            lambda x, name=name: getattr(torch.fft, name)(torch.view_as_complex(x)),
            x,
        )
    signal = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0))
    for name in ("rfft2", "rfftn"):
        both(lambda x, name=name: getattr(F, name)(x), getattr(torch.fft, name), signal)
    both(lambda x: F.irfft2(F.rfft2(x)), lambda x: torch.fft.irfft2(torch.fft.rfft2(x)), signal)
    both(lambda x: F.irfftn(F.rfftn(x)), lambda x: torch.fft.irfftn(torch.fft.rfftn(x)), signal)


@pytest.mark.filterwarnings("ignore:A window was not provided")
@pytest.mark.parametrize("options", [{}, {"center": False}, {"normalized": True}, {"onesided": False}])
@pytest.mark.parametrize("window", [None, torch.hann_window(24)])
def test_stft(options, window):
    x = torch.randn(2, 200, generator=torch.Generator().manual_seed(0))
    arguments = {"hop_length": 8, "win_length": 24, "window": window, "return_complex": True, **options}
    both(
        lambda x: F.stft(x, 32, **arguments),
        lambda x: torch.stft(x, 32, **arguments),
        x,
        dims=[("N", td.Dim("T", min=40, opt=200, max=400))],
    )


def test_istft_gives_the_signal_back():
    x = torch.randn(2, 256, generator=torch.Generator().manual_seed(0))
    window = torch.hann_window(32)

    def there_and_back(x, lib):
        z = lib.stft(x, 32, 8, window=window, return_complex=True)
        return lib.istft(z * 0.5, 32, 8, window=window)

    both(lambda x: there_and_back(x, F), lambda x: there_and_back(x, torch), x)
    both(
        lambda x: there_and_back(x, F),
        lambda x: there_and_back(x, torch),
        x,
        dims=[("N", 8 * td.Dim("F", min=8, opt=32, max=64))],
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.fft(F.cat([x] * 512, 1)), "a length of 512[*]T takes a product with a matrix of its square: 4096"),
        (lambda x: F.rfft(F.view_as_complex(x[:, :2])), "rfft takes real values"),
        (lambda x: F.view_as_complex(x), "pairs in the last dimension"),
        (lambda x: F.stft(x, 8), "return_complex=True or False"),
        (lambda x: F.view_as_complex(x[:, :2]).relu(), "F.relu takes a Tensor as 'input', not ComplexTensor"),
        (
            lambda x: F.view_as_complex(x[:, :2]).sigmoid(),
            "expected a Tensor or a number, .*compute with its .real and",
        ),
        (lambda x: F.view_as_complex(x[:, :2]).var(), "numbers, not complex64: compute with .real and .imag"),
        (lambda x: F.view_as_complex(x[:, :2]).item(), "a ComplexTensor has no 'item'"),
        (lambda x: F.where(F.view_as_complex(x[:, :2]), 1.0, 2.0), "F.where takes no complex value as 'condition'"),
        (lambda x: F.fft(x[:, :4], norm="orthogonal"), "'forward', 'ortho'"),
    ],
)
def test_bad_calls(call, message):
    x = td.Network().input("x", ("N", td.Dim("T", min=4, opt=8, max=16)))
    with pytest.raises((td.TrtdslError, AttributeError), match=message):
        call(x)


def test_waves_are_exact_at_quarters_of_a_turn():
    made = evaluate(lambda x: F.view_as_real(F.rfft(x)), torch.tensor([[1.0, 3.0, 5.0, 7.0]]))
    assert made.tolist() == [[[16, 0], [-4, 4], [-4, 0]]]


@pytest.mark.parametrize("length", [4, 7, 12])
@pytest.mark.parametrize(
    "act",
    [
        lambda x, fft: fft.rfft(x, dim=1),
        lambda x, fft: fft.fft(x, dim=1, norm="ortho"),
        lambda x, fft: fft.ifft(fft.fft(x, dim=1) * (1 + 2j), dim=1),
        lambda x, fft: fft.rfft(x, n=8, dim=1),
        lambda x, fft: fft.rfft(x, n=2 * x.shape[1], dim=1),
        lambda x, fft: fft.rfft(x, n=x.shape[1] // 2, dim=1),
        lambda x, fft: fft.irfft(fft.rfft(x, dim=1), n=x.shape[1], dim=1, norm="forward"),
        lambda x, fft: fft.irfft(fft.rfft(x, dim=1), dim=1),
        lambda x, fft: x.shape[1] * (fft.fft(x, dim=1) / x.shape[1] - x.shape[1]),
        lambda x, fft: x.shape[1] / (fft.fft(x, dim=1) + 9j),
    ],
)
def test_transforms_of_a_dynamic_length(act, length):
    x = torch.randn(2, length, 3, generator=torch.Generator().manual_seed(length))
    dims = [("N", td.Dim("T", min=4, opt=8, max=16), 3)]
    both(lambda x: act(x, F), lambda x: act(x, torch.fft), x, dims=dims)


def test_the_waves_of_a_dynamic_length_are_built():
    @td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=2, max=3), td.Dim("T", min=4, opt=8, max=16)))})
    def network(x):
        return {"y": F.irfft(F.rfft(x) * 2, n=x.shape[1])}

    assert compile_engine(network.define())
