"""A fresh simulated machine for each test, on which nothing may be amiss at its end."""

import pytest

from device import simulated_device


@pytest.fixture
def machine():
    with simulated_device() as made:
        yield made
        assert not made.violations, made.violations
