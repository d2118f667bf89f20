"""Modules of every odd kind: each is ported, or refused with the module's line, the reason, and what to write."""

import dataclasses
import functools
import inspect
import io
import math
import random
import threading
import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch.nn.utils.prune
from torch import nn

import trtdsl as td
from trtdsl.porting import ported, write_files

pytestmark = pytest.mark.long

STATE = {"calls": 0}


class Module(nn.Module):
    """A module whose forward is given."""

    def __init__(self, forward):
        super().__init__()
        self.function, self.calls = forward, 0

    def forward(self, x):
        return self.function(self, x)


@dataclasses.dataclass
class Output:
    doubled: torch.Tensor
    count: int


def draws(self, x):
    return x * random.random()


def draws_arrays(self, x):
    return x + torch.tensor(np.random.rand(3), dtype=torch.float32)


def reads_the_time(self, x):
    return x * time.perf_counter()


def counts_outside(self, x):
    STATE["calls"] += 1
    return x * STATE["calls"]


def counts_from_nothing(self, x):
    STATE["runs"] = STATE.get("runs", 0) + 1
    return x * STATE["runs"]


def asks_for_an_item(self, x):
    return x[:, :: x.sum(1).argmax().item() + 1]


def asks_whether_it_is_an_item(self, x):
    return x * 2 if x.max().item() > 1 else x


def branches(self, x):
    return x if x.mean() > 0 else -x


def catches(self, x):
    try:
        if x.sum() > 0:
            return x
    except Exception:
        pass
    return -x


def loops(self, x):
    while x.abs().max() > 1:
        x = x / 2
    return x


def computes_with_numpy(self, x):
    return torch.from_numpy(np.maximum(x.numpy(), 0))


def unpacks(self, x):
    a, b, c = x[:2]
    return a + b + c


def yields(self, x):
    yield x


def gives_nothing(self, x):
    return None


EACH_RUN = "forward does not do the same in each run.* Make it the same each time, or an input"
VALUES = "depends on a tensor's values, which a trace does not have: make it independent of the inputs"


@pytest.mark.parametrize("shape", ["N,3", "2,3"])
@pytest.mark.parametrize("forward", [draws, draws_arrays, reads_the_time, counts_outside, counts_from_nothing])
def test_modules_that_differ_from_run_to_run_are_refused(forward, shape):
    with pytest.raises(td.UnsupportedError, match=EACH_RUN) as caught:
        td.from_module(Module(forward), [shape], dims={"N": (1, 2, 3)} if "N" in shape else None)
    line = forward.__code__.co_firstlineno
    assert caught.value.location.file == __file__ and line < caught.value.location.line <= line + 2


@pytest.mark.parametrize("forward", [asks_whether_it_is_an_item, branches, catches])
def test_a_branch_on_values_is_written(forward):
    found = ported(Module(forward), {"x": "N,3"}, dims={"N": (1, 2, 3)}, check=True)
    assert "td.cond(x." in found.text and found.verdict.passed, found.verdict.text


def test_a_loop_on_values_is_refused_at_its_line():
    with pytest.raises(td.UnsupportedError, match=VALUES) as caught:
        td.from_module(Module(loops), ["N,3"])
    line = loops.__code__.co_firstlineno
    assert caught.value.location.file == __file__ and line < caught.value.location.line <= line + 3


@pytest.mark.parametrize(
    ("forward", "error", "text"),
    [
        (asks_for_an_item, td.UnsupportedError, "an end of a slice, .* [(]keep all elements, or go all rounds, with"),
        (
            unpacks,
            td.DefinitionError,
            "not enough values to unpack .*an input is one tensor: where forward takes a tuple",
        ),
        (yields, td.UsageError, "forward gives a generator: a network gives tensors, alone or in tuples"),
        (gives_nothing, td.UsageError, "forward gives None: a network gives tensors"),
    ],
)
def test_modules_that_no_network_can_express_are_refused(forward, error, text):
    with pytest.raises(error, match=text):
        td.from_module(Module(forward), ["N,3"])


def test_numpys_functions_of_inputs_are_torchs():
    assert td.check(td.from_module(Module(computes_with_numpy), ["N,3"])).passed


def test_an_input_is_a_tensor():
    with pytest.raises(td.UsageError, match="input 'x' is a dict, and a network takes tensors: write a module that"):
        td.from_module(Module(lambda self, x: x["a"]), [{"a": torch.ones(2)}])


