"""Plugins: creators in TensorRT-RTX's real registry, typed fields, and what a check needs of them.

Networks of TensorRT-RTX take no plugins, and standard TensorRT runs on no machine without a GPU: how the layer is added
is compared with TensorRT's own signatures in tests/test_api_surface.py.
"""

import types

import msgspec
import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.layers as L
from trtdsl.core.backend import get_backend
from trtdsl.definition.input import PluginUse
from trtdsl.engine.loading.loader import check_plugins
from trtdsl.engine.loading.manifest import Plugin
from trtdsl.layers.evaluation import KINDS
from trtdsl.layers.plugin import field_values, find_creator, make_plugin


@pytest.fixture(scope="module")
def backend():
    return get_backend("tensorrt-rtx")


@pytest.fixture
def creator(backend):
    """A creator of a V3 plugin in the real registry, which notes the fields that it gets."""
    trt = backend.trt

    class Plugin(trt.IPluginV3):
        pass

    class Creator(trt.IPluginCreatorV3One):
        def __init__(self):
            super().__init__()
            self.name, self.plugin_version, self.plugin_namespace = "ScaleOfTest", "2", ""
            declared = {"factor": "FLOAT32", "axes": "INT32", "count": "INT64", "mode": "CHAR", "dims": "DIMS"}
            fields = [
                trt.PluginField(name, np.array([]), getattr(trt.PluginFieldType, kind))
                for name, kind in declared.items()
            ]
            self.field_names = trt.PluginFieldCollection(fields)
            self.seen = {}

        def create_plugin(self, name, fields, phase):
            self.seen = {field.name: (field.type.name, field.data.dtype.name, field.data.tolist()) for field in fields}
            self.phase = phase.name
            return Plugin() if "factor" in self.seen else None

    made = Creator()
    registry = trt.get_plugin_registry()
    assert registry.register_creator(made, "")
    yield made
    registry.deregister_creator(made)


def test_a_creator_is_found_by_name_and_version(backend, creator):
    assert find_creator(backend, "ScaleOfTest", "2") is creator
    with pytest.raises(td.DefinitionError, match="the plugin ScaleOfTest has the version 2, not 1"):
        find_creator(backend, "ScaleOfTest", "1")
    with pytest.raises(td.DefinitionError, match=r"no plugin 'ScaleOfTets' .*is registered \(nearest: ScaleOfTest\)"):
        find_creator(backend, "ScaleOfTets", "2")
    with pytest.raises(td.DefinitionError, match=r"namespace mine\) is registered.*load its library first"):
        find_creator(backend, "Another", "1", "mine")


def test_fields_get_the_types_that_the_creator_declares(backend, creator):
    given = {"factor": 2, "axes": (0, 1), "count": torch.tensor(3), "mode": "fast"}
    values = field_values(backend, creator, given)
    assert make_plugin(backend, creator, "ScaleOfTest", values) is not None
    assert creator.phase == "BUILD"
    assert creator.seen == {
        "factor": ("FLOAT32", "float32", [2.0]),
        "axes": ("INT32", "int32", [0, 1]),
        "count": ("INT64", "int64", [3]),
        "mode": ("CHAR", "int8", [*b"fast"]),
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"facto": 1.0},
            r"ScaleOfTest has no field 'facto' \(nearest: factor\): it has factor, axes, count, mode, dims",
        ),
        ({"axes": 1.5}, "the field axes is int32, which 1.5 does not fit"),
        ({"axes": 2**40}, "the field axes is int32, which 1099511627776 does not fit"),
        ({"factor": "two"}, "the field factor is float32, not 'two'"),
        ({"mode": 3}, "the field mode is a text, not 3"),
        ({"dims": (1, 2)}, "a field of type DIMS, as dims is, cannot be given from here"),
    ],
)
def test_fields_that_do_not_fit(backend, creator, fields, message):
    with pytest.raises(td.DefinitionError, match=message):
        field_values(backend, creator, fields)


def test_a_creator_that_declares_nothing_takes_any_field(backend):
    undeclared = types.SimpleNamespace(name="Any", field_names=[])
    given = {"a": 1, "b": 0.5, "c": "x", "d": np.ones(2, np.float16), "e": [1, 2], "f": True}
    kinds = {name: kind for name, (kind, _) in field_values(backend, undeclared, given).items()}
    assert kinds == {"a": "INT32", "b": "FLOAT32", "c": "CHAR", "d": "FLOAT16", "e": "INT32", "f": "INT32"}


def test_a_creator_that_makes_nothing(backend, creator):
    with pytest.raises(td.DefinitionError, match="the creator of the plugin ScaleOfTest makes none of no fields"):
        make_plugin(backend, creator, "ScaleOfTest", {})


def test_tensorrt_rtx_has_no_plugins_in_its_networks(backend):
    x = td.Network(backend="tensorrt-rtx").input("x", (2, 3))
    with pytest.raises(td.UnsupportedError, match=r"tensorrt-rtx [\d.]+ has no plugins in its networks") as caught:
        L.plugin("ROIAlign_TRT", [x], fields={"output_height": 7})
    assert caught.value.location.file == __file__


def test_the_author_evaluates_the_layer():
    for kind in ("PLUGIN_V2", "PLUGIN_V3"):
        given = types.SimpleNamespace(given=torch.relu)
        assert KINDS[kind].prepare(given) is torch.relu
        refusal = types.SimpleNamespace(given=None, unsupported=lambda what: td.UnsupportedError(what))
        with pytest.raises(td.UnsupportedError, match="a plugin without an evaluator"):
            KINDS[kind].prepare(refusal)


def test_a_manifest_names_the_plugins_and_loading_asks_for_them(backend, creator):
    used = [PluginUse("ScaleOfTest", "2", "", {}, None), PluginUse("Absent", "1", "", {}, None)]
    plugins = msgspec.convert([each.to_json() for each in used], tuple[Plugin, ...])
    check_plugins(types.SimpleNamespace(plugins=plugins[:1]), backend)
    with pytest.raises(td.EngineError, match="needs the plugin Absent"):
        check_plugins(types.SimpleNamespace(plugins=plugins), backend)
