"""An earlier verdict holds only where all that it depends on is the same."""

import json
import py_compile
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import trtdsl as td
from trtdsl.checking.proof import proof_of
from trtdsl.core.imports import _found, imported

pytestmark = pytest.mark.long

NETWORK = """\
import trtdsl as td
from drawings import draw

@td.network(inputs={"x": td.Input(("N", 3), sample=SAMPLE)}, reference="ref.py:Model")
def net(x):
    return x * 2
"""
REFERENCE = """\
import torch
from parts.scale import scale

class Model(torch.nn.Module):
    def forward(self, x):
        return x * scale()

def unused():
    import late
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "parts").mkdir()
    files = {
        "net.py": NETWORK.replace("SAMPLE", "(-1.0, 1.0)"),
        "ref.py": REFERENCE,
        "parts/__init__.py": "",
        "parts/scale.py": "from .inner import TWO\n\ndef scale():\n    return TWO\n",
        "parts/inner.py": "TWO = 2\n",
        "late.py": "def zero():\n    return 0\n",
        "drawings.py": "import torch\n\ndef draw(shape, generator):\n    return torch.rand(shape)\n",
        "other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    yield tmp_path
    forget()


def forget():
    """Modules of a project are imported anew by the next."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("parts", "late", "drawings", "other", "kept")]:
        del sys.modules[name]


def proof(project):
    return proof_of(td.load_spec(project / "net.py"), None)


def change(path, old="", new="# another\n"):
    text = path.read_text()
    path.write_text(text.replace(old, new) if old else text + new)


@pytest.mark.parametrize("file", ["ref.py", "parts/scale.py", "parts/inner.py", "parts/__init__.py", "late.py"])
def test_every_file_that_the_reference_imports_counts(project, file):
    before = proof(project)
    assert before is not None
    assert proof(project) == before
    change(project / file)
    assert proof(project) != before


def test_files_that_are_not_imported_do_not_count(project):
    before = proof(project)
    change(project / "other.py")
    change(project / "net.py")
    assert proof(project) == before


def test_samples_versions_and_tolerances_count(project, monkeypatch):
    seen = {proof(project)}
    for sample in ("(-1.0, 2.0)", "draw", '"x.npy"', "None"):
        np.save(project / "x.npy", np.ones(3, np.float32))
        (project / "net.py").write_text(NETWORK.replace("SAMPLE", sample))
        seen.add(proof(project))
        if sample == "draw":
            change(project / "drawings.py", "torch.rand(", "torch.randn(")
            seen.add(proof(project))
        elif sample == '"x.npy"':
            np.save(project / "x.npy", np.zeros(3, np.float32))
            seen.add(proof(project))
    change(project / "net.py", "reference=", "tolerance=1e-3, reference=")
    seen.add(proof(project))
    change(project / "net.py", "1e-3", "{'output': 1e-3}")
    seen.add(proof(project))
    change(project / "net.py", "reference=", "trivial='output', reference=")
    seen.add(proof(project))
    monkeypatch.setattr(torch, "__version__", "0.1")
    seen.add(proof(project))
    monkeypatch.setattr(sys.modules["trtdsl.checking.proof"], "_version", lambda name: "9")
    change(project / "late.py", new="import numpy\n")
    seen.add(proof(project))
    assert len(seen) == 11


def test_a_reference_without_a_file_is_always_checked_again(project):
    class Local(torch.nn.Module):
        def forward(self, x):
            return x

    for reference in (Local, lambda: Local()):
        assert proof_of(td.network(inputs={"x": td.Input((3,))}, reference=reference)(lambda x: x), None) is None
    scale = 3.0
    spec = td.load_spec(project / "net.py")
    inputs = {"x": td.Input((3,), sample=lambda shape, generator: torch.ones(shape) * scale)}
    assert proof_of(td.NetworkSpec("n", spec.function, inputs, None, spec.reference, spec.file), None) is None
    named = td.network(inputs={"x": td.Input((3,))}, reference=torch.nn.ReLU)(lambda x: x.relu())
    assert proof_of(named, None) is not None


