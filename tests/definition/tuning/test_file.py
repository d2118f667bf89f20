"""The file of a tuning: written and read back, and refused as a whole where it is damaged or of something else."""

import json
import warnings

import pytest
import torch
from msgspec.structs import replace

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import TuningWarning
from trtdsl.core.version import __version__
from trtdsl.definition.tuning.file import Tuned, Tuning, Variant, dump, loads, read_tuning


@td.network(inputs={"x": td.Input((td.Dim("N", min=1, opt=2, max=4), 4, 5))}, name="folded")
def spec(x):
    w = torch.full((4,), 0.1)
    return F.prelu(F.prelu(x, w), w)


def tuning_of(spec, lowering="layer", **changed):
    network = spec.define()
    calls = [Tuned.of(site) for site in network.choices.sites]
    calls = tuple(Tuned(*call.key, call.line, call.operands, lowering) for call in calls)
    backend = f"{network.backend.name} {network.backend.version}"
    head = {"network": "folded", "backend": backend, "trtdsl": __version__, **changed}
    return Tuning(**head, variants=(Variant.made(spec.case(), calls, {"device": "rtx-4090"}),))


def parse(facts):
    return loads(json.dumps(facts).encode(), "tuning")


def ways(spec):
    return [site.lowering for site in spec.define().choices.sites]


def test_a_written_tuning_is_read_back(tmp_path):
    tuning = tuning_of(spec)
    file = tmp_path / "folded.tuning.json"
    file.write_bytes(dump(tuning))
    assert read_tuning(file) == tuning
    assert len(file.read_text().splitlines()) < 30 and '"lowering": "layer"' in file.read_text()
    assert ways(spec.tuned(file)) == ["layer", "layer"] == ways(spec.tuned(tuning))
    assert ways(spec.tuned(False)) == ["fused", "fused"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"network": "other"}, "it is of the network 'other', and this one is 'folded'"),
        ({"backend": "tensorrt-rtx 0.9.1"}, "it holds for tensorrt-rtx 0.9.1, and this is tensorrt-rtx"),
        ({"trtdsl": "0.0.1"}, f"it was made by trtdsl 0.0.1, and this is {__version__}"),
    ],
)
def test_a_tuning_of_another_network_or_version_is_named_and_not_used(changed, reason):
    with pytest.warns(TuningWarning) as caught:
        assert ways(spec.tuned(tuning_of(spec, **changed))) == ["fused", "fused"]
    assert reason in str(caught[0].message) and "\n" not in str(caught[0].message) and len(caught) == 1


def test_a_lowering_that_there_is_not_is_not_used():
    words = (
        r"prelu of .*\(call 0 of spec in test_file\.py\) has the lowering 'fast' there, and it can have fused, layer"
    )
    with pytest.warns(TuningWarning, match=rf"is not used: the network is another now: .*test_file\.py:\d+: {words}"):
        assert ways(spec.tuned(tuning_of(spec, lowering="fast"))) == ["fused", "fused"]


def test_an_entry_that_no_tuning_has_is_named():
    for place in (lambda f: f, lambda f: f["variants"][0], lambda f: f["variants"][0]["calls"][1]):
        wrong = json.loads(dump(tuning_of(spec)))
        place(wrong)["lowerng"] = "layer"
        with pytest.raises(ValueError, match="object contains unknown field lowerng") as caught:
            parse(wrong)
        assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ordinal": 7}, r"\(call 1 of .*, where the tuned network had .*\(call 7 of "),
        (
            {"file": "../passwd"},
            r"\(call 1 of spec in test_file\.py\), where the tuned network had .* of spec in \.\./passwd\)",
        ),
        ({"operation": "relu"}, r"prelu of .*, where the tuned network had prelu by relu of "),
    ],
)
def test_what_differs_in_a_call_is_in_the_message(changed, words):
    tuning = tuning_of(spec)
    first, second = tuning.variants[0].calls
    wrong = replace(second, **changed)
    variant = Variant.made(tuning.variants[0].case, (first, wrong), {})
    with pytest.warns(TuningWarning, match=words):
        assert ways(spec.tuned(tuning.including(variant))) == ["fused", "fused"]


def test_a_tuning_with_one_wrong_call_is_not_used_at_all():
    tuning = tuning_of(spec)
    first, second = tuning.variants[0].calls
    wrong = replace(second, operands=("(N, 9, 5) float32",))
    variant = Variant.made(tuning.variants[0].case, (first, wrong), {})
    with pytest.warns(
        TuningWarning,
        match=r"test_file\.py:\d+: prelu of \(N, 4, 5\) float32 \(call 1 of spec in .*\), where the tuned",
    ):
        assert ways(spec.tuned(tuning.including(variant))) == ["fused", "fused"]


