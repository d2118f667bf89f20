"""Profiles: their forms and mistakes, what is checked at them, and engines that have several."""

import inspect
import itertools
import json
import pickle

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.checking.tried_sizes import sizes_to_try
from trtdsl.core.backend import get_backend
from trtdsl.definition.spec.load import load_spec
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.loading.loader import open_engine
from trtdsl.engine.loading.manifest import read_manifest

N = td.Dim("N", min=1, opt=4, max=8)
T = td.Dim("T", min=10, opt=50, max=100)


def spec(*profiles, shape=(N, T), function=F.relu):
    return td.network(inputs={"x": td.Input(shape)}, profiles=profiles, name="several")(lambda x: function(x))


def test_the_forms_of_a_range():
    profile = td.Profile(T=(10, 20), N=3, L=(1, 2, 5))
    assert profile.ranges == {"N": (3, 3, 3), "T": (10, 20, 20), "L": (1, 2, 5)}
    assert (profile.at("min"), profile.at("max")) == ({"L": 1, "N": 3, "T": 10}, {"L": 5, "N": 3, "T": 20})
    assert str(profile) == "L=1:2:5,N=3,T=10:20:20"
    assert repr(profile) == "Profile(L=(1, 2, 5), N=3, T=(10, 20, 20))"


def test_a_profile_is_a_value():
    profile = td.Profile(N=1, T=(10, 20))
    assert (
        profile
        == td.Profile(T=(10, 20, 20), N=1)
        == td.Profile.parse("T=10:20,N=1")
        == eval(repr(profile), {"Profile": td.Profile})
    )
    assert hash(profile) == hash(td.Profile.parse(str(profile)))
    assert profile != td.Profile(N=1)
    assert td.Profile.parse("") == td.Profile()
    assert pickle.loads(pickle.dumps(profile)) == profile
    with pytest.raises(AttributeError):
        profile.items = ()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((5, 4, 6), "needs 0 <= min <= opt <= max, not 5, 4, 6"),
        ((5, 4), "needs 0 <= min <= opt <= max, not 5, 4, 4"),
        (-1, "not -1, -1, -1"),
        ((), "is a size, (min, max) or (min, opt, max), not ()"),
        ((1, 2, 3, 4), "not (1, 2, 3, 4)"),
        (True, "not True"),
        (1.5, "not 1.5"),
        ("1:2", "not '1:2'"),
    ],
)
def test_mistakes_name_the_line_of_the_profile(given, words):
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(td.UsageError) as caught:
        td.Profile(N=given)
    assert words in caught.value.message
    assert (caught.value.location.file, caught.value.location.line) == (__file__, line)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        (td.Profile(M=1), "several has no dimension 'M': it has N, T"),
        (td.Profile(N=9), "range of N, 9 to 9 (best at 9), is not within the dimension's, 1 to 8"),
        (td.Profile(T=(9, 50, 100)), "range of T, 9 to 100 (best at 50)"),
    ],
)
def test_a_profile_that_does_not_fit_is_refused_with_its_line(profile, words):
    calls = [
        lambda: spec(profile),
        lambda: spec().define(profiles=[profile]),
        lambda: td.build(spec(), profiles=[profile]),
        lambda: td.check(spec(), profiles=[profile]),
    ]
    for call in calls:
        with pytest.raises(td.UsageError) as caught:
            call()
        assert words in caught.value.message
        assert caught.value.location == profile.location
    net = td.Network("several", profiles=[profile])
    net.input("x", (N, T))
    with pytest.raises(td.UsageError, match="several has no|range of"):
        _ = net.profiles


def test_a_mapping_is_no_profile():
    with pytest.raises(td.UsageError, match=r"profiles are td.Profile\(…\), not dict: \{'N': 1\}"):
        spec({"N": 1})
    with pytest.raises(td.UsageError, match="not dict"):
        spec().define(profiles=[{"N": 1}])


