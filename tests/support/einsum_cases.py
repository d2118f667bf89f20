"""Random einsum equations for property tests, and a plan's meaning in numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from trtdsl import Dim
from trtdsl.functional.einsum.plan import Add, Diagonal, MatrixMultiply, Multiply, Reduce, Shuffle, Take
from trtdsl.sizes.size import SizeLike

LABELS = "abcdXY"
NAMES = [*("D" + label for label in LABELS), "E0"]


@dataclass(frozen=True)
class Case:
    """A valid equation: the operands' shapes, these with Dims for dynamic ones, and which are constants."""

    equation: str
    shapes: tuple[tuple[int, ...], ...]
    dims: tuple[tuple[SizeLike, ...], ...]
    constants: tuple[bool, ...]


@st.composite
def cases(draw, *, dynamic: bool = True) -> Case:
    sizes = {label: draw(st.integers(1, 4)) for label in LABELS}
    free = set(draw(st.sets(st.sampled_from(LABELS)))) if dynamic else set()
    # What a size is tuned for decides between plans, never what they mean.
    dim = {name: Dim(name, min=1, opt=draw(st.sampled_from([1, 4, 100])), max=100) for name in NAMES}
    hidden = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, shapes, dims, constants = [], [], [], []
    dots = False
    for _ in range(draw(st.integers(1, 4))):
        labels = draw(st.lists(st.sampled_from(LABELS), max_size=4))
        ones = set(draw(st.sets(st.sampled_from(LABELS), max_size=2)))
        shape = [1 if label in ones else sizes[label] for label in labels]
        names = [1 if label in ones else dim["D" + label] if label in free else sizes[label] for label in labels]
        if hidden and draw(st.booleans()):
            dots = True
            place = draw(st.integers(0, len(labels)))
            count = draw(st.integers(0, len(hidden)))
            tail = [
                (k, 1 if draw(st.integers(0, 3)) == 0 else hidden[k]) for k in range(len(hidden) - count, len(hidden))
            ]
            labels[place:place] = ["..."]
            shape[place:place] = [size for _, size in tail]
            names[place:place] = [dim["E0"] if dynamic and size != 1 and k == 0 else size for k, size in tail]
        terms.append(draw(st.sampled_from(["", " "])).join(labels))
        shapes.append(tuple(shape))
        dims.append(tuple(names))
        constants.append(draw(st.integers(0, 3)) == 0)
    return Case(",".join(terms) + draw(_outputs(terms, dots)), tuple(shapes), tuple(dims), tuple(constants))


@st.composite
def _outputs(draw, terms, dots):
    if draw(st.integers(0, 3)) == 0:
        return ""  # implicit
    used = sorted({label for term in terms for label in term if label in LABELS})
    labels = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    if dots and draw(st.integers(0, 3)) > 0:
        labels.insert(draw(st.integers(0, len(labels))), "...")
    return "->" + "".join(labels)


def run_plan(plan, operands):
    """Every value of a plan, computed with numpy."""
    values = list(operands)
    for step in plan.operations:
        values.append(_run(step, values))
    return values


def _run(step, values):
    if isinstance(step, (Multiply, Add)):
        a, b = values[step.a], values[step.b]
        assert a.ndim == b.ndim
        return a * b if isinstance(step, Multiply) else a + b
    if isinstance(step, MatrixMultiply):
        a, b = values[step.a], values[step.b]
        assert a.ndim == b.ndim
        return np.matmul(
            np.swapaxes(a, -1, -2) if step.transpose_a else a, np.swapaxes(b, -1, -2) if step.transpose_b else b
        )
    x = values[step.x]
    if isinstance(step, Reduce):
        return x.sum(step.axes)
    if isinstance(step, Take):
        return np.take(x, [step.place], step.axis)
    if isinstance(step, Diagonal):
        labels = [axis for axis, count in enumerate(step.counts) for _ in range(count)]
        return np.einsum(x.transpose(step.first), labels, [*range(len(step.counts))])
    assert isinstance(step, Shuffle)
    x = x if step.first is None else x.transpose(step.first)
    x = x if step.shape is None else x.reshape(step.shape)
    return x if step.second is None else x.transpose(step.second)
