"""Tests that execute engines: skipped, with the reason, where there is no GPU."""

import pytest

from trtdsl.core.backend import cuda_status


def pytest_collection_modifyitems(items):
    reason = cuda_status()
    for item in items:
        if "tests/gpu/" in item.nodeid:
            item.add_marker(pytest.mark.gpu)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))