def test_a_hook_is_that_of_the_copy():
    """Its variables are the copy's: the module of which it keeps something, and the dict in which it does."""

    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.features = nn.Linear(3, 3), nn.Linear(3, 3), {}
            self.first.register_forward_hook(lambda part, given, made: self.features.update(first=made))

        def forward(self, x):
            return self.second(self.first(x)) + self.features["first"]

    module = Kept()
    assert td.check(td.from_module(module, ["N,3"])).passed
    assert not module.features


def test_what_has_no_copy_is_shared_unless_it_has_a_tensor(tmp_path):
    """ModelOpt's LSTM holds ``torch._VF``, whose functions it replaces."""

    class Holding(nn.Module):
        def __init__(self, held):
            super().__init__()
            self.fc, self.held = nn.Linear(3, 3), [(held, "lstm")]

        def forward(self, x):
            return self.fc(x)

    class Wrapped:  # a container of bitorch's, which Python's copy asks for what it does not have yet
        def __init__(self, inner):
            self.__dict__["inner"] = inner

        def __getattr__(self, name):
            return getattr(self.__dict__["inner"], name)

    (tmp_path / "log").touch()
    with open(tmp_path / "log") as file:
        without = [torch._VF, threading.Lock(), staticmethod(len), (i for i in "ab"), file, Wrapped(1)]
        for held in ([each] for each in without), [without]:
            for each in held:
                td.check(td.from_module(Holding(each), ["N,3"])).raise_for_mismatch()
    with pytest.raises(td.UsageError, match="Holding cannot be copied, .*KeyError: 'inner': keep what has no copy"):
        td.from_module(Holding(Wrapped([{"a": torch.ones(3)}])), ["N,3"])


class Called(nn.Module):
    """It has no forward."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def __call__(self, x):
        return self.linear(x).relu()


def test_a_module_that_is_called_without_a_forward_is_ported():
    result = ported(Called, {"x": "N,3"}, dims={"N": (1, 2, 3)}, check=True)
    assert result.verdict is not None and result.verdict.passed
    td.check(td.from_module(nn.Sequential(Called(), nn.ReLU(), Called()), ["N,3"])).raise_for_mismatch()


def test_keyword_results_and_counted_calls_are_ported():
    def keyword(self, x):
        return Output(x * 2, 3)

    def counts(self, x):
        self.calls += 1
        return x * self.calls

    for forward in (keyword, counts):
        td.check(td.from_module(Module(forward), ["N,3"], dims={"N": (1, 2, 3)})).raise_for_mismatch()

    class Try(nn.ReLU):
        pass

    assert td.from_module(Try(), ["N,3"]).name == "try_"


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Long(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] > 4 else x


def test_the_conditions_of_a_file_stand_before_its_verdict():
    found = ported(Long, {"x": "N,T"}, dims={"N": (1, 2, 3), "T": (5, 6, 9)}, check=True)
    (condition,) = found.requirements
    assert condition.startswith("T > 4 (") and "test_odd_modules.py:" in condition
    assert found.remarks(None, None)[-2] == f"true at these sizes, and required of all others: {condition}"
    assert found.remarks(None, None)[-1].startswith("checked: it equals the module")


class Cached(nn.Module):
    """A function that keeps what it made in the first run, as transformers' Beit does."""

    @functools.lru_cache
    @staticmethod
    def table(length):
        return torch.arange(length).flip(0) * 0.5

    def forward(self, x):
        return x + Cached.table(3)


def test_values_that_a_function_caches_become_constants():
    td.check(td.from_module(Cached(), ["N,3"], dims={"N": (1, 2, 3)})).raise_for_mismatch()


class OfClass(nn.Module):
    @staticmethod
    @functools.lru_cache
    def mask(length):
        return torch.ones(length, length).tril()

    def forward(self, x):
        return self.mask(x.shape[1]) @ x


def test_what_a_run_before_left_in_the_cache_of_a_class_is_none_of_a_trace():
    module = OfClass()
    module(torch.randn(2, 4, 3))
    td.check(td.from_module(module, ["2,T,3"], dims={"T": (2, 4, 5)})).raise_for_mismatch()


def test_a_number_that_forward_changes_is_remarked():
    found = ported(Scaled, {"x": "N,3"}, dims={"N": (1, 2, 8)}, check=True)
    assert [note.partition(":")[0] for note in found.notes] == ["forward changes its calls"]
    assert found.verdict.passed


