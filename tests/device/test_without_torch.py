"""Engines are loaded and run with numpy where torch is not installed."""

import subprocess
import sys

import numpy as np

import trtdsl as td
from trtdsl.core.backend import Backend
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.engine.engine import Engine


class NoTorch:
    class Tensor:
        """What nothing is: whether a feed is torch's is asked only where torch was imported, as here."""

    def __getattr__(self, name):
        raise ModuleNotFoundError(f"No module named 'torch' (for torch.{name})")


def test_an_engine_runs_on_numpy_arrays(machine, monkeypatch):
    net = td.Network()
    rows = td.Dim("N", min=1, opt=2, max=8)
    net.output(net.input("x", (rows, 4)) * 2, "y")
    data = compile_engine(net).data
    for name, module in list(sys.modules.items()):  # what simulates the device keeps it
        ours = name.startswith(("trtdsl.engine.", "trtdsl.core.")) and name != "trtdsl.core.tensors.watched"
        if ours and hasattr(module, "torch"):
            monkeypatch.setattr(module, "torch", NoTorch())
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with Engine(data, backend=Backend(net.backend.name, net.backend.trt)) as engine:
        np.testing.assert_array_equal(engine(x=x)["y"], 2 * x)
        engine.warm_up(runs=1)
        np.testing.assert_array_equal(engine.capture({"x": x})(x=x + 1)["y"], 2 * (x + 1))


def test_what_loads_engines_is_imported_without_torch():
    code = "import sys; sys.modules['torch'] = None; import trtdsl as td; td.load_engine('none.engine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "no engine none.engine" in done.stderr.splitlines()[-1], done.stderr
