"""The file: its head, its functions, and the network."""

from __future__ import annotations

import ast
import json
import keyword
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from ...checking.judging.outputs import OUT
from ...core.caller import to_write
from ...core.dtypes import as_dtype, dtype_name
from ...core.errors import Location, UsageError
from ...core.files.names import check_characters
from ...definition.input import Input
from ...definition.spec.reference import state_of
from ...definition.weights.source import IGNORED
from ..calls import Value, Weight
from ..given import Given
from ..origin import Origin
from ..passes.functions import Function, program_of
from ..passes.instances import numbered_parts
from ..render import literal
from ..statements import Expression, expressions, flat
from ..tracing.trace import Trace, sample_of, trivial, values_read
from ..translating.lowering import describe
from .body import Body, returned
from .lines import WIDTH, one_by_one, wrapped_call

MANY = 16  # calls of one line in one function, which a remark counts


class File:
    """The text of a network file."""

    def __init__(
        self,
        target: Origin,
        trace: Trace,
        given: Given,
        name: str | None,
        file: str | os.PathLike[str] | None,
        weights: str | os.PathLike[str] | None,
        part: str = "",
    ):
        """``part`` is what sets the network apart from the others of the module, each for some of the sizes."""
        self.target, self.trace, self.given = target, trace, given
        self.module = trace.root.module
        self.beside: Sequence[str] = ()  # constants that other networks of the module alone have
        self.part, self.whole = part, name or target.default_name(self.module, file)
        self.name = f"{self.whole}_{part}" if part else self.whole
        if not self.name.isidentifier() or keyword.iskeyword(self.name):
            raise UsageError(
                f"a network's name must be an identifier, not {self.name!r}: give {to_write('name=', '--name')}"
            )
        self.folder = Path(file).resolve().parent if file is not None else Path.cwd()
        self.weights = weights
        program = program_of(trace, {self.name, *self._imported()})
        self.functions, self.main = program.functions, program.main
        read = {value.path for value in values_read(trace, trace.results) if isinstance(value, Weight)}
        self.read = read & program.used  # a scan is written without what no later round needs
        trace.constants = {path: held for path, held in trace.constants.items() if path in program.used}
        self.stored = [key for key in state_of(self.module) if not key.endswith(IGNORED)]
        self.main.scoped = bool(self.stored) or any(True for _ in trace.weights)
        unknown = [each for function in self._expressions() for each in function if each.form == "missing"]
        self.missing = [inner.arguments[0].tree.value for inner in unknown]
        self.missing_at = unknown[0].location if unknown else None

    def _expressions(self) -> Iterator[Iterator[Expression]]:
        """Those of each function."""
        for function in (*self.functions, self.main):
            yield (each for statement in flat(function.body) for each in expressions(statement.expression))

    def unrolled(self) -> list[str]:
        """A remark for each line of the module whose rounds stay written out, with their count."""
        found: Counter[Location] = Counter()
        for made in self._expressions():
            counts = Counter((each.location, each.form, each.name) for each in made if each.location is not None)
            for (location, _, _), count in counts.items():
                found[location] = max(found[location], count)
        most = [f"{location} ({count} times)" for location, count in found.most_common(3) if count >= MANY]
        return (
            [f"loops are written out where their rounds differ (it only makes the file longer): {', '.join(most)}"]
            if most
            else []
        )

    @cached_property
    def blocks(self) -> list[str]:
        """The functions of the file, the last of which is the network, without its decorator."""
        taken = {function.name for function in self.functions} | {self.name}
        counts = numbered_parts([*state_of(self.module), *self.trace.weights])
        blocks = [self._function(function, Body(function, taken, counts)) for function in self.functions]
        results = self.trace.results
        names = [name for name, item in results.items() if isinstance(item, Value)] if isinstance(results, dict) else []
        called = {
            value: name
            for value, name in zip(self.main.results, map(self._output, names))
            if name.isidentifier() and not keyword.iskeyword(name)  # keys may be "0"
        }
        blocks.append(self._network(Body(self.main, taken, counts, called)))
        return blocks

    @property
    def dims(self) -> dict[str, str]:
        """What the file has for its dimensions, by their names."""
        return {
            dim.name: f'td.Dim("{dim.name}", min={dim.min}, opt={dim.opt}, max={dim.max})'
            for dim in self.given.dims.values()
        }

    def text(self, blocks: Sequence[str] | None = None, dims: Mapping[str, str] | None = None) -> str:
        """The whole file; of several networks with the ``blocks`` and the ``dims`` of all."""
        body = "\n\n\n".join([*self.blocks[:-1], self.network] if blocks is None else blocks)
        return "\n\n\n".join([*self._head(body, self.dims if dims is None else dims), body]) + "\n"

    # -- head --------------------------------------------------------------------------------------------------------

    @property
    def maker(self) -> str:
        """The name that the file has for the class or function of the reference."""
        first, *rest = self.target.attribute.split(".")
        return ".".join([f"make_{first}" if first == self.name else first, *rest])

    def _imported(self) -> set[str]:
        return {self.maker.partition(".")[0], "program", "reference", *self.given.dims}

    def _head(self, body: str, dims: Mapping[str, str]) -> list[str]:
        place = self.target.module or (self._relative(self.target.file) if self.target.file is not None else "")
        origin = repr(f"{place}:{self.target.attribute}".strip(":").replace('"', "'"))[1:-1]  # within a docstring
        names = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
        imports = ["import math"] if "math" in names else []
        imports += ["from pathlib import Path"] if self._is_exported else []
        others = ["import torch"] if "torch" in names or self._is_exported else []
        if self.target.module is not None:
            first, maker = (each.partition(".")[0] for each in (self.target.attribute, self.maker))
            others.append(f"from {self.target.module} import {first}{f' as {maker}' if maker != first else ''}")
        groups = [imports, others, ["import trtdsl as td"]]
        groups[-1] += ["import trtdsl.functional as F"] if "F" in names else []
        title = f"{type(self.module).__name__}, ported from {origin}."
        long = len(title) > 110  # the module's name alone then, its place on a line of its own
        head = [f'"""{type(self.module).__name__}, ported from\n{origin}\n"""' if long else f'"""{title}"""']
        head += ["\n".join(lines) for lines in groups if lines]
        head += ["\n".join(f"{variable} = {dim}" for variable, dim in dims.items())] if dims else []
        parts = ["\n\n".join(head)]
        if self._is_exported:
            parts[0] += f"\n\nprogram = torch.export.load(Path(__file__).parent / {literal(place)})"
            parts.append("def reference():\n    return program.module()")
        if self.target.arguments:
            given = [f"{key}={literal(item)}" for key, item in self.target.arguments.items()]
            parts.append("\n".join(["def reference():", *wrapped_call(f"return {self.maker}", given, 4)]))
        return parts

    @property
    def _is_exported(self) -> bool:
        return self.target.file is not None and not self.target.attribute

    def _reference(self) -> str:
        if self.target.file is not None and self.target.attribute:
            return literal(f"{self._relative(self.target.file)}:{self.target.attribute}")
        return "reference" if self.target.arguments or self._is_exported else self.maker

    def _relative(self, path: str | os.PathLike[str]) -> str:
        return Path(os.path.relpath(Path(path).resolve(), self.folder.resolve())).as_posix()

    # -- functions -----------------------------------------------------------------------------------------------------

    def _function(self, function: Function, body: Body) -> str:
        return "\n".join([*body.signature(function.name), *body.returned(body.lines())])

    @property
    def network(self) -> str:
        """The network, with its decorator."""
        constants = self.trace.constants
        made = {path: f"{describe(self.trace.weights[path])}{self.trace.weights[path].made}" for path in constants}
        made |= dict.fromkeys(self.beside, "another network's")
        lines = [f"        {literal(path)},  # {what}\n" for path, what in made.items()]
        outside = any(not held.stored and held.path not in constants for held in self.trace.weights.values())
        place = self._relative(self.weights) if self.weights is not None else f"{self.whole}.safetensors"
        given = {
            "weights": literal(place) if self.main.scoped else "",
            "reference": self._reference() if self.target.module or self.target.file else "",
            "draws": literal(self.given.draws or ""),
            "part_of": literal(self.whole if self.part else ""),
            "unused": literal((*self._unused(), *self.beside)),
            "buffers": "True" if outside else "",
            "constants": f"(\n{''.join(lines)}    )" if lines else "",
            "leave_out": literal(tuple(self.trace.left_out)),
            "trivial": literal(tuple(map(self._output, trivial(self.trace)))),
        }
        own = [f"    {name}={text}," for name, text in given.items() if text not in ("", '""', "()")]
        return "\n".join(["@td.network(", *self._inputs(), *own, ")", self.blocks[-1]])

    def _network(self, body: Body) -> str:
        gives = "" if isinstance(self.trace.results, tuple) else "dict[str, td.Tensor]"
        lines = body.signature(self.name, gives if len(body.results) > 1 or gives else "tuple[td.Tensor]")
        written, expression = [*self._required(), *body.lines()], body.last_expression()
        if expression is not None and isinstance(self.trace.results, Value):
            line = f"    return {{{self._entry('output', body.renderer().expression(expression)[0])}}}"
            if len(line) <= WIDTH:
                return "\n".join([*lines, *written[:-1], line])
        return "\n".join([*lines, *written, *self._returned(body)])

    def _required(self) -> list[str]:
        return [
            line
            for each in self.trace.requirements
            for line in wrapped_call("td.require", [each.text, literal(each.place)], 4)
        ]

    def _inputs(self) -> list[str]:
        entries = [f'"{name}": {self._input(name, spec)}' for name, spec in self.given.inputs.items()]
        return one_by_one("inputs={", entries, "},")

    def _input(self, name: str, spec: Input) -> str:
        sizes = ", ".join(str(size).replace("*", " * ") for size in spec.shape)
        shape = f"({sizes}{',' if len(spec.shape) == 1 else ''})"
        dtype = dtype_name(as_dtype(spec.dtype))
        sample = sample_of(self.trace, name, spec)
        sample = None if callable(sample) else sample  # a spec without a file gets the function itself
        more = [f'"{dtype}"'] if dtype != "float32" else []
        more += [f"sample={literal(sample)}"] if sample is not None else []
        more += [f"longest={str(spec.longest).replace('*', ' * ')}"] if spec.longest is not None else []
        more += [f"padding={spec.padding}"] if spec.padding is not None else []
        more += ["descending=True"] if spec.descending else []
        more += [f"below={spec.below}"] if spec.below is not None else []
        return f"td.Input({', '.join([shape, *more])})"

    def _unused(self) -> tuple[str, ...]:
        """Modules and weights of the state_dict that no output depends on."""
        left = [name for name in self.stored if name not in self.read]
        result: list[str] = []
        for name in left:
            pieces = name.split(".")
            for depth in range(1, len(pieces) + 1):
                prefix = ".".join(pieces[:depth])
                mine = [other for other in self.stored if other == prefix or other.startswith(f"{prefix}.")]
                if all(other in left for other in mine):
                    result.append(prefix)
                    break
        return tuple(dict.fromkeys(result))

    def _output(self, name: str) -> str:
        """The name of an output: another where an input is called so."""
        check_characters(name, "the name of an output")
        return f"{name}{OUT}" if name in self.trace.inputs else name

    def _entry(self, name: str, value: str) -> str:
        """An output as an entry of the dict that is returned."""
        return f"{json.dumps(self._output(name), ensure_ascii=False)}: {value}"

    def _returned(self, body: Body) -> list[str]:
        results = self.trace.results
        names = [body.renderer().value(value) for value in body.results]
        if isinstance(results, Value):
            return [f"    return {{{self._entry('output', names[0])}}}"]
        if isinstance(results, dict):
            keys = [str(key) for key, item in results.items() if isinstance(item, Value)]
            entries = [self._entry(key, name) for key, name in zip(keys, names)]
            return one_by_one("return {", entries, "}")
        return returned(names) if len(names) > 1 else [f"    return ({names[0]},)"]
