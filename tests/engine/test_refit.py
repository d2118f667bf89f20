"""New weights, derived as the network derives them. TensorRT's refit itself needs a GPU (tests/gpu/test_engines.py)."""

import json
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

import trtdsl as td
from trtdsl.core.backend import cuda_status, get_backend
from trtdsl.core.errors import ManifestDamagedError
from trtdsl.core.files.reading import as_struct
from trtdsl.definition.tuning.precisions import Precisions
from trtdsl.engine.loading.manifest import Refit
from trtdsl.engine.refit import check_against, derive_weights, layer_values, new_values, recipe, structure
from trtdsl.layers.evaluation import Node, weights_of

BACKEND = get_backend("tensorrt-rtx")


@pytest.fixture
def spec(small):
    return td.load_spec(str(small / "small.py"))


@pytest.fixture
def others(spec, tmp_path):
    """A file of other weights."""
    generator = torch.Generator().manual_seed(5)
    weights = {
        name: torch.rand(tensor.shape, generator=generator) + 0.1 if tensor.is_floating_point() else tensor
        for name, tensor in load_file(spec.weights).items()
    }
    save_file(weights, tmp_path / "others.safetensors")
    return tmp_path / "others.safetensors"


def put(network, values):
    """What a refit does, done to the definition: each layer gets the value of its name and nothing else changes."""
    for index in range(network.definition.num_layers):
        node = Node(network.backend, network.definition.get_layer(index))
        for attribute, role in weights_of(node).items():
            if f"{node.name}:{role}" in values:
                setattr(node.layer, attribute, network.target.buffer(values[f"{node.name}:{role}"]))


def facts_of(spec, network, engine, **more):
    facts = {**recipe(spec, network, engine, None, spec.open_weights()), **more}
    return as_struct(json.loads(json.dumps(facts)), Refit, "", ManifestDamagedError)  # as it comes back


@pytest.mark.parametrize("precision", [None, "fp16", "bf16"])
def test_derived_values_make_the_network_of_the_new_weights(spec, others, tmp_path, precision):
    network = spec.define(precision=precision)
    feeds = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(0))
    before = td.interpret(network, feeds)
    values = new_values(
        facts_of(spec, network, tmp_path / "a.engine"),
        others,
        backend=BACKEND,
        folder=tmp_path,
        trust_network_file=True,
    )
    put(network, values)
    after = td.interpret(network, feeds)
    with torch.inference_mode():
        expected = spec.reference_module(spec.open_weights(others))(*feeds.values())
    expected = expected if isinstance(expected, torch.Tensor) else next(iter(expected.values()))
    (name,) = after
    tolerance = {None: 1e-5, "fp16": 5e-3, "bf16": 4e-2}[precision]
    torch.testing.assert_close(after[name], expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))
    again = td.interpret(spec.define(weights=others, precision=precision), feeds)
    assert torch.equal(after[name], again[name])
    assert not torch.allclose(before[name], after[name])


def test_an_engine_whose_calls_have_a_precision_each_takes_new_weights(spec, others, tmp_path):
    sites = spec.define(precision=Precisions({})).policy.calls.sites
    dtypes = {site.key: "float16" if index % 2 else "float32" for index, site in enumerate(sites)}
    network = spec.define(precision=Precisions(dtypes))
    facts = facts_of(spec, network, tmp_path / "a.engine")
    assert {each[5] for each in facts.precisions} == {"float16", "float32"}
    values = new_values(facts, others, backend=BACKEND, folder=tmp_path, trust_network_file=True)
    put(network, values)
    feeds = td.sample_feeds(spec, {"N": 2}, torch.Generator().manual_seed(0))
    again = td.interpret(spec.define(weights=others, precision=Precisions(dtypes)), feeds)
    assert all(torch.equal(value, again[name]) for name, value in td.interpret(network, feeds).items())


def test_the_file_of_derived_weights_needs_no_network(spec, others, tmp_path):
    network = spec.define()
    facts = facts_of(spec, network, tmp_path / "a.engine")
    derived = derive_weights(spec, others, output=tmp_path / "derived.safetensors")
    facts = msgspec.structs.replace(facts, network=None)
    values = new_values(
        facts, tmp_path / "derived.safetensors", backend=BACKEND, folder=tmp_path, trust_network_file=True
    )
    assert values.keys() == derived.keys() == layer_values(network).keys()
    assert all(torch.equal(values[name], derived[name]) for name in values)
    with pytest.raises(td.UsageError, match="weights derive"):
        new_values(facts, others, backend=BACKEND, folder=tmp_path, trust_network_file=True)
    named = new_values(facts, others, backend=BACKEND, folder=tmp_path, network=f"{spec.file}:{spec.name}")
    assert all(torch.equal(values[name], named[name]) for name in values)


