"""What the file looks like: worked by hand for a small module, and what a reader expects of the issue's networks."""

import ast
from pathlib import Path

import pytest
import torch

import trtdsl as td

REFERENCES = Path(__file__).parents[2] / "networks" / "reference"

SMALL = '''\
"""Small, ported from modules.py:Small."""

import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=2, max=3)


def batch_norm(x: td.Tensor, w: td.Scope) -> td.Tensor:
    return F.batch_norm(x, w.running_mean, w.running_var, w.weight, w.bias)


def residual(x: td.Tensor, w: td.Scope) -> td.Tensor:
    y = F.relu(batch_norm(F.conv2d(x, w.conv.weight, w.conv.bias, padding=1), w.norm))  # (N, 8, 8, 8)
    return x + y


@td.network(
    inputs={"image": td.Input((N, 3, 16, 16))},
    weights="small.safetensors",
    reference="modules.py:Small",
)
def small(image: td.Tensor, w: td.Scope) -> dict[str, td.Tensor]:
    x = F.relu(batch_norm(F.conv2d(image, w.stem[0].weight, stride=2, padding=1), w.stem[1]))  # (N, 8, 8, 8)
    for block in w.blocks:
        x = residual(x, block)
    n, c, _, _ = x.shape
    return {"output": F.linear(F.adaptive_avg_pool2d(x, 1).view(n, c), w.head.weight, w.head.bias)}
'''


def test_a_small_module_as_one_would_write_it():
    modules = Path(__file__).parent / "modules.py"
    text = td.port(f"{modules}:Small", {"image": "N,3,16,16"}, dims={"N": (1, 2, 3)}, file=modules.parent / "small.py")
    assert text == SMALL


def functions(text):
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def body(text, name):
    return "\n".join(ast.unparse(line) for line in functions(text)[name].body)


@pytest.fixture(scope="module")
def vit():
    return td.port(f"{REFERENCES}/vit.py:Model", {"x": "N,3,224,224"})


def test_functions_follow_the_module_tree(vit):
    assert list(functions(vit)) == ["patch_embed", "attention", "mlp", "block", "vit"]
    assert "for layer in w.blocks:\n    x = block(x, layer)" in body(vit, "vit")


def test_sizes_and_names_are_the_authors(vit):
    lines = body(vit, "attention").split("\n")
    assert lines[0] == "n, length, width = x.shape"
    assert "reshape(n, length, 3, 3, width // 3)" in lines[1]
    assert lines[2].startswith("q, k, v = ")
    assert lines[3] == "x = F.scaled_dot_product_attention(q, k, v)"


def test_defaults_are_left_out_and_a_dimension_without_a_range_gets_one(vit):
    assert 'N = td.Dim("N", min=1, opt=4, max=8)' in vit
    assert "stride=16)" in vit and "dilation" not in vit and "dropout" not in vit


def test_modules_that_differ_in_numbers_share_a_function_with_parameters():
    text = td.port(f"{REFERENCES}/mobilefacenet.py:Model", {"x": "N,3,112,112"})
    assert "def conv_block(x: td.Tensor, w: td.Scope, stride: int = 1, padding: int = 0, groups: int = 1) ->" in text
    for name in ("depth_wise", "depth_wise_residual"):
        assert f"def {name}(x: td.Tensor, w: td.Scope, groups: int) ->" in text
    assert body(text, "residual").startswith("for layer in w.layers:")  # of four, six and two layers
    assert "x = residual(x, w.layers[3], groups=128)" in text


def test_functions_of_the_authors_and_loops_over_the_same_weights():
    frames = {"first": "1,3,128,8*W8", "second": "1,3,128,8*W8"}
    text = td.port(f"{REFERENCES}/raft_small.py:Model", frames, dims={"W8": (16, 16, 16)})
    assert "def look_up(" in text and "points: td.Tensor, " in text
    assert "for _ in range(11):" in body(text, "raft_small")
    assert '"first": td.Input((1, 3, 128, 8 * W8))' in text


def test_a_list_of_loops_over_two_containers():
    text = td.port(f"{REFERENCES}/stgcn.py:Model", {"x": "N,3,30,18,2"})
    assert "for edge_importance, st_gcn_network in zip(w.edge_importance[1:4], w.st_gcn_networks[1:4]):" in text
    for name in ("block_residual", "block_has_residual"):
        assert f"def {name}(x: td.Tensor, adjacency: td.Tensor, w: td.Scope) ->" in text
    assert 'F.einsum("nkctv,kvw->nctw", x, adjacency)' in text


class Packed(torch.nn.Module):
    """Packs the dimensions behind the second, however many they are."""

    def forward(self, x):
        n, t = x.shape[:2]
        return torch.cat([x.reshape(n, t, -1)], 2)


class OfTwoRanks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Packed(), Packed()

    def forward(self, x):
        return self.first(x), self.second(x.unflatten(-1, (2, 4))), self.first(x.unflatten(-1, (2, 2, 2)))


def test_tensors_of_several_ranks_have_functions_of_their_own():
    found = td.porting.ported(OfTwoRanks(), {"x": "N,4,8"}, dims={"N": (1, 2, 3)}, check=True)
    assert found.verdict.passed, found.verdict.text
    assert "n, t, _ = x.shape" in found.text and "n, t, _, _ = x.shape" in found.text
