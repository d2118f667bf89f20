"""Everything that trtdsl asks of TensorRT, against the API of versions that cannot run here (tests/data/api).

tools/api_surface.py made those files from the bindings wheels. What trtdsl asks is read from its own source: names on
the trt module, members of its enums, and methods and properties of TensorRT's objects with the arguments they get.
"""

import ast
import json
import math
from functools import cache
from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.core.backend import DTYPES, MODULES, get_backend
from trtdsl.engine.compiling import config
from trtdsl.layers.base import add_layer
from trtdsl.layers.evaluation import KINDS, class_name
from trtdsl.layers.plugin import FIELD_TYPES

ROOT = Path(__file__).parents[1]
SURFACES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "tests/data/api").glob("*.json"))}
NEWEST = "tensorrt-rtx-1.7.1.116"

# What a version lacks and where trtdsl provides for that.
RTX_ONLY = {  # asked for where Backend says that it is there, or refused by BuildConfig
    *("ComputeCapability", "CudaGraphStrategy", "EngineInvalidityDiagnostics"),
    *("num_compute_capabilities", "set_compute_capability", "get_engine_validity"),
    *("create_runtime_config", "create_runtime_cache", "set_runtime_cache", "cuda_graph_strategy"),
    *("DynamicShapesKernelSpecializationStrategy", "dynamic_shapes_kernel_specialization_strategy"),
}
LATER = {
    # layers: add_layer turns their absence into an UnsupportedError
    *("add_attention_v2", "add_cumulative", "add_dynamic_quantize", "add_dynamic_quantize_v2", "add_kv_cache_update"),
    *("add_normalization_v2", "add_rotary_embedding", "add_dist_collective", "add_moe"),
    *("add_squeeze", "add_unsqueeze"),  # layers/shuffle.py: a shuffle instead
    # enums of those layers
    *(
        "AttentionIOForm",
        "AttentionNormalizationOp",
        "CausalMaskKind",
        "CollectiveOperation",
        "CumulativeOperation",
        "KVCacheMode",
        "MoEActType",
    ),
    # attributes of those layers, and of a quantize layer that has blocks
    *("causal_kind", "key_value_form", "key_value_lengths", "query_form", "query_lengths", "update_form"),
    *("update_lengths", "block_shape", "num_ranks"),
    # loaded.py asks whether the engine or the context has it
    *("get_aliased_input_tensor", "set_communicator"),
    # BuildConfig.validate
    *("TilingOptimizationLevel", "tiling_optimization_level"),
}


