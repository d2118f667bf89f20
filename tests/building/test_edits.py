"""Edits of a file: what torch computes of the text before and after, and where nothing is edited."""

import ast
import random
from types import SimpleNamespace

import pytest
import torch

from trtdsl.building.edits import changed, edits_of

HEAD = "import trtdsl.functional as F\n\n\ndef f(q, k, v, b, m):\n"
NAMES = ("softmax", "matmul", "bmm", "einsum", "scaled_dot_product_attention", "masked_fill", "tanh", "relu")
TORCH = SimpleNamespace(**{name: getattr(torch, name, None) or getattr(torch.nn.functional, name) for name in NAMES})


def body(*lines):
    return (HEAD + "".join(f"    {line}\n" for line in lines)).encode()


def edited(data):
    return changed(data, edits_of(data))


def computed(data, *operands):
    """What the function gives in torch."""
    tree = ast.parse(data)
    tree.body = tree.body[1:]
    names = {"F": TORCH, "math": __import__("math")}
    exec(compile(tree, "file.py", "exec"), names)
    return names["f"](*(each.clone() for each in operands))


def operands(rank, arrangement="qd"):
    generator = torch.Generator().manual_seed(rank)
    batch = (2, 3, 2)[: rank - 2]
    q, k, v = (torch.randn(*batch, rows, width, generator=generator) for rows, width in ((5, 8), (7, 8), (7, 4)))
    if arrangement == "dq":
        q, k, v = (each.transpose(-1, -2) for each in (q, k, v))
    b = torch.randn(5, 7, generator=generator)
    return q, k, v, b, torch.rand(5, 7, generator=generator) > 0.6


