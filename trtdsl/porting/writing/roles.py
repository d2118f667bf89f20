"""Names for values that the author did not name: the part of the module, or the function, that made each."""

from __future__ import annotations

from ..calls import Weight
from ..statements import Expression, Literal, Scope, Statement, expressions

# Names that say nothing: values that come one of the other share them.
GENERIC = {"x", "y", "z", "out", "output", "outputs", "result", "res", "ret", "h", "hidden", "hidden_states", "tmp"}
GENERIC |= {"temp", "input", "inputs", "tensor", "data", "value", "values", "sequence"}

# Functions that give the same values in another order, shape or dtype: their result is called as their operand.
ARRANGED = {
    *("view", "reshape", "flatten", "unflatten", "transpose", "permute", "movedim", "squeeze", "unsqueeze", "expand"),
    *("to", "float", "half", "int", "long", "type_as", "mT", "T", "repeat", "tile", "index", "roll", "flip"),
    *("sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "abs", "neg", "softplus", "hardsigmoid"),
    *("relu", "gelu", "silu", "leaky_relu", "elu", "hardswish", "relu6", "mish", "clamp", "prelu"),
}

# Parts of modules that have such names say less than what they do.
PARTS = {"conv", "linear", "fc", "proj", "layer", "layers", "block", "blocks", "net", "model", "module", "body", "mlp"}
PARTS |= {"bn", "norm", "act", "activation", "relu", "dropout", "features", "cv", "dense", "sequential", "seq", "main"}

MADE = {
    "features": ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    "hidden": ("linear", "bilinear"),
    "embeddings": ("embedding", "embedding_bag"),
    "weights": ("softmax", "softmin"),
    "log_probs": ("log_softmax",),
    "normed": ("layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm", "normalize"),
    "attended": ("scaled_dot_product_attention", "multi_head_attention_forward"),
    "joined": ("cat", "concat", "concatenate", "hstack", "vstack"),
    "stacked": ("stack",),
    "product": ("matmul", "bmm", "einsum", "@", "mm", "tensordot", "outer"),
    "pooled": (
        *("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool2d"),
        *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool2d"),
    ),
    "resized": ("interpolate", "upsample", "pixel_shuffle", "pixel_unshuffle"),
    "padded": ("pad",),
    "positions": ("arange", "linspace"),
    "grid": ("meshgrid", "affine_grid", "cartesian_prod"),
    "sampled": ("grid_sample",),
    "windows": ("unfold", "im2col"),
    "folded": ("fold",),
    "regions": ("roi_align", "roi_pool"),
    "kept": ("nms", "batched_nms"),
    "zeros": ("zeros", "zeros_like", "new_zeros"),
    "ones": ("ones", "ones_like", "new_ones"),
    "filled": ("full", "full_like", "new_full"),
    "constant": ("tensor",),
    "mask": (
        *("eq", "ne", "lt", "le", "gt", "ge", "==", "!=", "<", "<=", ">", ">=", "logical_and", "logical_or"),
        *("logical_not", "isnan", "isinf", "isfinite", "isin", "triu", "tril"),
    ),
    "masked": ("where", "masked_fill"),
    "mean": ("mean", "nanmean"),
    "total": ("sum", "nansum"),
    "sums": ("cumsum",),
    "variance": ("var",),
    "deviation": ("std",),
    "length": ("norm", "vector_norm"),
    "highest": ("amax", "max"),
    "lowest": ("amin", "min"),
    "best": ("argmax", "argmin", "topk"),
    "order": ("argsort", "sort"),
    "picked": ("gather", "index_select", "take_along_dim", "masked_select"),
    "places": ("nonzero", "argwhere"),
    "cosines": ("cos",),
    "sines": ("sin",),
    "angles": ("atan2", "angle"),
}
ROLES = {function: role for role, functions in MADE.items() for function in functions}
WORDS = {"conv": "features", "conv2d": "features", "attention": "attended", "mlp": "hidden", "ffn": "hidden"}
MAKERS = ("get_", "create_", "make_", "compute_", "build_", "calc_", "calculate_", "generate_", "apply_")


def roles(statement: Statement, prefix: str) -> list[str]:
    """Names for what the statement makes, the best first; none where only the operand's name could say more.

    ``prefix`` is the path of the module whose function this is: it names nothing inside.
    """
    for expression in expressions(statement.expression):
        if expression.form == "module":
            found = [_part(expression, prefix), _noun(expression.name)]
        elif _keeps(expression):
            continue
        else:
            found = [_part(expression, prefix), ROLES.get(expression.name, "")]
        return [name for name in found if name]
    return []


def keeps_meaning(expression: Expression) -> bool:
    """Whether the result is the operand in another form, so that it keeps the name."""
    return all(map(_keeps, expressions(expression)))


def _keeps(expression: Expression) -> bool:
    if expression.form in ("operator", "swapped") and expression.name in ("*", "/", "+", "-"):
        return any(isinstance(argument.tree, Literal) for argument in expression.arguments)
    return expression.form in ("index", "unary") or expression.name in ARRANGED


def _part(expression: Expression, prefix: str) -> str:
    """The name of the part of the module that has the weights: ``stage`` for ``w.stages[1][0]``."""
    trees = [argument.tree for argument in expression.arguments]
    paths = [tree.path for tree in trees if isinstance(tree, Scope)]
    paths += [tree.path.removeprefix(prefix).rpartition(".")[0] for tree in trees if isinstance(tree, Weight)]
    words = [word for path in paths[:1] for word in path.removeprefix(prefix).split(".") if not word.isdigit()]
    word = words[-1].strip("_") if words else ""
    plain = word.rstrip("0123456789_")
    if not word.isidentifier() or plain in PARTS or plain.endswith(("_norm", "norm", "_act", "conv", "proj", "layers")):
        return ""
    return singular(word)


def _noun(function: str) -> str:
    """What a function of the author's makes, where its name says so: ``rel_pos`` for ``get_rel_pos``."""
    if found := next((role for word, role in WORDS.items() if word in function.split("_")), ""):
        return found
    start = next((each for each in MAKERS if function.startswith(each)), "")
    name = function[len(start) :].rstrip("0123456789").rstrip("_")
    return name if start and name.isidentifier() else ""


def singular(name: str) -> str:
    """The singular of a plural name.

    >>> from trtdsl.porting.writing.roles import singular
    >>> singular("stages"), singular("boxes"), singular("entries"), singular("class"), singular("pos"), singular("bns")
    ('stage', 'box', 'entry', 'class', 'pos', 'bn')
    """
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    if name.endswith(("xes", "sses", "shes", "ches")):
        return name[:-2]
    if name.endswith("s") and not name.endswith(("ss", "us", "is", "os", "as")) and len(name) > 3:
        return name[:-1]
    if name in ("bns", "fcs", "fns"):
        return name[:-1]
    return name
