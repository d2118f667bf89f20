"""Executes the programs of a port with torch, before and after its passes: each must do what the module does.

Three stages are compared with the module: the statements as they were lowered, one after the other; the program whose
statements are rolled into loops and whose modules share functions; and the text, in which calls are nested and values
have names. torch computes all of them, so that nothing but the passes is judged.
"""

import copy
import operator
from dataclasses import dataclass, field

import torch

from trtdsl.core.errors import UnsupportedError
from trtdsl.porting.calls import Branch, Op, SizeOf, SizeOp, Value, Weight, leaves, rebuilt
from trtdsl.porting.given import checked_inputs
from trtdsl.porting.origin import Origin
from trtdsl.porting.passes.instances import Builder
from trtdsl.porting.statements import Copy, Expression, Literal, Loop, Scope, size_key
from trtdsl.porting.tracing.agree import traced_at_all_sizes
from trtdsl.porting.writing.write import File

OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt,
    "<=": operator.le,
}  # fmt: skip


class Torch:
    """trtdsl.functional, by torch's functions of the same names."""

    @staticmethod
    def setitem(x, index, value):
        changed = x.clone()
        changed[index] = value
        return changed

    @staticmethod
    def arange(start, end=None, step=1, dtype=None):
        return torch.arange(*((0, start) if end is None else (start, end)), step, dtype=dtype)

    @staticmethod
    def meshgrid(*tensors, indexing=None):
        return torch.meshgrid(*tensors, indexing=indexing)

    def __getattr__(self, name):
        for space in (torch.nn.functional, torch, torch.linalg, torch.Tensor):
            if hasattr(space, name):
                return getattr(space, name)
        raise AttributeError(name)


F = Torch()


class Weights:
    """A scope over a state_dict: ``w.blocks[0].weight``."""

    def __init__(self, state, path=""):
        self._state, self._path = state, path

    def __getattr__(self, name):
        path = f"{self._path}.{name}".lstrip(".")
        return self._state[path] if path in self._state else Weights(self._state, path)

    def __getitem__(self, key):
        if isinstance(key, slice):
            return [self[number] for number in range(len(self))[key]]
        return getattr(self, str(key))

    def __len__(self):
        start = f"{self._path}." if self._path else ""
        parts = {name[len(start) :].split(".")[0] for name in self._state if name.startswith(start)}
        return 1 + max(int(part) for part in parts if part.isdigit())

    def __iter__(self):
        return (self[number] for number in range(len(self)))


@dataclass
class Stage:
    """Executes statements; weights have the paths of the instance that runs now."""

    state: dict
    functions: dict = field(default_factory=dict)

    def function(self, function, inputs, scope, literals):
        """What a function gives for these inputs, where its module stands at ``scope``."""
        values = {}
        for item, given in zip(function.inputs, inputs, strict=True):
            values[item if isinstance(item, Value) else size_key(item)] = given
        frame = Frame(self, values, {function.call.path: scope}, literals)
        frame.run(function.body)
        return [frame.value(value) for value in function.results]


