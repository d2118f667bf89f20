"""Collective layers: ranks evaluated together against torch's own arithmetic on the whole, and what does not fit."""

import json

import pytest
import torch

import trtdsl as td
import trtdsl.layers as L
from trtdsl.interpreter.fingerprint import fingerprint

FILE = """
import trtdsl as td
import trtdsl.layers as L

def parts(kind: str, op: str = "SUM", dtype: str = "float32", rank: int = 0, ranks: int = 1) -> td.NetworkSpec:
    N = td.Dim("N", min=1, opt=4, max=4)

    @td.network(inputs={"x": td.Input((N, 8, 3), dtype, sharded=1), "u": td.Input((8,), dtype)})
    def parts(x, u):
        y = x.permute(1, 0, 2)
        if kind == "all_gather":
            return {"y": L.all_gather(y, ranks)}
        if kind == "nothing" and rank:
            return {"y": y * 2, "v": u}
        return {"y": getattr(L, kind if kind != "nothing" else "all_reduce")(y, ranks, op), "v": u * (rank + 1)}

    return parts
"""


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "parts.py").write_text(FILE)
    return lambda **settings: td.load_spec(str(tmp_path / "parts.py"), settings)


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
def test_all_ranks_together(kind, ranks, spec):
    """Each feeds a part along the middle, which the network puts first."""
    op = ["SUM", "PROD", "MAX", "MIN", "AVG"][ranks % 5] if kind != "all_gather" else "SUM"
    if kind == "reduce_scatter" and 8 % ranks:
        with pytest.raises(td.TrtdslError, match="what is left of the ranks' parts"):
            spec(kind=kind, ranks=ranks).define()
        return
    rank = ranks - 1
    x = torch.randint(-4, 5, (2, 8 * ranks, 3)).float()
    network, feeds = spec(kind=kind, op=op, rank=rank, ranks=ranks).define(), {"x": x, "u": torch.ones(8)}
    found = td.interpret(network, feeds)
    operands = x.permute(1, 0, 2).reshape(ranks, 8, 2, 3)
    whole = {
        "SUM": operands.sum(0), "PROD": operands.prod(0), "MAX": operands.amax(0), "MIN": operands.amin(0),
        "AVG": operands.mean(0),
    }[op]  # fmt: skip
    size = 8 // ranks
    wanted = {
        "all_reduce": whole,
        "all_gather": operands.flatten(0, 1),
        "reduce_scatter": whole[rank * size : (rank + 1) * size],
    }[kind]
    assert torch.equal(found["y"], wanted)
    engines = td.evaluate_engine(network, feeds)  # of all ranks
    assert engines.keys() == found.keys() and all(torch.equal(engines[name], found[name]) for name in found)
    assert kind == "all_gather" or torch.equal(found["v"], torch.full((8,), float(ranks)))


ROWS = """
import torch
import trtdsl as td
import trtdsl.functional as F
import trtdsl.layers as L

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(6, 8), torch.nn.Linear(8, 5, bias=False)

    def forward(self, x):
        return {"y": self.down(self.up(x).relu())}

def rows(how: str = "right", rank: int = 0, ranks: int = 1) -> td.NetworkSpec:
    @td.network(inputs={"x": td.Input((3, 6))}, weights={}, reference=Model)
    def rows(x, w):
        part = lambda w, dim: td.shard(w, dim, 0 if how == "one part" else rank, ranks)
        y = F.linear(F.relu(F.linear(x, part(w.up.weight, 0), part(w.up.bias, 0))), part(w.down.weight, 1))
        y = y if how == "no sum" else L.all_reduce(y, ranks, "AVG" if how == "mean" else "SUM")
        return {"y": y * 2 if how == "other rank" and rank else y}

    return rows
"""


@pytest.mark.parametrize("how", ["right", "no sum", "mean", "one part"])
def test_parts_that_are_wrong_are_caught(how, tmp_path):
    (tmp_path / "rows.py").write_text(ROWS)
    spec = td.load_spec(str(tmp_path / "rows.py"), {"how": how, "ranks": 2})
    report = td.check(spec, weights=spec.reference_class()().state_dict(), sizes="quick")
    assert report.passed == (how == "right"), report
    assert not any("of other ranks" in line for line in report.unproven) or how == "no sum"


def test_another_rank_s_output_is_not_proven_silently(tmp_path):
    """Each rank may have outputs of its own: a check is of one of them."""
    (tmp_path / "rows.py").write_text(ROWS)
    for rank in range(2):
        spec = td.load_spec(str(tmp_path / "rows.py"), {"how": "other rank", "rank": rank, "ranks": 2})
        report = td.check(spec, weights=spec.reference_class()().state_dict(), sizes="quick")
        assert report.passed == (rank == 0), report
        assert "output 'y' of other ranks, which differs from this one's: check each" in report.unproven


def test_a_rank_is_checked_again_where_another_rank_changes(tmp_path):
    """They are checked together: what one of them computes is no proof of the whole."""
    (tmp_path / "model.py").write_text(ROWS[: ROWS.index("def rows")])
    (tmp_path / "rows.py").write_text(
        "from model import Model, td, F, L\n" + ROWS[ROWS.index("def rows") :].replace("=Model", '="model.py:Model"')
    )
    torch.manual_seed(0)

    def build():
        spec = td.load_spec(str(tmp_path / "rows.py"), {"ranks": 2})
        weights = {name: torch.full_like(each, 0.1) for name, each in spec.reference_class()().state_dict().items()}
        return td.build(spec, tmp_path / "rows.engine", weights=weights)

    assert build().report is not None
    assert build().report is None
    text = (tmp_path / "rows.py").read_text()
    (tmp_path / "rows.py").write_text(text.replace("all_reduce(y,", "all_reduce(y * 2 if rank else y,"))
    with pytest.raises(td.MismatchError):
        build()


