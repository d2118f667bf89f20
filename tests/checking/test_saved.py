"""Feeds of the author's, and checks that are kept in a file and compared with later."""

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import trtdsl as td
from trtdsl.checking import saved


class Twice(torch.nn.Module):
    def forward(self, x):
        return x * 2


def spec(function=lambda x: x + x, reference=Twice, **options):
    return td.network(inputs={"x": td.Input((td.Dim("N", min=1, max=9), 3))}, reference=reference, **options)(function)


def test_feeds_are_arrays_files_folders_or_functions(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", array)
    one = {"x": array}
    for given, cases in (
        (one, 1), ([one, {"x": torch.ones(5, 3)}], 2), ({"x": tmp_path / "a" / "x.npy"}, 1), (tmp_path / "a", 1),
        (tmp_path, 2), (lambda: one, 1),
    ):  # fmt: skip
        report = td.check(spec(), feeds=given)
        assert report.passed
        assert len(report.cases) == cases
        assert report.cases[0].dims == {"N": 2}
        assert report.draws[0].startswith("given")


def test_given_feeds_show_what_drawn_ones_do_not():
    wrong = spec(lambda x: x + x.clamp(max=1e3))
    assert td.check(wrong).passed
    assert not td.check(wrong, feeds={"x": np.full((1, 3), 1e4, np.float32)}).passed


@pytest.mark.parametrize(
    ("feeds", "error", "text"),
    [
        ({"x": np.ones((2, 4), np.float32)}, td.FeedError, r"has shape \(2, 4\)"),
        ({"x": np.ones((2, 3, 1), np.float32)}, td.FeedError, r"has shape \(2, 3, 1\)"),
        ({"y": np.ones((2, 3), np.float32)}, td.FeedError, "'x' is missing; there is no input 'y'"),
        ({"x": np.ones((2, 3))}, td.FeedError, "'x' is float64, not float32"),
        ({"x": np.ones((99, 3), np.float32)}, td.FeedError, "N = 99"),
        ({"x": "nowhere.npy"}, td.UsageError, "nowhere.npy cannot be read"),
        ("nowhere", td.UsageError, "there is no folder nowhere"),
        (3, td.UsageError, "feeds are a mapping"),
        ([], td.UsageError, "feeds are a mapping"),
    ],
)
def test_feeds_that_do_not_fit(feeds, error, text):
    with pytest.raises(error, match=text):
        td.check(spec(), feeds=feeds)


def test_feeds_of_a_function_that_fails_are_told_with_its_line():
    def feeds():
        raise KeyError("mine")

    spec = td.network(inputs={"x": td.Input((3,))}, reference=torch.nn.ReLU)(lambda x: x.relu())
    with pytest.raises(td.DefinitionError, match="the feeds cannot be made: KeyError: 'mine'") as caught:
        td.check(spec, feeds=feeds)
    assert caught.value.location.line == feeds.__code__.co_firstlineno + 1


def test_a_folder_without_an_input(tmp_path):
    with pytest.raises(td.UsageError, match=r"there is no x.npy in "):
        td.check(spec(), feeds=tmp_path)


def test_a_saved_check_needs_no_reference(tmp_path):
    file = tmp_path / "check.safetensors"
    before = td.check(spec(), save=file, seed=5)
    lonely = spec(reference=None)
    after = td.check(lonely, against=file)
    assert after.passed
    assert after.sizes == before.sizes
    assert after.draws == before.draws
    wrong = td.check(spec(lambda x: x * 2.00001, reference=None), against=file)
    assert not wrong.passed


def test_a_saved_check_has_the_truth_and_torchs_own_result(tmp_path):
    class Sines(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x)

    file = tmp_path / "check.safetensors"
    made = spec(lambda x: x.sin(), reference=Sines)
    td.check(made, save=file, feeds={"x": np.ones((1, 3), np.float32)})
    ((_, case),) = saved.load(file, made, made.define())
    assert torch.equal(case.own["output"], torch.sin(torch.ones(1, 3)))
    assert torch.equal(case.truth["output"], torch.sin(torch.ones(1, 3).double()))


def test_files_that_are_no_saved_check(tmp_path):
    from safetensors.torch import save_file

    text, other = tmp_path / "a.txt", tmp_path / "b.safetensors"
    text.write_text("no")
    save_file({"x": torch.ones(3)}, other)
    for file in (text, other):
        with pytest.raises(td.CorruptFileError, match="is not a saved check"):
            td.check(spec(), against=file)
    with pytest.raises(td.UsageError, match="there is no saved check"):
        td.check(spec(), against=tmp_path / "nowhere")
    file = tmp_path / "c.safetensors"
    td.check(spec(), save=file)
    with pytest.raises(td.UsageError, match="was saved in precision None, not torch.float16"):
        td.check(spec(), against=file, precision="fp16")
    renamed = td.network(inputs={"z": td.Input((2, 3))}, reference=Twice)(lambda z: z * 2)
    with pytest.raises(td.UsageError, match="was saved for other inputs: x, not z"):
        td.check(renamed, against=file)


def test_sizes_feeds_and_against_exclude_each_other(tmp_path):
    with pytest.raises(td.UsageError, match="exclude each other"):
        td.check(spec(), sizes="quick", against=tmp_path)


def test_a_file_as_a_sample_is_repeated_or_cut(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    inputs = {"x": td.Input((td.Dim("N", min=1, max=3), 2), sample=tmp_path / "x.npy")}
    feeds = td.sample_feeds(td.network(inputs=inputs)(lambda x: x), {"N": 3}, torch.Generator())
    assert feeds["x"].tolist() == [[0, 1], [3, 4], [0, 1]]


def edited(file, change, *, resealed):
    """A saved check with other tensors or facts; with ``resealed`` by one who knows how its hash is made."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(file, "pt") as opened:
        facts = json.loads(opened.metadata()["trtdsl_check"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    change(facts, tensors)
    if resealed:
        facts["sha256"] = saved._digest(facts, tensors)
    save_file(tensors, file, {"trtdsl_check": json.dumps(facts)})


def results(change, kinds=("torch", "float64")):
    """Changes every result."""

    def act(facts, tensors):
        for name in list(tensors):
            if name.split("/")[1] in kinds:
                tensors[name] = change(tensors[name]).contiguous()

    return act


def cut_draws(facts, tensors):
    facts["draws"] = facts["draws"][:1]


def cut_wholly(facts, tensors):
    cut_draws(facts, tensors)
    for name in [name for name in tensors if not name.startswith("0/")]:
        del tensors[name]


def no_draws(facts, tensors):
    facts["draws"] = []
    tensors.clear()


def other_sizes(facts, tensors):
    facts["draws"][0]["sizes"] = {"N": 7}


def exact_dropped(facts, tensors):
    del tensors["0/float64/output"]


SAVED_ATTACKS = {
    "nan": results(lambda x: torch.full_like(x, float("nan"))),
    "inf": results(lambda x: torch.full_like(x, float("inf"))),
    "exact nan": results(lambda x: torch.full_like(x, float("nan")), ("float64",)),
    "own nan": results(lambda x: torch.full_like(x, float("nan")), ("torch",)),
    "one nan": results(lambda x: torch.where(torch.arange(x.numel()).view(x.shape) == 0, float("nan"), x)),
    "reshaped": results(lambda x: x.reshape(-1)),
    "exact reshaped": results(lambda x: x.reshape(-1), ("float64",)),
    "bool": results(lambda x: x.bool()),
    "exact bool": results(lambda x: x.bool(), ("float64",)),
    "half": results(lambda x: x.half()),
    "empty": results(lambda x: x[:0]),
    "scalar": results(lambda x: x.flatten()[0]),
    "zeros": results(torch.zeros_like),
    "cut draws": cut_draws,
    "cut wholly": cut_wholly,
    "no draws": no_draws,
    "sizes": other_sizes,
    "no exact": exact_dropped,
    "precision": lambda facts, tensors: facts.update(precision="torch.float64"),
    "network": lambda facts, tensors: facts.update(network="other"),
    "draws of no type": lambda facts, tensors: facts.update(draws=[7, None, "x"]),
    "hash of no type": lambda facts, tensors: facts.update(sha256=7),
    "feeds": results(lambda x: x + 1, ("feeds",)),
    "feeds of a dtype": results(lambda x: x.double(), ("feeds",)),
    "feeds of a shape": results(lambda x: x[:, :2], ("feeds",)),
}


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    file = tmp_path_factory.mktemp("saved") / "check.safetensors"
    td.check(spec(), save=file, sizes="quick")
    return file


@pytest.fixture
def whole(once, tmp_path):
    return Path(shutil.copy(once, tmp_path / "check.safetensors"))


# By one who makes the hash anew, these say something that is true, or wrong results: no network passes by them.
TRUE_WHEN_RESEALED = {"cut wholly", "hash of no type"}


@pytest.mark.parametrize("attack", SAVED_ATTACKS)
def test_a_saved_check_that_was_changed_proves_nothing(whole, attack):
    file = whole
    edited(file, SAVED_ATTACKS[attack], resealed=False)
    with pytest.raises(td.UsageError, match="is not (as it was saved|a saved check, or damaged)"):
        td.check(spec(), against=file)


@pytest.mark.parametrize("attack", sorted(SAVED_ATTACKS.keys() - TRUE_WHEN_RESEALED))
def test_nor_does_one_that_was_sealed_again(whole, attack):
    file = whole
    edited(file, SAVED_ATTACKS[attack], resealed=True)
    with contextlib.suppress(td.UsageError, td.FeedError):
        assert not td.check(spec(), against=file).passed


def named(name, function=lambda x: x + x, reference=Twice):
    return td.network(inputs={"x": td.Input((td.Dim("N", min=1, max=9), 3))}, reference=reference, name=name)(function)


class Thrice(torch.nn.Module):
    def forward(self, x):
        return x * 3


class Scaled(torch.nn.Module):
    factor = 2.0

    def forward(self, x):
        return x * self.factor


class Drifting(Scaled):
    """One that does not run in exact arithmetic."""

    def forward(self, x):
        return torch.from_numpy(x.numpy() * self.factor).float()


@pytest.mark.parametrize("reference", [Scaled, Drifting, lambda: Scaled()])
def test_what_a_program_sets_in_a_reference_counts_for_a_saved_check(tmp_path, monkeypatch, reference):
    """Its file is as it was, and so is what it reads; a reference of a notebook is in no file at all."""
    file = tmp_path / "check.safetensors"
    td.check(spec(reference=reference), save=file)
    assert td.check(spec(reference=reference), against=file).passed
    monkeypatch.setattr(Scaled, "factor", 2.0001 if reference is Scaled else 2.1)
    with pytest.raises(td.UsageError, match="was saved when the reference gave another 'output': save it again"):
        td.check(spec(reference=reference), against=file)


def test_a_saved_check_is_of_one_network_and_one_reference(tmp_path):
    file = tmp_path / "check.safetensors"
    td.check(named("one"), save=file)
    assert td.check(named("one"), against=file).passed
    with pytest.raises(td.UsageError, match="was saved for the network 'one', not 'two'"):
        td.check(named("two"), against=file)
    with pytest.raises(td.UsageError, match="was saved with another reference"):
        td.check(named("one", lambda x: x * 3, Thrice), against=file)


MADE = """
import trtdsl as td
from made_by_a_lambda import Model


def make(slope: float = 1.0) -> td.NetworkSpec:
    return td.network(inputs={"x": td.Input((2, 3))}, reference=lambda: Model(slope))(lambda x: x.relu())
"""
MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self, slope):
        super().__init__()

    def forward(self, x):
        return torch.relu(x)
"""


def test_a_saved_check_of_a_reference_that_a_lambda_makes_is_of_its_files_and_of_the_settings(tmp_path):
    (tmp_path / "made.py").write_text(MADE)
    reference, file = tmp_path / "made_by_a_lambda.py", tmp_path / "check.safetensors"
    network = f"{tmp_path / 'made.py'}:make"
    reference.write_text(MODEL)
    td.check(td.load_spec(network), save=file)
    assert td.check(td.load_spec(network), against=file).passed
    with pytest.raises(td.UsageError, match="other settings"):
        td.check(td.load_spec(network, {"slope": 2.0}), against=file)
    reference.write_text(MODEL.replace("torch.relu(", "torch.tanh("))
    with pytest.raises(td.UsageError, match="another state of its files"):
        td.check(td.load_spec(network), against=file)


def test_a_saved_check_is_of_one_state_of_the_references_files(small, tmp_path):
    file = tmp_path / "check.safetensors"
    td.check(str(small / "small.py"), save=file, sizes="quick")
    assert td.check(str(small / "small.py"), against=file).passed
    reference = small / "reference.py"
    reference.write_text(reference.read_text().replace("torch.relu(", "torch.tanh("))
    with pytest.raises(td.UsageError, match="another state of its files"):
        td.check(str(small / "small.py"), against=file)


def test_results_that_are_infinite_in_places_are_kept(tmp_path):
    class Masked(torch.nn.Module):
        def forward(self, x):
            return torch.where(x > 0, x, float("-inf"))

    masked = named("masked", lambda x: torch.where(x > 0, x, float("-inf")), Masked)
    file = tmp_path / "check.safetensors"
    assert td.check(masked, save=file).passed
    assert td.check(masked, against=file).passed


def test_results_of_a_reference_that_changed_since_it_was_loaded_are_not_saved(small, tmp_path):
    """They would count for the changed one, from which the network differs."""
    spec = td.load_spec(str(small / "small.py"))
    spec.define()
    reference = small / "reference.py"
    reference.write_text(reference.read_text().replace("torch.relu(", "torch.tanh("))
    with pytest.raises(td.UsageError, match="small: files of its reference changed since they were loaded"):
        td.check(spec, save=tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_what_a_lambda_reads_counts_too(tmp_path, command_line):
    (tmp_path / "net.py").write_text(LAMBDA)
    (tmp_path / "factor.txt").write_text("2")
    run = command_line(tmp_path)
    run("check", "net.py", "--save", "net.safetensors")
    run("check", "net.py", "--against", "net.safetensors")
    (tmp_path / "factor.txt").write_text("3")
    assert "another state of its files" in run("check", "net.py", "--against", "net.safetensors", code=2).stderr


LAMBDA = """
from pathlib import Path
import torch
import trtdsl as td


class Scaled(torch.nn.Module):
    def forward(self, x):
        return x * int(Path(__file__).with_name("factor.txt").read_text())


@td.network(inputs={"x": td.Input((3,))}, reference=lambda: Scaled())
def net(x):
    return {"y": x * 2}
"""
