"""Functions of a trace: one for each kind of module, shared by all that do the same.

Works from the innermost modules outwards. Instances whose statements are the same share a :class:`Function`; literals
in which they differ become its parameters.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...core.lazy import torch
from ..calls import Call, Helper, Part, SizeOf, SizeOp, Value, ValueList, Weight, apart, leaves
from ..render import kind
from ..statements import Argument, Copy, Literal, Loop, Scope, Statement, flat, key_of, parts, pattern, same, size_key
from ..tracing.trace import Trace
from .instances import Builder, Instance, under, weights_in
from .lists import grown
from .loops import rolled
from .merge import merged
from .rounds import MANY

MOST_PARAMETERS = 6


@dataclass(eq=False)
class Function:
    """A function of the file."""

    name: str
    call: Call
    inputs: list[Any]
    """Values and sizes that it takes, in the first of the modules that share it."""
    body: list[Any]
    results: list[Value]
    scoped: bool
    literals: dict[str, Any] = field(default_factory=dict)
    """Parameters by name, with their defaults."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Their types."""
    argument_names: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Program:
    """The functions, innermost first, the network's own, and the weights that have a part in its outputs."""

    functions: list[Function]
    main: Function
    used: set[str]


def program_of(trace: Trace, taken: Iterable[str] = ()) -> Program:
    """The program of a trace, whose functions have none of the names ``taken``."""
    builder = Builder(trace)
    root = builder.instance(trace.root, [])
    ordered: dict[int, list[Instance]] = {}
    for instance in builder.instances:
        ordered.setdefault(instance.height, []).append(instance)
    functions: list[Function] = []
    sharing = _Sharing(builder.counts, taken)
    for height in sorted(ordered):
        functions += sharing.group(ordered[height])
    root.inputs = list(trace.inputs.values())
    root.body, root.results = rolled(grown(merged(root.body, root.results)), root.results, builder.counts)
    used = {value.path for value in builder.uses if isinstance(value, Weight)}
    main = Function("", trace.root, root.inputs, root.body, root.results, bool(used))
    main.argument_names = dict(enumerate(trace.inputs))
    return Program(functions, main, used)


class Names:
    """Names of functions, each given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = {"td", "torch", "math", "w", *taken, *dir(builtins), *keyword.kwlist}

    def take(self, *candidates: str) -> str:
        """The first of the candidates that is free, or the last with a number."""
        for name in candidates:
            if name not in self.taken:
                self.taken.add(name)
                return name
        number = 2
        while f"{candidates[-1]}_{number}" in self.taken:
            number += 1
        self.taken.add(f"{candidates[-1]}_{number}")
        return f"{candidates[-1]}_{number}"


class _Sharing:
    """Makes functions of instances, from the innermost outwards."""

    def __init__(self, counts: dict[str, int], taken: Iterable[str]):
        self.counts = counts
        self.names = Names(taken)
        self.first_of: dict[Any, Any] = {}  # of each kind the module that has the plain name

    def group(self, instances: list[Instance]) -> list[Function]:
        """Functions of instances of one height; each instance's statement calls its function from now on."""
        groups: dict[Any, list[Instance]] = {}
        for instance in instances:
            body = grown(merged(instance.body, instance.results))
            instance.body, instance.results = rolled(body, instance.results, self.counts, instance.inputs)
            instance.key, instance.holes, instance.numbers = template(instance)
            groups.setdefault(instance.key, []).append(instance)
        result = []
        for members in groups.values():
            if not isinstance(members[0].call.module, Part):
                _unite_results(members)
            result += map(self._function, _split(members))
        return result

    def _function(self, members: list[Instance]) -> Function:
        first = members[0]
        prefix = first.call.prefix
        leaves_of = [leaf for statement in flat(first.body) for leaf in parts(statement.expression)]
        scoped = any(under(weight, prefix) for weight in weights_in(first.body))
        scoped |= any(isinstance(leaf, Scope) and f"{leaf.path}.".startswith(prefix) for leaf in leaves_of)
        function = Function(
            self.names.take(*self._candidates(first)), first.call, first.inputs, first.body, first.results, scoped
        )
        function.argument_names = _argument_names(first)
        for name, column in _varying(members).items():
            usual = [holes[0].value for holes in column if same(holes[0].value, holes[0].usual)]
            function.literals[name] = usual[0] if usual else ...
            function.kinds[name] = kind([*usual, *(holes[0].value for holes in column)])
            for literal in column[0]:
                literal.parameter = name
            for member, holes in zip(members, column):
                member.bound[name] = holes[0].value
        for member in members:
            assert member.statement is not None
            expression = member.statement.expression
            expression.name = function.name
            for name, default in function.literals.items():
                expression.arguments.append(Argument(name, Literal(member.bound[name], name), default))
            if scoped:
                expression.arguments.append(Argument("scope", Scope(member.call.path)))
        return function

    def _candidates(self, instance: Instance) -> list[str]:
        """Names for the function of a module: its class, then also the settings that set it apart from the first."""
        module, name = instance.call.module, snake(instance.call.title)
        first = instance.body[0]
        if (
            instance.call.room.startswith("torch.nn.")
            and len(instance.body) == 1
            and isinstance(first, Statement)
            and first.expression.form == "function"
        ):
            return [first.expression.name]
        if isinstance(module, Part):
            return [name]
        if isinstance(module, Helper):
            name = name.strip("_")
            sizes = [item.name for item in instance.inputs if isinstance(item, SizeOf) and item.name]
            return [name, *([f"{name}_of_{'_and_'.join(sizes)}"] if sizes else []), name]
        other = self.first_of.setdefault(instance.call.kind, module)
        mine = [child for child, part in module.named_children() if _has_weights(part)]
        extra = [child for child in mine if not _has_weights(getattr(other, child, None))]
        extra += [key for key, value in vars(module).items() if value is True and getattr(other, key, None) is False]
        held = [word for word in instance.call.path.split(".") if not word.isdigit()][-1:]  # twins: by where they stand
        return [name, *(f"{name}_{each}" for each in (*extra, *held) if each.isidentifier()), name]