def test_one_rank_communicates_nothing(spec):
    x = torch.randn(2, 8, 3)
    found = td.interpret(spec(kind="all_reduce").define(), {"x": x, "u": torch.ones(8)})
    assert torch.equal(found["y"], x.permute(1, 0, 2))


def test_the_program_says_what_is_communicated(spec):
    program = td.program(spec(kind="all_reduce", dtype="float16", ranks=2), dims={"N": 4})
    (row,) = [row for row in program.by("kind") if row.name == "communication"]
    assert (row.launches, row.bytes) == (1, 2 * 4 * 8 * 3 * 2) and not row.rearranged_bytes


def test_the_fingerprint_tells_ranks_and_reductions(spec):
    made = [("all_reduce", "SUM", 2), ("all_reduce", "MAX", 2), ("all_reduce", "SUM", 4), ("reduce_scatter", "SUM", 2)]
    networks = [spec(kind=kind, op=op, ranks=ranks).define() for kind, op, ranks in made]
    assert len({fingerprint(network.definition, network.backend) for network in networks}) == 4


def test_an_engine_of_one_rank_is_not_evaluated_alone(spec, tmp_path):
    made, feeds = spec(kind="all_reduce", ranks=2), {"x": torch.ones(1, 8, 3), "u": torch.ones(8)}
    td.build(made, tmp_path / "one.engine", check=False)
    with pytest.raises(td.TrtdslError, match="the program is one of 2 ranks, which are evaluated together: give their"):
        td.evaluate_engine(tmp_path / "one.engine", feeds)
    apart = spec(kind="nothing", ranks=2).define()
    with pytest.raises(td.TrtdslError, match="the ranks' programs do not meet at the same operations"):
        td.evaluate_engine(apart, {"x": torch.ones(1, 16, 3), "u": torch.ones(8)})


def test_what_ranks_cannot_do(spec, tmp_path):
    with pytest.raises(td.DefinitionError, match=r"do not meet at one layer, but at all_reduce_sum, the end"):
        td.interpret(spec(kind="nothing", ranks=2).define(), {"x": torch.ones(1, 16, 3), "u": torch.ones(8)})
    with pytest.raises(td.UsageError, match=r"there is no rank 2 among 2: they are 0 to 1"):
        spec(kind="all_reduce", rank=2, ranks=2)
    (tmp_path / "rows.py").write_text(ROWS.replace("L.all_reduce(y, ranks", "L.all_reduce(y, 3"))
    rows = td.load_spec(str(tmp_path / "rows.py"), {"ranks": 2})
    with pytest.raises(td.UsageError, match="num_ranks=3: the network is of 2 ranks, which all meet here") as caught:
        rows.define(weights=rows.reference_class()().state_dict())
    assert caught.value.location.file == str(tmp_path / "rows.py")
    net = td.Network()
    net.output(L.all_reduce(net.input("x", (3,)), 2), "y")
    with pytest.raises(td.TrtdslError, match="the network is one of 2 ranks, which are evaluated together"):
        td.interpret(net, {"x": torch.ones(3)})
    for call, message in (
        (lambda x: L.all_reduce(x, 0), "num_ranks=0: expected int >= 1"),
        (lambda x: L.all_reduce(x, "2"), "num_ranks='2': expected int, got str"),
        (lambda x: L.reduce_scatter(x, 2, "MEAN"), "op='MEAN'"),
        (lambda x: L.all_gather(x.sum(), 2), "a scalar has no first dimension"),
        (lambda x: td.shard(x, 0, 0, 2), "2 ranks do not share out dimension 0"),
        (lambda x: td.shard(x, 1, 0, 2), "dimension 1 is outside the 1 dimensions"),
        (lambda x: td.shard(x, "0", 0, 2), "dim='0': expected int, got str"),
        (lambda x: td.shard(x, 0, 3, 3), "there is no rank 3 among 3: they are 0 to 2"),
        (lambda x: td.shard(x, 0, -1, 3), "there is no rank -1 among 3"),
        (lambda x: td.shard(x, 0, 0, 0), "ranks=0: expected int >= 1"),
        (lambda x: td.shard(x.sum(), 0, 0, 2), "2 ranks do not share out dimension 0 of .*: its size is 1"),
        (lambda x: td.Input((3,), sharded=1), "sharded is one of the 1 dimensions, not 1"),
        (lambda x: td.State((3,), sharded="0"), "sharded='0': expected int, got str"),
    ):
        with pytest.raises(td.TrtdslError, match=message) as caught:
            call(td.Network().input("x", (3,)))
        assert "sharded" in message or caught.value.location.file == __file__


@pytest.mark.heavy
def test_an_engine_for_each_rank(spec, tmp_path, command_line):
    spec(kind="all_reduce")
    run = command_line(tmp_path)
    run("build", "parts.py", "--set", "kind=all_reduce", "--ranks", "2", "--no-check", "-o", "out/")
    for rank in range(2):
        manifest = json.loads((tmp_path / "out" / f"parts.rank{rank}.engine.json").read_text())
        assert manifest["settings"] == {"kind": "all_reduce", "op": "SUM", "dtype": "float32", "rank": rank, "ranks": 2}


def test_the_manifest_names_the_rank(spec, tmp_path):
    made = spec(kind="all_gather", rank=1, ranks=2)
    built = td.build(made, tmp_path / "part.engine", check=False)
    assert (built.manifest["network"], built.manifest["settings"]["rank"]) == ("parts.rank1", 1)