class Window(nn.Module):
    """A window, which has no counterpart and needs none: it is the same numbers each time."""

    def forward(self, x):
        return x * torch.hann_window(5, device=x.device, periodic=False)


class Placed(nn.Module):
    def forward(self, x):
        return x + torch.asarray(x, device=torch.device("cpu"), copy=True)


def test_windows_are_numbers():
    text = ported(Window, {"x": "N,5"}, dims={"N": (1, 2, 3)}, check=True)
    assert "F.tensor([0.0, 0.5, 1.0, 0.5, 0.0]" in text.text and not text.verdict.exit_code


def gives_a_table(self, x):
    return x * 2, torch.from_numpy(np.hanning(5)).float()


def gives_a_range(self, x):
    return torch.arange(end=3, start=0), x + torch.zeros(size=(x.shape[0], 3))


@pytest.mark.parametrize("forward", [gives_a_table, gives_a_range])
def test_a_result_may_be_a_constant(forward):
    spec = td.from_module(Module(forward), ["N,3"], dims={"N": (1, 2, 3)})
    assert td.check(spec).passed


def test_td_missing_is_written_without_a_device(monkeypatch):
    monkeypatch.setattr("trtdsl.porting.tracing.recording.apart.decompositions", lambda *_: ())
    """torch prints a device as device(type='cpu'), which is no name of the file's."""
    text = ported(Placed, {"x": "N,3"}, dims={"N": (1, 2, 3)}).text
    assert 'td.missing("torch.asarray", x, copy=True)' in text


class Asserting(nn.Module):
    """Looks at values, and gives those that are not finite as they are."""

    def forward(self, x):
        assert (x < 1e9).all(), f"too great at {tuple(x.shape)}"
        if torch.isnan(x).any() or not torch.isfinite(x).all():
            return x
        return x * 2


class Raising(nn.Module):
    def forward(self, x):
        assert not torch.isnan(x).any()
        if torch.isnan(x).any() or (x > 1e9).any():
            raise ValueError("not a number")
        return x * 2


class DrawnForTraining(nn.Module):
    def forward(self, x):
        kept = torch.rand(x.shape)
        return (x * kept if self.training else x) + 1


class Norms(nn.Module):
    def forward(self, x):
        chosen = torch.where(x[0] > 0)[0]
        order, rows = torch.linalg.norm(x, 1, dim=-1), torch.linalg.norm(x, float("inf"))
        return torch.linalg.norm(x), order, rows, F.logsigmoid(x), chosen.sum(), x.mH


class NumbersOfNumpy(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.scale = np.int64(4), np.float32(0.5)

    def forward(self, x):
        return x.reshape(x.shape[0], self.heads, -1) * self.scale + torch.Tensor(x.new_ones(2))


class OfTypes(nn.Module):
    def forward(self, x):
        return x * 2 if type(x) is torch.Tensor and type(x.shape[0]) is int and isinstance(type(x), type) else x + 1


class Normed(nn.Module):
    """Layers whose weights are computed of their parameters by hooks."""

    def __init__(self):
        super().__init__()
        self.a = nn.utils.weight_norm(nn.Linear(8, 8))
        self.b = nn.utils.prune.l1_unstructured(nn.Linear(8, 8), "weight", 0.5)

    def forward(self, x):
        return self.b(self.a(x))


class FrozenPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8), requires_grad=False)

    def forward(self, x):
        return x * self.w if self.w.requires_grad and not self.b.requires_grad else x + self.b


class HeldTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(8, 8))
        self.all = {"w": self.w}

    def forward(self, x):
        return x @ self.all["w"]


class PartHeldTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.trained = nn.ModuleList([self.norm])

    def forward(self, x):
        return self.norm(x)


USUAL = [PartHeldTwice, Raising, DrawnForTraining, Norms, NumbersOfNumpy, OfTypes, Normed, FrozenPart, HeldTwice]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("module", USUAL)
def test_what_modules_usually_do_is_ported(module, tmp_path):
    network, weights = tmp_path / "network.py", tmp_path / "w.safetensors"
    found = ported(module, {"x": "N,8"}, dims={"N": (1, 2, 4)}, file=network, weights=weights, check=True)
    assert found.verdict.passed, found.verdict.text
    write_files(found, network, weights)
    td.check(td.load_spec(network)).raise_for_mismatch()