def test_imports_are_followed_and_packages_named(project):
    (project / "a.py").write_text("import importlib, b\nimport numpy.linalg\nimportlib.import_module('c')\n")
    (project / "b.py").write_text("import a, parts.inner\n")
    (project / "c.py").write_text("import os, torch, nowhere\n")
    found = imported([project / "a.py"])
    assert {path.relative_to(project).as_posix() for path in found.files} == {
        "a.py", "b.py", "c.py", "parts/__init__.py", "parts/inner.py"
    }  # fmt: skip
    assert found.packages == {"numpy", "nowhere"}


def manifest(project):
    return json.loads((project / "net.engine.json").read_text())["check"]


def build(project, **options):
    return td.build(td.load_spec(project / "net.py"), project / "net.engine", dims={"N": (1, 2)}, **options)


def test_a_changed_import_is_checked_anew(project):
    build(project)
    assert build(project).report is None
    change(project / "parts/inner.py", "TWO = 2", "TWO = 3")
    forget()
    with pytest.raises(td.MismatchError):
        build(project)


def test_no_check_never_repeats_an_old_verdict_as_new(project):
    build(project)
    assert manifest(project)["passed"]
    assert manifest(project)["tolerances"]["output"] == {"times": 100.0, "floor": None}
    build(project, check=False)
    said = manifest(project)
    assert not said["done"]
    assert said["earlier"]["passed"]
    change(project / "late.py")
    build(project, check=False)
    assert manifest(project) == {"done": False, "reason": "--no-check"}


@pytest.mark.parametrize("entry", [".", "/", "", "..", "a" * 300, None, b"bytes", "nowhere"])
def test_any_entry_of_the_import_path(project, monkeypatch, entry):
    change(project / "ref.py", "import torch", "import safetensors\nimport torch")  # a package, whose version counts
    before = proof(project)
    monkeypatch.setattr(sys, "path", [entry, *sys.path])
    assert proof(project) == before


def test_a_file_that_is_imported_from_the_working_directory_counts(project, tmp_path_factory, monkeypatch):
    here = tmp_path_factory.mktemp("here")
    (here / "beside.py").write_text("ONE = 1\n")
    change(project / "late.py", new="\nimport beside\n")
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    before = proof(project)
    change(here / "beside.py")
    assert proof(project) != before


@pytest.mark.parametrize("text", ["from . import x\n", "import importlib\nimportlib.import_module('a\\0b')\n"])
def test_imports_that_lead_nowhere(tmp_path, text):
    (tmp_path / "ref.py").write_text(text)
    assert imported([tmp_path / "ref.py"]).files == {tmp_path / "ref.py"}


def test_a_relative_import_in_the_root_folder():
    assert list(_found("", 1, Path("/ref.py"), [], True)) == []


def test_an_expression_that_is_nested_too_deeply_for_python(tmp_path):
    (tmp_path / "ref.py").write_text("x = " + "-" * 200_000 + "1\n")
    assert imported([tmp_path / "ref.py"]) == ({tmp_path / "ref.py"}, set())


def zipped(folder, text):
    with zipfile.ZipFile(folder / "kept.zip", "w") as archive:
        archive.writestr("kept.py", text)


def compiled(folder, text):
    (folder / "text").write_text(text)
    py_compile.compile(folder / "text", folder / "kept.pyc", doraise=True)


def beside_packages(folder, text):
    (folder / "site-packages").mkdir(exist_ok=True)
    (folder / "site-packages" / "kept.py").write_text(text)


def plain(folder, text):
    (folder / "kept.txt").write_text(text)


def module(folder, text):
    (folder / "kept.py").write_text(text)


