"""Modules made at random, as source: what authors do that a pass of a port could get wrong.

Swaps and simultaneous assignment, writing in place by every means, broadcasts, lists, sizes in arithmetic, repeated
blocks with numbered weights, lists filled in rounds, helpers that are called more than once, values that nobody needs.
Every second module has what `port_habits` adds to it as well; every sixteenth has a dynamic size.
"""

import random

from tests.support.port_habits import Habits

N, M, K = 3, 4, 6  # of (N, M, K), which all values broadcast to


class Source(Habits):
    """A module's source, written from the choices of one generator of random numbers.

    ``dynamic`` says that the second dimension is M, from 4 to 7.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.wide, self.dynamic = seed % 2 == 1, seed % 16 == 1
        self.length = "a.shape[1]" if self.dynamic else "4"
        self.lines = ["import torch", "import torch.nn.functional as F", "from torch import nn", ""]
        self.blocks = self.random.randint(2, 4)
        self.helper()
        if self.wide:
            self.helpers()
        self.block()
        self.module()

    def text(self):
        return "\n".join(self.lines) + "\n"

    # -- parts -------------------------------------------------------------------------------------------------------

    def helper(self):
        body = self.statements(["a", "b"], self.random.randint(1, 3), weights=False, depth=1)
        self.lines += ["", "def helper(a, b):", *self.indented(body), "    return a + b"]

    def block(self):
        inputs = ["x", "y"] if self.random.random() < 0.5 else ["x"]
        self.inputs = inputs
        body = self.statements(list(inputs), self.random.randint(1, 4), weights=True, depth=1)
        self.lines += [
            "",
            "class Block(nn.Module):",
            "    def __init__(self, scale):",
            "        super().__init__()",
            "        self.fc, self.scale = nn.Linear(6, 6), scale",
            f"    def forward(self, {', '.join(inputs)}):",
            *self.indented(body, 8),
            f"        return {self.random.choice([', '.join(inputs), ', '.join(reversed(inputs))])}",
        ]
        if self.random.random() < 0.3:  # an early return, in some of the blocks
            last = self.lines.pop()
            self.lines += ["        if self.scale > 1:", f"            return {', '.join(inputs)}", last]

    def module(self):
        scales = self.random.choice(["0.5", "0.5 + number", "[0.5, 2][number % 2]"])
        variables = ["a", "b", "c"]
        body = ["a, b, c = a * 1.5, b + a, a - b"] if self.random.random() < 0.5 else ["c = a * b"]
        for _ in range(self.random.randint(2, 5)):
            kind = self.random.randrange(8 if self.wide else 5)
            if kind == 0:
                inner = self.statements(variables, self.random.randint(1, 3), weights=False, depth=0)
                body += [f"for _ in range({self.random.randint(2, 4)}):", *self.indented(inner)]
            elif kind == 1:
                body += self.through_blocks(variables)
            elif kind == 2:
                body += self.through_lists(variables)
            elif kind > 4:
                body += self.habit(variables)
            else:
                body += self.statements(variables, self.random.randint(1, 3), weights=False, depth=0)
        if self.wide:
            self.inner()
        self.lines += [
            "",
            "class Module(nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            f"        self.blocks = nn.ModuleList(Block({scales}) for number in range({self.blocks}))",
            "        self.register_buffer('table', torch.arange(6.0) - 2)",
            *(self.parts() if self.wide else []),
            "    def forward(self, a, b):",
            *self.indented(body, 8),
            f"        return {self.random.choice(['a', 'a, b, c', '{1}', 'a, helper(b, c)', '[c, (b, a)]'])}".replace(
                "{1}", "{'first': b, 'second': c}"
            ),
        ]

    def through_lists(self, variables):
        """Lists that are filled in rounds over the blocks, and lists that rounds go over."""
        x, y, into = self.random.sample(variables, 3)
        call = f"{x} = block({x})" if len(self.inputs) == 1 else f"{x}, {y} = block({x}, {y})"
        inner = [call] if self.random.random() < 0.7 else []
        inner += self.statements(variables, self.random.randint(0, 2), weights=False, depth=1)
        kept = [x, f"F.relu({x}) + {y}", f"{x} * (number + 1)", f"block.fc({x}) / 3", f"{y} * {x}.shape[1]"]
        inner += [f"levels.append({self.random.choice(kept)})"]
        if self.random.random() < 0.3:
            inner += [f"{y} = torch.tanh({y} + levels[-1])"]
        order = self.random.choice(["self.blocks", "reversed(self.blocks)", "self.blocks[1:]"])
        lines = ["levels = []", f"for number, block in enumerate({order}):", *self.indented(inner)]
        if self.random.random() < 0.5:
            turned = self.random.choice(["levels", "levels[::-1]", "reversed(levels)"])
            made = self.random.choice(["block.fc(level)", "level * level", "torch.tanh(level + number)"])
            lines += ["sides = []", f"for number, (level, block) in enumerate(zip({turned}, self.blocks)):"]
            lines += self.indented([f"side = {made}", f"sides.append(side + {self.random.choice([x, 'level'])})"])
            lines += ["levels = sides"] if self.random.random() < 0.7 else [f"{y} = sides[-1] + sides[0]"]
        ends = ["torch.stack(levels).sum(0)", "levels[0] - levels[-1]", "sum(levels)", "torch.cat(levels)[:3]"]
        return [*lines, f"{into} = {self.random.choice(ends)}"]

    def through_blocks(self, variables):
        chosen = self.random.sample(variables, len(self.inputs))
        targets = ", ".join(chosen)
        given = list(chosen)
        self.random.shuffle(given)
        line = f"{targets} = block({', '.join(given)})"
        extra = self.statements(variables, 1, weights=False, depth=0) if self.random.random() < 0.4 else []
        sequence = self.random.choice(["self.blocks", "self.blocks[1:]", "self.blocks[:2]", "reversed(self.blocks)"])
        return [f"for block in {sequence}:", *self.indented([line, *extra])]

    # -- statements ----------------------------------------------------------------------------------------------------

    def statements(self, variables, count, *, weights, depth):
        lines = []
        for _ in range(count):
            lines += self.statement(variables, weights, depth)
        return lines

    def statement(self, variables, weights, depth):
        if self.wide and self.random.random() < 0.3:
            return self.writing(variables, weights, depth)
        x, y = self.random.choice(variables), self.random.choice(variables)
        z = self.random.choice(variables)
        e, f = self.expression(variables, weights, depth), self.expression(variables, weights, depth)
        number = self.random.choice(["0.5", "-1", "2"])
        low = self.random.randint(0, 2)
        high = self.random.randint(low + 1, 4)
        return self.random.choice(
            [
                [f"{x} = {e}"],
                [f"{x} = {e}"],
                [f"{x}, {y} = {e}, {f}"] if x != y else [f"{x} = {e}"],
                [f"{x}, {y} = {y}, {x}"],
                [f"{x}, {y}, {z} = {y}, {z}, {e}"] if len({x, y, z}) == 3 else [f"{x} = {f}"],
                [f"{x} = {x}.clone()", f"{x} += {e}"],
                [f"{x} = {x} + 0.25", f"{x}.mul_({number}).add_({e})"],
                [f"{x} = {x}.clone()", f"{x}[:, {low}:{high}] = {e}[:, :1] * {number}"],
                [f"{x} = {x}.clone()", f"{x}[:, {low}] = {e}[:, {high - 1}]"],
                [f"{x} = {x}.clone()", f"{x}[:, {low}, 1:3] = {number}"],
                [f"{x} = {x}.clone()", f"{x}[{e} > 0.3] = {number}"],
                [f"{x} = {x}.clone()", f"{x}[:, :{high}] *= {number}"],
                [f"{x} = F.relu({x} - 0.1, inplace=True)"],
                [f"parts = [{e}, {x}, {f}]", f"parts[{low}] = parts[{low}] * 2", f"{x} = sum(parts) / {x}.shape[1]"],
                [f"parts = torch.cat([{e}, {f}], 1)", f"{x} = parts[:, {low}:{low} + {x}.shape[1]]"],
                [f"{x}, {y} = torch.chunk(torch.cat([{e}, {f}], 2), 2, dim=2)"] if x != y else [f"{x} = {e}"],
                [f"unused = {e}", f"{x} = {f}"],
                [f"kept = {x}", f"{x} = {e}", f"{y} = {f} + kept"],
                [f"{x} = torch.where({e} > 0, {f}, {x})"],
                [f"kept = [{e} for _ in range({high})]", f"{x} = torch.stack(kept).sum(0) * {number}"],
                [
                    f"kept = {{'first': {e}, 'second': {x}}}",
                    f"kept['first'] = kept['second'] - {f}",
                    f"{x} = kept['first']",
                ],
                [
                    "kept = []",
                    f"for number in range({high}):",
                    f"    kept.append({e} * (number + 1))",
                    f"{x} = sum(kept)",
                ],
                [
                    "kept = []",
                    f"for number in range({high}):",
                    f"    {x} = {e} + number",
                    f"    kept.append({x})",
                    f"{y} = torch.cat(kept, 1)[:, -{x}.shape[1] :]",
                ],
                [f"scale = lambda t, by={number}: t * by + {y}", f"{x} = scale({e})"],
                [
                    f"def inner(t, other={f}):",
                    f"    return t - other * {number}",
                    f"{x} = inner({e})",
                    f"{y} = inner({y}, {x})",
                ]
                if x != y
                else [f"{x} = {e}"],
                [
                    f"{x} = {x}.clone()",
                    f"view = {x}[:, {low}:{high}]",
                    f"view.mul_({number})",
                    f"{y} = view.mean(1, keepdim=True) + {f}",
                ]
                if x != y
                else [f"{x} = {f}"],
                [f"{x} = {x}.clone()", f"{x}[:, {low}:{high}, ::2] = {e}[:, {low}:{high}, ::2] - {number}"],
                [f"{x} = {x}.clone()", f"{x}[..., -1] += {e}[..., 0]"],
                [f"{x}, ({y}, {z}) = {e}, ({f}, {x})"] if len({x, y, z}) == 3 else [f"{x} = {e}"],
                [f"{x} = ({e}[:1] + {f}[:, :1]) * {y}[:, :, :1]"],
                [f"if {x}.shape[1] > {self.random.choice([2, 9])}:", f"    {x} = {e}", "else:", f"    {x} = {f}"],
                [f"{x} = next(iter(({e}, {f})))"],
                [f"for left, right in zip(({x}, {y}), ({e}, {f})):", f"    {x} = left + right * {number}"],
            ]
        )

    def expression(self, variables, weights, depth):
        x, y = self.random.choice(variables), self.random.choice(variables)
        number = self.random.choice(["0.5", "2", "3.0"])
        choices = [
            f"({x} + {y})",
            f"({x} - {y} * {number})",
            f"torch.tanh({x})",
            f"F.relu({x})",
            f"{x}.abs().sqrt()",
            f"torch.sigmoid({x} - {y})",
            f"({x} * {y}.mean(1, keepdim=True))",
            f"({x} - {y}[:, :, :1])",
            f"({x} / {x}.shape[2])",
            f"{x}.reshape({x}.shape[0], -1).view({y}.shape)",
            f"{x}.transpose(1, 2).reshape({x}.shape)",
            f"{x}.flip(1)",
            f"F.softmax({x}, dim=-1)",
            f"torch.roll({x}, 1, 2)",
            f"({x}.max(dim=2, keepdim=True)[0] * {y})",
            f"torch.stack([{x}, {y}]).mean(0)",
        ]
        if weights:
            choices += [f"self.fc({x})", f"(self.fc({x}) * self.scale)", f"F.linear({x}, self.fc.weight)"] * 3
        elif depth == 0:
            choices += [f"helper({x}, {y})", f"({x} + self.table)", f"torch.tanh(helper({y}, {x}))"]
        return self.random.choice(choices)

    @staticmethod
    def indented(lines, spaces=4):
        return [" " * spaces + line for line in lines]