class Checking(nn.Module):
    """Has torch check what a mask holds, as transformers do where a text has places for images."""

    def forward(self, x):
        torch._check_tensor_all((x < 1e9) & (x > -1e9), lambda: "out of range")
        try:
            torch._check_tensor_all_with(ValueError, x.sum() < 1e9, lambda: f"too great: {x.sum()}")
        except TypeError:
            return x
        return x.cumsum(1)


@pytest.mark.parametrize("module", [Raising, Asserting, Checking])
def test_asserts_on_values_are_remarked(module):
    found = ported(module, {"x": "N,8"}, check=True)
    assert found.verdict.passed, found.verdict.text
    assert any("asserts of values at" in note and "test_odd_modules.py" in note for note in found.notes)


class Vmapped(nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: row if row.sum() > 0 else -row)(x)


class Drawn(nn.Module):
    def forward(self, x):
        return x + torch.randperm(8)


class DrawnNumber(nn.Module):
    def forward(self, x):
        return x * 2 if torch.rand(()) < 2 else x


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Vmapped, "has no trace .*data-dependent control flow"),
        (Drawn, "draws random numbers"),
        (DrawnNumber, "draws random numbers"),
    ],
)
def test_what_no_trace_follows_is_refused_in_one_sentence(make, message):
    with pytest.raises(td.UnsupportedError, match=message):
        td.from_module(make(), ["N,8"])
    with pytest.raises(td.UsageError, match="has no weights before it has run once"):
        td.from_module(nn.Sequential(nn.LazyLinear(4)), ["N,8"])


def test_numbers_of_tensors_stay_tensors():
    """``.item()`` and ``float()`` of a fraction, and what math computes of these."""

    def scaled(self, x):
        return x / x.abs().max().item() + float(x.mean()) * math.sqrt(x.abs().sum()) + math.exp(x.mean())

    assert td.check(td.from_module(Module(scaled), ["N,3"])).passed


def test_logarithms_of_sizes():
    def scaled(self, x):
        return x * (math.log(x.shape[1]) / math.log(512)) + math.log2(x.shape[1]) + math.log(x.shape[1], 3)

    def half(self, x):
        return x[:, : int(math.log2(x.shape[1]))]

    text = td.port(Module(scaled), {"x": "N,T"}, dims={"T": (2, 5, 40)})
    assert "F.log(length)" in text or "F.log(c)" in text
    assert td.check(td.from_module(Module(scaled), {"x": "N,T"}, dims={"T": (2, 5, 40)})).passed
    with pytest.raises(td.UnsupportedError, match=r"T = 2: .* what int\(\) gives to be 2, .* 'T': \(4, 5, 7\)"):
        td.from_module(Module(half), {"x": "N,T"}, dims={"T": (2, 5, 400)})


def test_forward_may_take_keywords_alone():
    class Keywords(nn.Module):
        def forward(self, **inputs):
            return inputs["x"] * inputs["y"]

    assert td.check(td.from_module(Keywords(), {"y": "N,3", "x": "N,3"})).passed


class OffDiagonal(nn.Module):
    def forward(self, x):
        n = x.shape[1]
        others = ~torch.eye(n, dtype=torch.bool)
        apart = x[:, :, None] - x[:, None]
        flat = apart.masked_select(others[..., None]).reshape(x.shape[0], n, n - 1, 3)
        return flat, apart[:, others].reshape(x.shape[0], n, n - 1, 3)