LOADED = """\
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
loader = SourceFileLoader("kept", "FOLDER/kept.txt")
kept = module_from_spec(spec_from_file_location("kept", "FOLDER/kept.txt", loader=loader))
loader.exec_module(kept)
TWO = kept.TWO
"""
WAYS = {
    "archive": (zipped, "import sys; sys.path.insert(0, 'FOLDER/kept.zip'); from kept import TWO"),
    "bytecode": (compiled, "from kept import TWO"),
    "site-packages": (beside_packages, "import sys; sys.path.insert(0, 'FOLDER/site-packages'); from kept import TWO"),
    "loader": (plain, LOADED),
    "runpy": (plain, "import runpy; TWO = runpy.run_path('FOLDER/kept.txt')['TWO']"),
    "exec": (plain, "import pathlib; exec(pathlib.Path('FOLDER/kept.txt').read_text())"),
    "alias": (plain, "from runpy import run_path as run; TWO = run('FOLDER/kept.txt')['TWO']"),
    "eval": (plain, "import pathlib; run = eval; TWO = run(pathlib.Path('FOLDER/kept.txt').read_text()[6:])"),
    "import as": (module, "from importlib import import_module as load; TWO = load('ke' + 'pt').TWO"),
    "name": (module, "import importlib; TWO = importlib.import_module('ke' + 'pt').TWO"),
    "located": (module, "import pydoc; TWO = pydoc.locate('kept.TWO')"),
    "resolved": (module, "import pkgutil; TWO = pkgutil.resolve_name('kept:TWO')"),
    "unpickled": (module, "import pickle; TWO = pickle.loads(b'ckept\\nTWO\\n.')"),
    "hidden": (
        plain,
        "import builtins, pathlib; getattr(builtins, 'ex' + 'ec')(pathlib.Path('FOLDER/kept.txt').read_text())",
    ),
    "profiled": (
        plain,
        "import cProfile, pathlib; cProfile.runctx(pathlib.Path('FOLDER/kept.txt').read_text(), globals(), None)",
    ),
    "interpreter": (
        module,
        "import code; code.InteractiveInterpreter(globals()).runsource('import kept; TWO = kept.TWO')",
    ),
    "data": (plain, "import pathlib; TWO = int(pathlib.Path('FOLDER/kept.txt').read_text()[6:])"),
    "entry point": (module, "from importlib.metadata import EntryPoint as E; TWO = E('x', 'kept:TWO', 'y').load()"),
}


