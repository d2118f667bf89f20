"""Edits of an author's file that its text suggests: attention that is written out, as one call.

They are candidates: whether the network means the same afterwards, and what that wins, :mod:`.advise` finds out.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

WIDEST = 120
"""Characters of a line; the arguments of a longer call have a line of their own."""
INFINITE = {"float('-inf')", "-float('inf')", "-math.inf", "-torch.inf", "-inf"}
LEADING = "..."
"""Stands for all dimensions before the last two, where nothing says how many there are."""
RANKS = (4, 3, 5, 2, None)

Permutation = Sequence[int]


@dataclass(frozen=True)
class Edit:
    """Another text for one place of a file."""

    name: str
    first: int
    """The place's first and last line."""
    last: int
    changes: tuple[tuple[int, int, bytes], ...]
    """Where bytes of the file are replaced, and by what."""

    def overlaps(self, other: Edit) -> bool:
        """Whether both change the same bytes."""
        return any(a < d and c < b for a, b, _ in self.changes for c, d, _ in other.changes)


def changed(data: bytes, edits: Sequence[Edit]) -> bytes:
    """A file's bytes after some edits that do not overlap."""
    for start, end, text in sorted((change for edit in edits for change in edit.changes), reverse=True):
        data = data[:start] + text + data[end:]
    return data


def edits_of(data: bytes) -> list[Edit]:
    """The edits that the text of a Python file suggests, in its order; none of a file that is not UTF-8, and none that
    would take away a comment.

    >>> text = b"import trtdsl.functional as F\\ndef f(q, k, v):\\n    return F.softmax(q @ k.mT / 8, -1) @ v\\n"
    >>> print(changed(text, edits_of(text)).decode().splitlines()[-1].strip())
    return F.scaled_dot_product_attention(q, k, v, scale=0.125)
    """
    try:
        data.decode()
        if not data.isascii() and tokenize.detect_encoding(io.BytesIO(data).readline)[0] not in ("utf-8", "utf-8-sig"):
            return []
        tree = _Assigned().visit(ast.parse(data))
    except (UnicodeDecodeError, SyntaxError, ValueError):
        return []
    functional = _functional(tree)
    if functional is None:
        return []
    found: list[Edit] = []
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for block in _blocks(function):
                code = _Code(data, functional, function, block)
                for at, statement in enumerate(block):
                    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)):
                        found += _of_statement(code, at, found)
    return sorted(found, key=lambda edit: edit.first)


class _Assigned(ast.NodeTransformer):
    """Makes ``s = s * 2`` of ``s *= 2``."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name) or isinstance(node.op, ast.MatMult):
            return node
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], value), node)


def _of_statement(code: _Code, at: int, known: Sequence[Edit]) -> Iterator[Edit]:
    found: list[Edit] = []
    for node in ast.walk(code.block[at]):  # the outermost first
        if isinstance(node, ast.expr):
            tried = (_Attention(code, at, rank).edit(node) for rank in RANKS)
            edit = next((each for each in tried if each is not None), None)
            if edit is not None and not any(edit.overlaps(other) for other in (*known, *found)):
                found.append(edit)
    yield from found


def _functional(tree: ast.Module) -> str | None:
    """What a file calls trtdsl.functional."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name == "trtdsl.functional" and each.asname:
                    return each.asname
        elif isinstance(node, ast.ImportFrom) and node.module == "trtdsl" and not node.level:
            for each in node.names:
                if each.name == "functional":
                    return each.asname or each.name
    return None