class Pairs(nn.Module):
    """Numbers of each pair, as many as a layer takes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.tensor([True, False, True]))
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        y = x[..., self.kept]
        upper = torch.triu(torch.ones(x.shape[1], x.shape[1]), 1) == 1
        return self.fc(torch.cat([y[:, 0], y[:, 1]], -1)), (x @ x.mT)[:, upper]


@pytest.mark.parametrize(("make", "shape"), [(OffDiagonal, "N,T,3"), (OffDiagonal, "N,4,3"), (Pairs, "N,4,3")])
def test_masks_that_no_input_has_a_part_in_choose_so_many_elements_as_in_torch(make, shape):
    dims = {"N": (1, 2, 3), **({"T": (2, 3, 5)} if "T" in shape else {})}
    found = ported(make, {"x": shape}, dims=dims, check=True)
    assert found.verdict.passed
    asks = [note for note in found.notes if "asks for values of the module's own tensors" in note]
    assert len(asks) == (make is Pairs)


class PrunedAtRandom(nn.Module):
    def forward(self, x):
        return x[:, torch.rand(3) > 0.5]


def test_a_mask_drawn_at_random_is_of_an_input():
    spec = td.from_module(PrunedAtRandom(), {"x": "N,3"}, dims={"N": (1, 2, 3)})
    assert len(spec.draws) == 1 and td.check(spec).passed


def test_what_a_mask_of_values_chooses_has_no_number():
    class Chosen(nn.Module):
        def forward(self, x):
            return x[x > 0].reshape(2, -1)

    with pytest.raises(
        td.DefinitionError, match="the size of what torch.Tensor.__getitem__ gives depends on a tensor's"
    ):
        td.from_module(Chosen(), {"x": "N,4"}, dims={"N": (1, 2, 3)})


class Permuted(nn.Module):
    """Axes and sizes that are tensors."""

    def forward(self, x):
        axes = torch.cat([torch.tensor([1, 0]), torch.arange(2, x.ndim)])
        two, rest = torch.tensor([2, -1])
        y = x.permute(*axes).relu().permute(*torch.argsort(axes))
        return y, x.view(x.shape[0], two, rest), x.reshape([torch.tensor(x.shape[0]), -1])


def test_tensors_are_numbers_where_torch_takes_axes_and_sizes():
    assert ported(Permuted, {"x": "N,4,3"}, dims={"N": (1, 2, 3)}, check=True).verdict.passed


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread = nn.Linear(4, 2), nn.Parameter(torch.zeros(2))

    def forward(self, x, action):
        distribution = torch.distributions.Normal(self.mean(x), self.spread.exp())
        return distribution.mode, distribution.log_prob(action).sum(-1)


def test_distributions_assert_nothing_of_values(monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # torch.export turns it off for good
    assert ported(Policy, {"x": "N,4", "action": "N,2"}, dims={"N": (1, 2, 3)}, check=True).verdict.passed
    assert torch.distributions.Distribution._validate_args


@torch.library.custom_op("trtdsl_tests::gated", mutates_args=())
def gated(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return x.sigmoid() * scale + y


@gated.register_fake
def _(x, y, scale):
    return torch.empty_like(x)


class OfALibrary(nn.Module):
    """An operator of a library's own, by its function and by its names."""

    def forward(self, x):
        own = torch.ops.trtdsl_tests.gated
        return gated(x, x * 2, 0.5) + own(x, x, 2.0) * own.default(x, x, 3.0)


def test_an_operator_of_a_library_is_what_its_function_computes():
    made = ported(OfALibrary, {"x": "N,4"}, dims={"N": (1, 2, 3)}, check=True)
    assert made.verdict.passed and "td.missing" not in made.text


class Loading(nn.Module):
    """Reads a tensor from a file in forward, as what caches constants on a disk does (se3-transformer-pytorch)."""

    def __init__(self):
        super().__init__()
        file = io.BytesIO()
        torch.save(torch.arange(20.0) + 0.5, file)
        self.data = file.getvalue()

    def forward(self, x):
        return x[:, :, None] * torch.load(io.BytesIO(self.data))


def test_a_tensor_that_forward_loads_is_a_constant():
    made = ported(Loading, {"x": "N,4"}, dims={"N": (1, 2, 3)}, check=True)
    assert made.verdict.passed and len(made.constants) == 1


class CallsItself(nn.Linear):
    """Calls its hooks itself, as torch did before hooks got names of arguments (continual)."""

    def __call__(self, *args, **kwargs):
        for hook in self._forward_pre_hooks.values():
            hook(self, args)
        returned = self.forward(*args, **kwargs)
        for hook in self._forward_hooks.values():
            hook(self, args, returned)
        return returned

    def forward(self, x, scale=1.0):
        return super().forward(x) * scale


def test_a_module_that_calls_its_hooks_itself_is_ported():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = CallsItself(4, 4), CallsItself(4, 4)

        def forward(self, x):
            return self.b(self.a(x), scale=x.exp())

    assert ported(Outer(), {"x": "N,4"}, dims={"N": (1, 2, 3)}, check=True).verdict.passed


