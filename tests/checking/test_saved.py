"""Feeds of the author's, and checks that are kept in a file and compared with later."""

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
    (case,) = saved.load(file, made.define())
    assert torch.equal(case.own["output"], torch.sin(torch.ones(1, 3)))
    assert torch.equal(case.truth["output"], torch.sin(torch.ones(1, 3).double()))


def test_files_that_are_no_saved_check(tmp_path):
    from safetensors.torch import save_file

    text, other = tmp_path / "a.txt", tmp_path / "b.safetensors"
    text.write_text("no")
    save_file({"x": torch.ones(3)}, other)
    for file in (text, other, tmp_path / "nowhere"):
        with pytest.raises(td.UsageError, match="is not a saved check"):
            td.check(spec(), against=file)
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


def test_saved_results_have_their_own_decisions_and_the_report_says_so(tmp_path):
    class Best(torch.nn.Module):
        def forward(self, x):
            return torch.topk(x, 2, 1).values

    file = tmp_path / "saved.safetensors"
    for network, said in ((spec(lambda x: x.topk(2, 1)[0], Best), True), (spec(), False)):
        assert td.check(network, save=file).passed
        report = td.check(network, against=file)
        assert report.passed
        assert any("the saved results'" in line for line in report.unproven) == said
