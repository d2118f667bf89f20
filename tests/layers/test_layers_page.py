"""docs/layers.md is current, and what it says cannot be built is what TensorRT does not build."""

import pytest
from layers_page import PAGE, announced, buildable_cases, builds, defined, page

from trtdsl.core.backend import has_cuda_device

CASES = buildable_cases()
SMALLEST = {item.type: item for item in reversed(CASES) if not announced(defined(item))}
UNBUILT = [item for item in CASES if announced(defined(item))]
no_gpu = pytest.mark.skipif(has_cuda_device(), reason="a GPU may have kernels that are missing without one")


def test_the_page_is_current():
    assert PAGE.read_text() == page(), "run tools/make_layers_doc.py"


@pytest.mark.parametrize("item", SMALLEST.values(), ids=str)
def test_a_case_of_each_type_builds(item):
    assert builds(defined(item))


@no_gpu
@pytest.mark.parametrize("item", UNBUILT, ids=str)
def test_layers_listed_as_unbuildable_do_not_build(item):
    assert not builds(defined(item))


@no_gpu
@pytest.mark.heavy
def test_exactly_the_listed_cases_do_not_build():
    assert [item for item in CASES if not builds(defined(item))] == UNBUILT