def _has_weights(part: Any) -> bool:
    return isinstance(part, torch.nn.Module) and next(part.parameters(), None) is not None


def _split(members: list[Instance]) -> list[list[Instance]]:
    """All members, or, where too many literals differ, those apart that differ."""
    if len(_varying(members)) <= MOST_PARAMETERS:
        return [members]
    parts: dict[str, list[Instance]] = {}
    for member in members:
        parts.setdefault(repr([hole.value for hole in member.holes]), []).append(member)
    return list(parts.values())


def _varying(members: list[Instance]) -> dict[str, list[list[Literal]]]:
    """Literals in which the members differ: by the name of a parameter, for each member the literals that it stands
    for. Those that are the same in many ways are one, as a padding and a dilation.
    """
    columns: dict[Any, list[int]] = {}
    for index in range(len(members[0].holes)):
        values = tuple(repr(member.holes[index].value) for member in members)
        if len(set(values)) > 1:
            own = _label(members, index) if len(set(values)) < MANY else None
            columns.setdefault((own, values), []).append(index)
    result: dict[str, list[list[Literal]]] = {}
    for (own, _), indices in columns.items():
        label = own or _label(members, indices[-1])
        name, number = label, 2
        while name in result:
            name, number = f"{label}{number}", number + 1
        result[name] = [[member.holes[index] for index in indices] for member in members]
    return result


def _label(members: list[Instance], index: int) -> str:
    """What to call a literal that differs: the module's attribute that has its value everywhere, or the argument's
    name.
    """
    label = members[0].holes[index].name
    if label and label not in ("size", "shape", "args", "dims", "other", "index", "sizes"):
        return label
    wanted = [member.holes[index].value for member in members]
    plain = all(isinstance(value, (int, float, str, tuple)) for value in wanted)
    for name in vars(members[0].call.module) if plain else ():
        found = [getattr(member.call.module, name, None) for member in members]
        same_ones = all(type(a) is type(b) and a == b for a, b in zip(found, wanted))
        if same_ones and not name.startswith("_") and name != "training":
            return name
    return label if label.isidentifier() else "size"