def test_a_file_that_ends_early_is_not_used(tmp_path):
    whole = dump(tuning_of(spec))
    file = tmp_path / "cut.json"
    for length in range(len(whole) - 2):
        file.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not JSON"):
            read_tuning(file)
    with pytest.warns(TuningWarning, match=r"cut\.json is not used: it is not JSON: it is damaged"):
        assert ways(spec.tuned(file)) == ["fused", "fused"]


HOSTILE = [
    *(b"", b"[]", b"null", b"1", b'"tuning"', b"{", b"\xff\xfe", b"[" * 200_000, b"9" * 5000, b'{"kind": "tuning"}'),
    b'{"kind": "tuning", "schema": 2}',
    b'{"kind": "tuning", "schema": true}',
    b'{"kind": "tuning", "schema": NaN}',
]
WRONG = [
    ("variants", {}),
    ("variants", [1]),
    ("network", "a\nb"),
    ("network", "\x1b[31mred"),
    ("backend", None),
    ("trtdsl", ["0.1.0"]),
]
WRONG_VARIANT = [
    *(("calls", {}), ("calls", [[]]), ("inputs", {"x": 1}), ("dims", {"N": "1:2:3"}), ("dims", {"N": [1, 2]})),
    *(("dims", {"N": [1, 2, True]}), ("settings", []), ("precision", 16), ("measured", "fast")),
]
WRONG_CALL = [
    *(("file", 3), ("ordinal", "0"), ("ordinal", 1.0), ("ordinal", True), ("operands", "x"), ("operands", [1])),
    *(("lowering", None), ("lowering", "la\x00yer"), ("within", {"a": 1}), ("line", 1e9)),
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_bytes_are_refused_in_one_line(tmp_path, data):
    file = tmp_path / "hostile.json"
    file.write_bytes(data)
    with pytest.raises(ValueError) as caught:
        read_tuning(file)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 200


def test_an_invalid_entry_of_a_tuning_is_named():
    def facts():
        return json.loads(dump(tuning_of(spec)))

    for place, entries in ((lambda f: f, WRONG), (lambda f: f["variants"][0], WRONG_VARIANT)):
        for name, value in entries:
            wrong = facts()
            place(wrong)[name] = value
            with pytest.raises(ValueError, match=rf"\b{name}\b.*: (expected|must be)") as caught:
                parse(wrong)
            assert str(caught.value).isprintable()
    for name, value in WRONG_CALL:
        wrong = facts()
        wrong["variants"][0]["calls"][1][name] = value
        with pytest.raises(ValueError, match=rf"^variants\[0\]\.calls\[1\]\.{name}.*: (expected|must be)"):
            parse(wrong)
    twice = facts()
    twice["variants"][0]["calls"][1] = twice["variants"][0]["calls"][0]
    with pytest.raises(ValueError, match="has a call twice"):
        parse(twice)


def test_a_file_that_is_too_large_or_no_file_is_not_read(tmp_path):
    file = tmp_path / "large.json"
    with file.open("wb") as opened:
        opened.truncate(17 << 20)
    with pytest.raises(ValueError, match="larger than the 16 MiB"):
        read_tuning(file)
    with pytest.raises(ValueError, match="cannot be read"):
        read_tuning(tmp_path)


def test_the_default_file_stands_beside_the_weights_or_the_network(tmp_path):
    text = "import trtdsl as td\n@td.network(inputs={'x': td.Input((2,))}%s)\ndef plain(x%s):\n    return x + 1\n"
    (tmp_path / "weights").mkdir()
    for arguments, takes, place in (
        ("", "", tmp_path),
        (", weights='weights/w.safetensors'", ", w", tmp_path / "weights"),
    ):
        file = tmp_path / "plain.py"
        file.write_text(text % (arguments, takes))
        found = td.load_spec(str(file))
        assert found.tuning_file is None
        (place / "plain.tuning.json").write_text("{}")
        assert found.tuning_file == place / "plain.tuning.json"
        (place / "plain.tuning.json").unlink()


def test_a_name_that_no_file_can_have_is_no_obstacle():
    strange = td.network(inputs={"x": td.Input((2,))}, name="a/b")(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strange.define()
