"""A network's picture for other programs: SVG, Graphviz's DOT, and ONNX's JSON, which Netron opens."""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.caller import option
from ...core.errors import UnsupportedError
from ...core.files.writing import as_json
from ...core.version import __version__
from .style import static_style, without_variables

Model = Mapping[str, Any]

ONNX_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "bfloat16": 16,
    "float8_e4m3fn": 17, "int4": 22, "float4_e2m1fn_x2": 23,
}  # fmt: skip
"""onnx.TensorProto.DataType."""
DOMAIN = "trtdsl.tensorrt"


def as_svg(model: Model) -> str:
    """The folded network as the page draws it, by the page's own code. Raises UnsupportedError without mini-racer."""
    try:
        from py_mini_racer import MiniRacer
    except ImportError:
        raise UnsupportedError(
            "the picture is drawn by the page's JavaScript, and nothing here runs it: pip install mini-racer, or give "
            f"{option('format', 'dot')} and draw it with Graphviz"
        ) from None
    folder = Path(__file__).parent
    engine = MiniRacer()
    engine.eval("globalThis.structuredClone ??= (value) => JSON.parse(JSON.stringify(value)); 0")
    engine.eval(f"{(folder / 'page.js').read_text(encoding='utf-8')}; 0")
    css = (folder / "page.css").read_text(encoding="utf-8")
    return without_variables(str(engine.call("trtdslView.svg", as_json(model), static_style(css), 0)), css)


def as_dot(model: Model) -> str:
    """Every call as a node, every module, loop and branch as a cluster."""
    items, tensors = model["items"], model.get("tensors", ())
    children: dict[int, list[int]] = {}
    shown = [_shown(items, index) for index in range(len(items))]
    for index, item in enumerate(items):
        children.setdefault(item["parent"], []).append(index)
    lines = [f"digraph {_quoted(model['name'])} {{", "  rankdir=TB; compound=true;"]
    lines.append('  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=11];')
    lines.append('  edge [fontname="Helvetica", fontsize=9, color="#8b95a5"];')

    waiting: list[tuple[int | str, int]] = [(index, 1) for index in reversed(children.get(0, []))]
    while waiting:  # a stack, since modules may lie deep
        index, depth = waiting.pop()
        space = "  " * depth
        if isinstance(index, str):
            lines.append(f"{space}{index}")
            continue
        item = items[index]
        if item.get("aside"):
            continue
        if item["kind"] in ("call", "input", "output") or index not in children:
            lines.append(f"{space}n{index} [{_node(item, tensors)}];")
            continue
        label = " ".join(filter(None, (item["label"], item.get("note"))))
        dashed = (
            ' style="dashed,rounded"; color="#8a4fd3";' if item["kind"] in ("loop", "conditional", "branch") else ""
        )
        style = dashed or " style=rounded; color=grey;"
        lines.append(f"{space}subgraph cluster_{index} {{ label={_quoted(label)};{style}")
        waiting.append(("}", depth))
        waiting += [(child, depth + 1) for child in reversed(children[index])]
    drawn: dict[tuple[int, int, str], None] = {}
    for source, target, tensor, kind in model["edges"]:
        a, b = shown[source], shown[target]
        if a != b and kind != "size" and not items[a].get("aside") and not items[b].get("aside"):
            style = ', style=dashed, color="#8a4fd3", constraint=false' if kind == "back" else ""
            drawn[a, b, f"label={_quoted(' × '.join(tensors[tensor]['shape']))}{style}"] = None
    lines += [f"  n{a} -> n{b} [{facts}];" for a, b, facts in drawn]
    return "\n".join([*lines, "}", ""])


def _shown(items: Any, index: int) -> int:
    """The call that a layer is part of; any other box itself."""
    found = index
    while items[index]["kind"] == "layer" and items[found]["kind"] != "call":
        found = items[found]["parent"]
    return found


@functools.cache
def _colours() -> dict[str, str]:
    """The page's colours in the light by the names that its style gives them."""
    css = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    return dict(re.findall(r"--(\w+): (#\w+)", css[: css.index("@media")]))


def _node(item: Mapping[str, Any], tensors: Any) -> str:
    if "tensor" in item:
        shape = " × ".join(tensors[item["tensor"]]["shape"])
        return f'label={_quoted(item["label"], shape)}, shape=oval, fillcolor="#eef1f5"'
    colour = _colours().get(item.get("category", ""), "#8b95a5")
    return f'label={_quoted(item["label"], item.get("line", ""))}, color="{colour}"'


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for line in lines if line)
    return '"' + "\\n".join(escaped) + '"'


def as_onnx_json(model: Model) -> str:
    """The layers as nodes of an ONNX graph in protobuf's JSON: for looking at (Netron), not for running.

    Node types are TensorRT's, in a domain of their own; weights are left out, and a loop's recurrence makes a circle.
    """
    tensors = model["tensors"]
    lines = {layer: item for item in model["items"] for layer in item.get("layers", ())}
    nodes = []
    for index, layer in enumerate(model["layers"]):
        item = lines.get(index, {})
        facts = {**layer.get("attributes", {}), **({"line": item["line"]} if "line" in item else {})}
        texts = {name: base64.b64encode(str(value).encode()).decode() for name, value in facts.items()}
        node: dict[str, Any] = {
            "name": layer["name"],
            "opType": layer["type"],
            "domain": DOMAIN,
            "input": [tensors[each]["name"] if each >= 0 else "" for each in layer["inputs"]],
            "output": [tensors[each]["name"] for each in layer["outputs"]],
            "attribute": [{"name": name, "type": "STRING", "s": text} for name, text in texts.items()],
        }
        nodes.append(node)
    ends: dict[str, list[Any]] = {"input": [], "output": []}
    for item in model["items"]:
        if item["kind"] in ends:
            ends[item["kind"]].append(_value_info(tensors[item["tensor"]]))
    made = [_value_info(tensors[each]) for layer in model["layers"] for each in layer["outputs"]]
    graph = {"name": model["name"], "node": nodes, **ends, "valueInfo": made}
    made_by = {"irVersion": "10", "producerName": "trtdsl", "producerVersion": __version__}
    facts = {**made_by, "domain": DOMAIN, "docString": model["backend"], "graph": graph}
    return as_json({**facts, "opsetImport": [{"domain": DOMAIN, "version": "1"}]}, indent=1)


def _value_info(tensor: Mapping[str, Any]) -> dict[str, Any]:
    dims = [{"dimValue": size} if size.isdigit() else {"dimParam": size} for size in tensor["shape"]]
    kind = {"elemType": ONNX_TYPES.get(tensor["dtype"], 0), "shape": {"dim": dims}}
    return {"name": tensor["name"], "type": {"tensorType": kind}}
