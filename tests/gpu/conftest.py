"""Tests that execute engines: on a GPU where there is one, elsewhere on the simulated device.

``real_gpu`` marks what only a GPU can show: it is skipped elsewhere, with the reason.
"""

import pytest
from device import simulated_device
from device.torch_cuda import simulated_torch

from trtdsl.core.backend import cuda_status

HERE = cuda_status()


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/gpu/" in item.nodeid:
            item.add_marker(pytest.mark.gpu)
            only = item.get_closest_marker("real_gpu")
            if HERE is not None and only is not None:
                item.add_marker(pytest.mark.skip(reason=f"only a GPU shows {only.args[0]}: {HERE}"))


@pytest.fixture(scope="module", autouse=True)
def simulated():
    """The simulated machine; None where there is a GPU."""
    if HERE is None:
        yield None
        return
    with simulated_device() as machine, simulated_torch(machine):
        yield machine


@pytest.fixture(autouse=True)
def nothing_amiss(simulated):
    """No test may do what a GPU would have died of, or what it would have got away with."""
    yield
    if simulated is not None:
        seen, simulated.violations[:] = list(simulated.violations), []
        assert not seen, seen
