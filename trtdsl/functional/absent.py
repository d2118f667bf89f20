"""Names of torch that ``functional`` does not have: why, and what to write instead; the nearest names of others."""

from __future__ import annotations

import sys
from typing import Any

from ..core.errors import UnsupportedError, nearest

PAGE = "docs/functions.md lists what there is"
_RANDOM = "is random, and an engine gives the same for the same inputs: make it an input of the network"
_DECOMPOSITION = "needs a matrix decomposition, which TensorRT does not have: compute it before, or outside the engine"
_DATA = "has a size that depends on data in a way TensorRT cannot express"
REASONS = {
    **dict.fromkeys(("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"), _RANDOM),
    **dict.fromkeys(("bernoulli", "multinomial", "normal", "poisson", "gumbel_softmax"), _RANDOM),
    **dict.fromkeys(
        ("svd", "svdvals", "eig", "eigh", "eigvals", "qr", "cholesky", "lu", "pinverse", "lstsq"), _DECOMPOSITION
    ),
    **dict.fromkeys(("unique", "unique_consecutive", "histogram"), _DATA),
    "ctc_loss": "is a loss for training; F.log_softmax gives the scores that a decoder takes",
    "float_power": "computes in float64, which TensorRT does not have: write F.pow(x.float(), y)",
    "double": "makes float64, which TensorRT does not have: write x.float()",
    "nan_to_num_": "changes its argument: write x = F.nan_to_num(x)",
}


class AbsentError(UnsupportedError, AttributeError):
    """A function that torch has and ``functional`` has not; ``hasattr`` says so, too."""


def absent(name: str) -> Any:
    """Raises AbsentError with the reason, or AttributeError with the nearest names."""
    if name in REASONS:
        raise AbsentError(f"F.{name} {REASONS[name]}; {PAGE}")
    if name.startswith("_"):
        raise AttributeError(f"module 'trtdsl.functional' has no attribute {name!r}")
    names = [known for known in vars(sys.modules["trtdsl.functional"]) if not known.startswith("_")]
    raise AttributeError(f"trtdsl.functional has no {name!r}{nearest(name, names)}: {PAGE}")
