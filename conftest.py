"""Names that every docstring example may use."""

import pytest

# Before anything is collected: pytest takes a module of trtdsl's that it finds imported, and would execute one that it
# does not find a second time, after the package around it has imported it.
import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L


@pytest.fixture(autouse=True)
def _doctest_names(request, doctest_namespace):
    import torch

    if isinstance(request.node, pytest.DoctestItem):
        layers = {name: getattr(L, name) for name in dir(L) if name.islower()}
        doctest_namespace.update(td=td, F=F, L=L, torch=torch, net=td.Network(), **layers)


def pytest_collection_modifyitems(config, items):
    """Heavy tests run when they are asked for: pytest -m heavy."""
    if "heavy" not in config.getoption("-m"):
        for item in items:
            if item.get_closest_marker("heavy"):
                item.add_marker(pytest.mark.skip(reason="heavy: run with -m heavy"))
