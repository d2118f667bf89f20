"""Names of torch that ``functional`` does not have: why, and what to write instead; the nearest names of others."""

from __future__ import annotations

import sys
from typing import Any

from ..core.errors import UnsupportedError, nearest

PAGE = "dir(trtdsl.functional) lists what there is"
SYNONYMS = {
    "swish": "silu",
    "sdpa": "scaled_dot_product_attention",
    "MultiheadAttention": "multi_head_attention_forward",
    "rms": "rms_norm",
    "astype": "to",
    "cast": "to",
    "expand_dims": "unsqueeze",
}
"""What other libraries call it."""
_RANDOM = "is random, and an engine gives the same for the same inputs: make it an input of the network"
_DECOMPOSITION = (
    "needs a matrix decomposition, which TensorRT does not have: compute it before, or outside the engine, and of "
    "weights by td.of_constants"
)
_DISTINCT = (
    "is made of others: values = sorted[first] of sorted = F.sort(x)[0], where first says which differ from the one "
    "before; a port writes it so"
)
REASONS = {
    **dict.fromkeys(("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"), _RANDOM),
    **dict.fromkeys(("bernoulli", "multinomial", "normal", "poisson", "gumbel_softmax"), _RANDOM),
    **dict.fromkeys(("svd", "svdvals", "eig", "eigh", "eigvals", "eigvalsh", "qr", "lu", "lu_factor"), _DECOMPOSITION),
    **dict.fromkeys(("pinv", "pinverse", "lstsq", "matrix_exp", "matrix_rank"), _DECOMPOSITION),
    **dict.fromkeys(("unique", "unique_consecutive"), _DISTINCT),
    "float_power": "computes in float64, which TensorRT does not have: write F.pow(x.float(), y)",
    "double": "makes float64, which TensorRT does not have: write x.float()",
}
LOSSES = ("_loss", "cross_entropy", "cross_entropy_with_logits", "kl_div")
"""How torch's names of them end."""
_TARGET = (
    "compares with a target, which a deployed network does not have: F.log_softmax, F.logsigmoid, "
    "F.cosine_similarity, F.pairwise_distance and arithmetic give what it is made of"
)


class AbsentError(UnsupportedError, AttributeError):
    """A function that torch has and ``functional`` has not; ``hasattr`` says so, too."""


def absent(name: str) -> Any:
    """Raises AbsentError with the reason, or AttributeError with the nearest names."""
    reason = _TARGET if name.endswith(LOSSES) else REASONS.get(name)
    if reason is not None:
        raise AbsentError(f"F.{name} {reason}; {PAGE}")
    if name.startswith("_"):
        raise AttributeError(f"module 'trtdsl.functional' has no attribute {name!r}")
    names: list[str] = sys.modules["trtdsl.functional"].__all__
    if name.endswith("_") and name[:-1] in names:
        instead = f"write x = F.{name[:-1]}(x)"
        raise AbsentError(f"F.{name} changes its argument, and a network's tensors do not change: {instead}")
    hint = f" (nearest: {SYNONYMS[name]})" if name in SYNONYMS else nearest(name, names)
    raise AttributeError(f"trtdsl.functional has no {name!r}{hint}: {PAGE}")