def _blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a function, without those of functions in it."""
    waiting = [function]
    while waiting:
        node = waiting.pop()
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value
                waiting += [each for each in value if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
            elif isinstance(value, list):
                waiting += [each for each in value if isinstance(each, (ast.excepthandler, ast.match_case))]


def _names(node: ast.AST, kind: type[ast.expr_context]) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, kind)]


class _Code:
    """A block of statements in a function of a file."""

    def __init__(self, data: bytes, functional: str, function: ast.AST, block: list[ast.stmt]):
        self.data, self.functional, self.function, self.block = data, functional, function, block
        self.lines = data.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where it begins and ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr, *, bound: bool = False) -> str:
        """Its text, in brackets where something is to be ``bound`` to it and would take a part of it alone."""
        text = self.data[slice(*self.span(node))].decode()
        plain = isinstance(node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Constant))
        return text if plain or not bound else f"({text})"

    def whole_lines(self, statement: ast.stmt) -> tuple[int, int] | None:
        """The lines of a statement, but for a comment behind it; None where something else stands in them."""
        (start, end), last = self.span(statement), self.starts[statement.end_lineno or 0]
        first = self.starts[statement.lineno - 1]
        behind = re.fullmatch(rb"\s*(#[^\n]*)?\s*", self.data[end:last])
        if behind is None or self.data[first:start].strip() or b"#" in self.data[start:end]:
            return None
        return (first, last) if behind[1] is None else (start, end + behind.start(1))

    def definition(self, name: str, at: int, count: int = 1) -> int | None:
        """The statement that gives a name its value, where it is read ``count`` times, all in the statement ``at``."""
        given = next((j for j in range(at - 1, -1, -1) if name in _names(self.block[j], ast.Store)), None)
        if given is None:
            return None
        statement = self.block[given]
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            return None
        rest = self.block[given + 1 :]
        again = next((j for j, each in enumerate(rest) if name in _names(each, ast.Store)), None)
        if again is not None:
            reads = sum(_names(each, ast.Load).count(name) for each in rest[: again + 1])
        else:
            reads = sum(
                isinstance(each, ast.Name) and each.id == name and each.lineno > (statement.end_lineno or 0)
                for each in ast.walk(self.function)
            )
        here = _names(self.block[at], ast.Load).count(name)
        return given if reads == here == count and len(statement.targets) == 1 else None

    def called(self, node: ast.expr) -> tuple[str, list[ast.expr], dict[str, ast.expr]]:
        """The name of a function, or of a tensor's method, and its arguments; an empty name for what is no call."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return "matmul", [node.left, node.right], {}
        if isinstance(node, ast.Attribute) and node.attr == "mT":
            return "mT", [node.value], {}
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return "", [], {}
        keywords = {each.arg: each.value for each in node.keywords if each.arg}
        value = node.func.value
        is_module = isinstance(value, ast.Name) and value.id in (self.functional, "torch")
        if len(keywords) < len(node.keywords) or any(isinstance(each, ast.Starred) for each in node.args):
            return "", [], {}
        return node.func.attr, [*([] if is_module else [value]), *node.args], keywords


@dataclass(frozen=True)
class _Product:
    """A product of two operands, each with the labels of its dimensions."""

    operands: tuple[tuple[ast.expr, list[str]], ...]
    labels: list[str]


@dataclass(frozen=True)
class _Scores:
    """A product of queries and keys, and what is done with it before the softmax."""

    query: ast.expr
    key: ast.expr
    query_labels: list[str]
    key_labels: list[str]
    place: int
    """The statement in which queries and keys are read."""
    scale: str = "1.0"
    mask: str = ""
    read: tuple[tuple[int, ast.expr], ...] = ()
    """What the call is made of, each with the statement in which it is read now."""
    gone: tuple[int, ...] = ()
    """Statements that the call stands for."""


