"""A network is one thing however it came: as a spec, as a Network of a notebook, or by its file."""

import pickle

import pytest
import torch
from torch import nn

import trtdsl as td
import trtdsl.functional as F
from trtdsl.definition.spec.load import as_spec, load_spec


def written(model, slip=0.0):
    """A linear layer and a relu over a dynamic batch, as a notebook writes it."""
    net = td.Network("notebook")
    x = net.input("x", (td.Dim("N", min=1, opt=2, max=5), 3))
    net.output(F.relu(F.linear(x, model[0].weight, model[0].bias + slip)), "y")
    return net


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU())


def test_a_written_network_is_checked_against_a_module_and_the_module_is_left_as_it_is(model):
    report = td.check(written(model), reference=model)
    assert report.passed
    assert {1, 2, 5} <= {case["N"] for case in report.sizes}
    assert model.training and model[0].weight.requires_grad
    assert not td.check(written(model, slip=0.1), reference=model).passed


def test_a_written_network_builds_with_and_without_a_reference(model, tmp_path):
    both = [written(model) for _ in range(2)]  # of one line, which the engine has
    built = td.build(both[0], tmp_path / "a.engine", reference=model)
    assert built.built and built.report.passed
    assert built.manifest["check"]["passed"]
    assert built.manifest["network"] == "notebook"
    assert built.manifest["profiles"][0]["dims"] == {"N": [1, 2, 5]}
    plain = td.build(both[1], tmp_path / "b.engine")
    assert plain.manifest["check"] == {"done": False, "reason": "the network has no reference"}
    assert (tmp_path / "a.engine").read_bytes() == (tmp_path / "b.engine").read_bytes()
    with pytest.raises(td.MismatchError, match="'y' differs"):
        td.build(written(model, slip=0.1), tmp_path / "c.engine", reference=model)
    assert not (tmp_path / "c.engine").exists()


def test_a_check_feeds_the_samples_of_the_inputs():
    class Lookup(nn.Module):
        def forward(self, ids):
            return torch.arange(10.0).sqrt()[ids]

    net = td.Network()
    ids = net.add_input("ids", td.Input((4,), "int64", sample=(0, 10)))
    net.output(net.constant(torch.arange(10.0).sqrt())[ids], "y")
    assert td.check(net, reference=Lookup).passed


def test_a_file_is_checked_built_and_summarized_by_its_name(small, tmp_path):
    name = f"{small / 'small.py'}:small"
    assert td.check(name, sizes="quick").passed
    assert td.build(small / "small.py", tmp_path / "small.engine", check=False).manifest["network"] == "small"
    spec = load_spec(name)
    layers = [layer.name for layer in td.summarize(spec.define()).layers]
    assert [layer.name for layer in td.summarize(name).layers] == layers
    assert [layer.name for layer in td.summarize(spec).layers] == layers


def test_another_reference_takes_the_place_of_the_specs_own(small):
    spec = load_spec(str(small / "small.py"))

    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.fc = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 6)

        def forward(self, x):
            return self.fc(self.bn(self.conv(x)).mean((2, 3)))

    assert not td.check(spec, reference=Other, sizes="quick").passed
    assert td.check(spec, sizes="quick").passed


def test_options_that_come_too_late_are_refused(model):
    for options in ({"precision": "fp16"}, {"dims": {"N": 2}}, {"weights": "a.safetensors"}):
        with pytest.raises(td.UsageError, match=rf"'notebook' is written already: {next(iter(options))}= would"):
            td.check(written(model), reference=model, **options)


def test_invalid_networks_and_references_are_refused(model):
    with pytest.raises(
        td.UsageError, match=r"a network is a NetworkSpec, a td\.Network or the name of its file, not 3"
    ):
        td.build(3)
    with pytest.raises(td.UsageError, match=r"reference is 'FILE.py:CLASS', a class or a torch.nn.Module, not 3"):
        td.check(written(model), reference=3)
    with pytest.raises(td.UsageError, match=r"notebook has no reference"):
        td.check(written(model))


def test_a_spec_is_pickled_by_file_and_name(small):
    spec = load_spec(str(small / "small.py"))
    again = pickle.loads(pickle.dumps(spec))
    assert (again.name, again.file, again.weights) == (spec.name, spec.file, spec.weights)
    assert again.define().outputs.keys() == {"scores"}
    with pytest.raises(td.UsageError, match="notebook is in no file that another process could load"):
        pickle.dumps(as_spec(td.Network("notebook")))