def test_a_profile_takes_missing_ranges_from_the_dims():
    net = spec(td.Profile(N=1), td.Profile(), td.Profile(N=(1, 4, 8))).define()
    assert [profile.ranges for profile in net.profiles] == [
        {"N": (1, 1, 1), "T": (10, 50, 100)},
        {"N": (1, 4, 8), "T": (10, 50, 100)},  # the third is the same
    ]
    assert [str(profile) for profile in spec().define().profiles] == ["N=1:4:8,T=10:50:100"]
    assert spec(td.Profile(N=1)).define(profiles=[]).profiles == spec().define().profiles
    static = spec(shape=(2, 3)).define()
    assert [profile.ranges for profile in static.profiles] == [{}]


def test_a_range_may_come_from_the_profiles_alone():
    net = spec(td.Profile(T=(1, 2)), td.Profile(T=(3, 9)), shape=(N, "T")).define()
    assert [profile.ranges["T"] for profile in net.profiles] == [(1, 2, 2), (3, 9, 9)]
    with pytest.raises(td.UsageError, match=r"test_profile.py:\d+: dimension T has no range: .*or in each td.Profile"):
        _ = spec(td.Profile(T=3), td.Profile(N=1), shape=(N, "T")).define().profiles


def test_a_dimension_that_is_given_another_range_or_fixed():
    several = spec(td.Profile(N=1), td.Profile(N=(2, 8)))
    assert [str(p) for p in several.define(dims={"T": 20}).profiles] == ["N=1", "N=2:8:8"]
    assert str(several.define(dims={"T": (20, 30)}).profiles[0]) == "N=1,T=20:30:30"
    with pytest.raises(td.UsageError, match=r"the profile N=2:8:8 does not hold N = 1: give other profiles"):
        several.define(dims={"N": 1})
    assert several.define(dims={"N": 1}, profiles=[td.Profile()]).inputs["x"].shape == (1, T)
    with pytest.raises(td.UsageError, match="range of N, 2 to 8 .* is not within the dimension's, 1 to 4"):
        several.define(dims={"N": (1, 4)})


def test_a_check_tries_every_profiles_corners_once():
    net = spec(td.Profile(N=1, T=(10, 50)), td.Profile(N=(2, 4, 8))).define()
    points = [tuple(point.values()) for point in sizes_to_try(net)]
    assert points[:5] == [(1, 10), (1, 50), (2, 10), (4, 50), (8, 100)]
    assert len(set(points)) == len(points)
    assert set(points[5:]) == {(1, 11), (1, 13), (2, 100), (8, 10), (3, 13), (5, 11)}


def test_at_most_16_sizes_are_tried_besides_the_corners():
    dims = [td.Dim(name, min=1, opt=5, max=40) for name in "ABCD"]
    profiles = [td.Profile(A=(low, low + 2, low + 8)) for low in range(1, 31)]
    net = spec(*profiles, shape=tuple(dims)).define()
    corners = {tuple(p.at(which).values()) for p in net.profiles for which in ("min", "opt")}
    corners |= {(p.at("min")["A"], 40, 40, 40) for p in net.profiles}
    points = [tuple(point.values()) for point in sizes_to_try(net)]
    assert corners < set(points)
    assert len(points) == len(corners) + 16


def test_the_greatest_batch_is_tried_beside_the_greatest_size_of_each_other_dimension_and_not_of_all():
    ends = {name: td.Dim(name, min=2, opt=4, max=40) for name in "NHW"}
    net = spec(shape=tuple(ends.values())).define()
    points = sizes_to_try(net)
    assert [tuple(point.values()) for point in points[:3]] == [(2, 2, 2), (4, 4, 4), (2, 40, 40)]
    assert {"N": 40, "H": 40, "W": 40} not in points and {"N": 40, "H": 40, "W": 40} in sizes_to_try(net, "quick")
    for a, b in itertools.permutations(ends, 2):
        assert {(point[a], point[b]) for point in points} >= set(itertools.product((2, 40), repeat=2))


