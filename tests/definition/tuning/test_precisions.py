"""A precision for each call: blocks of the author's, files, and files that do not fit."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections import Counter

import pytest
import torch
from support import damage, layer_types

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import PrecisionWarning
from trtdsl.core.version import __version__
from trtdsl.definition.tuning.file import Tuned, Tuning, Variant, dump
from trtdsl.definition.tuning.precisions import Precisions, open_precision

DIMS = {"N": (1, 2, 8)}
WEIGHT = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))


class Reference(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x @ WEIGHT)
        return torch.softmax(y.reshape(-1, 3) + x, -1)


@td.network(inputs={"x": td.Input(("N", 3))}, reference=Reference)
def net(x):
    y = F.relu(x @ WEIGHT)
    return {"y": F.softmax(y.reshape(-1, 3) + x, -1)}


@pytest.fixture
def files(tmp_path):
    """Writes a file in which the calls of a network have these dtypes, in their order."""

    def write(spec, *dtypes, **changed):
        network = spec.define(precision=Precisions({}), dims=DIMS)
        sites = network.policy.calls.sites
        calls = tuple(Tuned.of(site._replace(lowering=dtype)) for site, dtype in zip(sites, dtypes, strict=True))
        variant = Variant.made(spec.case(DIMS, Precisions({})), calls, {"data": "none"})
        path = tmp_path / "net.precision.json"
        backend = f"{network.backend.name} {network.backend.version}"
        facts = json.loads(dump(Tuning(spec.name, backend, __version__, (variant,), "precision")))
        path.write_text(json.dumps({**facts, **changed}))
        return path

    return write


def of_calls(network):
    return {site.key.function: site.lowering for site in network.policy.calls.sites}


def test_calls_of_a_block_compute_in_its_precision_and_what_moves_values_keeps_its_own():
    net = td.Network(precision="fp16")
    with net.current():
        x = net.input("x", (2, 3))
        low = x @ WEIGHT
        with td.precision("fp32"):
            assert (low @ WEIGHT).dtype == torch.float32
            assert low.reshape(-1).dtype == low.dtype == torch.float16
            assert low.to(torch.bfloat16).dtype == torch.bfloat16
            with td.precision("bf16"):
                assert F.softmax(low, 1).dtype == torch.bfloat16
            assert F.softmax(low, 1).dtype == torch.float32
        assert (low @ WEIGHT).dtype == torch.float16
        assert F.softmax(low, 1).dtype == torch.float32


def test_a_block_lowers_part_of_a_network_that_has_no_precision():
    @td.network(inputs={"x": td.Input((2, 3))})
    def part(x):
        with td.precision("fp16"):
            y = F.exp(x @ WEIGHT)
        return {"y": y, "z": x @ WEIGHT}

    network = part.define()
    assert network.precision == torch.float16 and network.policy is None
    assert {name: tensor.dtype for name, tensor in network.outputs.items()} == dict.fromkeys("yz", torch.float32)
    feeds = {"x": torch.tensor([[1.0, 2, 3], [0.1, 0.2, 0.3]])}
    found, exact = td.interpret(network, feeds), feeds["x"] @ WEIGHT
    assert torch.allclose(found["z"], exact, rtol=1e-6)
    assert torch.allclose(found["y"], exact.exp(), rtol=1e-2) and not torch.allclose(found["y"], exact.exp(), rtol=1e-6)


@pytest.mark.parametrize("wrong", ["fp17", None, 16, "net.precision.json"])
def test_a_block_takes_precisions_alone(wrong):
    net = td.Network()
    with net.current(), pytest.raises(td.UsageError, match="fp32"), td.precision(wrong):
        pass
    assert net.policy is None


def test_a_block_outside_of_a_network_is_refused():
    with pytest.raises(td.UsageError, match="for a network being defined"), td.precision("fp16"):
        pass


def test_each_call_computes_as_the_file_says(files):
    path = files(net, "float16", "float16", "float32", "bfloat16")
    network = net.define(precision=path, dims=DIMS)
    assert of_calls(network) == {"matmul": "float16", "relu": "float16", "add": "float32", "softmax": "bfloat16"}
    assert network.precision == torch.float16 and network.outputs["y"].dtype == torch.float32
    assert layer_types(network).count("CAST") >= 3
    assert td.check(net, precision=str(path), dims=DIMS).passed
    said = r"found with other sizes or settings: x was \(N, 3\) float32, and is \(4, 3\) float32; `trtdsl precision`"
    with pytest.warns(PrecisionWarning, match=said):
        assert str(net.define(precision=path, dims={"N": 4}).outputs["y"].shape) == "(4, 3)"
    with pytest.warns(PrecisionWarning, match=r"N was \[1, 2, 8\], and is \[1, 2, 9\]"):
        net.define(precision=path, dims={"N": (1, 2, 9)})
    assert net.case(precision=path) != net.case(precision="fp16")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"backend": "tensorrt-rtx 0.9.1"}, "it holds for tensorrt-rtx 0.9.1, and this is tensorrt-rtx"),
        ({"trtdsl": "0.0.1"}, f"it was made by trtdsl 0.0.1, and this is {__version__}"),
    ],
)
def test_a_file_of_other_versions_is_used_and_said_to_be(files, changed, said):
    path = files(net, *["float16"] * 4, **changed)
    with pytest.warns(PrecisionWarning, match=rf"net\.precision\.json was found with other versions: {said}"):
        network = net.define(precision=path, dims=DIMS)
    assert set(of_calls(network).values()) == {"float16"}


def test_a_file_with_float32_alone_changes_nothing(files):
    path = files(net, *["float32"] * 4)
    plain = net.define(dims=DIMS)
    assert layer_types(net.define(precision=path, dims=DIMS)) == layer_types(plain)
    assert net.define(precision=path, dims=DIMS).precision is None


def test_a_block_wins_over_the_file(files):
    path = files(net, *["float16"] * 4)

    @td.network(inputs={"x": td.Input(("N", 3))}, name="net")
    def net_(x):
        y = F.relu(x @ WEIGHT)
        with td.precision("fp32"):
            return {"y": F.softmax(y.reshape(-1, 3) + x, -1)}

    function = net_.function
    function.__code__ = function.__code__.replace(co_name="net")
    found = of_calls(net_.define(precision=path, dims=DIMS))
    assert found == {"matmul": "float16", "relu": "float16", "add": "float32", "softmax": "float32"}


def test_a_file_that_does_not_fit_is_refused_with_the_first_call_that_differs(files):
    path = files(net, *["float16"] * 4)

    @td.network(inputs={"x": td.Input(("N", 3))}, name="net")
    def edited(x):
        y = F.gelu(x @ WEIGHT)
        return {"y": F.softmax(y + x, -1)}

    code = edited.function.__code__
    edited.function.__code__ = code.replace(co_name="net")
    with pytest.raises(td.UsageError) as caught:
        edited.define(precision=path, dims=DIMS)
    text = caught.value.message
    line = code.co_firstlineno + 2
    assert f"test_precisions.py:{line}: gelu of 2-D" in text and "where the network had relu of 2-D" in text
    assert "net.precision.json does not fit net" in text and "\n" not in text


def test_calls_that_changed_places_do_not_get_the_dtypes_of_each_other(files):
    def network(turn):
        def define(x):
            small, large = [F.linear(x, weight) for weight in (WEIGHT, WEIGHT * 1e6)[::turn]][::turn]
            return {"y": F.relu(small) + F.tanh(large)}

        return td.network(inputs=net.inputs, name="net")(define)

    path = files(network(1), "float16", "float32", *["float16"] * 3)
    with pytest.raises(td.UsageError, match="linear .* has the numbers that the network had in linear .* 1 of"):
        network(-1).define(precision=path, dims=DIMS)
    facts = json.loads(path.read_text())
    for call in facts["variants"][0]["calls"]:
        del call["values"]  # as constants that are new
    path.write_text(json.dumps(facts))
    with pytest.raises(td.UsageError, match="relu of 2-D of linear 1 .* had relu of 2-D of linear 0 "):
        network(-1).define(precision=path, dims=DIMS)


def test_calls_whose_weights_changed_places_are_told_by_their_names(files):
    def named(order):
        def define(x, w):
            return {name: F.linear(x, getattr(w, name)) for name in order}

        weights = {"a": WEIGHT, "b": WEIGHT * 1e6}
        return td.network(inputs=net.inputs, weights=weights, name="net")(define)

    path = files(named("ab"), "float16", "float32")
    assert list(named("ab").define(precision=path, dims=DIMS).outputs) == ["a", "b"]
    with pytest.raises(td.UsageError, match="linear of 2-D, 2-D of b .* had linear of 2-D, 2-D of a "):
        named("ba").define(precision=path, dims=DIMS)


def test_a_file_of_an_output_that_is_gone_is_refused(files):
    path = files(net, *["float16"] * 4)
    facts = json.loads(path.read_text())
    facts["variants"][0]["measured"] = {"sqnr": {"yes": 40.0}, "budget": {"yes": 30.0}}
    path.write_text(json.dumps(facts))
    with pytest.raises(
        td.UsageError, match="was found for an output 'yes', and there is none; `trtdsl precision` finds"
    ):
        net.define(precision=path, dims=DIMS)


def test_a_file_of_another_network_a_damaged_one_and_none_are_refused(files, tmp_path):
    path = files(net, *["float16"] * 4)
    text = path.read_text()
    for wrong, message in (
        (text.replace('"network": "net"', '"network": "other"'), "is of the network 'other'"),
        (text.replace("float16", "float8"), "float8"),
        (text.replace('"float16"', '"int8"', 1), "'calls' has one in int8 without scales"),
        (text.replace('"float16"', '"int8", "scales": [5e-324]', 1), "'calls' has a scale that float32 does not hold"),
        (text.replace('"dtype"', '"lowering"', 1), "none|dtype|lowering"),
        (text.replace('"kind": "precision"', '"kind": "tuning"'), "it is not a precision"),
        (text[:-20], "is no precision"),
    ):
        path.write_text(wrong)
        with pytest.raises(td.UsageError, match=message):
            net.define(precision=path)
    with pytest.raises(td.UsageError, match="there is no precision"):
        net.define(precision=str(tmp_path / "none.precision.json"))


def test_calls_in_a_loop_keep_what_they_are_given():
    @td.network(inputs={"x": td.Input((4, 3))})
    def loop(x):
        low = x * 2
        last, _ = td.scan(lambda carry, each: (carry * 0.5 + each, carry), low[0] * 0, low)
        return {"y": last + 1}

    sites = loop.define(precision=Precisions({})).policy.calls.sites
    assert [site.key.function for site in sites] == ["mul", "mul", "scan", "add"]
    network = loop.define(precision=Precisions({site.key: "float16" for site in sites}))
    feeds = {"x": torch.arange(12.0).reshape(4, 3)}
    assert torch.equal(td.interpret(network, feeds)["y"], td.interpret(loop.define(), feeds)["y"])


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"sqnr": {"y": "much"}}, r"measured\.sqnr\.y: expected float \| null, got str"),
        ({"budget": {"y": float("nan")}}, r"measured\.budget\.y: expected float >= 0"),
        ({"budget": {"y": -256.0}}, r"measured\.budget\.y: expected float >= 0"),
        ({"budget": float("inf")}, r"measured\.budget: expected float <= 1e\+300"),
        ({"before": {"launches": float("inf")}}, r"measured\.before\.launches: expected float <= 1e\+300"),
        ({"data": [1]}, r"measured\.data: expected str, got array"),
        ({"data": "\x1b[2J"}, r"measured\.data: must be printable text"),
        ({"calls": {"float32": 4}, "sha256": "0" * 64}, "measured: object contains unknown field (calls|sha256)"),
        ({"figures": {"found": {"launches": -1}}}, r"measured\.figures\.found\.launches: expected int >= 0"),
    ],
)
def test_what_was_measured_is_read_strictly(files, measured, words):
    """It goes into the manifest, of which a wrong entry would make the engine one that cannot be loaded."""
    path = files(net, *["float16"] * 4)
    facts = json.loads(path.read_text())
    facts["variants"][0]["measured"] = measured
    path.write_text(json.dumps(facts))
    with pytest.raises(td.UsageError, match=rf"net\.precision\.json is no precision: variants\[0\]\.{words}"):
        net.define(precision=path, dims=DIMS)


def test_a_file_with_any_entry_of_any_value_is_taken_or_refused_in_one_line(files):
    """What is taken can be written into a manifest, which is JSON without NaN and Inf."""
    path = files(net, *["float16"] * 4)
    whole = json.loads(path.read_text())
    measured = {"network": "n", "device": "h100", "data": "d", "samples": 3, "budget": {"y": 20.0}, "sqnr": {"y": 30.0}}
    measured |= {name: {"bytes": 1, "floor_seconds": 0.5} for name in ("before", "after")}
    whole["variants"][0]["measured"] = {**measured, "figures": {"found": {"launches": 1}}}
    whole["variants"][0]["calls"][0] |= {"dtype": "int8", "scales": [0.5]}
    outcomes = Counter()
    for number, value in itertools.product(range(len([*damage.places(whole)])), (*damage.VALUES, 10**400)):
        facts = copy.deepcopy(whole)
        holder, key = [*damage.places(facts)][number]
        holder[key] = value
        path.write_bytes(json.dumps(facts).encode())
        try:
            json.dumps(open_precision(path, "net").to_json(), allow_nan=False)
            outcomes["taken"] += 1
        except td.UsageError as error:
            outcomes["refused" if str(error).isprintable() and len(str(error)) < 400 else (key, value)] += 1
    assert set(outcomes) == {"taken", "refused"}
    assert outcomes["refused"] > 3 * outcomes["taken"] > 300


def test_names_in_messages_are_cut(files):
    path = files(net, *["float16"] * 4)
    facts = json.loads(path.read_text())
    for key in ("file", "within", "operation", "function"):
        facts["variants"][0]["calls"][0][key] = key * 10_000
    facts["variants"][0]["calls"][0]["operands"] = ["x" * 10_000] * 100
    path.write_text(json.dumps(facts))
    with pytest.raises(td.UsageError) as caught:
        net.define(precision=path, dims=DIMS)
    assert len(caught.value.message) < 1500
    facts["variants"][0]["inputs"] = {"x" * 10_000: 3}
    path.write_text(json.dumps(facts))
    with pytest.raises(td.UsageError, match=r"variants\[0\]\.inputs\.x{57}\.\.\.: expected"):
        net.define(precision=path, dims=DIMS)


def test_the_manifest_has_the_hash_of_what_was_read(files):
    """And not of what the file has become since."""
    path = files(net, *["float16"] * 4)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    network = net.define(precision=path, dims=DIMS)
    path.unlink()
    assert network.policy.calls.to_json()["sha256"] == before


OTHER = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))


def of_constants(first, second, times=(2.0, 2.0)):
    """Two calls that are alike but for numbers that no weights file has; their results are outputs."""

    @td.network(inputs={"x": td.Input(("N", 3))})
    def net(x):
        return {"a": x @ first, "b": x @ second, "c": x * times[0], "d": x * times[1]}

    return net


@pytest.mark.parametrize(
    "changed",
    [of_constants(OTHER, WEIGHT), of_constants(WEIGHT, OTHER, (3.0, 2.0))],
    ids=["constants", "numbers"],
)
def test_calls_that_exchanged_their_constants_are_refused(files, changed):
    dtypes = "float16", "float32", "float16", "float32"
    file = files(of_constants(WEIGHT, OTHER, (2.0, 3.0)), *dtypes)
    with pytest.raises(td.UsageError, match="has the numbers that the network had in .* 1 of"):
        changed.define(precision=file, dims=DIMS)


def test_new_constants_are_no_other_network(files):
    file = files(of_constants(WEIGHT, OTHER), "float16", "float32", "float16", "float32")
    for others in (WEIGHT + 1, OTHER + 1), (WEIGHT, WEIGHT + 1), (OTHER + 1, OTHER):
        network = of_constants(*others).define(precision=file, dims=DIMS)
        assert [site.lowering for site in network.policy.calls.sites][:2] == ["float16", "float32"]
    same = files(of_constants(WEIGHT, OTHER), "float16", "float16", "float16", "float32")
    of_constants(OTHER, WEIGHT).define(precision=same, dims=DIMS)