class Source(ast.NodeVisitor):
    """What trtdsl's source asks of TensorRT."""

    def __init__(self, members):
        self.members = members
        self.module, self.enums, self.attributes, self.calls = {}, {}, {}, []

    def visit_Attribute(self, node):
        owner = node.value
        place = f"{self.file}:{node.lineno}"
        if is_module(owner) and (node.attr[0].isupper() or node.attr in ("get_plugin_registry",)):
            self.module.setdefault(node.attr, place)
        elif isinstance(owner, ast.Attribute) and is_module(owner.value) and node.attr.isupper():
            self.enums.setdefault((owner.attr, node.attr), place)
        elif node.attr in self.members:
            self.attributes.setdefault(node.attr, place)
        self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr in self.members:
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            named = [keyword.arg for keyword in node.keywords]
            if not starred and None not in named:
                self.calls.append((node.func.attr, len(node.args), named, f"{self.file}:{node.lineno}"))
        self.generic_visit(node)

    def visit_FunctionDef(self, node):  # add = adds("add_topk", order, takes=1, mode=…), then add_layer(add, x, k)
        parts = list(ast.walk(node))
        named = {
            part.targets[0].id: part.value
            for part in parts
            if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name) and is_call(part.value, "adds")
        }
        for part in parts:
            if is_call(part, "add_layer") and part.args:
                made = named.get(part.args[0].id) if isinstance(part.args[0], ast.Name) else part.args[0]
                if is_call(made, "adds"):
                    self.added(made, part.args[1:])
            if is_call(part, "add_region_layer"):
                self.added_to_region(part)
        self.generic_visit(node)

    def added(self, call, operands):
        """A layer that is added by the name of its method: the operands, or the first of them, then the arguments."""
        place = f"{self.file}:{call.lineno}"
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        takes, numbers = given.pop("takes", None), given.pop("numbers", None)
        for name in (*given, *(key.value for key in (numbers.keys if numbers else ()))):
            if name in self.members:
                self.attributes.setdefault(name, place)
        starred = [each for each in (*call.args, *(operands if takes is None else ())) if isinstance(each, ast.Starred)]
        if isinstance(call.args[0], ast.Constant) and not starred:
            count = len(operands) if takes is None else takes.value
            self.calls.append((call.args[0].value, count + len(call.args) - 1, [], place))

    def added_to_region(self, call):
        """A layer of a loop or a conditional: its operands, or the first of them and a list of arguments."""
        (method, *operands), named = call.args[2:], {keyword.arg: keyword.value for keyword in call.keywords}
        arguments = named.get("arguments")
        known = (
            isinstance(arguments, ast.List) if None in named else arguments is None or isinstance(arguments, ast.List)
        )
        if isinstance(method, ast.Constant) and known:
            count = len(operands) if arguments is None else 1 + len(arguments.elts)
            self.calls.append((method.value, count, [], f"{self.file}:{call.lineno}"))

    def visit_Constant(self, node):  # getattr(definition, "add_quantize")
        if isinstance(node.value, str) and node.value.startswith("add_") and node.value in self.members:
            self.attributes.setdefault(node.value, f"{self.file}:{node.lineno}")


def is_call(node, name):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def is_module(node):
    """`trt` or `something.trt`, which is the module where a class or a function follows."""
    return (isinstance(node, ast.Name) and node.id == "trt") or (isinstance(node, ast.Attribute) and node.attr == "trt")


# Names that Python's, torch's or trtdsl's own objects have too; none of them differs between versions.
COMMON = {
    "name",
    "type",
    "shape",
    "dtype",
    "update",
    "read",
    "write",
    "reset",
    "get",
    "engine",
    "metadata",
    "mask",
    "op",
    "query",
}
COMMON |= {*dir(list), *dir(dict), *dir(str), *dir(torch), *dir(torch.Tensor), *dir(math)}


@cache
def source():
    newest = SURFACES[NEWEST]["classes"].values()
    members = {name for each in newest for name in (*each["properties"], *each["methods"])} - COMMON - {"__init__"}
    found = Source(members)
    for path in sorted((ROOT / "trtdsl").rglob("*.py")):
        found.file = path.relative_to(ROOT).as_posix()
        found.visit(ast.parse(path.read_text()))
    return found


# Methods that trtdsl's own classes have under the same name; each is checked where it is TensorRT's by the layer tests.
OURS = {"operation", "constant", "add_input", "get_shape", "parse", "save_to_buffer"}


def fits(overload, count, named):
    """Whether `count` positional arguments and the named ones are a call of an overload."""
    parameters = [name for name in overload.split(", ") if name and name != "self"]
    names = [name.rstrip("=") for name in parameters]
    if count > len(parameters) or not set(named) <= set(names[count:]):
        return False
    return all(name.endswith("=") or name in named for name in parameters[count:])


@pytest.fixture(params=SURFACES)
def surface(request):
    return SURFACES[request.param]


def provided(surface, name):
    return name in LATER or (surface["product"] == "tensorrt" and name in RTX_ONLY)


