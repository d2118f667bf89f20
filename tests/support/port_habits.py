"""Further habits of authors for modules made at random.

State in dicts, lists and tuples, modules inside of modules, shared and tied weights, twins that differ in one number,
arithmetic of sizes, views that are written to, early returns, default and keyword arguments, hooks, generators.
"""


class Habits:
    """What a module's source may have besides; ``random``, ``expression``, ``indented`` and ``lines`` are Source's."""

    def helpers(self):
        """Functions with defaults, keywords, an early return and tuples."""
        number = self.random.choice(["0.5", "1.5", "-1.0"])
        self.lines += [
            "",
            f"def scaled(t, other=None, *, by={number}, twice=False):",
            "    if other is None:",
            "        return t * by",
            "    t = t - other * by",
            "    return t + t.mean(1, keepdim=True) if twice else t",
            "",
            "def turned(t, /, n=1):",
            f"    half = t.shape[1] // {self.random.choice([2, 3])}",
            "    first, second = t[:, :half], t[:, half:]",
            "    for _ in range(n):",
            "        first, second = second * 2, first",
            "    return torch.cat((first, second), 1)[:, : t.shape[1]]",
            "",
            "def rounds(t, count):",
            "    for number in range(count):",
            "        t = torch.tanh(t + number)",
            "        yield t",
            "",
            "def lowered(module, given, result):",
            "    if torch.is_tensor(result):",
            "        return result - 0.25",
            f"    return result[0], *(each * {number} for each in result[1:])",
        ]

    def inner(self):
        """A module that has modules: one of them shared, and twins."""
        other = self.random.choice(["factor", "2.0"])
        self.lines += [
            "",
            "class Twin(nn.Module):",
            "    def __init__(self, factor, wide=6):",
            "        super().__init__()",
            "        self.fc, self.factor = nn.Linear(6, wide), factor",
            "    def forward(self, x, skip=None, flip: bool = False):",
            "        y = F.relu(self.fc(x)) * self.factor",
            "        if skip is None:",
            "            return y",
            "        return (y.flip(1) if flip else y) + skip",
            "",
            "class Inner(nn.Module):",
            "    def __init__(self, shared, factor):",
            "        super().__init__()",
            "        self.shared, self.own = shared, nn.Sequential(nn.Linear(6, 6), nn.Tanh())",
            f"        self.twins = nn.ModuleDict({{'left': Twin(factor), 'right': Twin({other})}})",
            "    def forward(self, x, y):",
            "        state = {name: twin(x, skip=y) for name, twin in self.twins.items()}",
            f"        state['left'] = self.shared(state['left'], {self.random.choice(['y', 'None', 'x, flip=True'])})",
            "        return self.own(state['left']), {'sum': state['left'] + state['right'], 'last': y}",
        ]

    def parts(self):
        """Lines of the module's own __init__."""
        lines = [
            "        self.twins = nn.ModuleList([Twin(1.0), Twin(0.75), Twin(1.0)])",
            "        self.inner = Inner(self.twins[1], 0.5)",
            "        self.outer = nn.Sequential(Twin(2.0), Twin(2.5), nn.Sequential(nn.Linear(6, 6), nn.ReLU(True)))",
        ]
        if self.random.random() < 0.4:
            lines.append("        self.twins[2].fc.weight = self.blocks[0].fc.weight")
        if self.random.random() < 0.3:
            hooked = self.random.choice(["blocks[0]", "twins[0]", "outer"])
            lines.append(f"        self.{hooked}.register_forward_hook(lowered)")
        return lines

    def habit(self, variables):
        """Statements of the module's forward."""
        x, y, z = self.random.sample(variables, 3)
        e, f = (self.expression(variables, False, 0) for _ in range(2))
        count = self.random.randint(2, 4)
        number = self.random.choice(["0.5", "-1", "2"])
        return self.random.choice(
            [
                [f"{x}, kept = self.inner({y}, {z})", f"{y} = kept['sum'] - kept['last']"],
                [
                    f"{x} = self.twins[0]({x})",
                    f"{y} = self.twins[1]({y}, flip={self.random.choice([True, False])}, skip={x})",
                ],
                ["for twin in self.twins:", f"    {x} = twin({x}, {y})"],
                [
                    "for number, twin in enumerate(self.twins[::-1], 1):",
                    f"    {x}, {y} = {y}, twin(skip={x}, x={y}) / number",
                ],
                [f"{x} = self.outer({y}) + {z}"],
                [
                    f"{x} = scaled({x}, {y}, by={number}, twice={self.random.choice([True, False])})",
                    f"{z} = scaled({z})",
                ],
                [f"{x} = turned({x}, n={count}) - {f}"],
                [
                    f"carry = ({x}, {y})",
                    f"for _ in range({count}):",
                    f"    carry = (carry[1] * {number}, torch.tanh(carry[0] + {z}))",
                    f"{x}, {y} = carry",
                ],
                [
                    f"carry, kept = ({x}, ({y}, {z})), []",
                    f"for number in range({count}):",
                    "    first, (second, third) = carry",
                    "    carry = (third, (torch.tanh(first), second - number))",
                    "    kept.append(carry[0])",
                    f"{x}, {y} = carry[1][0], torch.stack(kept, 1).mean(1)",
                ],
                [
                    f"state = {{'h': {x}, 'c': {y}}}",
                    f"for number in range({count}):",
                    f"    state['h'], state['c'] = torch.tanh(state['c'] + {z}), state['h'] * {number}",
                    "    state.setdefault('first', state['h'])",
                    f"{x}, {y} = state['c'], state['first'] + {f}",
                ],
                [
                    f"stack = [{x}, {y}]",
                    f"for _ in range({count}):",
                    "    stack.append(torch.tanh(stack.pop(0)) + stack[-1])",
                    f"{x}, {z} = stack",
                ],
                [f"for {z} in rounds({x}, {count}):", f"    {y} = {y} + {z} * {number}"],
                [f"{x} = sum(torch.sigmoid(t) * number for number, t in enumerate(({y}, {z}, {x}), 1) if number != 2)"],
                ["number = 0", f"while number < {count}:", f"    {x}, number = torch.tanh({x} + {e}), number + 1"],
                [f"half = {x}.shape[1] // 2", f"{x} = torch.cat([{x}[:, half:], {y}[:, :half] * {number}], 1)"],
                [
                    f"n, m, k = {x}.shape",
                    f"{x} = {x}.reshape(n * m, k)",
                    f"{x} = ({x} - {x}.mean(0)).view(n, m, k) + {y} / (m + k)",
                ],
                [f"{x} = {x} * torch.arange({x}.shape[1]).view(-1, 1) / {x}.shape[1]"],
                [
                    f"{y} = torch.zeros({x}.shape[0], {x}.shape[1] + 2, 6)",
                    f"{y}[:, 1:-1] = {x}",
                    f"{y} = {y}[:, 2:] + {z}",
                ],
                [f"{x} = F.pad({x}, (0, 0, 1, {x}.shape[1] - 1))[:, {x}.shape[1] // 2 :][:, : {y}.shape[1]] + {y}"],
                [
                    f"{x} = torch.roll({x}, {x}.shape[1] // 2 - 1, 1)",
                    f"{y} = {y}[:, -({y}.shape[1] // 2) :].sum(1, keepdim=True) + {z}",
                ],
                [
                    f"low = min({x}.shape[1], 4)",
                    f"{x} = {x}[:, :low].repeat(1, 2, 1)[:, : max(low, 2)].mean(1, keepdim=True) - {y}",
                ],
            ]
        )

    def writing(self, variables, weights, depth):
        """Statements that write in place through views."""
        x, y = self.random.choice(variables), self.random.choice(variables)
        e = self.expression(variables, weights, depth)
        number = self.random.choice(["0.5", "-1", "2"])
        low = self.random.randint(0, 2)
        other = f"{y} = {y} + {x}" if x != y else f"{y} = {y} * 1.5"
        return self.random.choice(
            [
                [
                    f"{x} = {x}.clone()",
                    f"view = {x}.transpose(1, 2)",
                    f"view[:, {low}:3].mul_({number})",
                    f"view += {low}",
                    other,
                ],
                [
                    f"{x} = {x}.clone()",
                    f"left, right = {x}.chunk(2, 2)",
                    f"left.mul_({number})",
                    "right += left",
                    other,
                ],
                [
                    f"{x} = {x}.clone()",
                    f"first, second = {x}.split([2, 4], dim=-1)",
                    "first.copy_(second[..., 1:3])",
                    other,
                    f"{y} = {y} - second.sum(-1, keepdim=True)",
                ],
                [
                    f"{x} = {x}.clone()",
                    f"for number, row in enumerate({x}.unbind(0)):",
                    f"    row.add_(number * {number})",
                    other,
                ],
                [
                    f"{x} = {x}.clone()",
                    f"flat = {x}.view({x}.shape[0], -1)",
                    f"flat[:, ::2] = {e}.reshape({x}.shape[0], -1)[:, ::2]",
                    other,
                    f"{y} = {y} + flat.view({y}.shape)",
                ],
                [
                    f"{x} = {x}.clone()",
                    f"early = {x}[:, {low}]",
                    f"{x}[:, {low}, 2:4] += {number}",
                    f"{x} = {x} + early.unsqueeze(1)",
                ],
                [f"{x} = {x}.clone()", f"{x}[:, 0], {x}[:, 1] = {x}[:, 1], {x}[:, 0]", other],
                [
                    f"{x} = {x}.clone()",
                    f"{x}[..., {low}:3].permute(2, 0, 1)[0].fill_({number})",
                    f"{x}.select(1, {low}).neg_()",
                ],
                [f"{x} = {x}.clone()", f"side = {x}.detach()", f"side[:, -1] = {e}[:, 0]", other],
                [f"{x} = {x}.clone()", f"torch.add({x}[:, :2], {number}, out={x}[:, 2:4])", other],
                [
                    f"{x} = {x}.clone()",
                    f"{x}.narrow(2, {low}, 2).clamp_(min=0)",
                    f"{x}.unsqueeze(0)[0, :, 1] *= {number}",
                ],
                [f"{x} = {x}.clone()", f"{x}[:, 1:3] = {x}[:, 0:2].clone()", f"{x}[:, 1:].sub_({x}[:, :1].clone())"],
                [f"{x} = {x}.clone()", f"{x}[..., 1:3] = {x}[..., 0:2]"]
                if self.random.random() < 0.05
                else [f"{x} = {e}"],
            ]
        )