class _Attention:
    """Looks for ``product(softmax(product(q, k) * scale + mask), v)`` of tensors of one rank in a statement."""

    def __init__(self, code: _Code, at: int, rank: int | None):
        self.code, self.at, self.rank = code, at, rank
        self.is_seen = rank is None
        """Whether something says that this is the rank."""

    def edit(self, node: ast.expr) -> Edit | None:
        """The edit that makes one call of an expression; None where it is no attention."""
        order: list[Permutation] = []
        inner = node
        while (step := self._rearranged(inner)) is not None:
            inner = step[0]
            order.append(step[1])
        product = self._product(inner, "out")
        for weights, value in (product.operands, product.operands[::-1]) if product is not None else ():
            found = self._softmax(*weights, value[1])
            if found is None or not self.is_seen or product is None:
                continue
            labels = product.labels
            for each in reversed(order):
                labels = [labels[axis] for axis in each]
            call = self._call(found, *value, labels)
            if call is not None:
                return self._made(node, value[0], found, call)
        return None

    def _made(self, node: ast.expr, value: ast.expr, found: _Scores, call: tuple[list[str], str]) -> Edit | None:
        code, (start, end) = self.code, self.code.span(node)
        if re.search(rb"[^\w)\]]\($", code.data[:start]) and code.data[end : end + 1] == b")":
            start, end = start - 1, end + 1  # brackets around it alone
        for place, read in (*found.read, (self.at, value)):
            between = {name for each in code.block[place : self.at] for name in _names(each, ast.Store)}
            if between.intersection(_names(read, ast.Load)):  # it has another value by then
                return None
        lines = [code.whole_lines(code.block[place]) for place in sorted(set(found.gone))]
        if None in lines or b"#" in code.data[start:end]:
            return None
        arguments, behind = call
        name, line = f"{code.functional}.scaled_dot_product_attention", code.lines[node.lineno - 1].decode().rstrip()
        text = f"{name}({', '.join(arguments)}){behind}"
        if len(line) - (end - start) + len(text) > WIDEST:
            space = line[: len(line) - len(line.lstrip())]
            above = code.lines[max(node.lineno - 2, 0)]
            end_of_line = above[len(above.rstrip(b"\r\n")) :].decode() or "\n"
            text = end_of_line.join((f"{name}(", f"{space}    {', '.join(arguments)}", f"{space}){behind}"))
        changes = [(start, end, text.encode()), *((a, b, b"") for a, b in filter(None, lines))]
        first = min(code.block[place].lineno for place in (self.at, *found.gone))
        return Edit("attention as one call", first, node.end_lineno or node.lineno, tuple(changes))

    def _call(
        self, found: _Scores, value: ast.expr, value_labels: list[str], labels: list[str]
    ) -> tuple[list[str], str] | None:
        """The texts of the call's arguments, and what brings its result into the order of ``labels``."""
        keys = [label for label in found.key_labels if label in value_labels and label not in found.query_labels]
        queries = [label for label in found.query_labels if label not in found.key_labels]
        width = [label for label in found.query_labels if label in found.key_labels and label not in labels]
        made = [label for label in value_labels if label not in found.key_labels]
        if not len(keys) == len(queries) == len(width) == len(made) == 1:
            return None
        batch = [label for label in found.query_labels if label not in (*queries, *width)]
        parts = [
            self._ordered(node, have, [*batch, *ends])
            for node, have, ends in (
                (found.query, found.query_labels, (*queries, *width)),
                (found.key, found.key_labels, (*keys, *width)),
                (value, value_labels, (*keys, *made)),
            )
        ]
        behind = self._order([*batch, *queries, *made], labels)
        if None in parts or behind is None:
            return None
        mask = [f"attn_mask={found.mask}"] if found.mask else []
        return [*map(str, parts), *mask, f"scale={found.scale}"], behind

    def _ordered(self, node: ast.expr, have: list[str], want: list[str]) -> str | None:
        """An operand's text with its dimensions in an order."""
        while have != want and (step := self._rearranged(node)) is not None:
            node, have = step[0], [have[step[1].index(axis)] for axis in range(len(have))]
        behind = self._order(have, want)
        return None if behind is None else self.code.text(node, bound=bool(behind)) + behind

    def _order(self, have: list[str], want: list[str]) -> str | None:
        """The call that brings dimensions into an order; None where there is none."""
        if have == want:
            return ""
        if sorted(have) != sorted(want):
            return None
        if have[:-2] == want[:-2]:
            return ".transpose(-1, -2)"
        return None if self.rank is None else f".permute({', '.join(str(have.index(label)) for label in want)})"

    # -- reading -------------------------------------------------------------------------------------------------------

    def _softmax(self, node: ast.expr, labels: list[str], value_labels: list[str]) -> _Scores | None:
        node, labels, place, gone = self._unwrapped(node, labels, self.at)
        name, operands, keywords = self.code.called(node)
        axis = self._axis(keywords.get("dim") or (operands[1] if len(operands) > 1 else None))
        if name != "softmax" or set(keywords) - {"dim"} or len(operands) > 2 or axis is None:
            return None
        summed = labels[axis]
        if summed not in value_labels:
            return None
        found = self._scores(operands[0], labels, place, summed)
        return None if found is None else replace(found, gone=(*found.gone, *gone))

    def _scores(self, node: ast.expr, labels: list[str], place: int, summed: str) -> _Scores | None:
        node, labels, place, gone = self._unwrapped(node, labels, place)
        found = self._of_keys(self._product(node, "in"), labels, place, summed)
        name, operands, keywords = self.code.called(node)
        if found is None and isinstance(node, ast.BinOp):
            sides = (node.left, node.right), (node.right, node.left)
            for side, other in sides[: 1 if isinstance(node.op, ast.Div) else 2]:
                found = found or self._with(node, self._scores(side, labels, place, summed), other, place, labels)
        is_fill = name == "masked_fill" and len(operands) == 3 and not keywords
        if found is None and is_fill and ast.unparse(operands[2]) in INFINITE:
            inner = self._scores(operands[0], labels, place, summed)
            found = self._with(node, inner, operands[1], place, labels)
        return None if found is None else replace(found, gone=(*found.gone, *gone))

    def _with(
        self, node: ast.expr, found: _Scores | None, other: ast.expr, place: int, labels: list[str]
    ) -> _Scores | None:
        """Scores that are scaled or masked by another operand: scaled first, in the order of queries and keys."""
        if found is None or found.mask:
            return None
        read = (*found.read, (place, other))
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            is_first, scale = found.scale == "1.0", self.code.text(other)
            if isinstance(node.op, ast.Div):
                number = other.value if isinstance(other, ast.Constant) else None
                known = isinstance(number, (int, float)) and number
                scale = repr(1 / known) if known else f"1 / {self.code.text(other, bound=True)}"
            return replace(found, scale=scale, read=read) if is_first else None
        if labels[-1] in found.query_labels or labels[-2] in found.key_labels:
            return None
        if isinstance(node, ast.Call):
            mask = f"~{self.code.text(other, bound=True)}"
            if isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Invert):
                mask = self.code.text(other.operand)
            return replace(found, mask=mask, read=read)
        is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        return replace(found, mask=self.code.text(other), read=read) if is_sum else None

    def _of_keys(self, product: _Product | None, labels: list[str], place: int, summed: str) -> _Scores | None:
        """Which operand of a product has the keys, and which the queries."""
        if product is None:
            return None
        within = dict(zip(product.labels, labels, strict=True))
        sides = [(node, [within.get(label, label) for label in own]) for node, own in product.operands]
        of_key = [summed in own for _, own in sides]
        if of_key.count(True) != 1:
            return None
        (key, key_labels), (query, query_labels) = sides[of_key.index(True)], sides[of_key.index(False)]
        return _Scores(query, key, query_labels, key_labels, place, read=((place, query), (place, key)))

    def _product(self, node: ast.expr, where: str) -> _Product | None:
        name, operands, keywords = self.code.called(node)
        if name == "einsum" and len(operands) == 3 and isinstance(operands[0], ast.Constant) and not keywords:
            found = re.fullmatch(r"(\w+),(\w+)->(\w+)", str(operands[0].value).replace(" ", ""))
            texts = found.groups() if found else ()
            if not texts or any(len(text) != self.rank or len(set(text)) != len(text) for text in texts):
                return None
            first, second, made = ([f"{where} {label}" for label in text] for text in texts)
            self.is_seen = True
        elif (name == "matmul" or (name == "bmm" and self.rank == 3)) and len(operands) == 2 and not keywords:
            lead = [f"{where} {axis}" for axis in range((self.rank or 2) - 2)] if self.rank else [f"{where} {LEADING}"]
            first, second, made = ([*lead, *(f"{where} {label}" for label in ends)] for ends in ("ik", "kj", "ij"))
            self.is_seen = self.is_seen or name == "bmm"
        else:
            return None
        return _Product(((operands[-2], first), (operands[-1], second)), made)

    def _unwrapped(
        self, node: ast.expr, labels: list[str], place: int
    ) -> tuple[ast.expr, list[str], int, tuple[int, ...]]:
        """What a value is, behind names that are read once, and behind what only rearranges or shifts it."""
        gone: tuple[int, ...] = ()
        while True:
            count = 1
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and self._is_maximum(node.right, node.left):
                node, count = node.left, 2
            step = self._rearranged(node)
            if step is not None:
                node, labels = step[0], [labels[step[1].index(axis)] for axis in range(len(labels))]
                continue
            given = self.code.definition(node.id, place, count) if isinstance(node, ast.Name) else None
            if given is None:
                return node, labels, place, gone
            statement = self.code.block[given]
            assert isinstance(statement, ast.Assign)
            node, place, gone = statement.value, given, (*gone, given)

    def _is_maximum(self, node: ast.expr, of: ast.expr) -> bool:
        """Whether it is the greatest value of each row of a name, which a softmax takes away by itself."""
        name, operands, keywords = self.code.called(node)
        given = {**dict(zip(("of", "dim", "keepdim"), operands, strict=False)), **keywords}
        texts = {key: ast.unparse(each) for key, each in given.items()}
        same = isinstance(of, ast.Name) and texts.get("of") == of.id
        return name == "amax" and same and texts.get("dim") == "-1" and texts.get("keepdim") == "True"

    def _rearranged(self, node: ast.expr) -> tuple[ast.expr, Permutation] | None:
        """What a transposition is of, and the order that it gives."""
        name, operands, keywords = self.code.called(node)
        if name not in ("mT", "transpose", "swapaxes", "permute") or keywords:
            return None
        rest = operands[1:]
        if len(rest) == 1 and isinstance(rest[0], (ast.Tuple, ast.List)):
            rest = rest[0].elts
        count = 3 if self.rank is None else self.rank
        axes = [self._axis(each) for each in rest] if name != "mT" else [count - 1, count - 2]
        if None in axes:
            return None
        found = [axis for axis in axes if axis is not None]
        if name != "permute":
            order = list(range(count))
            if len(found) != 2:
                return None
            order[found[0]], order[found[1]] = found[1], found[0]
            return operands[0], order
        if sorted(found) != list(range(count)) or self.rank is None:
            return None
        self.is_seen = True
        return operands[0], found

    def _axis(self, node: ast.expr | None) -> int | None:
        """The number of an axis from 0 on; one from the front says nothing where the rank is not known."""
        try:
            axis = None if node is None else ast.literal_eval(node)
        except ValueError:
            return None
        count = 3 if self.rank is None else self.rank
        if type(axis) is not int or not -count <= axis < (0 if self.rank is None else count):
            return None
        return None if self.rank is None and axis == -3 else axis % count
