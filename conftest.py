"""Names that every docstring example may use."""

import pytest


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import torch

    import trtdsl as td
    import trtdsl.functional as F
    import trtdsl.layers as L

    doctest_namespace.update(
        td=td, F=F, L=L, torch=torch, **{name: getattr(L, name) for name in dir(L) if name.islower()}
    )
