"""A function's lines: which values share a variable, what the variables are called, and the text."""

from __future__ import annotations

import itertools
import keyword
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..calls import Part, SizeOf, SizeOp, Value, ValueList, Weight, leaves, values_in
from ..passes.functions import Function
from ..render import IN_A_ROUND, Renderer, grouped, literal
from ..statements import Copy, Expression, Loop, SizeName, Statement, Unpack, expressions, flat, key_of, parts, size_key
from .heads import loop_head
from .lines import WIDTH, one_by_one, wrapped_call
from .nest import nested
from .roles import GENERIC, keeps_meaning, roles, singular
from .size_names import usual_name, with_size_names

RESERVED = {"F", "td", "torch", "math", "w", "range", "zip", "list", "self", *IN_A_ROUND}


@dataclass
class Span:
    """The lifetime of a variable: from the position that defines it to the last that uses it."""

    start: int
    end: int
    is_size: bool
    names: list[str] = field(default_factory=list)
    name: str = ""


class Body:
    """The lines of one function.

    ``taken`` are names that variables must not have; ``counts`` has the numbered parts of each path in the weights,
    ``called`` the names of outputs.
    """

    def __init__(
        self, function: Function, taken: set[str], counts: Mapping[str, int], called: Mapping[Value, str] | None = None
    ):
        self.function, self.counts = function, counts
        self.prefix = function.call.prefix
        self.taken = taken | RESERVED | set(function.literals)
        self.items, self.results = nested(function.body, function.results, self.prefix), function.results
        self.called = called or {}
        self.carried: int | None = part._carried if isinstance(part := function.call.module, Part) else None
        """How many of its results go into the next round, where it is the round of a loop."""
        self.input_keys = {key_of(item) for item in function.inputs}
        inputs = {item for item in function.inputs if isinstance(item, Value)}
        self.items = with_size_names(self.items, self.input_keys, inputs)
        self.size_names = {size_key(item.size) for item in self.items if isinstance(item, SizeName)}
        self._unpack()
        self.parent: dict[Any, Any] = {}
        self.spans: dict[Any, Span] = {}
        self.hints: dict[Value, list[str]] = {}  # of the lists in which the author keeps values
        self.positions: dict[int, int] = {}
        self._measure()
        self._name()

    # -- sizes that get a name -----------------------------------------------------------------------------------------

    def _unpack(self) -> None:
        found: dict[Value, dict[int, list[SizeOf]]] = {}
        changing = {first for item in self.items if isinstance(item, Loop) for first, _ in item.carried}
        named = self.input_keys | self.size_names
        sizes = [size for each in flat(self.items) for size in _single_sizes(each.expression, named)]
        defined = [item.size.operands for item in self.items if isinstance(item, SizeName)]
        for size in [*sizes, *(size for operands in defined for each in operands for size in _tree_sizes(each, named))]:
            if size.value in changing:  # each round has its own
                continue
            if not isinstance(size.value, Weight) and key_of(size) not in self.input_keys:
                found.setdefault(size.value, {}).setdefault(size.axis, []).append(size)
        self.unpacked: dict[Value, Unpack] = {}
        for value, axes in found.items():
            if len(axes) > 1 or sum(map(len, axes.values())) > 1:
                sizes_of_it = (axes[axis] for axis in sorted(axes))
                self.unpacked[value] = Unpack([next((x for x in given if x.name), given[0]) for given in sizes_of_it])
        own = [item for item in self.function.inputs if isinstance(item, Value)]
        self.items = [self.unpacked[value] for value in own if value in self.unpacked] + self._with_unpacks(self.items)

    def _with_unpacks(self, items: list[Any], later: Collection[Value] = ()) -> list[Any]:
        """The statements, each followed by the sizes of its results, except those that are needed ``later``."""
        result = []
        for item in items:
            result.append(item)
            if isinstance(item, Loop):
                given = [self.unpacked[element] for element, _ in item.over if element in self.unpacked]
                named = self.input_keys | self.size_names
                inside = {size.value for each in item.body for size in _single_sizes(each.expression, named)}
                own = [value for each in item.body for value in each.results if value in self.unpacked]
                later = [value for value in own if value not in inside]
                item.body = [*given, *self._with_unpacks(item.body, set(later))]
                result += [self.unpacked[value] for value in later]
            if isinstance(item, Statement):
                result += [
                    self.unpacked[value] for value in item.results if value in self.unpacked and value not in later
                ]
        return result

    # -- variables ---------------------------------------------------------------------------------------------------

    def _find(self, key: Any) -> Any:
        while self.parent.get(key, key) is not key:
            key = self.parent[key]
        return key

    def _join(self, a: Value, b: Value) -> None:
        first, second = self._find(a), self._find(b)
        if first is not second:
            self.parent[second] = first

    def _measure(self) -> None:
        """The span of each variable."""
        for item in self.items:
            if isinstance(item, Loop):
                apart = [pair for pair in item.carried if self._needed_after(item, *pair)]
                copies: list[Any] = [Copy(*pair) for pair in apart]
                item.body += copies
                for pair in item.carried:
                    if pair not in apart:
                        self._join(*pair)
        for item in self.function.inputs:
            self._define(key_of(item), -1, item.name if isinstance(item, (Value, SizeOf)) else None)
            self._use(key_of(item), 0)  # so that no two have one name
        position = 0
        for item in self.items:
            if isinstance(item, Loop):
                self._enter(item, position := position + 1)
                begin = position
                for inner in item.body:
                    position += 1
                    self._visit(inner, position)
                position += 1
                for inner in item.body:  # a value from before the loop is needed in every round
                    for key in self._needs(inner):
                        span = self.spans.get(key)
                        if span is not None and span.start <= begin:
                            span.end = max(span.end, position)
                for first, _ in item.carried:
                    self.spans[self._find(first)].end = max(self.spans[self._find(first)].end, position)
            else:
                position += 1
                self._visit(item, position)
        self.last = position + 1
        for value in self.results:
            if not self._own(value):
                self._use(self._find(value), self.last)

    def _enter(self, loop: Loop, position: int) -> None:
        """The sequence of a loop is needed where the loop begins; the variable for one element begins there."""
        for element, given in loop.over:
            for value in values_in(given):
                if not self._own(value):
                    self._use(self._find(value), position + 1)  # so that no element has its name
            name = element.name
            if element.hint and (not name or name in GENERIC or name == "fill_value"):
                name = singular(element.hint)
            self._define(element, position, name)
            self._define(element, position, "each")

    def _needed_after(self, loop: Loop, first: Value, again: Value) -> bool:
        """Whether a round needs its input after it has its output, so that both cannot be one variable."""
        made = next((place for place, item in enumerate(loop.body) if again in getattr(item, "results", ())), None)
        if made is None:
            return True
        return any(key is self._find(first) for item in loop.body[made + 1 :] for key in self._needs(item))

    def _own(self, value: Value) -> bool:
        return isinstance(value, Weight) and value.path.startswith(self.prefix) and key_of(value) not in self.input_keys

    def _visit(self, item: Any, position: int) -> None:
        self.positions[id(item)] = position
        for key in self._needs(item):
            self._use(key, position)
        if isinstance(item, Unpack):
            for size in item.sizes:
                axes = AXES.get(len(size.value.shape), [])
                usual = axes[size.axis] if size.axis < len(axes) else f"size{size.axis}"
                self._define(size_key(size), position, size.name or usual)
        elif isinstance(item, SizeName):
            self._define(size_key(item.size), position, item.size.name or usual_name(item.size))
        elif isinstance(item, Copy):
            self._define(self._find(item.target), position, item.target.name)
        else:
            for value in item.results:
                self._define(self._find(value), position, value.name)
                if value.hint and value.hint.strip("_") and (not value.name or value.name in GENERIC):
                    self.hints.setdefault(self._find(value), []).append(singular(value.hint))

    def _needs(self, item: Any) -> Iterator[Any]:
        if isinstance(item, Unpack):
            yield self._find(item.sizes[0].value)
        elif isinstance(item, SizeName):
            for operand in item.size.operands:
                yield from self._leaf_needs(operand)
        elif isinstance(item, Copy):
            yield self._find(item.source)
        else:
            for leaf in parts(item.expression):
                yield from self._leaf_needs(leaf)

    def _leaf_needs(self, leaf: Any) -> Iterator[Any]:
        if isinstance(leaf, Value):
            if not self._own(leaf):
                yield self._find(leaf)
        elif isinstance(leaf, (SizeOf, SizeOp)):
            if size_key(leaf) in self.input_keys or size_key(leaf) in self.size_names:
                yield size_key(leaf)
            elif isinstance(leaf, SizeOp):
                for operand in leaf.operands:
                    yield from self._leaf_needs(operand)
            elif leaf.value in self.unpacked and any(
                size.axis == leaf.axis for size in self.unpacked[leaf.value].sizes
            ):
                yield size_key(leaf)
            elif not self._own(leaf.value):
                yield self._find(leaf.value)

    def _define(self, key: Any, position: int, name: str | None) -> None:
        key = self._find(key)
        span = self.spans.setdefault(key, Span(position, position, isinstance(key, tuple)))
        if name:
            span.names.append(name)

    def _use(self, key: Any, position: int) -> None:
        if key in self.spans:
            self.spans[key].end = max(self.spans[key].end, position)

    def _name(self) -> None:
        """Names for all variables: the author's where they are free."""
        for index, item in enumerate(self.function.inputs):
            given = self.function.argument_names.get(index)
            key = self._find(key_of(item))
            if given:
                self.spans[key].names.insert(0, given)
        firsts = {self._find(value): statement for statement in flat(self.items) for value in statement.results}
        done: list[Span] = []
        for key, span in sorted(self.spans.items(), key=lambda item: item[1].start):
            names = [self._clean(name, key) for name in span.names]
            if key in firsts and (not names or names[0] in GENERIC):
                names = self._described(key, firsts[key], span, names)
            names = names or ["n" if isinstance(key, tuple) else "x"]
            free = (name for name in self._numbered(names) if all(self._apart(span, name, other) for other in done))
            span.name = next(free)
            done.append(span)

    def _described(self, key: Value, statement: Statement, span: Span, names: list[str]) -> list[str]:
        """Names for a value to which its author gave none, or one that says nothing."""
        own = [self.called[value] for value in statement.results if value in self.called and self._find(value) is key]
        if own and (len(statement.results) == 1 or statement.expression.form == "sequence"):
            return [*own, *names]
        hints = [self._clean(name, None) for name in self.hints.get(key, [])]
        names = [*(name for name in hints if name not in GENERIC), *names]
        inherited = self._inherited(statement, span)
        part = statement.several is not None and bool(hints)  # of several, one does not have the name of the whole
        if inherited and not part and (keeps_meaning(statement.expression) or inherited[0] in GENERIC):
            names += [*inherited, "x"]
        return [*names, *(self._clean(name, None) for name in roles(statement, self.prefix))] or ["x"]

    def _numbered(self, names: list[str]) -> Iterator[str]:
        yield from (name for name in names if name not in self.taken)
        stem = next((name for name in names if name not in GENERIC), names[0])
        for number in itertools.count(2):
            if f"{stem}{number}" not in self.taken:
                yield f"{stem}{number}"

    @staticmethod
    def _apart(span: Span, name: str, other: Span) -> bool:
        """Whether a variable may have the name of another: at no time of both, and of a size no tensor has it."""
        apart = span.is_size == other.is_size and (other.end <= span.start or span.end <= other.start)
        return other.name != name or apart

    def _inherited(self, statement: Statement, span: Span) -> list[str]:
        """The name of the statement's operand, where that is not needed afterwards."""
        for leaf in parts(statement.expression):
            if isinstance(leaf, Value) and not self._own(leaf):
                former = self.spans.get(self._find(leaf))
                return [former.name] if former is not None and former.name and former.end <= span.start else []
        return []

    def _clean(self, name: str, key: Any) -> str:
        name = name.lower() if name.upper() == name or len(name) == 1 else name
        if name == "l":  # which some fonts show as a 1
            return "length"
        if isinstance(key, tuple) and name in ("h", "w"):
            return {"h": "height", "w": "width"}[name]
        if name == "w":
            return "weight"
        if not name.isidentifier() or keyword.iskeyword(name) or name in self.taken:
            return f"{name}_" if name.isidentifier() else "x"
        return name

    # -- text ----------------------------------------------------------------------------------------------------------

    def name_of(self, value: Value) -> str:
        span = self.spans.get(self._find(value))
        return span.name if span is not None else (value.name or "x")

    def renderer(self, numbered: dict[str, str] | None = None) -> Renderer:
        sizes = {key: span.name for key, span in self.spans.items() if isinstance(key, tuple)}
        return Renderer(self.prefix, self.name_of, sizes, numbered)

    def signature(self, name: str, results: str = "") -> list[str]:
        """The head: the inputs, the weights, literals with their defaults; ``results`` says what it gives."""
        parameters = [f"{self.spans[self._find(key_of(item))].name}: {_type(item)}" for item in self.function.inputs]
        parameters += ["w: td.Scope"] if self.function.scoped else []
        literals = sorted(self.function.literals.items(), key=lambda item: item[1] is not ...)
        parameters += [
            f"{key}: {self.function.kinds[key]}{'' if default is ... else f' = {literal(default)}'}"
            for key, default in literals
        ]
        kinds = [_type(value) for value in self.results]
        if self.carried is not None:
            groups = (kinds[: self.carried], kinds[self.carried :])
            kinds = [grouped(group, "None").replace("(", "tuple[").replace(")", "]") for group in groups]
        results = results or (kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]")
        return wrapped_call(f"def {name}", parameters, 0, f" -> {results}:")

    def lines(self) -> list[str]:
        """All but the last: the return, which the caller writes."""
        result: list[str] = []
        for item in self.items:
            if isinstance(item, Loop):
                taken = self.taken | {span.name for span in self.spans.values()}
                head, numbered = loop_head(item, self.renderer(), self.counts, taken)
                result += head
                renderer = self.renderer(numbered)
                for inner in item.body:
                    result += self._item(inner, renderer, 8)
            else:
                result += self._item(item, self.renderer(), 4)
        return result

    def last_expression(self) -> Expression | None:
        """What makes the only result, where it is the last statement and its value has no name of the author's."""
        last = self.items[-1] if self.items else None
        if len(self.results) != 1 or not isinstance(last, Statement) or last.results != self.results:
            return None
        return None if last.several is not None or last.note or self.results[0].name else last.expression

    def returned(self, lines: list[str]) -> list[str]:
        """The lines and a return; the last value is returned where it is made."""
        last = self.items[-1] if self.items else None
        if isinstance(last, Statement) and not last.note and self.carried is None:
            given = last.several if last.several is not None else last.results
            if given == self.results and (last.several is None or len(given) > 1):
                own = self._item(last, self.renderer(), 4)
                return lines[: len(lines) - len(own)] + wrapped("return ", last.expression, self.renderer(), 4)
        names = list(map(self.renderer().value, self.results))
        if self.carried is not None:
            names = [grouped(names[: self.carried], "()"), grouped(names[self.carried :], "None")]
        return [*lines, *returned(names)]

    def _item(self, item: Any, renderer: Renderer, indent: int) -> list[str]:
        space = " " * indent
        if isinstance(item, Copy):
            return [f"{space}{self.name_of(item.target)} = {renderer.value(item.source)}"]
        if isinstance(item, Unpack):
            return [space + self._unpack_text(item, renderer)]
        if isinstance(item, SizeName):
            name = renderer.sizes.pop(size_key(item.size))
            text = renderer.tree(item.size)
            return [f"{space}{name} = {text}"]
        names = [self._target(value, item) for value in (item.several if item.several is not None else item.results)]
        if item.expression.form == "scan":
            carried = len(item.expression.arguments[1].tree)
            names = [grouped(names[:carried], "_"), grouped(names[carried:], "_")]
        head = ", ".join(names) if len(names) > 1 or item.several is None else f"({names[0]},)"
        empty = item.expression.form == "sequence" and item.expression.arguments[0].tree == []
        head += ": list[td.Tensor] = " if empty else " = " if names else ""
        notes = [
            line
            for text in item.note
            for line in textwrap.wrap(text, WIDTH, initial_indent=f"{space}# ", subsequent_indent=f"{space}# ")
        ]
        return notes + wrapped(head, item.expression, renderer, indent)

    def _target(self, value: Value | None, statement: Statement) -> str:
        if value is None:
            return "_"
        span = self.spans[self._find(value)]
        return "_" if span.end <= self.positions[id(statement)] else span.name

    def _unpack_text(self, item: Unpack, renderer: Renderer) -> str:
        value = item.sizes[0].value
        named = {size.axis: renderer.sizes[size_key(size)] for size in item.sizes}
        if len(named) == 1:
            ((axis, name),) = named.items()
            return f"{name} = {renderer.value(value)}.shape[{axis}]"
        return f"{', '.join(named.get(axis, '_') for axis in range(len(value.shape)))} = {renderer.value(value)}.shape"


