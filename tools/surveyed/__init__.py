"""The modules that `tools/survey.py` ports, one file a field; each file needs its libraries only when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import audio, detection, diffusion, filters, medical, plain, text, vision
from .subject import Subject as Subject

LIBRARIES: dict[str, Callable[[], Iterator[Subject]]] = {
    "torch": plain.torch,
    "diffusers": diffusion.diffusers,
    "ultralytics": detection.ultralytics,
    "torchaudio": audio.torchaudio,
    "kornia": filters.kornia,
    "monai": medical.monai,
    "transformers": text.transformers,
    "torchvision": vision.torchvision,
    "timm": vision.timm,
}