@dataclass
class Frame:
    """One run of a body: values by what they are, and where paths of weights lead."""

    stage: Stage
    values: dict
    moved: dict
    literals: dict

    def run(self, body):
        for item in body:
            if isinstance(item, Loop):
                self.loop(item)
            elif isinstance(item, Copy):
                self.values[item.target] = self.values[item.source]
            else:
                self.keep(item, self.expression(item.expression))

    def keep(self, statement, given):
        if not statement.results:
            return
        if statement.several is None:
            self.values[statement.results[0]] = given
        else:
            given = given.values() if isinstance(given, dict) else given
            for value, each in zip(statement.several, given, strict=True):
                if value is not None:
                    self.values[value] = each

    def loop(self, loop):
        over = [(element, rebuilt(given, self.leaf)) for element, given in loop.over]
        count = loop.count if loop.rounds is None else self.leaf(loop.rounds)
        assert all(len(items) == count for _, items in over)
        for number in range(count):
            moved = {path: f"{path}{loop.start + loop.step * number}" for path in loop.containers}
            for element, items in over:
                self.values[element] = items[number]
            inner = Frame(
                self.stage,
                self.values,
                {
                    **self.moved,
                },
                self.literals,
            )
            inner.rounds = moved
            inner.start = loop.start
            inner.run(loop.body)
            after = {first: self.values[again] for first, again in loop.carried}
            self.values.update(after)  # all at once

    rounds = None
    start = 0

    def path(self, path):
        for container, now in (self.rounds or {}).items():
            begin = f"{container}{self.start}"
            if path == begin or path.startswith(f"{begin}."):
                path = now + path[len(begin) :]
        for old, new in self.moved.items():
            if not old:
                path = f"{new}.{path}".strip(".") if new else path
            elif path == old or path.startswith(f"{old}."):
                path = f"{new}{path[len(old) :]}".lstrip(".")
        return path

    def value(self, value):
        if value in self.values:
            return self.values[value]
        assert isinstance(value, Weight), f"{value} has no value yet"
        return self.stage.state[self.path(value.path)]

    def leaf(self, leaf):
        if isinstance(leaf, Literal):
            return self.literals[leaf.parameter] if leaf.parameter is not None else leaf.value
        if isinstance(leaf, Expression):
            return self.expression(leaf)
        if isinstance(leaf, Scope):
            return leaf
        if isinstance(leaf, (SizeOf, SizeOp)):
            return self.size(leaf)
        if isinstance(leaf, Value):
            if type(leaf).__name__ == "ValueList" and leaf not in self.values:
                raise AssertionError("a list that nobody gave")
            return self.value(leaf)
        return leaf

    def size(self, size):
        if size_key(size) in self.values:
            return self.values[size_key(size)]
        if isinstance(size, SizeOf):
            return self.value(size.value).shape[size.axis]
        if not isinstance(size, SizeOp):
            return size.value if isinstance(size, Literal) else size
        operands = [self.size(operand) for operand in size.operands]
        if len(operands) == 1:
            return -operands[0]
        return OPERATORS[size.symbol](*operands)

    def calls(self, call, builder):
        """Runs the calls below a call one after the other, of a branch those of the side that its sizes choose."""
        for item in call.body:
            if isinstance(item, Branch):
                guard = item.guard
                side = item.sides[not OPERATORS[guard.symbol](self.size(guard.left), self.size(guard.right))]
                self.calls(side, builder)
                self.values.update(zip(item.results, map(self.value, side.results)))
            elif isinstance(item, Op):
                self.run(builder.lowered.get(item, ()))
            else:
                self.calls(item, builder)

    def expression(self, expression):
        if expression.form == "cond":
            compared, then, otherwise, _ = (argument.tree for argument in expression.arguments)
            return rebuilt(then if self.expression(compared) else otherwise, self.leaf)
        arguments = [(argument.keyword, rebuilt(argument.tree, self.leaf)) for argument in expression.arguments]
        given = [tree for keyword, tree in arguments if keyword is None]
        named = {keyword: tree for keyword, tree in arguments if keyword is not None}
        form, name = expression.form, expression.name
        if form == "module":
            return self.module(expression, given, named)
        if form == "function":
            named.pop("lowering", None)  # which torch does not have
            return getattr(F, name)(*given, **named)
        if form == "method":
            name = "reshape" if name == "view" else name  # values are in any order of memory
            return getattr(given[0], name)(*given[1:], **named)
        if form == "sequence":
            return given[0]
        if form == "attribute":
            return getattr(given[0], name)
        if form == "unary":
            return {"-": operator.neg, "~": operator.invert}[name](*given)
        if form == "index":
            return given[0][given[1]]
        if form == "swapped":
            return OPERATORS[name](given[1], given[0])
        assert form == "operator", form
        return OPERATORS[name](*given)

    def module(self, expression, given, named):
        function = self.stage.functions[expression.name]
        scope = named.pop("scope", None)
        literals = {**{name: default for name, default in function.literals.items() if default is not ...}, **named}
        path = self.path(scope.path) if scope is not None else function.call.path
        results = self.stage.function(function, given, path, literals)
        return results if len(results) > 1 else results[0]


