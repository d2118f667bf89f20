"""Names that every docstring example may use."""

from pathlib import Path

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
    """Long and heavy tests run when they are asked for: pytest -m heavy; pytest -m long, or by their file."""
    asked, files = config.getoption("-m").split(), {Path(arg.split("::")[0]).resolve() for arg in config.args}
    for item in items:
        name = next((each for each in ("heavy", "long") if item.get_closest_marker(each)), None)
        if name and name not in asked and not (name == "long" and item.path in files):
            item.add_marker(pytest.mark.skip(reason=f"{name}: run with -m {name}"))