def test_a_difference_in_one_profile_alone_is_found():
    class Reference(torch.nn.Module):
        def forward(self, x):
            return x * (1 + (torch.arange(x.shape[0]).sum() == 15))  # of 6 rows, and by no branch on their number

    def checked(*profiles):
        made = td.network(inputs={"x": td.Input((N, 2))}, reference=Reference, profiles=profiles)(lambda x: x * 1)
        return td.check(made)

    assert checked(td.Profile(), td.Profile(N=(2, 3))).passed
    report = checked(td.Profile(), td.Profile(N=(6, 7)))
    assert [case.dims for case in report.cases if not case.passed] == [{"N": 6}]


def test_sizes_are_walked_at_each_profile():
    function = lambda x: x.reshape(x.shape[0] // 2, 2, -1)  # noqa: E731
    spec(td.Profile(N=2), td.Profile(N=(4, 4)), function=function).define().check_sizes()
    with pytest.raises(td.ShapeError, match="where N = 5"):
        spec(td.Profile(N=2), td.Profile(N=5), function=function).define().check_sizes()


def test_an_engine_of_several_profiles(tmp_path):
    one, many = td.Profile(N=1, T=(10, 20, 100)), td.Profile(N=(2, 4, 8))
    built = td.build(spec(one, many), tmp_path / "several.engine")
    manifest = json.loads(built.manifest_path.read_text())
    assert [profile["dims"] for profile in manifest["profiles"]] == [
        {"N": [1, 1, 1], "T": [10, 20, 100]},
        {"N": [2, 4, 8], "T": [10, 50, 100]},
    ]
    assert manifest["profiles"][1]["inputs"] == {"x": {"min": [2, 10], "opt": [4, 50], "max": [8, 100]}}
    signature = open_engine(built.engine).manifest.signature
    assert signature == read_manifest(built.engine).signature
    assert [profile["x"] for profile in signature.profiles] == [
        ((1, 10), (1, 20), (1, 100)),
        ((2, 10), (4, 50), (8, 100)),
    ]
    assert not td.build(spec(one, many), built.engine).built
    assert td.build(spec(many, one), built.engine).built  # the order is part of what was built
    assert td.build(spec(many), built.engine).built
    assert not td.build(spec(), built.engine, profiles=[many]).built


def test_tensorrt_itself_has_the_profiles(monkeypatch):
    """Without a GPU no engine can be asked: the profiles that the builder gets are."""
    config, given = get_backend().trt.IBuilderConfig, []
    add = config.add_optimization_profile

    def keep(self, profile):
        given.append([tuple(shape) for shape in profile.get_shape("x")])
        return add(self, profile)

    monkeypatch.setattr(config, "add_optimization_profile", keep)
    for profiles in ((), (td.Profile(N=1, T=(10, 20)), td.Profile(N=(2, 3, 8)))):
        compile_engine(spec(*profiles).define())
    assert given == [
        [(1, 10), (4, 50), (8, 100)],
        [(1, 10), (1, 20), (1, 20)],
        [(2, 10), (3, 50), (8, 100)],
    ]


PROFILED = """\
import trtdsl as td
import trtdsl.functional as F

N = td.Dim("N", min=1, opt=2, max=4)

@td.network(
    inputs={"x": td.Input((N, 3))},
    profiles=[
        td.Profile(N=1),
        td.Profile(N=(2, 9)),
    ],
)
def profiled(x):
    return F.relu(x)
"""


def test_a_file_names_the_profiles_line(tmp_path):
    path = tmp_path / "profiled.py"
    path.write_text(PROFILED)
    with pytest.raises(td.UsageError, match=r"profiled.py:10: a profile's range of N, 2 to 9 .* 1 to 4$"):
        load_spec(str(path))
    path.write_text(PROFILED.replace("9", "4"))
    assert load_spec(str(path)).profiles == (td.Profile(N=1), td.Profile(N=(2, 4)))
