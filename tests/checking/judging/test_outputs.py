"""Outputs of any structure: every leaf has a name, and none is lost."""

import collections
import dataclasses

import numpy as np
import pytest
import torch

import trtdsl as td
from trtdsl.checking.judging.outputs import Other, leaves, match

A, B, C = torch.ones(1), torch.zeros(2), torch.ones(3)


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    hidden: tuple | None = None


Pair = collections.namedtuple("Pair", ["left", "right"])


@pytest.mark.parametrize(
    ("returned", "paths"),
    [
        (A, [""]),
        ((A, B), ["0", "1"]),
        ({"y": A, "states": (B, [C])}, ["y", "states.0", "states.1.0"]),
        ((A, {"b": B}), ["0", "1.b"]),
        (Result(A, (B, C)), ["logits", "hidden.0", "hidden.1"]),
        (Result(A), ["logits"]),
        (Pair(A, B), ["left", "right"]),
        ({"a": {"b": {"c": A}}}, ["a.b.c"]),
        ([[A], [[B]]], ["0.0", "1.0.0"]),
        ({"a.b": A, "a": {"b": B}}, ["a.b", "a.b'"]),
        (collections.OrderedDict(x=A, y=None), ["x"]),
        ({0: A, 1: B}, ["0", "1"]),
        ((A, 3, np.float32(2)), ["0", "1", "2"]),
    ],
    ids=str,
)
def test_every_leaf_has_a_path(returned, paths):
    assert list(leaves(returned).values) == paths


def test_outputs_that_are_not_tensors_are_named():
    found = leaves({"y": A, "cache": object(), "text": "a"}).values
    assert found["cache"] == Other("a object")
    assert found["text"] == Other("a str")
    for given, why in (torch.eye(2).to_sparse(), "torch.sparse_coo"), (np.ma.array([1.0, 2.0], mask=[1, 0]), "masked"):
        found = leaves(given).values[""]
        assert isinstance(found, Other) and why in found.kind


def test_leaves_are_matched_by_name_or_in_order():
    assert list(match(leaves(A), ["y"])) == ["y"]
    assert match(leaves((A, [B])), ["x", "y"]) == {"x": A, "y": B}
    assert list(match(leaves((A, B)), ["x"])) == ["x", "reference output 1"]
    assert list(match(leaves({"p": A, "q": B}), ["q", "x"])) == ["p", "q"]
    assert match(leaves(Pair(A, B)), ["right", "left"]) == {"left": A, "right": B}
    assert match(leaves(Pair(A, B)), ["x", "y"]) == {"x": A, "y": B}
    assert list(match(leaves({"states": (A,)}), ["states_0"])) == ["states_0"]


def test_outputs_left_out_are_named_and_must_exist():
    found = leaves({"y": A, "states": (B, C)})
    assert list(found.without(["states"]).values) == ["y"]
    assert list(found.without(["states.1"]).values) == ["y", "states.0"]
    with pytest.raises(td.UsageError, match=r"the reference has no output 'state' to leave out.*it has y, states.0"):
        found.without(["state"])


def check(network, reference, **options):
    class Module(torch.nn.Module):
        def forward(self, x):
            return reference(x)

    return td.check(td.network(inputs={"x": td.Input((2, 3))}, reference=Module, **options)(network))


def test_a_report_repeats_what_is_left_out():
    report = check(lambda x: {"y": x * 2}, lambda x: {"y": x * 2, "hidden": (x,)}, leave_out="hidden")
    assert report.passed
    assert "left out of the reference's outputs: hidden" in report.unproven


def test_incomparable_outputs_are_a_mismatch_with_advice():
    report = check(lambda x: {"y": x * 2}, lambda x: {"y": x * 2, "cache": object()})
    (problem,) = report.problems()
    assert "the reference has a object here, which cannot be compared: leave it out by its name" in problem