def test_the_scan_sees_what_it_should():
    found = source()
    assert {"Builder", "Runtime", "Weights", "IProgressMonitor", "BuilderFlag"} <= found.module.keys()
    assert {("TensorIOMode", "INPUT"), ("MemoryPoolType", "WORKSPACE")} <= found.enums.keys()
    assert {"add_convolution_nd", "add_quantize", "set_tensor_address", "execute_async_v3"} <= found.attributes.keys()
    assert any(call[0] == "create_execution_context" for call in found.calls)
    assert len(found.attributes) > 150
    assert fits("self, a, b=", 1, ["b"])
    assert not fits("self, a, b=", 1, ["c"])
    assert not fits("self, a, b", 1, [])
    assert not fits("self, a", 2, [])


def test_module_and_enums(surface):
    names = surface["classes"].keys() | surface["enums"].keys() | surface["functions"].keys()
    lacking = [name for name in source().module if name not in names and not provided(surface, name)]
    assert not lacking, f"{surface['version']} has no {lacking}"
    for (enum, member), place in source().enums.items():
        if not provided(surface, enum):
            assert member in surface["enums"][enum], f"{place}: {enum}.{member}"


def test_methods_and_properties(surface):
    """Each name that is asked for is a member of the classes that have it in the newest version, where those exist."""
    for name, place in source().attributes.items():
        if provided(surface, name):
            continue
        for cls, newest in SURFACES[NEWEST]["classes"].items():
            if name in newest["properties"] or name in newest["methods"]:
                here = surface["classes"].get(cls)
                if here is None:
                    assert not essential(cls, surface), f"{place}: {surface['version']} has no {cls}"
                else:
                    assert name in here["properties"] or name in here["methods"], f"{place}: {cls}.{name}"


def essential(cls, surface):
    """Whether a class must be there: not that of a layer that is refused where it is not, nor TensorRT-RTX's own."""
    layer = cls.startswith("I") and (cls.endswith("Layer") or cls == "IAttention")
    later = ("IRuntimeCache", "IRuntimeConfig", "IWeightsManager", "IStreamReaderV2", "IStreamWriter")
    return not (layer or cls in later or cls.startswith(("IPlugin", "TimingCache")))


def test_calls_of_tensorrt_fit_its_signatures(surface):
    """Each call fits an overload of a class that has the method."""
    checked = 0
    for name, count, named, place in source().calls:
        overloads = [text for each in surface["classes"].values() for text in each["methods"].get(name, ())]
        if overloads and name not in OURS:
            assert any(fits(text, count, named) for text in overloads), f"{place}: {name}: {overloads}"
            checked += 1
    assert checked > 100


def test_each_layer_type_has_its_class(surface):
    types = set(surface["enums"]["LayerType"])
    for name in KINDS.keys() & types:
        assert class_name(name, surface["classes"]) in surface["classes"], name


def test_classes_of_layer_types_in_tensorrts_capitals(surface):
    """The names as NvInfer.h has them, written down from there."""
    named = {
        "ELEMENTWISE": "IElementWiseLayer",
        "SOFTMAX": "ISoftMaxLayer",
        "TOPK": "ITopKLayer",
        "RAGGED_SOFTMAX": "IRaggedSoftMaxLayer",
        "PARAMETRIC_RELU": "IParametricReLULayer",
        "CONDITIONAL_INPUT": "IIfConditionalInputLayer",
        "CONDITIONAL_OUTPUT": "IIfConditionalOutputLayer",
        "CONDITION": "IConditionLayer",
        "CONVOLUTION": "IConvolutionLayer",
        "TRIP_LIMIT": "ITripLimitLayer",
        "NMS": "INMSLayer",
        "LRN": "ILRNLayer",
        "KV_CACHE_UPDATE": "IKVCacheUpdateLayer",
        "MOE": "IMoELayer",
        "PLUGIN_V2": "IPluginV2Layer",
        "PLUGIN_V3": "IPluginV3Layer",
    }
    for type, name in named.items():
        if name in surface["classes"]:
            assert class_name(type, surface["classes"]) == name


