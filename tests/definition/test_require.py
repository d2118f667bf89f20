"""td.require: sizes beyond the ranges of the dimensions, from the network file to the engine's feeds."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.tried_sizes import sizes_to_try
from trtdsl.core.errors import FeedProfileError, ManifestDamagedError
from trtdsl.engine.arrays import view
from trtdsl.engine.loading.manifest import parse_manifest
from trtdsl.sizes.constraints import where_it_holds

H = td.Dim("H", min=60, opt=128, max=256)


class Windows(torch.nn.Module):
    def forward(self, x):
        return x.reshape(x.shape[0], x.shape[1] // 32, 32)


@td.network(inputs={"x": td.Input((1, H))}, reference=Windows)
def windows(x):
    td.require(x.shape[1] % 32 == 0, "windows of 32")
    return {"y": x.reshape(x.shape[0], x.shape[1] // 32, 32)}


def defined(condition, dim=H, *, dims=None):
    """A network that requires a condition of the size of its input."""

    @td.network(inputs={"x": td.Input((1, dim))})
    def network(x):
        td.require(condition(x.shape[1]), "because")
        return {"y": F.relu(x)}

    return network.define(dims=dims)


def test_requirements_decide_comparisons():
    windows.define().check_sizes()

    @td.network(inputs={"x": td.Input((1, H))})
    def without(x):
        return {"y": x.reshape(x.shape[0], x.shape[1] // 32, 32)}

    with pytest.raises(td.ShapeError, match="where H = 60, the elements of a .1, H. reshaped do not match"):
        without.define().check_sizes()


def test_the_interpreter_serves_no_other_sizes():
    network = windows.define()
    assert td.interpret(network, {"x": torch.ones(1, 96)})["y"].shape == (1, 3, 32)
    with pytest.raises(td.FeedError, match="where H = 100, H % 32 == 0 does not hold: windows of 32"):
        td.interpret(network, {"x": torch.ones(1, 100)})


def test_a_branch_on_what_follows_is_decided():
    net = td.Network()
    x = net.input("x", (1, H))
    with net.current():
        even = x.shape[1] % 2 == 0
        with pytest.raises(td.ShapeError, match=r"whether H % 2 == 0 depends .*td\.require\(H % 2 == 0\) serves only"):
            bool(even)
        td.require(x.shape[1] % 32 == 0)
        assert even
        assert x.shape[1] % 64 != 1
        assert x.shape[1] // 32 * 32 == x.shape[1]
        assert (x.shape[1] + 31) // 32 == x.shape[1] // 32
        with pytest.raises(td.ShapeError, match="whether H % 64 == 0 depends"):
            bool(x.shape[1] % 64 == 0)


def test_a_check_draws_only_sizes_that_are_served():
    assert sizes_to_try(windows.define()) == [{"H": 64}, {"H": 128}, {"H": 256}, {"H": 96}, {"H": 160}]
    report = td.check(windows)
    assert report.passed
    assert report.sizes == [{"H": 64}, {"H": 96}, {"H": 128}, {"H": 160}, {"H": 256}]
    assert sizes_to_try(windows.define(), "H=96") == [{"H": 96}]
    with pytest.raises(td.UsageError, match="windows does not serve H = 97: it requires H % 32 == 0"):
        sizes_to_try(windows.define(), "H=97")


def test_the_sizes_to_tune_for_must_be_served():
    with pytest.raises(td.ShapeError) as caught:
        windows.define(dims={"H": (60, 100, 256)}).check_sizes()
    text = str(caught.value)
    assert "where H = 100, H % 32 == 0 does not hold: windows of 32" in text
    assert "it holds where H is a multiple of 32, from 64 to 256: as an input, 32*H with H = 2:3:8" in text
    assert "test_require.py:" in text


@pytest.mark.parametrize(
    ("condition", "dims"),
    [(lambda h: h % 32 == 0, {"H": 65}), (lambda h: h > 256, None), (lambda h: h % 2 == 2, None)],
)
def test_a_requirement_that_no_size_fulfils_is_refused(condition, dims):
    with pytest.raises(td.ShapeError, match="required here holds for no size: because"):
        defined(condition, dims=dims)


def test_a_requirement_that_every_size_fulfils_is_dropped():
    for condition, dims in ((lambda h: h >= 60, None), (lambda h: h % 32 == 0, {"H": 96})):
        assert defined(condition, dims=dims).requirements() == []
    assert defined(lambda h: h % 32 == 0, dim=32 * td.Dim("H", min=2, max=8)).requirements() == []


def test_dimensions_of_the_file_have_the_ranges_that_the_network_has():
    """The file's own Dim is written in the condition, and the network is defined for others."""

    @td.network(inputs={"x": td.Input((1, H))})
    def network(x):
        td.require(H >= 64)
        return {"y": x[:, : H // 2 if H > 300 else 1]}

    assert network.define(dims={"H": (64, 300)}).outputs["y"].shape == (1, 1)
    assert str(network.define(dims={"H": (301, 400)}).outputs["y"].shape) == "(1, H//2)"
    assert network.define(dims={"H": (301, 400)}).requirements() == []
    assert [each["condition"] for each in network.define(dims={"H": (10, 64, 90)}).requirements()] == ["H >= 64"]
    with pytest.raises(td.ShapeError, match="holds for no size"):
        network.define(dims={"H": 9})


@pytest.mark.parametrize("given", [3, None, "H % 32 == 0", torch.tensor(True)])
def test_values_that_are_not_conditions_are_refused(given):
    net = td.Network()
    with net.current(), pytest.raises(td.UsageError, match="takes a comparison of sizes"):
        td.require(given)


def test_sizes_of_data_and_no_network_are_refused():
    net = td.Network()
    x = net.input("x", (4,))
    with net.current(), pytest.raises(td.UsageError, match="known only when the network runs"):
        td.require(x[x > 0].shape[0] > 2)
    with pytest.raises(td.UsageError, match="no network here"):
        td.require(H % 32 == 0)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (H % 32 == 0, "where H is a multiple of 32, from 64 to 256: as an input, 32*H with H = 2:4:8"),
        (H % 2 == 1, "where H is 61, 63, … 255"),
        (H <= 100, "where H is 60 to 100"),
        (H // 32 != 3, "where H is 60 to 95, 128 to 256"),
        (H * H == 100 * 100, "where H is 100"),
        (H > 300, ""),
    ],
)
def test_the_sizes_where_a_condition_holds_are_printed(condition, text):
    if condition is not False:
        assert where_it_holds(condition, {"H": (60, 128, 256)}) == text


# -- in the manifest, and where an engine is fed -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return td.build(windows, tmp_path_factory.mktemp("built") / "windows.engine").manifest


def fed(*shapes):
    return {name: view(np.zeros(shape, np.float32)) for name, shape in shapes}


def test_a_manifest_has_what_is_required(manifest):
    (required,) = manifest["requirements"]
    assert required["condition"] == "H % 32 == 0"
    assert required["why"] == "windows of 32"
    assert required["place"].rpartition(":")[0] == "definition/test_require.py"
    assert required["dims"] == {"H": {"input": "x", "axis": 1, "factor": 1, "offset": 0}}
    assert required["expression"] == ["==", ["+", "H", ["*", ["//", "H", 32], -32]], 0]


def test_feeds_that_do_not_fulfil_it_are_refused(manifest):
    signature = parse_manifest(json.dumps(manifest).encode()).signature
    for size in range(60, 257):
        if size % 32 == 0:
            assert signature.check(fed(("x", (1, size)))) == 0
        else:
            with pytest.raises(FeedProfileError) as caught:
                signature.check(fed(("x", (1, size))))
            assert str(caught.value) == (
                f"dimension 1 of input 'x' is {size}, and the engine serves only sizes where H % 32 == 0: windows of 32"
            )
    with pytest.raises(FeedProfileError, match="the engine serves 60 to 256"):
        signature.check(fed(("x", (1, 288))))


def test_every_operation_is_written_and_read():
    """Sizes 8*K and W + 3 of the inputs; each condition at every pair of values, beside Python's own arithmetic."""
    K, W = td.Dim("K", min=1, max=6), td.Dim("W", min=1, max=9)
    conditions = {
        "max": lambda k, w: (td.size_max if isinstance(k, td.Size) else max)(k, w) < 6,
        "min": lambda k, w: 2 * (td.size_min if isinstance(k, td.Size) else min)(k, w - 1) >= 3,
        "floor": lambda k, w: (k * w) // 4 != 2,
        "remainder": lambda k, w: (k - w) % 3 == 1,
        "division": lambda k, w: w // k <= 2,
        "order": lambda k, w: k > w,
    }
    for condition in conditions.values():

        @td.network(inputs={"x": td.Input((8 * K,)), "y": td.Input((W + 3, 2))})
        def network(x, y, condition=condition):
            td.require(condition(K, W))
            return {"a": F.relu(x), "b": F.relu(y)}

        facts = network.define().requirements()
        document = _document(facts)
        signature = parse_manifest(json.dumps(document).encode()).signature
        for k in range(1, 7):
            for w in range(1, 10):
                feeds = fed(("x", (8 * k,)), ("y", (w + 3, 2)))
                if condition(k, w):
                    assert signature.check(feeds) == 0
                else:
                    with pytest.raises(FeedProfileError, match="serves only sizes where"):
                        signature.check(feeds)


def _document(requirements):
    shapes = {"x": {"min": [8], "opt": [48], "max": [48]}, "y": {"min": [4, 2], "opt": [12, 2], "max": [12, 2]}}
    return {
        "schema": 3,
        "network": "network",
        "backend": {"name": "tensorrt-rtx", "version": "1.0"},
        "compute_capabilities": [],
        "inputs": {
            "x": {"dtype": "float32", "shape": ["8*K"]},
            "y": {"dtype": "float32", "shape": ["W + 3", 2]},
        },
        "outputs": {},
        "profiles": [{"inputs": shapes}],
        "engine": {"sha256": "0" * 64, "bytes": 1},
        "requirements": requirements,
    }


GOOD = {
    "condition": "K > W",
    "expression": [">", "K", "W"],
    "dims": {
        "K": {"input": "x", "axis": 0, "factor": 8, "offset": 0},
        "W": {"input": "y", "axis": 0, "factor": 1, "offset": 3},
    },
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"expression": ["=", 1, 2]}, "requirements[0]: the expression must be a comparison of sizes"),
        ({"expression": [">", "K", "L"]}, "expression must be"),
        ({"expression": [">", "K", ["**", 2, 2]]}, "expression must be"),
        ({"expression": [">", "K", True]}, "expression must be"),
        ({"expression": [">", "K", ["//", 1, 2, 3]]}, "expression must be"),
        ({"expression": [">", "K", ["__import__", "os", 1]]}, "expression must be"),
        ({"expression": None}, "expression must be"),
        ({"expression": [[], 1, 2]}, "expression must be"),
        ({"expression": [">", "K", [{}, 1, 2]]}, "expression must be"),
        ({"condition": 3}, "requirements[0].condition: expected str, got int"),
        ({"dims": {"K": {"input": "z", "axis": 0, "factor": 1, "offset": 0}}}, "the expression must be a comparison"),
        ({"dims": {"K": {"input": "x", "axis": 1, "factor": 1, "offset": 0}}}, "the expression must be a comparison"),
        ({"dims": {"K": {"input": "x", "axis": 0, "factor": 0, "offset": 0}}}, "dims.K.factor: expected int >= 1"),
        (
            {"dims": {"K": {"input": "x", "axis": 0, "factor": 1}}},
            "requirements[0].dims.K: object missing required field offset",
        ),
        ({"dims": []}, "requirements[0].dims: expected object"),
    ],
)
def test_a_damaged_requirement(changes, words):
    assert parse_manifest(json.dumps(_document([GOOD])).encode()).signature.requirements
    with pytest.raises(ManifestDamagedError) as caught:
        parse_manifest(json.dumps(_document([{**GOOD, **changes}])).encode())
    assert words in str(caught.value)


def test_an_expression_too_deep_is_refused():
    deep = "K"
    for _ in range(80):
        deep = ["+", deep, 1]
    with pytest.raises(ManifestDamagedError, match="expression must be"):
        parse_manifest(json.dumps(_document([{**GOOD, "expression": [">", deep, 0]}])).encode())


def test_a_manifest_of_the_schema_before_is_read(manifest):
    before = {key: value for key, value in manifest.items() if key != "requirements"} | {"schema": 2}
    assert parse_manifest(json.dumps(before).encode()).signature.requirements == ()


def test_another_requirement_is_another_network(tmp_path):
    def made(number):
        @td.network(inputs={"x": td.Input((1, H))})
        def network(x):
            td.require(x.shape[1] % number == 0)
            return {"y": F.relu(x)}

        return td.build(network, tmp_path / "out.engine", check=False)

    assert made(32).built
    assert not made(32).built
    assert made(16).built