AXES = {2: ["n", "c"], 3: ["n", "length", "c"], 4: ["n", "c", "height", "width"], 5: ["n", "c", "t", "height", "width"]}


def wrapped(head: str, expression: Expression, renderer: Renderer, indent: int) -> list[str]:
    """``head expression`` on one line, or the outermost call's arguments on lines of their own."""
    space = " " * indent
    text = renderer.expression(expression)[0]
    if len(space + head + text) <= WIDTH or expression.form in ("operator", "swapped", "unary", "attribute"):
        return [f"{space}{head}{text}"]
    if expression.form == "index":
        receiver = renderer.operand(expression.arguments[0].tree, 9)
        return [f"{space}{head}{receiver}[", f"{space}    {text[len(receiver) + 1 : -1]}", f"{space}]"]
    if expression.form == "method":
        callee = f"{renderer.operand(expression.arguments[0].tree, 9)}.{expression.name}"
        arguments = renderer.arguments(expression.arguments[1:])
    else:
        callee, arguments = renderer.callee(expression), renderer.given(expression)
    return wrapped_call(f"{head}{callee}", arguments, indent)


def returned(names: list[str]) -> list[str]:
    """The values by name, on one line or on one each."""
    return one_by_one("return ", names, "", brackets="()")


def _single_sizes(expression: Expression, inputs: set[Any]) -> Iterator[SizeOf]:
    """Single sizes; all sizes of a tensor from one axis on are written ``x.shape[2:]`` instead."""
    for inner in expressions(expression):
        for argument in inner.arguments:
            yield from _tree_sizes(argument.tree, inputs)


def _tree_sizes(tree: Any, inputs: set[Any]) -> Iterator[SizeOf]:
    if isinstance(tree, (list, tuple)):
        whole = tree and all(isinstance(item, SizeOf) and item.value is tree[0].value for item in tree)
        if whole and [item.axis for item in tree] == list(range(tree[0].axis, len(tree[0].value.shape))):
            return
        for item in tree:
            yield from _tree_sizes(item, inputs)
    elif isinstance(tree, (SizeOf, SizeOp)) and size_key(tree) not in inputs:
        if isinstance(tree, SizeOf):
            yield tree
        else:
            for operand in tree.operands:
                yield from _tree_sizes(operand, inputs)
    elif isinstance(tree, (dict, slice)):
        for leaf in leaves(tree):
            yield from _tree_sizes(leaf, inputs)


def _type(item: Any) -> str:
    """The annotation of what goes into a function or comes out."""
    if isinstance(item, Value):
        return "list[td.Tensor]" if isinstance(item, ValueList) else "td.Tensor"
    return "int | td.Size"
