"""Floors worked by hand, and devices by name."""

import pytest

import trtdsl as td
import trtdsl.functional as F
from trtdsl.programs.devices import DEVICES, find_device


def test_a_floor_is_the_greatest_of_bytes_operations_and_overhead(program_of, constant):
    # On an H100 (3.35 TB/s; 494.5 TFLOPS in TF32, 67 in float32; 2 µs a launch):
    size = 4096
    product = program_of(lambda net: F.matmul(net.input("x", (size, size)), net.input("z", (size, size))))
    assert td.floor_of(product, "h100").seconds == pytest.approx(2 * size**3 / 494.5e12)  # 278 µs; its bytes take 60
    copy = program_of(lambda net: net.input("x", (size, size)).permute(1, 0))
    assert td.floor_of(copy, "h100").seconds == pytest.approx(2 * size * size * 4 / 3.35e12)
    small = program_of(lambda net: F.exp(net.input("x", (2, 2))))
    assert td.floor_of(small, "h100").seconds == 2e-6


def test_devices_are_found_as_people_write_them():
    for text in ("rtx-4090", "RTX 4090", "rtx4090", "4090", "GeForce RTX 4090", "NVIDIA GeForce RTX 4090"):
        assert find_device(text).name == "rtx-4090"
    with pytest.raises(td.UsageError, match=r"no device 'rtx-4080' in the table: it has h200, .* \(nearest: rtx-4090"):
        find_device("rtx-4080")


def test_every_device_has_a_source_and_sensible_figures():
    for device in DEVICES.values():
        assert "NVIDIA" in device.source
        assert device.vector <= device.half <= device.int8
        assert 1e11 < device.bandwidth < 1e13