def _unite_results(members: list[Instance]) -> None:
    """A result that is needed of one module is returned by all."""
    wanted = dict.fromkeys(member.numbers[value] for member in members for value in member.results)
    order = sorted(wanted, key=[member.numbers[value] for member in members for value in member.results].index)
    most = max(members, key=lambda member: len(member.results))
    if len(most.results) == len(order):
        order = [most.numbers[value] for value in most.results]
    for member in members:
        assert member.statement is not None
        outside = dict(zip(member.results, member.statement.results))  # a loop gives its last round's values as its own
        values = {number: value for value, number in member.numbers.items()}
        member.results = [values[number] for number in order]
        member.statement.give([outside.get(value, value) for value in member.results])


def template(instance: Instance) -> tuple[Any, list[Literal], dict[Any, int]]:
    """What instances that share a function have in common, the literals that may differ, and values by number."""
    prefix = instance.call.prefix
    numbers: dict[Any, int] = {}
    for item in instance.inputs:
        numbers[key_of(item)] = len(numbers)
    holes: list[Literal] = []

    def mark(leaf: Any) -> Any:
        if isinstance(leaf, Literal):
            holes.append(leaf)
            return "literal"
        if isinstance(leaf, Scope):
            return ("scope", _relative(leaf.path, instance.call.path))
        if isinstance(leaf, Weight) and under(leaf, prefix):
            return ("weight", leaf.path[len(prefix) :])
        if isinstance(leaf, Value):
            return numbers.setdefault(leaf, len(numbers))
        if isinstance(leaf, (SizeOf, SizeOp)) and size_key(leaf) in numbers:
            return ("size", numbers[size_key(leaf)])
        if isinstance(leaf, SizeOf):  # ``n, c, _ = x.shape`` has as many names as x has dimensions
            return ("size", leaf.axis, len(leaf.value.shape), mark(leaf.value))
        node = apart(leaf)
        return repr(leaf) if node is None else (node[0], *map(mark, node[1]))

    own = None if instance.call.room.startswith("torch.nn.") else instance.call.kind

    def line(item: Any) -> Any:
        if isinstance(item, Loop):
            containers = tuple(_relative(path, instance.call.path) for path in item.containers)
            count = mark(item.rounds) if item.rounds else None if item.whole else item.count
            over = tuple((mark(element), mark(given)) for element, given in item.over)
            carried = tuple(mark(value) for pair in item.carried for value in pair)
            return (containers, item.start, item.step, count, over, tuple(map(line, item.body)), carried)
        if isinstance(item, Copy):
            return (mark(item.source), mark(item.target))
        return (mark(item.expression), tuple(mark(value) for value in item.results), pattern(item))

    lines = tuple(map(line, instance.body))
    own_results = isinstance(instance.call.module, Part)
    return (own, lines, tuple(map(mark, instance.results)) if own_results else ()), holes, numbers


def _relative(path: str, above: str) -> str:
    return path[len(above) + 1 :] if above and path.startswith(f"{above}.") else path


def snake(name: str) -> str:
    """A class's name as that of a function; one capital after two letters ends their word, as in CfC and BiT.

    >>> from trtdsl.porting.passes.functions import snake
    >>> snake("BasicBlock"), snake("LlamaMLP"), snake("ConvBNReLU"), snake("CfCCell"), snake("ToRGB")
    ('basic_block', 'llama_mlp', 'conv_bn_relu', 'cfc_cell', 'to_rgb')
    """
    for word in ("ReLU", "SiLU", "GeLU", "ViT", "DeiT"):
        name = name.replace(word, word.capitalize())
    name = re.sub(r"(?<![A-Z])([A-Z][a-z][A-Z])(?=[A-Z][a-z]|[^A-Za-z]|$)", lambda word: word[0].capitalize(), name)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"_+", "_", name).lower()


def _argument_names(instance: Instance) -> dict[int, str]:
    """forward's parameters for what goes in, by place among the inputs."""
    result: dict[int, str] = {}
    if instance.call.room.startswith("torch.nn.") and len(instance.inputs) < 2:
        return {0: "x"} if instance.inputs else {}
    for index, item in enumerate(instance.inputs):
        for name, given in instance.call.arguments.items():
            if isinstance(item, ValueList):
                continue
            whole = not isinstance(given, (list, tuple, dict)) or getattr(item, "name", None) is None
            if whole and any(key_of(leaf) == key_of(item) for leaf in leaves(given)):
                result[index] = name
                break
    return result