class Network:
    """The namespace ``td`` of a ported text."""

    Tensor = Scope = Size = None

    @staticmethod
    def network(**_):
        return lambda function: function

    @staticmethod
    def Input(*_, **__):
        return None

    @staticmethod
    def Dim(*_, max, **__):
        """The size at which a dynamic module is executed."""
        return max

    @staticmethod
    def require(condition, *_):
        assert condition

    @staticmethod
    def cond(pred, true_fn, false_fn, operands):
        return (true_fn if pred else false_fn)(*operands)


def _with_branches(trace):
    """The trace; not one way alone of a module that goes several, which must be shown to serve for the others."""
    if trace.elsewhere:
        raise UnsupportedError("one way of several")
    return trace


def stages(module, inputs, dims=None, ranges=None, traced=None):
    """What the module gives, and after it what each stage gives, by name: lists of tensors.

    ``inputs`` are tensors by name; ``dims`` may give texts of shapes in their places, such as "N,3", with ``ranges`` of
    its dimensions. ``traced`` is what is traced in the place of the module: the same in another dtype.
    """
    module = module.eval()
    traced = traced or module
    given = checked_inputs(traced, dims or {name: text_of(tensor) for name, tensor in inputs.items()}, ranges or {})
    trace = traced_at_all_sizes(traced, given, _with_branches)
    state = {**dict(module.state_dict()), **dict(module.named_buffers()), **trace.constants}
    state = {name: tensor.clone() for name, tensor in state.items()}
    feeds = {name: tensor.clone() for name, tensor in inputs.items()}
    with torch.no_grad():
        yield "module", flat(module(**feeds))

        builder = Builder(trace)
        frame = Frame(Stage(state), {value: inputs[name] for name, value in trace.inputs.items()}, {}, {})
        frame.calls(trace.root, builder)
        yield "lowered", [frame.value(value) for value in leaves(trace.results)]

        file = File(Origin(lambda: module, None, None, "Module", {}), trace, given, None, None, None)
        stage = Stage(state, {function.name: function for function in file.functions})
        yield "shared and rolled", stage.function(file.main, list(inputs.values()), "", {})

        text = file.text()
        space = {"td": Network, "F": F, "Module": None, "__name__": "port"}
        lines = [line for line in text.split("\n") if not line.startswith("import trtdsl")]
        try:
            exec(compile("\n".join(lines), "port", "exec"), space)
            own = space[file.name](*inputs.values(), *([Weights(state)] if file.main.scoped else []))
        except Exception as error:
            raise AssertionError(f"the text fails with {error!r}:\n{text}") from error
        yield f"text\n{text}", flat(own)


def text_of(tensor):
    numbers = "" if tensor.dtype.is_floating_point or tensor.dtype == torch.bool else ":0:2"
    return ",".join(map(str, tensor.shape)) + f":{str(tensor.dtype).removeprefix('torch.')}{numbers}"


def flat(results):
    return [leaf for leaf in leaves(results) if isinstance(leaf, torch.Tensor)]


def assert_every_pass_keeps_the_meaning(module, inputs, source="", dims=None, ranges=None):
    """Executes every stage on the inputs and compares it with the module, where they differ once more in float64."""
    said = _difference(stages(module, inputs, dims, ranges))
    if said:
        double = copy.deepcopy(module).double()
        wide = {name: given.double() if given.is_floating_point() else given for name, given in inputs.items()}
        traced = dims or {name: text_of(tensor) for name, tensor in inputs.items()}
        said = _difference(stages(double, wide, traced, ranges, traced=module))
    assert not said, f"{said}\n{source}"


def _difference(stages):
    """What the first stage that differs from the module gives otherwise; empty where none does."""
    expected = None
    for name, results in stages:
        if expected is None:
            expected = results
            continue
        if len(results) != len(expected):
            return f"{name}: {len(results)} results of {len(expected)}"
        for index, (own, its) in enumerate(zip(results, expected)):
            scale = max(1.0, float(its.abs().max())) if its.numel() and its.is_floating_point() else 1.0
            same = own.shape == its.shape and torch.allclose(own, its, 1e-5, 1e-6 * scale, equal_nan=True)
            if not same:
                return f"result {index} differs after: {name}"
    return ""
