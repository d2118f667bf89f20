"""What each statement of a program is: its kind, what it fuses, its floating-point operations, the author's lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Literal, NamedTuple

from .grammar import Record
from .host_sizes import Scalars
from .plan import ProgramText

Kind = Literal[
    "product", "convolution", "attention", "pooling", "resize", "reduction", "pointwise", "cast", "rearranging",
    "transfer", "communication", "other",
]  # fmt: skip

REARRANGING = frozenset({"Move", "Tran", "Resh", "Slic", "Conc", "Repl", "Copy", "Flip", "Reve", "Expa"})
"""Parts of a generated kernel's name that move values and compute none: Move changes the order in memory."""
FREE = REARRANGING | {"Gath", "Cast", "Sele", "Iota"}
"""Parts without floating-point operations."""

STATEMENTS: dict[str, Kind] = {
    "corrltn": "convolution",
    "deconvolution": "convolution",
    "fully_connected": "product",
    "avgpool": "pooling",
    "maxpool": "pooling",
    "resize": "resize",
    "copy": "transfer",
    "memset": "transfer",
    "concat": "rearranging",
    "cast": "cast",
}
DENSE = ("product", "convolution", "attention")
"""What tensor cores compute."""
PRODUCTS = frozenset({"corrltn", "deconvolution", "fully_connected"})
BACKBONES: dict[str, Kind] = {"gemm": "product", "conv": "convolution"}
KERNELS: dict[str, Kind] = {"1": "pointwise", "2": "reduction", "7": "attention", "8": "rearranging", "16": "reduction"}
"""By ``kernel_kind``."""
EPILOGUES = (
    "bias", "relu", "gelu", "gelu_erf", "tanh", "sigmoid", "swish", "leaky_relu", "quantize", "accu"
)  # fmt: skip
"""Flags of a product or a convolution: what it does to its result before it writes it."""
QUIET = frozenset({"label", "shape_call", "signal", "wait", "jmp", "cjmp", "assert", "nop"})
"""Statements that put nothing on the GPU."""

SEPARATOR = "\x1f"  # between the metadata of the layers of one launch
PART = re.compile(r"[A-Z][a-z0-9]*")

Shape = tuple[int, ...]


class Place(NamedTuple):
    """Where a layer comes from, by its metadata; what that does not say is empty."""

    line: str
    """The author's line, ``folder/file.py:12``."""
    call: str = ""
    """The function that is called there."""
    caller: str = ""
    """The author's line that calls the function around it."""
    scope: str = ""


def each_once(places: Sequence[Place], what: Literal["line", "scope"]) -> tuple[str, ...]:
    """The lines or the scopes of places, each once, in order."""
    return tuple(dict.fromkeys(found for place in places if (found := getattr(place, what))))


def parts(name: str) -> list[str]:
    """The operations in a generated kernel's name.

    >>> parts("__myl_ReshMulAddRelu")
    ['Resh', 'Mul', 'Add', 'Relu']
    """
    return PART.findall(name.removeprefix("__myl_"))


def kind_of(statement: str, record: Record) -> Kind:
    """The kind of a launch."""
    if statement in ("function", "runtime_function", "runtime_fusion"):
        name = record.text("name")
        backbone = BACKBONES.get(record.text("backbone"))
        if backbone is not None:
            return backbone
        if "_mha" in name:
            return "attention"
        kind = KERNELS.get(record.text("kernel_kind"), "other")
        made_of = parts(name) if name.startswith("__myl_") else ["Etc"]
        if kind in ("pointwise", "rearranging"):
            if REARRANGING.issuperset(made_of):
                return "rearranging"
            return "cast" if (REARRANGING | {"Cast"}).issuperset(made_of) else "pointwise"
        return kind
    if statement.startswith("comm_"):
        return "communication"
    return STATEMENTS.get(statement, "pointwise" if "output" in record.fields else "other")