class CallsForward(nn.Module):
    """Calls forward without the hooks (agilerl)."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, x):
        return self.scaled(self.inner(x))

    def scaled(self, x):
        return x * 2


def _doubling(module):
    doubled = lambda _, args, kwargs: (args, {name: given * 2 for name, given in kwargs.items()})  # noqa: E731
    module.register_forward_pre_hook(doubled, with_kwargs=True)
    return module


@pytest.mark.parametrize(
    "module",
    [
        CallsForward(nn.Linear(4, 4)),
        CallsForward(CallsForward(nn.Sequential(nn.Linear(4, 4)))),
        _doubling(nn.Linear(4, 4)),
    ],
    ids=["outside", "inside", "hook"],
)
def test_a_module_is_ported_whole_whatever_its_call_does(module):
    name = next(iter(inspect.signature(module.forward).parameters))
    assert ported(module, {name: "N,4"}, dims={"N": (1, 2, 3)}, check=True).verdict.passed


class StandsIn:
    """What stands in for a module, which it passes everything on to (a layer's container of bitorch)."""

    def __init__(self, module):
        self.__dict__["inner"] = module

    def __getattr__(self, name):
        return getattr(self.__dict__["inner"], name)

    def __call__(self, *args):
        return self.inner(*args)

    @property
    def __class__(self):
        return type(self.inner)


def test_what_stands_in_for_a_module_is_copied_with_it():
    module = nn.Sequential(nn.Linear(4, 4))
    module.add_module("1", StandsIn(nn.Linear(4, 3)))
    assert ported(module, {"input": "N,4"}, dims={"N": (1, 2, 3)}, check=True).verdict.passed


class Bytes(nn.Module):
    """A mask of numpy's bytes, as autoregressive layers keep it."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("mask", torch.ones(4, 4, dtype=torch.uint8).tril())
        self.register_buffer("steps", torch.arange(-2, 2, dtype=torch.int16))

    def forward(self, x):
        return F.linear(x, self.mask * self.fc.weight, self.fc.bias) * self.steps


def test_weights_of_dtypes_that_no_constant_has_are_converted_at_once():
    td.check(td.from_module(Bytes(), ["N,4"], dims={"N": (1, 2, 3)})).raise_for_mismatch()


def test_a_constant_of_bytes_is_no_output():
    class Kept(Bytes):
        def forward(self, x):
            return x, self.mask

    with pytest.raises(td.UnsupportedError, match=r"no constant of uint8: convert it first, as x.to\(torch.int32\)"):
        td.check(td.from_module(Kept(), ["N,4"], dims={"N": (1, 2, 3)}))


class OwnStatistics(nn.BatchNorm2d):
    """V-Net's norm: by the statistics of the batch, also in eval."""

    def forward(self, x):
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, True, self.momentum)


def test_statistics_that_a_norm_changes_and_does_not_read_are_left_out():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), OwnStatistics(4)).eval()
    found = ported(module, {"input": "N,3,H,8"}, dims={"N": (1, 2, 3), "H": (5, 8, 9)}, check=True)
    assert found.verdict.passed, found.verdict.text
    assert any(note.startswith("forward changes its 1.running_mean at ") for note in found.notes)


class Attribute(nn.Module):
    """It has no state_dict, and a tensor that its network finds under its weights."""

    def __init__(self):
        super().__init__()
        self.table = torch.arange(300).float()

    def forward(self, x):
        return x * self.table


def test_the_weights_file_of_a_module_without_a_state_dict_is_named():
    found = ported(Attribute(), {"x": "N,300"}, dims={"N": (1, 2, 3)})
    assert any("its weights are to be in attribute.safetensors" in each for each in found.remarks(None, None))


half_of = None


class MadeLate(nn.Module):
    """Functions that the first trace gives a module and a class, and the next ones find there."""

    third_of = None

    def forward(self, x):
        global half_of
        if half_of is None:
            half_of = lambda size: math.ceil(size * 0.5)  # noqa: E731
        if MadeLate.third_of is None:
            MadeLate.third_of = staticmethod(lambda size: int(size / 3.0))
        size = x.shape[1]
        return x[:, : half_of(size)], x[:, : MadeLate.third_of(size)]


def test_functions_that_are_made_by_the_first_trace_follow_sizes_in_the_next_ones():
    names = {**globals(), **vars(torch)}
    found = ported(MadeLate(), {"x": "N,T"}, dims={"N": (1, 2, 3), "T": (4, 7, 20)}, check=True)
    assert found.verdict.passed, found.verdict.text
    assert "T//2" in found.text and "T//3" in found.text
    after = {**globals(), **vars(torch)}
    assert all(after[name] is names[name] for name in ("math", "functools", "from_numpy", "sym_max", "pi"))
    assert "int" not in globals()
