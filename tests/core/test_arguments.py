"""Arguments of the caller's: what is taken, and one sentence for what is not."""

import numpy as np
import pytest
import torch

import trtdsl as td
from trtdsl.core.caller import Finite, Positive, Seed, as_argument, at_shell
from trtdsl.core.errors import Location


@pytest.mark.parametrize("given", [2, np.int64(2), torch.tensor(2)])
def test_numbers_of_numpy_and_torch_are_python_s(given):
    found = as_argument("count", given, Positive)
    assert found == 2 and type(found) is int


@pytest.mark.parametrize("given", [[1, 2], (1, 2), range(1, 3), np.array([1, 2]), [np.int32(1), torch.tensor(2)]])
def test_lists_of_them(given):
    assert as_argument("rows", given, list[int]) == [1, 2]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (0, Positive, "count=0: expected int >= 1"),
        (True, Positive, "count=True: expected int, got bool"),
        (None, Seed, "count=None: expected int, got None"),
        (1j, Finite, "count=1j: expected float, got complex"),
        ("ab", list[int] | None, "count='ab': expected list | None, got str"),
        ([1, "2"], list[int], "count=[1, '2']: [1]: expected int, got str"),
    ],
)
def test_what_is_not_taken(given, kind, message):
    with pytest.raises(td.UsageError) as caught:
        as_argument("count", given, kind)
    assert str(caught.value) == message


def test_who_reads_it():
    with at_shell(), pytest.raises(td.UsageError, match="^--top-k 0: expected int >= 1$"):
        as_argument("top_k", 0, Positive)
    with pytest.raises(td.ShapeError, match=r"^net.py:3: ranks=0: expected int >= 1$"):
        as_argument("ranks", 0, Positive, td.ShapeError, location=Location("net.py", 3))