@pytest.fixture
def kept(project, monkeypatch):
    """Gives what has the reference import a module in one of several ways, and what changes that module."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(way, text="TWO = 2"):
        forget()
        WAYS[way][0](project, text)
        (project / "parts/inner.py").write_text(WAYS[way][1].replace("FOLDER", str(project)) + "\n")

    return write


@pytest.mark.parametrize("way", WAYS)
def test_wherever_an_import_comes_from_it_is_checked_anew_when_it_changes(project, kept, way):
    kept(way)
    build(project)
    forget()
    assert build(project).report is None, "nothing has changed"
    kept(way, "TWO = 3\n")  # of another length: Python takes bytecode of the same second and length for current
    with pytest.raises(td.MismatchError):
        build(project)


@pytest.mark.parametrize("way", WAYS)
def test_a_saved_check_is_of_one_state_of_what_is_imported(project, kept, way):
    def check(**options):
        return td.check(td.load_spec(project / "net.py"), dims={"N": (1, 2)}, **options)

    kept(way)
    check(save=project / "saved")
    assert check(against=project / "saved").passed
    kept(way, "TWO = 3\n")  # of another length: Python takes bytecode of the same second and length for current
    with pytest.raises(td.UsageError, match="another state of its files"):
        check(against=project / "saved")


READING = {
    "a file of numbers": "import numpy\ndef scale():\n    return int(numpy.load('FOLDER/two.npy'))\n",
    "which files there are": "import glob\ndef scale():\n    return 2 * len(glob.glob('FOLDER/numbers/*'))\n",
    "a file that is not there": "from pathlib import Path\ndef scale():\n    try:\n"
    "        return int(Path('FOLDER/late.txt').read_text())\n    except OSError:\n        return 2\n",
    "whether a file is there": "from pathlib import Path\ndef scale():\n"
    "    return 3 if Path('FOLDER/late.txt').exists() else 2\n",
    "whether a folder is there": "import os\ndef scale():\n    return 3 if os.path.isdir('FOLDER/later') else 2\n",
    "how large a file is": "import os\ndef scale():\n    return os.stat('FOLDER/state.txt').st_size\n",
    "where a link leads": "import os\ndef scale():\n    return int(os.readlink('FOLDER/link'))\n",
    "where a link to a folder leads": "import os\ndef scale():\n"
    "    return 2 if os.readlink('FOLDER/current') == 'v2' else 3\n",
    "where a path leads": "import os\ndef scale():\n"
    "    return 2 if os.path.realpath('FOLDER/current').endswith('v2') else 3\n",
    "which folder a link is": "import os\ndef scale():\n"
    "    return 2 if os.path.samefile('FOLDER/current', 'FOLDER/v2') else 3\n",
    "by the system's own module": "import posix\ndef scale():\n    return posix.stat('FOLDER/state.txt').st_size\n",
    "by a link": "import numpy\ndef scale():\n    return int(numpy.load('FOLDER/current/two.npy'))\n",
    "a file that is opened to append before": "def scale():\n    open('FOLDER/two.txt', 'a').close()\n"
    "    return int(open('FOLDER/two.txt').read())\n",
    "a module of a computed name that is not there": "import importlib\ndef scale():\n    try:\n"
    "        return importlib.import_module('ke' + 'pt').TWO\n    except ImportError:\n        return 2\n",
    "whether a module is there": "from importlib.util import find_spec\ndef scale():\n"
    "    return 3 if find_spec('ke' + 'pt') else 2\n",
    "a file of safetensors": "from safetensors.torch import load_file\ndef scale():\n"
    "    return int(load_file('FOLDER/two.safetensors')['two'])\n",
    "a tensor of safetensors": "from safetensors import safe_open\ndef scale():\n"
    "    with safe_open(filename='FOLDER/two.safetensors', framework='pt') as file:\n"
    "        return int(file.get_tensor('two'))\n",
    "a file in memory": "import os\ndef scale():\n    return int(open('MEMORY').read())\n",
    "in a thread": "import numpy\nfrom concurrent.futures import ThreadPoolExecutor\ndef scale():\n"
    "    with ThreadPoolExecutor() as pool:\n        return int(*pool.map(numpy.load, ['FOLDER/two.npy']))\n",
}
"""What a reference reads while it runs."""


@pytest.fixture
def in_memory(tmp_path):
    """A file that has no disk, where there are such."""
    memory = Path("/dev/shm")
    with tempfile.NamedTemporaryFile(dir=memory if memory.is_dir() else tmp_path) as file:
        yield Path(file.name)


@pytest.mark.parametrize("what", READING)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_verdict_holds_while_all_that_was_read_is_as_it_was(project, what, in_memory):
    (project / "numbers").mkdir()
    (project / "numbers/one.txt").write_text("1")
    np.save(project / "two.npy", np.array(2))
    (project / "state.txt").write_text("12")
    for number in (2, 3):
        (project / f"v{number}").mkdir()
        np.save(project / f"v{number}/two.npy", np.array(number))
    (project / "link").symlink_to("2")
    (project / "current").symlink_to("v2")
    (project / "two.txt").write_text("2")
    in_memory.write_text("2")
    save_file({"two": torch.tensor(2)}, project / "two.safetensors")
    reading = READING[what].replace("FOLDER", str(project)).replace("MEMORY", str(in_memory))
    (project / "parts/scale.py").write_text(reading)
    build(project)
    forget()
    assert build(project).report is None
    (project / "two.txt").write_text("3")
    (project / "kept.py").write_text("TWO = 3\n")
    in_memory.write_text("3")
    save_file({"two": torch.tensor(3)}, project / "two.safetensors")
    np.save(project / "two.npy", np.array(3))
    (project / "numbers/two.txt").write_text("3")
    (project / "late.txt").write_text("3")
    (project / "state.txt").write_text("123")
    (project / "later").mkdir()
    for link, place in (("link", "3"), ("current", "v3")):
        (project / link).unlink()
        (project / link).symlink_to(place)
    forget()
    with pytest.raises(td.MismatchError):
        build(project)


def test_a_file_that_is_read_by_a_name_of_its_own_proves_nothing(project):
    """Giving it one changes the file, so that whether it is as it was cannot be told."""
    (project / "two.txt").write_text("2")
    reading = (
        "import os\ndef scale():\n    if not os.path.exists('FOLDER/own.txt'):\n"
        "        os.link('FOLDER/two.txt', 'FOLDER/own.txt')\n    with open('FOLDER/own.txt') as file:\n"
        "        os.remove('FOLDER/own.txt')\n        return int(file.read())\n"
    )
    (project / "parts/scale.py").write_text(reading.replace("FOLDER", str(project)))
    assert build(project).manifest["check"]["proof_sha256"] is None


UNREPEATABLE = {
    "an attribute": "import os\ntry:\n    os.getxattr(__file__, 'user.k')\nexcept OSError:\n    pass\n"
    "def scale():\n    return 2\n",
    "another program": "import subprocess\ndef scale():\n    return int(subprocess.check_output(['echo', '2']))\n",
    "a shell": "import os\ndef scale():\n    return 2 + os.system('true')\n",
    "a connection": "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9))\n"
    "except OSError:\n    pass\ndef scale():\n    return 2\n",
    "a terminal": "import os\ndef scale():\n    child, one = os.forkpty()\n    if not child:\n"
    "        os.execvp('echo', ['echo', '2'])\n    two = int(os.read(one, 9))\n    os.waitpid(child, 0)\n"
    "    os.close(one)\n    return two\n",
    "a datagram": "import socket\ndef scale():\n    with socket.socket(type=socket.SOCK_DGRAM) as one:\n"
    "        one.sendto(b'2', ('127.0.0.1', 9))\n    return 2\n",
    "a socket that waits": "import socket\nwith socket.socket(type=socket.SOCK_DGRAM) as one:\n"
    "    one.bind(('127.0.0.1', 0))\ndef scale():\n    return 2\n",
    "a pipe": "import os\ndef scale():\n    one, other = os.pipe()\n    os.write(other, b'2')\n    os.close(other)\n"
    "    with open(f'/dev/fd/{one}') as file:\n        os.close(one)\n        return int(file.read())\n",
}


@pytest.mark.parametrize("what", UNREPEATABLE)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_nobody_can_compare_later_proves_nothing(project, what):
    (project / "parts/scale.py").write_text(UNREPEATABLE[what])
    assert build(project).manifest["check"]["proof_sha256"] is None
    assert build(project).report is not None
    with pytest.raises(td.UsageError, match="its check cannot be saved, since none would count: the code of the ref"):
        td.check(td.load_spec(project / "net.py"), save=project / "c.safetensors", dims={"N": (1, 2, 4)})
    assert not (project / "c.safetensors").exists()


def test_what_the_network_alone_reads_or_a_reference_itself_writes_proves_as_much(project):
    (project / "net.py").write_text(
        "open(__file__.replace('net.py', 'other.py')).close()\n" + NETWORK.replace("SAMPLE", "None")
    )
    writing = """import tempfile