def test_all_problems_of_new_weights_are_reported_together(spec, others, tmp_path):
    facts = facts_of(spec, spec.define(), tmp_path / "a.engine")
    weights = load_file(others)
    first, second, *_ = [name for name, tensor in weights.items() if tensor.ndim]
    del weights[first]
    weights[second] = weights[second].flatten()[:1].clone()
    weights["surplus"] = torch.ones(1)
    with pytest.raises(td.WeightsError) as caught:
        new_values(facts, weights, backend=BACKEND, folder=tmp_path, trust_network_file=True)
    for name in (first, second, "surplus"):
        assert f"{name}: " in str(caught.value)


def test_another_structure_is_refused(spec, others, tmp_path):
    facts = facts_of(spec, spec.define(), tmp_path / "a.engine")
    facts = msgspec.structs.replace(facts, structure_sha256=structure(spec.define(dims={"N": 3})))
    with pytest.raises(td.WeightsError, match="layers differ"):
        new_values(facts, others, backend=BACKEND, folder=tmp_path, trust_network_file=True)


def test_an_engine_for_one_set_of_weights(spec, others, tmp_path):
    """Stripped without --refit, TensorRT's results with any other weights are undefined."""
    facts = facts_of(spec, spec.define(), tmp_path / "a.engine", identical=True)
    assert new_values(facts, spec.weights, backend=BACKEND, folder=tmp_path, trust_network_file=True)
    with pytest.raises(td.WeightsError, match="for these alone"):
        new_values(facts, others, backend=BACKEND, folder=tmp_path, trust_network_file=True)


def test_every_refittable_name_must_be_supplied():
    values = {"a:KERNEL": torch.ones(4), "b:CONSTANT": torch.ones(2), "not taken:BIAS": torch.ones(1)}
    check_against({"a:KERNEL": (4, "float32"), "b:CONSTANT": None}, values)
    with pytest.raises(td.WeightsError, match=r"has 4 elements, not 5\n  c:BIAS: missing"):
        check_against({"a:KERNEL": (5, "float32"), "c:BIAS": (1, "float32")}, values)
    with pytest.raises(td.WeightsError, match="a:KERNEL: is float32, not int32"):  # of the same bytes
        check_against({"a:KERNEL": (4, "int32")}, values)


@pytest.mark.skipif(cuda_status() is None, reason="there is a GPU here")
@pytest.mark.parametrize("option", ["refit", "strip_weights"])
def test_rtx_without_a_gpu_refuses_before_building(spec, tmp_path, option):
    with pytest.raises(td.BackendError, match="only on a machine with a GPU") as caught:
        td.build(spec, tmp_path / "a.engine", backend=BACKEND, config=td.BuildConfig(**{option: True}))
    assert caught.value.exit_code == 6
    assert not list(tmp_path.glob("*.engine*"))


def test_the_recipe_finds_the_network_from_the_engine(spec, tmp_path):
    facts = facts_of(spec, spec.define(), tmp_path / "deep" / "a.engine")
    file, _, name = facts.network.rpartition(":")
    assert (tmp_path / "deep" / file).resolve() == Path(spec.file).resolve()
    assert name == spec.name
    assert set(facts.values) == set(layer_values(spec.define()))


def test_python_that_a_manifest_names_is_not_run_unasked(spec, others, tmp_path):
    """The file would leave a trace; it is run when the caller says so, or names it."""
    trace = tmp_path / "was run"
    place = spec.file.with_name("evil.py")
    place.write_text(f"open({str(trace)!r}, 'w').close()\n" + spec.file.read_text())
    network = spec.define()
    facts = msgspec.structs.replace(facts_of(spec, network, tmp_path / "a.engine"), network=f"{place}:{spec.name}")
    with pytest.raises(td.UsageError, match=r"evil\.py.*trust_network_file=True"):
        new_values(facts, others, backend=BACKEND, folder=tmp_path)
    assert not trace.exists()
    for said in ({"trust_network_file": True}, {"network": f"{place}:{spec.name}"}):
        assert new_values(facts, others, backend=BACKEND, folder=tmp_path, **said)
        assert trace.exists()
        trace.unlink()
