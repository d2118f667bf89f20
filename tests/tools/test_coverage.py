"""The table of layer types in docs/interpreter.md is that of the registry."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def load():
    spec = importlib.util.spec_from_file_location("coverage_table", ROOT / "tools" / "coverage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_up_to_date():
    coverage = load()
    text = coverage.DOCUMENT.read_text()
    assert coverage.updated(text) == text, "run python tools/coverage.py"


def test_every_layer_type_stands_in_it_once():
    coverage = load()
    types = [line.split("|")[1].strip() for line in coverage.table().splitlines()[2:]]
    assert types == list(coverage.get_backend("tensorrt-rtx").trt.LayerType.__members__)
