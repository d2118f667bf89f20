"""Discrete Fourier transforms, as products with the matrix of their waves, or as convolutions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import layers as L
from ...core.errors import DefinitionError, ShapeError, UnsupportedError
from ...sizes.size import SizeLike, bounds, is_static, size_min
from ..common import Tensor, family, member, operation, require_one_of, require_rank, torch
from ..operands import along, axes_of, axis_of, binary, floating, with_last
from ..products.linalg import matmul
from ..shaping.arrange import pad
from ..shaping.create import arange
from ..windows.convolution import conv1d, conv_transpose1d
from .complex_tensor import ComplexTensor, view_as_real

LONGEST = 4096
NORMS = (None, "backward", "forward", "ortho")


def _numbers(size: SizeLike) -> Any:
    """0, 1, …, of a dynamic size in the current network; what is computed of them is written alike."""
    return torch.arange(size) if isinstance(size, int) else arange(size)


def _waves(rows: SizeLike, columns: SizeLike, length: Any, sign: int) -> tuple[Any, Any]:
    """``exp(sign · 2πi · j · k / length)`` for j < rows and k < columns, as cosines and sines in float32."""
    turns = _numbers(rows).unsqueeze(1) * _numbers(columns) % length
    angles = turns.to(torch.float64 if isinstance(turns, torch.Tensor) else torch.float32) * (2 * math.pi / length)
    quarters = turns * 4 % length == 0  # whose values are 0 and 1, which π in float64 misses
    cosines, sines = (values.round().where(quarters, values) for values in (angles.cos(), angles.sin()))
    return cosines.to(torch.float32), (sines * sign).to(torch.float32)


def _mirrored(length: SizeLike) -> Any:
    """How often each frequency (length // 2 + 1, 1) of a real signal counts: twice with a mirror image of its own."""
    own = _numbers(length // 2 + 1) * 2 % length == 0
    return (2.0 - own.to(torch.float32)).unsqueeze(1)


def _length(value: SizeLike) -> SizeLike:
    most = bounds(value)[1]
    if most < 1:
        raise ShapeError(f"the length must be positive, not {value}")
    if most > LONGEST:
        raise UnsupportedError(f"a length of {value} takes a product with a matrix of its square: {LONGEST} at most")
    return value


def _scale(norm: str | None, length: Any, inverse: bool) -> Any:
    require_one_of("norm", norm, NORMS)
    if norm == "ortho":
        return length**-0.5
    return 1 / length if inverse == (norm in (None, "backward")) else 1.0


def _parts(input: Any) -> tuple[Tensor, Tensor | None]:
    if isinstance(input, ComplexTensor):
        return input.real, input.imag
    return L.cast(floating(input), torch.float32), None


def _times(x: Tensor, axis: int, matrix: Any) -> Tensor:
    """The product along an axis, cut or filled up with zeros, with a matrix (length of the axis, of the result)."""
    have, length = x.shape[axis], matrix.shape[0]
    kept = size_min(have, length)
    x = x if kept == have else along(x, axis, 0, kept)
    x = pad(x, [0, 0] * (x.ndim - 1 - axis) + [0, length - kept])
    return with_last(x, axis, lambda rows: matmul(rows, x.network.constant(matrix)))


def _product(input: Any, axis: int, waves: Sequence[Any], scale: Any) -> ComplexTensor:
    real, imag = _parts(input)
    cosines, sines = (wave * scale for wave in waves)
    a, b = _times(real, axis, cosines), _times(real, axis, sines)
    if imag is None:
        return ComplexTensor(a, b)
    return ComplexTensor(a - _times(imag, axis, sines), b + _times(imag, axis, cosines))


Axes = Sequence[tuple[int, int | None]]
"""Axes with the lengths of their transforms; None for an axis as long as it is."""


def _complex(inverse: bool, input: Any, axes: Axes, norm: str | None) -> Any:
    for axis, given in reversed(axes):
        length = _length(input.shape[axis] if given is None else given)
        turns = _waves(length, length, length, 1 if inverse else -1)
        input = _product(input, axis, turns, _scale(norm, length, inverse))
    return input


def _half(input: Any, axes: Axes, norm: str | None) -> ComplexTensor:
    if isinstance(input, ComplexTensor):
        raise DefinitionError("rfft takes real values: F.fft takes complex ones")
    *others, (axis, given) = axes
    length = _length(input.shape[axis] if given is None else given)
    half = _waves(length, length // 2 + 1, length, -1)
    found = _product(input, axis, half, _scale(norm, length, False))
    return _complex(False, found, others, norm)


def _whole(input: Any, axes: Axes, norm: str | None) -> Tensor:
    *others, (axis, given) = axes
    input = _complex(True, input, others[::-1], norm)
    length = _length(2 * (input.shape[axis] - 1) if given is None else given)
    weight = _mirrored(length) * _scale(norm, length, True)
    cosines, sines = (wave * weight for wave in _waves(length // 2 + 1, length, length, 1))
    real, imag = _parts(input)
    found = _times(real, axis, cosines)
    return found if imag is None else found - _times(imag, axis, sines)


def _axes(ndim: int, s: Sequence[int] | None, dim: Sequence[int] | None) -> Axes:
    if dim is None:
        dim = range(ndim) if s is None else range(ndim - len(s), ndim)
    lengths = [None] * len(dim) if s is None else [None if size == -1 else size for size in s]
    if len(lengths) != len(dim):
        raise ShapeError(f"{len(lengths)} lengths for {len(dim)} dimensions")
    return [(axis_of(axis, ndim), length) for axis, length in zip(dim, lengths, strict=True)]


Transform = Callable[[Any, Axes, str | None], Any]
FFT: Transform = functools.partial(_complex, False)
IFFT: Transform = functools.partial(_complex, True)


def _along(transform: Transform, input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    with input.network.current():
        return transform(input, [(axis_of(dim, input.ndim), n)], norm)


@member(_along, FFT)
def fft():
    """The discrete Fourier transform along ``dim``, of real or complex values: two or four IMatrixMultiplyLayers.

    The length (``n``, or the axis's) is 4096 at most; the waves of a dynamic one are computed in the network, each
    time that it runs. Computed in float32.
    """


ifft, rfft, irfft = family(
    _along,
    ifft=(IFFT, "The inverse of :func:`fft`."),
    rfft=(
        _half,
        "The half of :func:`fft` of real values that says all, ``length // 2 + 1`` frequencies: two products.",
    ),
    irfft=(
        _whole,
        "The inverse of :func:`rfft`, ``n`` real values (twice the frequencies less 2): two products.",
    ),
)


def _of_dims(
    transform: Transform,
    input: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    with input.network.current():
        return transform(input, _axes(input.ndim, s, dim), norm)


fftn, ifftn, rfftn, irfftn = family(
    _of_dims,
    fftn=(FFT, ":func:`fft` along several dimensions, all of them by default."),
    ifftn=(IFFT, "The inverse of :func:`fftn`."),
    rfftn=(_half, ":func:`rfft` along the last of several dimensions, then :func:`fft` along the others."),
    irfftn=(_whole, "The inverse of :func:`rfftn`."),
)


def _of_images(
    transform: Transform,
    input: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Any:
    return _of_dims(transform, input, s, dim, norm)


fft2, ifft2, rfft2, irfft2 = family(
    _of_images,
    ":func:`{}` along the last two dimensions.",
    fft2=(FFT, "fftn"),
    ifft2=(IFFT, "ifftn"),
    rfft2=(_half, "rfftn"),
    irfft2=(_whole, "irfftn"),
)


def _shifted(sign: int, input: Any, dim: Any = None) -> Any:
    axes = axes_of(dim, input.ndim)
    return input.roll([sign * (input.shape[axis] // 2) for axis in axes], axes)


fftshift, ifftshift = family(
    _shifted,
    fftshift=(1, "The frequency 0 in the middle: as :func:`roll`."),
    ifftshift=(-1, "The inverse of :func:`fftshift`."),
)


# -- short-time transforms, as convolutions with windowed waves --------------------------------------------------------


def _window(window: Tensor | None, win_length: int | None, n_fft: int) -> torch.Tensor:
    """The window in the middle of ``n_fft`` places; of ones where there is none."""
    win_length = n_fft if win_length is None else win_length
    if window is None:
        values = torch.ones(win_length)
    elif not window.is_constant:
        raise UnsupportedError("the window must be a constant: the kernels of a convolution are made from it")
    else:
        values = window.data.float()
    if tuple(values.shape) != (win_length,) or win_length > n_fft:
        raise ShapeError(f"the window has {win_length} places, {n_fft} at most, not {tuple(values.shape)}")
    left = (n_fft - win_length) // 2
    return torch.nn.functional.pad(values, (left, n_fft - win_length - left))


@operation
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """Spectra (…, frequencies, frames) of windows of a real signal (…, T), which may be dynamic, as complex values.

    With ``return_complex=False`` pairs (…, frequencies, frames, 2). The window must be a constant. IPaddingLayer or
    ISliceLayer for ``center``, and one IConvolutionLayer for the real and one for the imaginary parts.

    >>> F.stft(net.input("x", ("N", 400)), 64, 16, window=None, return_complex=True).shape
    (N, 33, 26)
    """
    if align_to_window:
        raise UnsupportedError("stft(align_to_window=True): leave it out, and center=True aligns the frames")
    if return_complex is None:
        raise DefinitionError("stft: say return_complex=True or False, as torch asks for")
    require_rank(input, "stft takes signals (T,) or (N, T)", 1, 2)
    hop = n_fft // 4 if hop_length is None else hop_length
    x = L.unsqueeze(input, [0, 1]) if input.ndim == 1 else L.unsqueeze(input, [1])
    if center:
        x = pad(x, (n_fft // 2, n_fft // 2), pad_mode)
    frequencies = n_fft // 2 + 1 if onesided in (None, True) else n_fft
    shape = _window(window, win_length, n_fft)
    scale = n_fft**-0.5 if normalized else 1.0
    names = () if window is None else window.weight_names
    kernels = [(wave * shape * scale)[:, None].contiguous() for wave in _waves(frequencies, n_fft, n_fft, -1)]
    parts = [conv1d(x, input.network.plain_constant(kernel, names), stride=hop) for kernel in kernels]
    found = ComplexTensor(*(L.squeeze(part, [0]) if input.ndim == 1 else part for part in parts))
    return found if return_complex else view_as_real(found)


@operation
def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The real signal (…, T) of complex spectra (…, frequencies, frames): the inverse of :func:`stft`.

    Overlapping frames are added and divided by the sum of their squared windows. Two transposed IConvolutionLayers, and
    one for the sum of windows where the number of frames is dynamic.

    >>> z = F.stft(net.input("x", ("N", 400)), 64, 16, return_complex=True)
    >>> F.istft(z, 64, 16).shape
    (N, 400)
    """
    if return_complex:
        raise UnsupportedError("istft(return_complex=True): real signals alone")
    if not isinstance(input, ComplexTensor):
        raise DefinitionError("istft takes a complex value, as torch does: F.view_as_complex makes one of pairs")
    if onesided is False or input.shape[-2] != n_fft // 2 + 1:
        raise UnsupportedError(f"istft takes the {n_fft // 2 + 1} frequencies of a real signal, not {input.shape[-2]}")
    network = input.network
    hop = n_fft // 4 if hop_length is None else hop_length
    shape = _window(window, win_length, n_fft)
    names = () if window is None else window.weight_names
    waves = _waves(n_fft // 2 + 1, n_fft, n_fft, 1)
    scale = _mirrored(n_fft) * shape * (n_fft**-0.5 if normalized else 1 / n_fft)
    parts = [L.unsqueeze(part, range(3 - input.ndim)) for part in (input.real, input.imag)]
    signals = [
        conv_transpose1d(part, network.plain_constant((wave * scale)[:, None].contiguous(), names), stride=hop)
        for part, wave in zip(parts, waves, strict=True)
    ]
    frames = L.slice(parts[0], (0, 0, 0), (1, 1, parts[0].shape[2]))
    ones = frames * 0.0 + 1.0  # no constants, whose exact values a convolution of them would not keep
    envelope = conv_transpose1d(ones, network.constant((shape * shape)[None, None].contiguous()), stride=hop)
    start, whole = n_fft // 2 if center else 0, envelope.shape[2]
    number = whole - 2 * start if length is None else length
    mode = "FILL" if is_static((number, whole)) and number > whole - start else "STRICT_BOUNDS"
    signal, weights = (along(part, 2, start, number, mode=mode) for part in (signals[0] - signals[1], envelope))
    signal = signal / binary(weights, 1e-11, "MAX")
    return L.squeeze(signal, [0, 1] if input.ndim == 2 else [1])
