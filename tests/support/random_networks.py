"""Random networks of calls of ``F``, as source that runs in torch and in trtdsl alike.

Values are used several times, in any order, as outputs too, and inside loops: trtdsl adds many layers only where their
results are first used, and each order of uses is a case of its own.
"""

import random

import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import BuildError, ProgramFaultError, ShapeError, UnevaluatedProgramError
from trtdsl.engine.running.evaluate import evaluator_of

MOST = 3000  # elements of a value


class Torch:
    """torch's functions under one name, as trtdsl's are."""

    def __getattr__(self, name):
        return getattr(torch.nn.functional, name, None) or getattr(torch, name)

    @staticmethod
    def loop(rounds, body, x):
        for _ in range(rounds):
            x = body(x)
        return x

    @staticmethod
    def until(limit, rounds, body, x):
        while rounds and x.mean() < limit:
            x, rounds = body(x), rounds - 1
        return x

    @staticmethod
    def running(x):
        return x.cumsum(0)

    @staticmethod
    def branch(chosen, yes, no, x):
        return yes(x) if chosen else no(x)


class Ours:
    """trtdsl's functions, a loop and a branch."""

    def __getattr__(self, name):
        return getattr(F, name)

    @staticmethod
    def loop(rounds, body, x):
        return td.while_loop(lambda i, _: i < rounds, lambda i, x: (i + 1, body(x).to(x.dtype)), (0, x))[1]

    @staticmethod
    def until(limit, rounds, body, x):
        step = lambda i, x: (i + 1, body(x).to(x.dtype))  # noqa: E731
        return td.while_loop(lambda i, x: (i < rounds) & (x.mean() < limit), step, (0, x))[1]

    @staticmethod
    def running(x):
        return td.scan(lambda total, row: (total + row, total + row), x[0] * 0, x)[1]

    @staticmethod
    def branch(chosen, yes, no, x):
        return td.cond(chosen, lambda x: yes(x).to(x.dtype), lambda x: no(x).to(x.dtype), (x,))


