"""Short-time Fourier transforms, as convolutions with windowed waves."""

from __future__ import annotations

from typing import Any

from ..common import DefinitionError, L, ShapeError, Tensor, UnsupportedError, operation, shape_text, torch
from ..operands import binary
from ..pointwise.arithmetic import sub
from ..shaping.arrange import pad
from ..windows.convolution import conv1d, conv_transpose1d
from .complex_tensor import ComplexTensor, view_as_real
from .fourier import mirrored, waves


def _window(window: Tensor | None, win_length: int, n_fft: int) -> torch.Tensor:
    """The window in the middle of ``n_fft`` places; of ones where there is none."""
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
    if input.ndim not in (1, 2):
        raise ShapeError(f"stft takes signals (T,) or (N, T), not {shape_text(input.shape)}")
    hop = n_fft // 4 if hop_length is None else hop_length
    x = L.unsqueeze(input, [0, 1]) if input.ndim == 1 else L.unsqueeze(input, [1])
    if center:
        x = pad(x, (n_fft // 2, n_fft // 2), pad_mode)
    frequencies = n_fft // 2 + 1 if onesided in (None, True) else n_fft
    cosines, sines = waves(frequencies, n_fft, n_fft, -1)
    shape = _window(window, n_fft if win_length is None else win_length, n_fft)
    scale = n_fft**-0.5 if normalized else 1.0
    names = () if window is None else window.weight_names
    kernels = [(wave * shape * scale)[:, None].contiguous() for wave in (cosines, sines)]
    parts = [conv1d(x, input.network.plain_constant(kernel, names), stride=hop) for kernel in kernels]
    real, imag = (L.squeeze(part, [0]) if input.ndim == 1 else part for part in parts)
    found = ComplexTensor(real, imag)
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
    shape = _window(window, n_fft if win_length is None else win_length, n_fft)
    names = () if window is None else window.weight_names
    cosines, sines = waves(n_fft // 2 + 1, n_fft, n_fft, 1)
    scale = mirrored(n_fft) * shape * (n_fft**-0.5 if normalized else 1 / n_fft)
    parts = [input.real, input.imag]
    if input.ndim == 2:
        parts = [L.unsqueeze(part, [0]) for part in parts]
    signals = [
        conv_transpose1d(part, network.plain_constant((wave * scale)[:, None].contiguous(), names), stride=hop)
        for part, wave in zip(parts, (cosines, sines), strict=True)
    ]
    frames = L.slice(parts[0], (0, 0, 0), (1, 1, parts[0].shape[2]))
    ones = binary(binary(frames, 0.0, "PROD"), 1.0, "SUM")
    envelope = conv_transpose1d(ones, network.constant((shape * shape)[None, None].contiguous()), stride=hop)
    start = n_fft // 2 if center else 0
    whole = signals[0].shape[2]
    number = length if length is not None else whole - 2 * start if center else whole
    cut = []
    for part in (sub(*signals), envelope):
        available = part.shape[2] - start
        if isinstance(number, int) and isinstance(available, int) and number > available:
            part = pad(part, (0, number - available))
        cut.append(L.slice(part, (0, 0, start), (*part.shape[:2], number)))
    signal = binary(cut[0], binary(cut[1], 1e-11, "MAX"), "DIV")
    return L.squeeze(signal, [0, 1] if input.ndim == 2 else [1])