WRITTEN = {
    "matrix products in one line": (4, "qd", ["return (F.softmax((q @ k.mT) * 0.3, dim=-1) @ v)"]),
    "a division, by methods": (3, "qd", [
        "s = q.matmul(k.transpose(-2, -1)) / 8", "s = s.softmax(-1)", "return s.matmul(v)"]),
    "four dimensions of an einsum": (4, "qd", [
        's = F.einsum("b h i d, b h j d -> b h i j", q, k) * 8 ** -0.5', "p = s.softmax(dim=-1)",
        'return F.einsum("b h i j, b h j d -> b h i d", p, v)']),
    "channels first": (4, "dq", [
        's = F.einsum("bhdi,bhdj->bhij", q, k)', "s = s - s.amax(dim=-1, keepdim=True)", "p = F.softmax(s, -1)",
        'return F.einsum("bhij,bhdj->bhdi", p, v)']),
    "scores the other way round": (4, "qd", [
        's = F.einsum("bhjd,bhid->bhji", k, q)', "p = s.softmax(2)", 'return F.einsum("bhji,bhje->bhie", p, v)']),
    "transposed, as in diffusion models": (3, "dq", [
        "w = F.bmm(q.permute(0, 2, 1), k) * 0.25", "w = F.softmax(w, dim=2)",
        "return F.bmm(v, w.permute(0, 2, 1)).permute(0, 2, 1)"]),
    "batches that an einsum rearranges": (4, "qd", [
        's = F.einsum("abid,abjd->baij", q, k) * 0.5', 'return F.einsum("baij,abje->aibe", s.softmax(-1), v)']),
    "a bias": (4, "qd", ["s = q @ k.mT * 0.5 + b", "return s.softmax(-1) @ v"]),
    "a mask": (4, "qd", [
        's = (0.5 * (q @ k.mT)).masked_fill(m, float("-inf"))', "return F.softmax(s, -1) @ v"]),
    "a mask that says what takes part": (4, "qd", [
        "s = (q @ k.mT).masked_fill(~m, -math.inf)", "p = s.softmax(-1)", "return p @ v"]),
    "in a loop of a branch": (4, "qd", [
        "for _ in range(2):", "    if q.shape[0]:", "        s = q @ k.mT",
        "        q = F.tanh(s.softmax(-1) @ v @ v.mT @ k)", "return q"]),
    "in place": (4, "qd", ["s = q @ k.mT", "s *= 0.3", "s += b", "s = s.softmax(-1)", "return s @ v"]),
    "a name that is bound anew": (4, "qd", [
        "x = q @ k.mT", "x = x * 0.1", "x = x.softmax(-1)", "x = x @ v", "return x * x"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_attention_becomes_one_call_that_computes_the_same(name):
    rank, arrangement, lines = WRITTEN[name]
    data = body(*lines)
    found = edited(data)
    assert found.count(b"scaled_dot_product_attention") == 1 and b"softmax" not in found
    given = operands(rank, arrangement)
    wanted = computed(data, *given)
    assert wanted.isfinite().all()
    assert torch.allclose(computed(found, *given), wanted, atol=1e-5)


OTHERWISE = {
    "the weights are read twice": ["p = F.softmax(q @ k.mT, -1)", "return p @ v, p"],
    "the scores are read twice": ["s = q @ k.mT", "return F.softmax(s, -1) @ v + s.sum()"],
    "the softmax is over queries": ["return F.softmax(q @ k.mT, -2) @ v"],
    "something is done with the weights": ["return F.relu(F.softmax(q @ k.mT, -1)) @ v"],
    "a scale behind the mask": ["return F.softmax((q @ k.mT + b) * 2, -1) @ v"],
    "a finite mask": ["return F.softmax((q @ k.mT).masked_fill(m, -1e4), -1) @ v"],
    "the weights' dtype": ["return F.softmax(q @ k.mT, -1, dtype=None) @ v"],
    "an operand that changes meanwhile": ["p = F.softmax(q @ k.mT, -1)", "k = v", "return p @ v + k"],
    "weights of a product of three": ['return F.einsum("abij,abje,abj->abie", F.softmax(q @ k.mT, -1), v, b)'],
    "a label that is missing": ['s = F.einsum("bhid,bjd->bhij", q, k)', "return s.softmax(-1) @ v"],
    "no softmax": ["return (q @ k.mT) @ v"],
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_no_attention_stays(name):
    data = body(*OTHERWISE[name])
    assert edited(data) == data


def test_other_files_stay():
    written = body("return F.softmax(q @ k.mT, -1) @ v")
    for data in (
        written.replace(b"trtdsl.functional", b"torch.nn.functional"), written[:-3], b"\xff" + written,
        written.replace(b"    return", b"    x = 1; s = q @ k.mT; return").replace(b"q @ k.mT, -1", b"s, -1"),
    ):  # fmt: skip
        assert edited(data) == data


def test_the_rest_of_a_file_stays_as_it_is():
    data = body("# ü: scores", "s = q @ k.mT  # of all", "", "p = s.softmax(-1)", "return p @ v  # weighted")
    data = data.replace(b"\n", b"\r\n")
    assert edited(data) == (
        body("# ü: scores", "# of all", "", "return F.scaled_dot_product_attention(q, k, v, scale=1.0)  # weighted")
    ).replace(b"\n", b"\r\n")


def test_a_long_call_has_its_arguments_in_a_line_of_their_own():
    long = "queries_of_the_first_stage"
    data = body(f"{long} = q", f"return F.tanh(F.softmax({long} @ k.mT * 0.1767766952966369, -1) @ {long})")
    lines = edited(data).decode().splitlines()
    assert max(map(len, lines)) <= 120 and lines[-2] == f"        {long}, k, {long}, scale=0.1767766952966369"


def random_attention(seed):
    """A function that computes attention in one of many ways, and its operands."""
    draw = random.Random(seed)
    batch = "ab"[: draw.choice((1, 2))]
    orders = {name: "".join(draw.sample(batch + ends, len(batch) + 2)) for name, ends in
              (("q", "id"), ("k", "jd"), ("v", "je"), ("s", "ij"), ("w", "ij"), ("y", "ie"))}  # fmt: skip
    if draw.random() < 0.6:
        orders["s"] = batch + "ij"
    lines = []

    def step(text):
        """The text itself, or a name that it is given."""
        if draw.random() < 0.5:
            return f"({text})"
        name = draw.choice(("s", "x", f"x{len(lines)}"))
        lines.append(f"{name} = {text}")
        return name

    def ordered(text, have, want):
        return text if have == want else f"{text}.permute({', '.join(str(have.index(each)) for each in want)})"

    def einsum(a, b, made):
        (first, x), (second, y) = draw.sample((a, b), 2)
        return f'F.einsum("{x},{y}->{made}", {first}, {second})'

    def matmul(a, b, lead, ends, made):
        first, second = ordered(a[0], a[1], lead + ends[0]), ordered(b[0], b[1], lead + ends[1])
        text = draw.choice((f"({first} @ {second})", f"F.matmul({first}, {second})"))
        return ordered(text, lead + ends[2], made)

    q, k, v = (("q", orders["q"]), ("k", orders["k"]), ("v", orders["v"]))
    by_einsum = [draw.random() < 0.6 for _ in range(2)]
    scores = einsum(q, k, orders["s"]) if by_einsum[0] else matmul(q, k, batch, ("id", "dj", "ij"), orders["s"])
    scores = step(scores)
    if draw.random() < 0.7:
        scores = step(draw.choice((f"{scores} * 0.3", f"0.3 * {scores}", f"{scores} / 3", f"{scores} / 2 ** 0.5")))
    if orders["s"][-2:] == "ij" and draw.random() < 0.6:
        scores = step(draw.choice((f"{scores} + b", f"b + {scores}", f'{scores}.masked_fill(m, float("-inf"))')))
    axis = orders["s"].index("j")
    axis = draw.choice((axis, axis - len(batch) - 2))
    weights = step(draw.choice((f"F.softmax({scores}, {axis})", f"{scores}.softmax(dim={axis})")))
    weights = step(ordered(weights, orders["s"], orders["w"]))
    w = (weights, orders["w"])
    result = einsum(w, v, orders["y"]) if by_einsum[1] else matmul(w, v, batch, ("ij", "je", "ie"), orders["y"])
    lines.append(f"return {result}")
    sizes = {"a": 2, "b": 3, "i": 5, "j": 7, "d": 4, "e": 6}
    generator = torch.Generator().manual_seed(seed)
    given = [torch.randn([sizes[each] for each in orders[name]], generator=generator) for name in "qkv"]
    given += [torch.randn(5, 7, generator=generator), torch.rand(5, 7, generator=generator) > 0.7]
    return body(*lines), given


def test_random_ways_to_write_attention_become_calls_that_compute_the_same():
    edited_ones = 0
    for seed in range(400):
        data, given = random_attention(seed)
        found, wanted = edited(data), computed(data, *given)
        edited_ones += b"scaled_dot_product_attention" in found
        got = computed(found, *given)
        assert got.shape == wanted.shape, data.decode()
        assert torch.allclose(got, wanted, atol=1e-5, equal_nan=True), data.decode()
    assert edited_ones == 400


PLAIN = """\
import trtdsl.functional as F
def f(q, k, v, the_long_name_of_a_first_operand, the_long_name_of_a_second_operand):
    scores = q @ k.mT / 8  # of 64
    return F.relu(F.softmax(scores, -1) @ v, the_long_name_of_a_first_operand, the_long_name_of_a_second_operand)
"""
WANTED = """\
import trtdsl.functional as F
def f(q, k, v, the_long_name_of_a_first_operand, the_long_name_of_a_second_operand):
    # of 64
    return F.relu(F.scaled_dot_product_attention(
        q, k, v, scale=0.125
    ), the_long_name_of_a_first_operand, the_long_name_of_a_second_operand)
"""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf", b"# coding: latin-1\n", "# coding: utf-8 \u00e9\n".encode()])
@pytest.mark.parametrize("last", [True, False])
def test_all_but_the_edit_is_as_it_was(end, begin, last):
    before, after = (begin + text.replace("\n", end).encode() for text in (PLAIN, WANTED))
    before, after = (before, after) if last else (before.rstrip(), after.rstrip())
    assert changed(before, edits_of(before)) == after


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("scores = q @ k.mT / 8", "scores = (q @ k.mT  # all keys\n        / 8)"),
        PLAIN.replace("F.softmax(scores, -1) @ v", "F.softmax(  # of the keys\n        scores, -1) @ v"),
        "# coding: latin-1\n" + PLAIN.replace("    return", "    print('\u00e9'); return"),
    ],
)
def test_no_edit_takes_a_comment_away_or_is_of_another_encoding(text):
    assert edits_of(text.encode()) == []
