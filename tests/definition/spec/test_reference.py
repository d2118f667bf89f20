"""What a reference has beside its tensors."""

import torch

import trtdsl as td
from trtdsl.definition.spec.reference import state_of


def test_a_state_that_is_no_tensor_is_left_to_the_module():
    class Versioned(torch.nn.Linear):
        def get_extra_state(self):
            return {"version": 2}

        def set_extra_state(self, state):
            assert state == {"version": 2}

    assert list(state_of(Versioned(3, 2))) == ["weight", "bias"]
    spec = td.from_module(Versioned(3, 2), ["N,3"], dims={"N": (1, 2, 3)})
    assert td.check(spec).passed