def epilogue_of(statement: str, record: Record) -> tuple[str, ...]:
    """The further work of a product or a convolution: flags of the library's kernel, or parts of the fusion's name."""
    if statement == "runtime_fusion":
        return tuple(part for part in parts(record.text("name")) if part not in ("Fc", "Corr", "Deco"))
    return tuple(flag for flag in EPILOGUES if record.text(flag) == "true")


PLACE = re.compile(r"(.+?:\d+)(?: ([\w.]+))?(?: from (.+?:\d+))?(?: in (.*))?", re.S)
"""A layer's metadata: the author's line and call, the line that calls the function around it, the scope."""


def places_of(layers: str) -> tuple[Place, ...]:
    """What a launch says of its layers, in order.

    >>> places_of("net.py:3 cat from net.py:9 in up")
    (Place(line='net.py:3', call='cat', caller='net.py:9', scope='up'),)
    """
    found = []
    for text in filter(str.strip, layers.split(SEPARATOR)):
        place = PLACE.fullmatch(text)
        found.append(Place(*(each or "" for each in place.groups())) if place else Place(text))
    return tuple(found)


def flops_of(
    statement: str,
    record: Record,
    program: ProgramText,
    scalars: Scalars,
    reads: Sequence[Shape],
    writes: Sequence[Shape],
) -> int | None:
    """Floating-point operations of one run; a multiply and its add are two. None where it is not known."""
    kind = kind_of(statement, record)
    if statement == "runtime_fusion":
        return _flops_of_body(record, program, scalars, writes)
    if kind in ("product", "convolution"):
        return _flops_of_product(statement, record, reads, writes)
    if kind == "attention":
        if len(reads) < 2 or not writes or len(reads[0]) < 2:
            return None
        queries, keys = reads[:2]
        if record.text("name").startswith("_gemv_mha"):  # one query for each head; its keys stand first
            queries, keys = keys, queries
        length = prod(keys) // max(prod(keys[:-2]), 1) // max(queries[-1], 1)  # of the keys, in either order
        return 4 * prod(queries) * length
    if kind in ("rearranging", "transfer", "communication", "cast"):
        return 0
    name = record.text("name")
    made_of = parts(name) if name.startswith("__myl_") else [statement]
    largest = max(map(prod, (*reads, *writes)), default=0)
    return largest * sum(part not in FREE for part in made_of)


def _flops_of_product(statement: str, record: Record, reads: Sequence[Shape], writes: Sequence[Shape]) -> int | None:
    if len(reads) < 2 or not writes:
        return None
    (first, second), result = reads[:2], prod(writes[0])
    if statement == "fully_connected":
        if len(first) < 2:
            return None
        return 2 * result * first[-2 if record.text("trA") == "true" else -1]
    if statement == "deconvolution":
        return 2 * prod(first) * prod(second[1:])
    return 2 * result * prod(second[1:])


def _flops_of_body(record: Record, program: ProgramText, scalars: Scalars, writes: Sequence[Shape]) -> int | None:
    """The operations of the product in the body of a fusion, and one for each element and each step after it."""
    number = record.number("binary", -1)
    if not 0 <= number < len(program.bodies):
        return None
    body, total = program.bodies[number], 0
    inner = Scalars(body, scalars.values)
    for statement, inside in body.statements:
        if not isinstance(inside, Record) or statement in QUIET:
            continue
        shapes = [[shape_of(name, body, inner) for name in inside.texts(key)] for key in ("input", "output")]
        read, written = ([shape for shape in group if shape is not None] for group in shapes)
        if not written:
            return None
        if statement in PRODUCTS:
            flops = _flops_of_product(statement, inside, read, written)
            if flops is None:
                return None
            total += flops
        elif statement not in ("concat", "cast"):
            total += prod(written[0])
    return total


def shape_of(name: str, program: ProgramText, scalars: Scalars) -> Shape | None:
    """The sizes of a tensor; None where one is not known."""
    tensor = program.tensors.get(name)
    return None if tensor is None else scalars.sizes(tensor.dims)