def scale():
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("2")
        file.flush()
        with open(file.name) as again:
            return int(again.read())
"""
    (project / "parts/scale.py").write_text(writing)
    build(project)
    assert manifest(project)["read"] == {}
    change(project / "other.py")
    assert build(project).report is None


def test_what_is_read_has_names_that_hold_where_the_project_stands_in_another_folder(project):
    np.save(project / "two.npy", np.array(2))
    (project / "parts/scale.py").write_text(
        "import numpy, os\ndef scale():\n    return int(numpy.load(os.path.dirname(__file__) + '/../two.npy'))\n"
    )
    build(project)
    assert list(manifest(project)["read"]) == ["two.npy"]


def test_two_files_that_change_places(project):
    (project / "a.py").write_text("ONE = 1\n")
    (project / "b.py").write_text("ONE = 2\n")
    change(project / "late.py", new="import a, b\n")
    before = proof(project)
    (project / "a.py").rename(project / "c.py")
    (project / "b.py").rename(project / "a.py")
    (project / "c.py").rename(project / "b.py")
    assert proof(project) != before


def test_what_was_imported_before_it_was_edited_proves_nothing(project):
    proof(project)
    change(project / "parts/inner.py")
    spec = td.load_spec(project / "net.py")
    assert proof_of(spec, None) is None
    forget()
    assert proof_of(td.load_spec(project / "net.py"), None) is not None


def test_a_folder_that_the_reference_puts_on_the_path_while_it_runs(project, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (project / "lib").mkdir()
    (project / "lib/kept.py").write_text("TWO = 2\n")
    lines = [
        "def scale():",
        f"    sys.path.insert(0, {str(project / 'lib')!r})",
        "    from kept import TWO",
        "    return TWO",
    ]
    (project / "parts/scale.py").write_text("\n".join(["import sys", *lines]))
    assert build(project).manifest["check"]["proof_sha256"] is None


@pytest.mark.parametrize("wheel", [True, False])
@pytest.mark.parametrize("name", ["site-packages", "vendored"])
def test_packages_that_are_installed_elsewhere_count_by_their_version(project, monkeypatch, name, wheel):
    """A folder that has another name was installed to where it has a wheel (``pip install --target``)."""
    folder = project / name
    folder.mkdir()
    (folder / "kept.py").write_text("TWO = 2\n")
    (folder / "kept-1.0.dist-info").mkdir()
    (folder / "kept-1.0.dist-info/METADATA").write_text("Name: kept\nVersion: 1.0\n")
    (folder / "kept-1.0.dist-info/RECORD").write_text("kept.py,,\n")
    if wheel:
        (folder / "kept-1.0.dist-info/WHEEL").write_text("Wheel-Version: 1.0\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    (project / "a.py").write_text("import kept\n")
    found = imported([project / "a.py"])
    if wheel or name == "site-packages":
        assert (found.files, found.packages) == ({project / "a.py"}, {"kept"})
    else:
        assert found.files == {project / "a.py", folder / "kept.py"}


def test_a_module_of_another_project_does_not_count_for_one_of_its_name(project, tmp_path_factory):
    """Neither is it told apart by what else was loaded here: another process compares the proof."""
    alone = proof_of(td.load_spec(str(project / "net.py")), None)
    forget()
    other = tmp_path_factory.mktemp("other")
    for name in ("net.py", "ref.py", "drawings.py", "parts/__init__.py", "parts/scale.py", "parts/inner.py"):
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_text((project / name).read_text().replace("TWO = 2", "TWO = 3"))
    assert not td.check(str(other / "net.py"), dims={"N": 2}).passed
    assert td.check(str(project / "net.py"), dims={"N": 2}).passed
    assert proof_of(td.load_spec(str(project / "net.py")), None) == alone
    (project / "parts" / "inner.py").write_text("TWO = 2.0\n")
    assert proof_of(td.load_spec(str(project / "net.py")), None) != alone


def test_a_method_that_draws_proves_nothing(tmp_path):
    """What it is bound to may be made from anything."""
    (tmp_path / "ref.py").write_text(REFERENCE.replace("from parts.scale import scale\n", "").replace("scale()", "2"))
    (tmp_path / "net.py").write_text(
        NETWORK.replace("SAMPLE", "Sampler(2).draw").replace(
            "from drawings import draw\n",
            "import torch\n\n\nclass Sampler:\n    def __init__(self, scale):\n        self.scale = scale\n\n"
            "    def draw(self, shape, generator):\n        return self.scale * torch.rand(shape)\n\n",
        )
    )
    assert proof_of(td.load_spec(str(tmp_path / "net.py")), None) is None
