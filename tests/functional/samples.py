"""torch's OpInfo samples as networks: one call of a function, built for real, interpreted, and compared with torch."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from unittest import mock

import torch
from support import assert_close, layer_types
from torch.utils._pytree import tree_flatten, tree_unflatten

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import BuildError, UnevaluatedProgramError, UnreadableProgramError

MANY = 50  # samples of one function that are run every time
DYNAMIC = 40  # samples of one function that are run with dynamic dimensions too


@cache
def opinfos():
    """torch's OpInfos by name; several variants of one name stand together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    found = {}
    for op in op_db:
        found.setdefault(op.name, []).append(op)
    return found


@dataclass
class Tally:
    """What became of the samples of one function."""

    passed: int = 0
    refused: Counter = field(default_factory=Counter)
    random: Counter = field(default_factory=Counter)  # refused, and torch itself gives another result each time
    failed: list = field(default_factory=list)
    layers: Counter = field(default_factory=Counter)
    dynamic_passed: int = 0
    dynamic_refused: Counter = field(default_factory=Counter)
    complete: bool = True

    @property
    def dynamic_total(self):
        return self.dynamic_passed + sum(self.dynamic_refused.values())

    @property
    def total(self):
        return self.passed + sum(self.refused.values()) + sum(self.random.values()) + len(self.failed)


def samples_of(record):
    """(torch's function, dtype, sample) of all samples of a record; a dtype that torch does not take is left out."""
    if record.samples is not None:
        yield from ((record.reference, torch.float32, sample) for sample in record.samples())
    for op in opinfos().get(record.opinfo, ()):
        supported = op.supported_dtypes("cpu")
        for dtype in record.dtypes:
            if dtype not in supported:
                continue
            torch.manual_seed(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
                    yield record.reference or op.op, dtype, sample


def expected_of(record, function, sample):
    """torch's results as a list of tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, args, kwargs = copy.deepcopy(parts_of(sample))
        result = function(first, *args, **kwargs)
    return [leaf for leaf in tree_flatten(record.outputs(result))[0] if leaf is not None]


def is_random(record, function, sample):
    """Whether torch gives another result each time, as dropout in training does: no result could be compared."""
    results = []
    for seed in range(3):
        torch.manual_seed(seed)
        with mock.patch.object(torch, "manual_seed"):  # OpInfo's own function sets one seed for every call
            results.append(expected_of(record, function, sample))
    return any(not torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other))


def parts_of(sample):
    return sample.input, tuple(sample.args), dict(sample.kwargs or {})


def is_tensor(leaf):
    return isinstance(leaf, torch.Tensor)


def build(record, sample, constant=frozenset(), shape_of=lambda tensor: tensor.shape):
    """The network of one sample: each of its tensors an input, those whose number is in ``constant`` a constant."""
    leaves, tree = tree_flatten(parts_of(sample))
    net = td.Network()
    feeds = {}
    for place, leaf in enumerate(leaves):
        if not is_tensor(leaf):
            continue
        leaf = leaf.contiguous()
        if place in constant:
            leaves[place] = net.constant(leaf)
            continue
        name = f"x{place}"
        feeds[name] = leaf
        leaves[place] = net.input(name, shape_of(leaf), leaf.dtype)
    first, args, kwargs = tree_unflatten(leaves, tree)
    with net.current():
        result = record.call(getattr(F, record.function))(first, *args, **kwargs)
    outputs = [leaf for leaf in tree_flatten(record.outputs(result))[0] if leaf is not None]
    for index, output in enumerate(outputs):
        net.output(output, f"y{index}")
    return net, feeds


def outputs_of(net, feeds):
    got = td.interpret(net, feeds)
    return [got[name] for name in net.outputs]


def constants_of(record, sample, names=None):
    """The numbers of the leaves that are constants in real networks, and must be here."""
    names = record.constants if names is None else names
    leaves, tree = tree_flatten(parts_of(sample))
    first, args, kwargs = tree_unflatten(list(range(len(leaves))), tree)
    chosen = set()
    for name in names:
        if name == "input":
            part = first
        else:
            part = kwargs.get(name) if isinstance(name, str) else args[name] if name < len(args) else None
        chosen.update(leaf for leaf in tree_flatten(part)[0] if leaf is not None)
    return frozenset(chosen)


def run_sample(record, function, sample, tally):
    """Adds one sample to the tally."""
    constant = constants_of(record, sample)
    try:
        net, feeds = build(record, sample, constant)
    except td.UnsupportedError as error:
        counter = tally.random if is_random(record, function, sample) else tally.refused
        counter[error.message] += 1
        return
    expected = expected_of(record, function, sample)
    compare(record, outputs_of(net, feeds), expected)
    tally.passed += 1
    tally.layers.update(kind for kind in layer_types(net) if kind not in ("CONSTANT", "IDENTITY"))
    if tally.dynamic_total < DYNAMIC and feeds:
        run_dynamic(record, sample, expected, tally)


def run_engine(record, function, sample):
    """Whether the program in the engine of one sample gives torch's result: "equal", or why it was not compared."""
    try:
        net, feeds = build(record, sample, constants_of(record, sample))
        got = td.evaluate_engine(net, feeds) if net.outputs else {}
    except (td.UnsupportedError, BuildError, UnevaluatedProgramError, UnreadableProgramError) as error:
        return f"{type(error).__name__}: {error}"
    compare(record, [got[name] for name in net.outputs], expected_of(record, function, sample))
    return "equal"


def compare(record, got, expected):
    assert len(got) == len(expected), f"{len(got)} outputs instead of {len(expected)}"
    for ours, theirs in zip(got, expected, strict=True):
        assert_close(ours, theirs, record.tolerance)


def run_dynamic(record, sample, expected, tally):
    """The same sample with dynamic dimensions: all of them or, where that is refused, one axis after the other."""
    constant = constants_of(record, sample, (*record.constants, *record.weights))
    refusal = None
    for only in (None, 0, 1, 2, 3):
        try:
            net, feeds = build(record, sample, constant, lambda tensor, only=only: named(record, tensor, only))
        except (td.UnsupportedError, td.ShapeError) as error:
            refusal = refusal or error.message
            continue
        if not net.dims:
            continue
        compare(record, outputs_of(net, feeds), expected)
        tally.dynamic_passed += 1
        return
    if refusal:
        tally.dynamic_refused[refusal] += 1


def named(record, tensor, only):
    """The shape with a Dim for each size above 1, or for those of one axis; equal sizes are one Dim."""
    static = {axis % tensor.ndim for axis in record.static if -tensor.ndim <= axis < tensor.ndim}
    return tuple(
        size if size < 2 or axis in static or only not in (None, axis) else dim_of(size)
        for axis, size in enumerate(tensor.shape)
    )


def dim_of(size):
    if size % 2 == 0:
        return 2 * td.Dim(f"H{size // 2}", min=1, max=size)
    return td.Dim(f"D{size}", min=2, max=2 * size)


def tally_of(record, limit=None):
    """All samples of a record, or, of one with more than ``limit``, a part of them spread over all."""
    tally = Tally()
    given = list(samples_of(record))
    step = 1 if limit is None or len(given) <= limit else -(-len(given) // limit)
    tally.complete = step == 1
    for function, dtype, sample in given[::step]:
        try:
            run_sample(record, function, sample, tally)
        except Exception as error:
            tally.failed.append(f"{dtype}: {type(error).__name__}: {error}\n{sample}")
    return tally
