"""Which code of a reference may branch on sizes: what is run where it is called, and chooses by what is not settled."""

import ast
import textwrap

import pytest

from trtdsl.checking.judging.branching import branches_when_called

SETTLED = {
    "what __init__ alone does": """
        class M(Module):
            def __init__(self, n, norm=None):
                self.wide = n > 4
                self.parts = [self.part(k, last=k == n - 1) for k in range(n)]
                self.norm = stage(n, norm)

            def part(self, k, last):
                return Linear(k, k) if last else Linear(k, 2 * k)

            def forward(self, x):
                return self.norm(x)

        def stage(n, norm):
            return norm(n) if norm is not None and n > 2 else None
    """,
    "what a module has since it was made": """
        class M(Module):
            def __init__(self, stride, kind):
                self.stride, self.kind, self.down = stride, kind, None

            def forward(self, x, mask=None):
                if self.stride > 1 and not self.training or self.kind == "wide":
                    x = x * 2
                if isinstance(x, tuple):
                    x = x[0]
                return x if self.down is None or mask is None else self.down(x)
    """,
}
BRANCHING = {
    "a size": "def forward(self, x):\n  return x if x.shape[1] > 4 else -x",
    "the truth of a size": "def forward(self, x):\n  pad = -len(x) % 4\n  if pad: x = x + 1\n  return x",
    "what a call of forward's does": "def forward(self, x): return cut(x)\ndef cut(x): return x[: min(len(x), 4)]",
    "what is handed on": "def __init__(self): self.f = f\ndef f(x): return x if len(x) > 4 else -x",
    "a name in a string": (
        "def forward(self, x): return getattr(self, 'cut')(x)\ndef cut(self, x): return x[:4] if len(x) > 4 else x"
    ),
    "a computed name": (
        "def forward(self, x): return getattr(self, f'cut{self.n}')(x)\n"
        "def cut4(self, x): return x[:4] if len(x) > 4 else x"
    ),
    "what a lambda calls": "f = lambda x: cut(x)\ndef cut(x): return x[:4] if len(x) > 4 else x",
    "a size that was kept": "def forward(self, x):\n  self.n = len(x)\n  return x if self.n > 4 else -x",
    "a size that was kept unseen": (
        "def forward(self, x):\n  setattr(self, 'n', len(x))\n  return x if self.n > 4 else -x"
    ),
    "a class that forward makes": (
        "def forward(self, x): return Cut(len(x))(x)\nclass Cut:\n def __init__(self, n): self.n = n\n"
        " def __call__(self, x): return x if self.n > 4 else -x"
    ),
    "what a list leaves out": "def forward(self, x): return [y for y in x if len(y) % 2]",
    "a property": (
        "def forward(self, x):\n  self.x = x\n  return self.cut\n"
        "@property\ndef cut(self): return self.x if len(self.x) > 4 else 0"
    ),
}


@pytest.mark.parametrize("name", SETTLED)
def test_no_size_has_a_part_in_a_choice(name):
    assert not branches_when_called([ast.parse(textwrap.dedent(SETTLED[name]))])


@pytest.mark.parametrize("name", BRANCHING)
def test_a_size_may_have_a_part_in_a_choice(name):
    assert branches_when_called([ast.parse(BRANCHING[name])])