class RandomNetwork:
    """The lines of a network, its constants, and values for its inputs, twice: dynamic sizes differ between them."""

    def __init__(self, seed):
        self.random, self.seed = random.Random(seed), seed
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = {7: torch.float16, 5: torch.bfloat16, 15: torch.float16}.get(seed % 16, torch.float32)
        self.precision = {3: "float16", 11: "float16", 13: "bfloat16"}.get(seed % 16)
        self.is_nested = seed % 8 == 2
        """Whether loops and branches stand in one another, and there are functions that move elements."""
        self.constants, self.lines, self.outputs = {}, [], []
        self.inputs, self.feeds = {}, [{}, {}]
        channels, self.dynamic = self.random.choice([4, 6, 8]), self.random.random() < 0.3
        sizes = [self.random.choice([1, 2]), channels, self.random.randint(3, 7), self.random.randint(3, 7)]
        others, names = [3, channels, sizes[2] + 6, sizes[3]], ["N", channels, "H", sizes[3]]
        rows = self.random.random() < 0.3
        for name in ("a", "b"):
            for size, feed in zip((sizes, others if self.dynamic else sizes), self.feeds, strict=True):
                feed[name] = self.values(size[:3] if rows else size)
            shape = names if self.dynamic else sizes
            self.inputs[name] = tuple(shape[:3] if rows else shape)
        self.known = [{**feed, "F": Torch()} for feed in self.feeds]
        self.names = list(self.inputs)
        count, tries = self.random.randint(4, 12), 0
        while len(self.lines) < count and tries < 100:
            tries += 1
            self.pattern() if self.random.random() < 0.25 else self.step()
        self.choose_outputs()

    @property
    def tolerance(self):
        """Relative to the greatest value: half precision rounds at every step, and norms enlarge that."""
        if torch.bfloat16 in (self.dtype, getattr(torch, self.precision or "", None)):
            return 3e-1
        return 1e-4 if self.dtype == torch.float32 and self.precision is None else 4e-2

    def values(self, shape, scale=1.0):
        return torch.randn(tuple(shape), generator=self.generator).to(self.dtype).double() * scale

    def constant(self, shape, scale=1.0, positive=False):
        name = f"c{len(self.constants)}"
        value = (self.values(shape).abs() + 0.3 if positive else self.values(shape)) * scale
        self.constants[name] = value.to(self.dtype).double()
        return name

    def text(self):
        """The lines; some outputs are outputs as soon as they are there, the others at the end."""
        lines = []
        for line in self.lines:
            name = line.split()[0]
            lines += [line, f"output({name}, '{name}')"] if name in self.early else [line]
        return "\n".join([*lines, *(f"output({name}, '{name}')" for name in self.outputs if name not in self.early)])

    # -- steps -------------------------------------------------------------------------------------------------------

    def step(self):
        x = self.random.choice(self.names[-3:] if self.random.random() < 0.6 else self.names)
        self.make(self.random.choice(self.makers()), x)

    def make(self, maker, x):
        """The name of what ``maker`` makes of ``x``; of ``x`` itself where it makes nothing."""
        before = dict(self.constants)
        expression = maker(x) if self.shape(x) else None
        if expression is not None and self.take(expression):
            return self.names[-1]
        self.constants = before
        return x

    def pattern(self):
        """A result that trtdsl defers, what may join it, and uses of each of them in any order."""
        x = self.random.choice(self.names)
        deferring = [
            self.convolution,
            self.convolution,
            self.linear,
            self.linear,
            self.pooled,
            self.reduced,
            self.product,
        ]
        raw = self.make(self.random.choice(deferring), x)
        several = [raw]
        for _ in range(self.random.randint(1, 4)):
            joining = [self.norm, self.norm, self.arranged, self.arranged, self.activation, self.scaled, self.linear]
            several.append(self.make(self.random.choice(joining), self.random.choice(several[-2:])))
        for _ in range(self.random.randint(1, 2)):
            self.make(self.random.choice([self.binary, self.joined, self.activation]), self.random.choice(several))

    def take(self, expression):
        """Adds the line when torch can run it on both feeds and its values are usual ones."""
        name = f"v{len(self.lines)}"
        found = []
        for known, feed in zip(self.known, (0, 1), strict=True):
            known.update(self.constants)
            try:
                value = eval(expression, known)
            except (RuntimeError, ValueError, IndexError, TypeError):
                return False
            if value.ndim > 5 or not 0 < value.numel() <= MOST or not 1e-3 <= value.abs().max() <= 30:
                return False
            found.append((known, value, feed))
        for known, value, _ in found:
            known[name] = value
        self.lines.append(f"{name} = {expression}")
        self.names.append(name)
        return True

    def choose_outputs(self):
        used = " ".join(self.lines)
        ends = [name for name in self.names if name.startswith("v") and used.count(name) == 1]
        more = [name for name in self.names if name.startswith("v") and self.random.random() < 0.2]
        self.outputs = list(dict.fromkeys([*ends, *more]))
        self.random.shuffle(self.outputs)
        self.early = {name for name in self.outputs if self.random.random() < 0.4}

    def shape(self, name):
        return tuple(self.known[0][name].shape)

    def alike(self, x):
        """The values of the same shape."""
        return [name for name in self.names if all(known[name].shape == known[x].shape for known in self.known)]

    def fixed(self, name, axis):
        return self.known[0][name].shape[axis] == self.known[1][name].shape[axis] or not self.dynamic

    def size(self, name, axis):
        """A size as an author writes it: a number where it is one."""
        if self.fixed(name, axis) and self.random.random() < 0.5:
            return str(self.shape(name)[axis])
        return f"{name}.shape[{axis}]"

    def makers(self):
        return [
            *[self.convolution] * 4,
            *[self.norm] * 4,
            *[self.activation] * 3,
            *[self.binary] * 5,
            *[self.arranged] * 4,
            *[self.linear] * 2,
            self.normalized,
            self.prelu,
            self.scaled,
            *[self.reduced] * 2,
            *[self.pooled] * 2,
            *[self.joined] * 2,
            self.part,
            self.softmax,
            *[self.product] * 2,
            self.attention,
            self.heads,
            self.heads,
            self.enlarged,
            self.loop,
            self.branch,
            self.flat_linear,
            *([*[self.loop, self.branch, self.moved] * 4] if self.is_nested else []),
        ]

    def channels(self, x, axis):
        ndim = len(self.shape(x))
        return self.shape(x)[axis] if ndim > abs(axis) - (axis < 0) and self.fixed(x, axis) else None

    def convolution(self, x):
        ndim, channels = len(self.shape(x)), self.channels(x, 1)
        if ndim not in (3, 4) or channels is None:
            return None
        groups = self.random.choice([1, 1, 1, 2, channels])
        if channels % groups:
            return None
        made = self.random.choice([4, 6, 8]) if groups == 1 else channels
        kernel = [self.random.choice([1, 1, 2, 3]) for _ in range(ndim - 2)]
        stride, padding = self.random.choice([1, 1, 2]), self.random.choice([0, 1]) if max(kernel) > 1 else 0
        transposed = self.random.random() < 0.25
        shape = [channels, made // groups, *kernel] if transposed else [made, channels // groups, *kernel]
        scale = (shape[1] * kernel[0] * kernel[-1]) ** -0.5
        bias = self.constant([made]) if self.random.random() < 0.5 else None
        kind = f"conv_transpose{ndim - 2}d" if transposed else f"conv{ndim - 2}d"
        weight = self.constant(shape, scale)
        return f"F.{kind}({x}, {weight}, {bias}, stride={stride}, padding={padding}, groups={groups})"

    def norm(self, x):
        channels = self.channels(x, 1)
        if channels is None or len(self.shape(x)) < 2:
            return None
        return f"F.batch_norm({x}, {self.statistics(channels)})"

    def statistics(self, channels):
        """Mean, variance, weight and bias of a norm."""
        mean, variance = self.constant([channels]), self.constant([channels], positive=True)
        affine = self.random.random() < 0.8
        weight, bias = (self.constant([channels]), self.constant([channels])) if affine else (None, None)
        return f"{mean}, {variance}, {weight}, {bias}"

    def activation(self, x):
        kinds = ["relu", "relu", "silu", "gelu", "sigmoid", "tanh", "leaky_relu", "hardswish", "elu", "abs"]
        return f"F.{self.random.choice(kinds)}({x})"

    def scaled(self, x):
        """One factor or summand, or one for each channel."""
        channels = self.channels(x, 1)
        if channels is None or self.random.random() < 0.3:
            return self.random.choice([f"{x} * 0.7", f"{x} + 0.3", f"1.5 - {x}", f"{x} / 3"])
        y = self.constant([channels, *[1] * (len(self.shape(x)) - 2)])
        return self.random.choice([f"{x} * {y}", f"{y} + {x}", f"{x} - {y}"])

    def prelu(self, x):
        channels = self.channels(x, 1)
        return None if channels is None else f"F.prelu({x}, {self.constant([self.random.choice([1, channels])])})"

    def other(self, x):
        """Another value, or the same, that broadcasts with ``x``."""
        names = list(self.names)
        self.random.shuffle(names)
        for name in names:
            try:
                torch.broadcast_shapes(self.shape(x), self.shape(name))
            except RuntimeError:
                continue
            if name != x or self.random.random() < 0.1:
                return name
        return None

    def binary(self, x):
        y = self.other(x)
        if y is None:
            channels = self.channels(x, -1)
            y = self.constant([channels]) if channels is not None else "0.5"
        if self.random.random() < 0.5:
            x, y = y, x
        kinds = [
            "{x} + {y}",
            "{x} + {y}",
            "{x} * {y}",
            "{x} - {y}",
            "F.maximum({x}, {y})",
            "F.add({x}, {y}, alpha=0.5)",
        ]
        kinds += ["{x} + {y} + {x}", "F.relu({x}) + {y}", "({x} + 1) * {y}"]
        if self.tolerance < 1e-3:  # rounded to half precision, a value may lie on the other side
            kinds += ["F.where({x} > 0.137, {x}, {y})", "F.where({y} > 0.137, {x}, {y})"]
        return self.random.choice(kinds).format(x=x, y=y)

    def arranged(self, x):
        ndim = len(self.shape(x))
        axes = list(range(ndim))
        kind = self.random.randrange(8)
        if kind == 0:
            self.random.shuffle(axes)
            return f"{x}.permute({', '.join(map(str, axes))})"
        if kind == 1 and ndim > 1:
            return f"{x}.transpose({', '.join(map(str, self.random.sample(axes, 2)))})"
        if kind == 2 and ndim > 2:
            start = self.random.randrange(ndim - 1)
            return f"{x}.flatten({start}, {self.random.randrange(start + 1, ndim)})"
        if kind == 3:
            axis = self.random.choice(axes)
            size = self.shape(x)[axis]
            if size % 2 or not self.fixed(x, axis):
                return None
            return f"{x}.unflatten({axis}, {self.random.choice([f'(2, {size // 2})', f'({size // 2}, 2)'])})"
        if kind == 4:
            ones = [axis for axis in axes if self.shape(x)[axis] == 1 and not self.dynamic]  # dynamic sizes of 1 stay
            return f"{x}.squeeze({self.random.choice(ones)})" if ones else None
        if kind == 5:
            return f"{x}.unsqueeze({self.random.randrange(-ndim - 1, ndim + 1)})"
        if kind == 6 and ndim > 2:  # two neighbours are merged or their sizes change places
            axis = self.random.randrange(ndim - 1)
            sizes = [self.size(x, each) for each in axes]
            sizes[axis], sizes[axis + 1] = sizes[axis + 1], sizes[axis]
            return f"{x}.reshape({', '.join(sizes)})"
        sizes = [self.size(x, each) for each in axes]
        sizes[self.random.choice(axes)] = "-1"
        return f"{x}.transpose(0, -1).reshape({', '.join(sizes)})"

    def linear(self, x):
        channels = self.channels(x, -1)
        if channels is None or len(self.shape(x)) < 2:
            return None
        made = self.random.choice([4, 6, 8])
        bias = self.constant([made]) if self.random.random() < 0.5 else None
        return f"F.linear({x}, {self.constant([made, channels], channels**-0.5)}, {bias})"

    def flat_linear(self, x):
        shape = self.shape(x)
        if len(shape) < 3 or not all(self.fixed(x, axis) for axis in range(1, len(shape))):
            return None
        count = self.known[0][x][0].numel()
        bias = self.constant([4]) if self.random.random() < 0.5 else None
        return f"F.linear({x}.flatten(1), {self.constant([4, count], count**-0.5)}, {bias})"

    def normalized(self, x):
        ndim, channels = len(self.shape(x)), self.channels(x, 1)
        kind = self.random.randrange(4)
        if kind == 0 and self.channels(x, -1) is not None:
            width = self.channels(x, -1)
            return f"F.layer_norm({x}, ({width},), {self.constant([width])}, {self.constant([width])}, 0.1)"
        if kind == 1 and ndim > 2:
            return f"F.instance_norm({x}, eps=0.1)"
        if kind == 2 and ndim > 2 and channels and channels % 2 == 0:
            return f"F.group_norm({x}, 2, {self.constant([channels])}, {self.constant([channels])}, 0.1)"
        return f"F.normalize({x}, dim={self.random.randrange(ndim)}, eps=0.1)"

    def reduced(self, x):
        ndim = len(self.shape(x))
        kind = self.random.choice(["mean", "mean", "amax", "amin", "sum"])
        axes = self.random.choice([tuple(range(2, ndim)), (-1,), (1,), tuple(range(max(ndim - 2, 1), ndim))]) or (-1,)
        return f"{x}.{kind}({axes}, keepdim={self.random.random() < 0.6})" + (" / 8" if kind == "sum" else "")

    def pooled(self, x):
        ndim = len(self.shape(x))
        if ndim not in (3, 4):
            return None
        kind = self.random.randrange(4)
        if kind == 0:
            return f"F.adaptive_avg_pool{ndim - 2}d({x}, 1)"
        if kind == 1:
            return f"F.avg_pool{ndim - 2}d({x}, 2, stride={self.random.choice([1, 2])})"
        window = self.random.choice(["2", "3, stride=2, padding=1", "3, stride=1, padding=1"])
        made = f"F.max_pool{ndim - 2}d({x}, {window})"
        return f"F.relu({made})" if kind == 3 else made

    def joined(self, x):
        same = self.alike(x)
        several = [x, *self.random.choices(same, k=self.random.randint(1, 2))]
        self.random.shuffle(several)
        axis = self.random.randrange(len(self.shape(x)))
        return f"F.{self.random.choice(['cat', 'cat', 'stack'])}([{', '.join(several)}], {axis})"

    def part(self, x):
        axis = self.random.randrange(len(self.shape(x)))
        size, rest = self.shape(x)[axis], ":, " * axis
        if self.random.random() < 0.4 and size % 2 == 0 and self.fixed(x, axis):
            return f"{x}.chunk(2, {axis})[{self.random.randrange(2)}]"
        kinds = ["1:", ":-1", "::2", "0", "-1", "None", ":2" if self.fixed(x, axis) else "1:"]
        return f"{x}[{rest}{self.random.choice(kinds)}]"

    def softmax(self, x):
        return f"F.softmax({x}, {self.random.randrange(-1, len(self.shape(x)))})"

    def product(self, x):
        ndim = len(self.shape(x))
        if ndim < 2:
            return None
        y = self.random.choice([name for name in self.names if len(self.shape(name)) == ndim])
        letters = "nchwk"[:ndim]
        if self.random.random() < 0.3 and (channels := self.channels(x, 1)) is not None:
            weight = self.constant([channels, 4], channels**-0.5)
            return f"F.einsum('{letters},cz->{letters.replace('c', 'z')}', {x}, {weight})"
        if self.random.random() < 0.3:
            return f"F.einsum('{letters},{letters}->{letters[: self.random.randint(1, ndim)]}', {x}, {y}) * 0.1"
        forms = ["F.matmul({x}, {y})", "F.matmul({x}, {y}.transpose(-1, -2))", "F.matmul({x}.transpose(-1, -2), {y})"]
        return f"({self.random.choice(forms).format(x=x, y=y)}) * 0.2"

    def attention(self, x):
        same = self.alike(x)
        if len(self.shape(x)) < 3:
            return None
        return f"F.scaled_dot_product_attention({x}, {self.random.choice(same)}, {self.random.choice(same)})"

    def heads(self, x):
        """Multi-head attention, with or without the attention weights, biases and a tensor of its own for keys."""
        shape, width = self.shape(x), self.channels(x, -1)
        if len(shape) not in (2, 3) or width is None or width % 2:
            return None
        same = self.alike(x)
        y = self.random.choice([x, x, self.random.choice(same)])
        into, out = self.constant([3 * width, width], width**-0.5), self.constant([width, width], width**-0.5)
        biases = [self.constant([size]) if self.random.random() < 0.6 else None for size in (3 * width, width)]
        options = f"training=False, need_weights={self.random.random() < 0.3}"
        given = f"{width}, 2, {into}, {biases[0]}, None, None, False, 0.0, {out}, {biases[1]}, {options}"
        return f"F.multi_head_attention_forward({x}, {y}, {self.random.choice([x, y])}, {given})[0]"

    def enlarged(self, x):
        return f"F.interpolate({x}, scale_factor=2)" if len(self.shape(x)) in (3, 4) else None

    def moved(self, x):
        axis = self.random.randrange(len(self.shape(x)))
        kinds = [
            "F.flip({x}, ({axis},))",
            "F.roll({x}, 1, {axis})",
            "F.cumsum({x}, {axis}) * 0.3",
            "{x}.clamp(-0.6, 0.9)",
        ]
        kinds += [
            "F.sort({x}, {axis})[0]",
            "F.topk({x}, 1, {axis})[0]",
            "F.pad({x}, (1, 2))",
            "{x}.repeat_interleave(2, {axis})",
        ]
        kinds += ["F.log_softmax({x}, {axis})", "{x}.masked_fill({x} > 0.137, 0.5)", "{x}.var({axis}, correction=0)"]
        return self.random.choice(kinds).format(x=x, axis=axis)

    def loop(self, x, h="h"):
        around = x if h == "h" else h[:-1]
        if self.is_nested and self.random.random() < 0.4:
            return f"F.until(0.137, {self.random.randint(1, 4)}, lambda {h}: F.tanh({self.body(x, h)}) + 0.1, {around})"
        return f"F.loop({self.random.randint(1, 3)}, lambda {h}: F.tanh({self.body(x, h)}), {around})"

    def branch(self, x, h="h"):
        around = x if h == "h" else h[:-1]
        y = self.random.choice(self.names[:2] if self.tolerance > 1e-3 else self.names)
        y = self.random.choice([y, around]) if self.is_nested else y
        return f"F.branch({y}.mean() > 0.137, lambda {h}: {self.body(x, h)}, lambda {h}: {self.body(x, h)}, {around})"

    def body(self, x, h="h"):
        """An expression in ``h`` that keeps its shape, with a value from outside, and with weights where they fit."""
        y, steps = self.random.choice(self.alike(x)), [h]
        if self.is_nested and len(h) < 3 and self.random.random() < 0.6:
            steps.append(f"({h} + {self.random.choice([self.loop, self.branch])(x, h + 'h')})")
        for _ in range(self.random.randint(1, 3)):
            kinds = [f"({steps[-1]} + {y})", f"F.tanh({steps[-1]})", f"({y} * F.sigmoid({steps[-1]}))"]
            kinds += [f"({steps[-1]} - F.relu({y}))"]
            kinds += [f"(F.running({steps[-1]}) * 0.3)"] if self.is_nested else []
            if (width := self.channels(x, -1)) is not None and len(self.shape(x)) > 1:
                kinds += [f"F.linear({steps[-1]}, {self.constant([width, width], width**-0.5)})"]
            if (channels := self.channels(x, 1)) is not None and len(self.shape(x)) == 4:
                weight = self.constant([channels, channels, 1, 1], channels**-0.5)
                kinds += [f"F.conv2d({steps[-1]}, {weight})"] * 2
                kinds += [f"F.batch_norm({steps[-1]}, {self.statistics(channels)})"] * 2
            steps.append(self.random.choice(kinds))
        return steps[-1]


def defined(case, ranged=None):
    """The network that trtdsl makes of the source; dynamic sizes have ranges, where they are asked for or by chance."""
    net = td.Network(precision=case.precision)
    define(net, case, ranged=case.seed % 2 if ranged is None else ranged)
    return net


def define(net, case, prefix="", ranged=True):
    """Adds the network of a case to another, its inputs and outputs with a prefix."""
    dims = {}
    if ranged:
        dims = {"N": td.Dim("N", min=1, opt=2, max=3), "H": td.Dim("H", min=3, opt=5, max=13)}
    shapes = {name: tuple(dims.get(size, size) for size in shape) for name, shape in case.inputs.items()}
    known = {name: net.input(prefix + name, shape, case.dtype) for name, shape in shapes.items()}
    known |= {name: net.constant(value, case.dtype) for name, value in case.constants.items()}
    known |= {"F": Ours(), "output": lambda value, name: net.output(value, prefix + name)}
    with net.current():
        exec(case.text(), known)


def feeds(case, which, prefix=""):
    return {prefix + name: value.to(case.dtype) for name, value in case.feeds[which].items()}


def differences(case, net):
    """What trtdsl's interpreter gets otherwise than torch in float64, as lines to read."""
    return [line for which in (0, 1) for line in apart(case, which, td.interpret(net, feeds(case, which)))]


def program_differences(cases):
    """Of each network what its engine's program gets otherwise, or why it has none, by the cases' numbers."""
    found = {}
    for precision in {case.precision for case in cases}:
        found |= _built_together([case for case in cases if case.precision == precision and not case.dynamic])
    for case in cases:
        if case.dynamic:
            found |= _built_together([case])
    return found


def _built_together(cases):
    """In one engine; in several, where TensorRT refuses one of the networks or a program has what is not known."""
    if not cases:
        return {}
    try:
        net = td.Network(precision=cases[0].precision)
        for case in cases:
            define(net, case, f"n{case.seed}_", ranged=case.dynamic)
        run = evaluator_of(net)
        found = {case.seed: [] for case in cases}
        for which in (0, 1) if cases[0].dynamic else (0,):
            got = run({name: value for case in cases for name, value in feeds(case, which, f"n{case.seed}_").items()})
            for case in cases:
                found[case.seed] += apart(case, which, got, f"n{case.seed}_")
        return found
    except (BuildError, ShapeError, UnevaluatedProgramError, ProgramFaultError) as error:
        if len(cases) == 1:  # that a scan in a loop may race is known: docs/traps/builder-loops.md
            is_known = not isinstance(error, ProgramFaultError) or "F.running(" in cases[0].text()
            return {cases[0].seed: str(error) if is_known else [str(error)]}
        middle = len(cases) // 2
        return _built_together(cases[:middle]) | _built_together(cases[middle:])


def apart(case, which, got, prefix=""):
    """Which outputs are not torch's for the first or the second feed, as lines to read."""
    found = []
    for name in case.outputs:
        want, have = case.known[which][name], got[prefix + name].double()
        if have.shape != want.shape:
            found.append(f"{name}: {tuple(have.shape)} instead of {tuple(want.shape)}")
            continue
        distance = float((have - want).abs().max() / max(float(want.abs().max()), 1e-2))
        if not distance <= case.tolerance:
            found.append(f"{name}: {distance:.2g} of the greatest value apart")
    return found
