"""Several engines of one network, each for some of the sizes: built together, and run by the sizes that are fed."""

import json

import numpy as np
import pytest

import trtdsl as td
from trtdsl.building.batch import build_several, engines_output, write_engines
from trtdsl.definition.spec.load import open_file

TEXT = """
import trtdsl as td

N = td.Dim("N", min=2, opt=4, max=8)


@td.network(inputs={"x": td.Input((1, 4))}, part_of="whole")
def one(x):
    return {"y": x * 2}


@td.network(inputs={"x": td.Input((N, 4))}, part_of="whole")
def many(x):
    return {"y": x * 3}
"""


@pytest.fixture
def built(machine, tmp_path):
    """Built in this process too: the simulated device knows the engines that are built on it."""
    (tmp_path / "whole.py").write_text(TEXT)
    whole, parts = open_file(tmp_path / "whole.py").parts()
    engines = [td.build(spec, tmp_path / f"{spec.name}.engine").engine for spec in parts]
    write_engines(engines_output(tmp_path, whole), whole, engines)
    return tmp_path / "whole.engines.json"


def test_a_file_of_parts_is_built_whole(tmp_path):
    file = tmp_path / "whole.py"
    file.write_text(TEXT)
    outcomes = td.build_several([str(file)], tmp_path)
    assert [outcome.error for outcome in outcomes] == [None, None]
    facts = json.loads((tmp_path / "whole.engines.json").read_text())
    assert [each["engine"] for each in facts["engines"]] == ["one.engine", "many.engine"]
    assert facts["engines"][1]["profiles"][0]["dims"] == {"N": [2, 4, 8]}
    assert open_file(f"{file}:one").parts() == ("one", [])


def rows(count):
    return {"x": np.ones((count, 4), np.float32)}


def test_a_run_takes_the_engine_that_serves_its_sizes(built):
    with td.load_engine(built) as engine:
        assert str(engine.signature) == "x: float32 (?, 4) -> y: float32 (?, 4)"
        assert engine.run(rows(1))["y"].tolist() == [[2.0] * 4]
        assert engine(**rows(5))["y"].tolist() == [[3.0] * 4] * 5
        assert engine.capture(rows(2))(**rows(2))["y"].tolist() == [[3.0] * 4] * 2
        engine.warm_up(1)
        with pytest.raises(td.FeedError, match=r"no one of the 2 engines .*one\.engine: .*must be 1, and 9"):
            engine.run(rows(9))
        with pytest.raises(td.FeedError, match="there is no input 'z'"):
            engine.run({"z": np.ones((1, 4), np.float32)})
        with pytest.raises(td.UsageError, match="a session is of one engine"):
            engine.session(N=2)


def test_an_engine_that_was_built_alone_is_refused(built, tmp_path):
    text = (tmp_path / "whole.py").read_text().replace("x * 2", "x * 4")
    (tmp_path / "whole.py").write_text(text)
    td.build(str(tmp_path / "whole.py") + ":one", tmp_path / "one.engine")
    with pytest.raises(td.TrtdslError, match=r"names another one\.engine than the one beside it: build all of whole"):
        td.load_engine(built)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda facts: facts.pop("engines"), "missing required field `?engines"),
        (lambda facts: facts["engines"][0].update(engine="../one.engine"), "a file's name, in the folder"),
        (lambda facts: facts.update(schema=7), "has schema 7"),
    ],
)
def test_a_damaged_manifest_is_refused(built, change, error):
    facts = json.loads(built.read_text())
    change(facts)
    built.write_text(json.dumps(facts))
    with pytest.raises(td.TrtdslError, match=error):
        td.load_engine(built)


def test_the_manifest_is_no_engine_to_other_commands(built, tmp_path):
    with pytest.raises(td.TrtdslError, match="not an engine but the manifest of several"):
        td.run_files(built, {}, tmp_path / "out")


def test_parts_with_other_outputs_are_no_one_network(tmp_path):
    (tmp_path / "whole.py").write_text(TEXT.replace('{"y": x * 3}', '{"z": x * 3}'))
    with pytest.raises(td.UsageError, match="the parts of whole are no one network"):
        td.build_several([str(tmp_path / "whole.py")], tmp_path)


@pytest.mark.parametrize("name", ["../up", "a/b", "a\nb", "\x1b[2J", "x" * 300])
def test_a_network_in_parts_has_a_name_that_a_file_can_have(tmp_path, name):
    """Which is said before any of them is built."""
    with pytest.raises(td.UsageError, match=r"part_of=.* and a file would be called after it"):
        td.network(inputs={"x": td.Input((1, 4))}, part_of=name)(lambda x: {"y": x})


def test_where_no_manifest_of_the_parts_can_be_written_none_is_built(tmp_path):
    (tmp_path / "whole.py").write_text(TEXT)
    (tmp_path / "out/whole.engines.json").mkdir(parents=True)
    with pytest.raises(td.UsageError, match="whole.engines.json: it is a directory"):
        build_several([str(tmp_path / "whole.py")], tmp_path / "out")
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["whole.engines.json"]