def test_enums_of_options(surface):
    for enum, members in (
        ("ProfilingVerbosity", config.VERBOSITY.values()),
        ("MemoryPoolType", ["WORKSPACE"]),
        ("BuilderFlag", ["TF32", "VERSION_COMPATIBLE", "SPARSE_WEIGHTS", "WEIGHT_STREAMING"]),
        ("BuilderFlag", ["REFIT", "STRIP_PLAN", "REFIT_IDENTICAL"]),
        ("WeightsRole", ["KERNEL", "BIAS", "SHIFT", "SCALE", "CONSTANT"]),
        ("TensorLocation", ["HOST", "DEVICE"]),
        ("HardwareCompatibilityLevel", ["AMPERE_PLUS"]),
    ):
        assert set(members) <= set(surface["enums"][enum]), enum
    assert set(surface["enums"]["DataType"]) <= DTYPES.keys()
    for name in ("FLOAT", "HALF", "BF16", "INT8", "INT32", "INT64", "BOOL", "UINT8", "FP8", "INT4"):
        assert name in surface["enums"]["DataType"]
    strong = "STRONGLY_TYPED" in surface["enums"]["NetworkDefinitionCreationFlag"]
    assert strong or surface["product"] == "tensorrt-rtx" or int(surface["version"].split(".")[0]) >= 11


def test_the_surface_here_is_the_one_on_file():
    """The tool's reading of the installed bindings, so that the files cannot be of something else."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("api_surface", ROOT / "tools/api_surface.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    backend = get_backend("tensorrt-rtx")
    if f"tensorrt-rtx-{backend.version}" not in SURFACES:
        pytest.skip(f"no surface of {backend.version} is on file")
    import sys

    found = tool.surface(sys.modules[backend.trt.Builder.__module__])
    on_file = SURFACES[f"tensorrt-rtx-{backend.version}"]
    assert found["enums"] == on_file["enums"]
    assert found["classes"] == on_file["classes"]
    assert MODULES.keys() == {surface["product"] for surface in SURFACES.values()}


def test_a_layer_that_this_version_lacks_is_refused_by_name():
    net = td.Network(backend="tensorrt-rtx")
    x = net.input("x", (2,))
    with pytest.raises(td.UnsupportedError, match=r"tensorrt-rtx [\d.]+ has no add_something_of_tomorrow"):
        add_layer(lambda target, x: target.definition.add_something_of_tomorrow(x), x)


def test_plugins_are_found_made_and_added_as_tensorrt_has_it(surface):
    """layers/plugin.py, whose networks TensorRT-RTX does not have, against the versions that have them."""
    if surface["product"] != "tensorrt":
        assert not [name for name in surface["classes"]["INetworkDefinition"]["methods"] if "plugin" in name]
        return
    asked = {"add_plugin_v2", "add_plugin_v3", "create_plugin", "get_creator"}
    found = Source({*asked, "all_creators", "plugin_version", "plugin_namespace", "field_names"})
    found.file = "trtdsl/layers/plugin.py"
    found.visit(ast.parse((ROOT / found.file).read_text()))
    assert {call[0] for call in found.calls} == asked
    assert {"all_creators", "plugin_version", "plugin_namespace", "field_names"} <= found.attributes.keys()
    for name, count, named, place in found.calls:
        overloads = [text for each in surface["classes"].values() for text in each["methods"].get(name, ())]
        assert any(fits(text, count, named) for text in overloads), f"{place}: {name}: {overloads}"
    for name in found.attributes.keys() - asked:
        assert any(name in each["properties"] for each in surface["classes"].values()), name
    assert {*FIELD_TYPES} <= set(surface["enums"]["PluginFieldType"])
    assert {"IPluginV2", "PluginField", "PluginFieldCollection", "IPluginCreatorV3One"} <= surface["classes"].keys()
    assert "BUILD" in surface["enums"]["TensorRTPhase"] and "init_libnvinfer_plugins" in surface["functions"]
