"""What BuildConfig refuses on TensorRT-RTX is really without effect there, and what it takes has one."""

import re
from types import SimpleNamespace

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.backend import ONLY, Backend, get_backend
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.compiling.config import HARDWARE, TILING, VERBOSITY

BACKEND = get_backend("tensorrt-rtx")


@pytest.fixture(scope="module")
def network():
    generator = torch.Generator().manual_seed(0)
    net = td.Network(backend=BACKEND)
    weight = torch.randn(16, 8, 3, 3, generator=generator)
    weight[:, ::4] = weight[:, 1::4] = 0  # two zeros in four, as sparse kernels want them
    x = F.relu(F.conv2d(net.input("x", (2, 8, 16, 16)), net.constant(weight)))
    net.output(F.conv2d(x, net.constant(torch.randn(8, 16, 3, 3, generator=generator))), "y")
    return net


def bytes_with(network, change):
    """The engine built with an IBuilderConfig that ``change`` was done to."""
    config = BACKEND.builder.create_builder_config()
    with BACKEND.listen():
        change(config)
        data = BACKEND.builder.build_serialized_network(network.definition, config)
    return None if data is None else bytes(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda config: setattr(config, "builder_optimization_level", 5),
        lambda config: setattr(config, "builder_optimization_level", 0),
        lambda config: setattr(config, "max_aux_streams", 4),
        lambda config: setattr(config, "tiling_optimization_level", BACKEND.trt.TilingOptimizationLevel.FULL),
        lambda config: setattr(
            config, "hardware_compatibility_level", BACKEND.trt.HardwareCompatibilityLevel.AMPERE_PLUS
        ),
        lambda config: config.set_flag(BACKEND.trt.BuilderFlag.SPARSE_WEIGHTS),
    ],
)
def test_refused_options_change_nothing(network, change):
    assert bytes_with(network, change) == bytes_with(network, lambda config: None)


def test_version_compatible_engines_are_not_built(network):
    assert bytes_with(network, lambda config: config.set_flag(BACKEND.trt.BuilderFlag.VERSION_COMPATIBLE)) is None


@pytest.mark.parametrize(
    "options",
    [
        {"tf32": False},
        {"profiling_verbosity": "detailed"},
        {"profiling_verbosity": "none"},
        {"weight_streaming": True},
        {"compute_capabilities": ("8.9",)},
    ],
)
def test_accepted_options_change_the_engine(network, options):
    assert compile_engine(network, td.BuildConfig(**options)).data != compile_engine(network).data


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workspace": "64 MiB"}, "workspace='64 MiB': expected int | None, got str"),
        ({"workspace": 1.5}, "workspace=1.5: expected int | None, got float"),
        ({"workspace": 2**70}, f"workspace={2**70}: expected int <= {2**63 - 1}"),
        ({"aux_streams": 65}, "aux_streams=65: expected int <= 64"),
        ({"tf32": "no"}, "tf32='no': expected bool, got str"),
        ({"tiling": []}, "tiling must be one of none, fast, moderate, full, not []"),
    ],
)
def test_options_have_their_types_and_bounds(options, words):
    with pytest.raises(td.UsageError, match=re.escape(words)):
        td.BuildConfig(**options)


def test_workspace_is_a_limit(network):
    with pytest.raises(td.BuildError, match="workspace"):
        compile_engine(network, td.BuildConfig(workspace=1 << 20))
    assert compile_engine(network, td.BuildConfig(workspace=256 << 20)).data


def test_standard_tensorrt_takes_them_and_not_those_of_rtx():
    trt = SimpleNamespace(
        HardwareCompatibilityLevel=BACKEND.trt.HardwareCompatibilityLevel,
        TilingOptimizationLevel=BACKEND.trt.TilingOptimizationLevel,
    )
    standard = Backend.__new__(Backend)
    vars(standard).update(name="tensorrt", version="10.16.1.11", is_rtx=False, trt=trt)
    td.BuildConfig(
        optimization_level=5,
        sparsity=True,
        aux_streams=0,
        tiling="full",
        hardware_compatibility="ampere+",
        version_compatible=True,
        refit=True,
        strip_weights=True,
    ).validate(standard)
    with pytest.raises(td.UsageError, match="tensorrt has no compute capabilities"):
        td.BuildConfig(compute_capabilities=("8.9",)).validate(standard)
    del trt.TilingOptimizationLevel
    with pytest.raises(td.UsageError, match="has no tiling"):
        td.BuildConfig(tiling="full").validate(standard)


def test_every_option_is_either_for_both_or_named():
    assert set(ONLY) <= set(td.BuildConfig.__dataclass_fields__)
    trt = BACKEND.trt
    assert set(HARDWARE.values()) < set(trt.HardwareCompatibilityLevel.__members__)
    assert set(TILING.values()) == set(trt.TilingOptimizationLevel.__members__)
    assert set(VERBOSITY.values()) == set(trt.ProfilingVerbosity.__members__)
