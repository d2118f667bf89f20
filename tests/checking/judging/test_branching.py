"""Which code of a reference that ran may branch on sizes: what chooses by what is not settled."""

import cProfile
import importlib.util
import textwrap

import pytest
import torch

from trtdsl.checking.judging.branching import branches_where_run, noting

SETTLED = {
    "what __init__ alone does": """
        class M:
            def __init__(self, n=4, norm=torch.nn.Identity):
                self.wide = n > 4
                self.parts = [self.part(k, last=k == n - 1) for k in range(n)]
                self.norm = stage(n, norm)

            def part(self, k, last):
                return 2 * k if last else k

            def forward(self, x):
                return self.norm(x)

        def stage(n, norm):
            return norm(n) if norm is not None and n > 2 else None
    """,
    "what a module has since it was made": """
        class M:
            def __init__(self):
                self.stride, self.kind, self.training, self.down = 2, "wide", False, None

            def forward(self, x, mask=None):
                if self.stride > 1 and not self.training or self.kind == "wide":
                    x = x * 2
                if isinstance(x, tuple):
                    x = x[0]
                return x if self.down is None or mask is None else self.down(x)
    """,
    "what Python makes a function of": """
        import collections
        Pair = collections.namedtuple("Pair", "x y")

        class M:
            def forward(self, x):
                return Pair(x, y=x).x
    """,
    "what does not run": """
        class M:
            def forward(self, x):
                return x * 2

            def other(self, x):
                return x if len(x) > 4 else -x
    """,
}
BRANCHING = {
    "a size": "def forward(self, x):\n  return x if x.shape[0] > 4 else -x",
    "the truth of a size": "def forward(self, x):\n  pad = -len(x) % 4\n  if pad: x = x + 1\n  return x",
    "what a call of forward's does": "def forward(self, x): return cut(x)\ndef cut(x): return x[: min(len(x), 4)]",
    "what is handed on": (
        "def forward(self, x): return run(f, x)\ndef run(g, x): return g(x)\ndef f(x): return x if len(x) > 4 else -x"
    ),
    "a name in a string": (
        "def forward(self, x): return getattr(M, 'cut')(x)\nclass M:\n  def cut(x): return x[:4] if len(x) > 4 else x"
    ),
    "a computed name": (
        "def forward(self, x): return globals()[f'cut{len(x)}'](x)\ndef cut3(x): return x[:4] if len(x) > 4 else x"
    ),
    "what is decorated": (
        "import functools\ndef forward(self, x): return cut(x)\n"
        "@functools.cache\ndef cut(x): return x[:4] if len(x) > 4 else x"
    ),
    "a lambda": "f = lambda x: x[:4] if len(x) > 4 else x\ndef forward(self, x): return f(x)",
    "a size that was kept": "def forward(self, x):\n  self.n = len(x)\n  return x if self.n > 4 else -x",
    "a size that was kept unseen": (
        "def forward(self, x):\n  setattr(self, 'n', len(x))\n  return x if self.n > 4 else -x"
    ),
    "a class that forward makes": (
        "def forward(self, x): return Cut(len(x))(x)\nclass Cut:\n def __init__(self, n): self.n = n\n"
        " def __call__(self, x): return x if self.n > 4 else -x"
    ),
    "what a list leaves out": "def forward(self, x): return [y for y in x if y.ndim % 2]",
    "a property": (
        "def forward(self, x): return M().cut\nclass M:\n x = torch.ones(3)\n @property\n"
        " def cut(self): return self.x if len(self.x) > 4 else 0"
    ),
    "code of a text": "def forward(self, x): return eval('x if len(x) > 4 else -x')",
}


class Empty:
    pass


def branches(code, folder):
    file = folder / "reference_that_ran.py"
    file.write_text(f"import torch\n{textwrap.dedent(code)}\n")
    spec = importlib.util.spec_from_file_location("reference_that_ran", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    codes = set()
    if hasattr(module, "forward"):
        made, forward = Empty(), module.forward
    else:
        made, forward = module.M(), module.M.forward
    with noting(codes):
        forward(made, torch.ones(3))
    return branches_where_run(codes)


@pytest.mark.parametrize("name", SETTLED)
def test_no_size_has_a_part_in_a_choice(name, tmp_path):
    assert not branches(SETTLED[name], tmp_path)


@pytest.mark.parametrize("name", BRANCHING)
def test_a_size_may_have_a_part_in_a_choice(name, tmp_path):
    assert branches(BRANCHING[name], tmp_path)


def test_where_a_profiler_runs_it_goes_on_and_nothing_is_known(tmp_path):
    with cProfile.Profile() as profile:
        assert branches(SETTLED["what does not run"], tmp_path)
    assert profile.getstats()
