"""What cannot be ported says why, with the torch module's line; what has no counterpart is marked in the file."""

from pathlib import Path

import pytest
import torch

import trtdsl as td
from trtdsl.porting import ported
from trtdsl.porting.given import parsed

MODULES = Path(__file__).parent / "modules.py"


def line_of(text):
    """The number of the line in modules.py that holds the text."""
    lines = MODULES.read_text().split("\n")
    return f"modules.py:{next(number for number, line in enumerate(lines, 1) if text in line)}: "


@pytest.mark.parametrize(
    ("name", "inputs", "error", "message"),
    [
        ("Branch", {"x": "N,3"}, td.UnsupportedError, line_of("if x.sum() > 0") + "what runs here depends on"),
        (
            "Number",
            {"x": "2,T"},
            td.UnsupportedError,
            line_of("int(x.shape[1] ** 0.5)") + ".* where T = 3: .* needs what int.. gives to be 2, and it is 1",
        ),
        (
            "Root",
            {"x": "2,T"},
            td.UnsupportedError,
            line_of("math.sqrt") + ".* where T = 3: .* needs what int.. gives to be 2, and it is 1",
        ),
        ("Stale", {"x": "N,3"}, td.UnsupportedError, "shares memory with one that .*modules.py:.* changed in place"),
        ("Fails", {"x": "N,3"}, td.DefinitionError, line_of("x.reshape(7, 7)") + "forward fails: RuntimeError: shape"),
        ("Positions", {"x": "N,3", "mask": "N,3:int64"}, td.UsageError, "'mask': 'SHAPE:int64:LOW:HIGH'"),
        ("Named", {"b": "N,3"}, td.UsageError, r"Named.forward needs a: it takes \(a, skipped=None, b=None\)"),
        (
            "Small",
            {},
            td.UsageError,
            r"\(image\): give its inputs with their shapes, as inputs={'image': 'N,3,224,224'}",
        ),
        ("Small", {"x": "N,3"}, td.UsageError, r"Small.forward has no parameter 'x': it takes \(image\)"),
        ("Small", {"image": "N,3,H,8"}, td.UsageError, r"dimension H has no range: give dims={'H': \(MIN, OPT, MAX\)}"),
        (
            "Small",
            {"image": "N,3,H,W"},
            td.UsageError,
            r"dimensions H, W have no ranges: give dims={'H': .* and dims={'W'",
        ),
        (
            "Small",
            {"image": "N,3,8.5"},
            td.UsageError,
            "a size is a number, a name, or a calculation such as 8[*]H or 21[*]H[*]W, not '8.5'",
        ),
        ("Small", {"image": "N,3,8,8:float31"}, td.UsageError, "unknown dtype 'float31'"),
        (
            "Small",
            {"image": "N,3,8,8:float32:1"},
            td.UsageError,
            "expected SHAPE, SHAPE:DTYPE or SHAPE:DTYPE:LOW",
        ),
        ("Small", {"image": "N,3,8,8:float32:a:b"}, td.UsageError, "LOW, HIGH and the padding are numbers"),
        ("Small", {"image": "N,3,8,8:float32:0:1e39"}, td.UsageError, "sample of float32 lies between"),
        ("Small", {"image": "N,3,8,8:float32:nan:1"}, td.UsageError, "sample of float32 lies between"),
        ("Small", {"image": "N,3,8,8:int64:0:99999999999999999999"}, td.UsageError, "sample of int64 lies between"),
        (
            "Small",
            {"image": "N,3,8,8:complex64"},
            td.UsageError,
            "'image' is complex, and an engine takes real numbers",
        ),
        ("Nowhere", {"x": "N"}, td.UsageError, "modules.py has no 'Nowhere': it has Small, Residual, InPlace"),
        ("CONSTANT", {"x": "N"}, td.UsageError, "CONSTANT is a Tensor: give a torch.nn.Module class"),
        ("halves", {"x": "N"}, td.UsageError, r"halves takes \(x\): missing a required argument: 'x'; arguments={NAME"),
    ],
)
def test_refusals_give_the_reason(name, inputs, error, message):
    dims = {"T": (3, 5, 800)} if "2,T" in inputs.values() else {}
    with pytest.raises(error, match=message):
        td.port(f"{MODULES}:{name}", inputs, dims=dims)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("torch.nn", "expected MODULE:NAME or FILE.py:NAME, .*, such as torch:nn"),
        (str(MODULES), "expected MODULE:NAME or FILE.py:NAME, .*, such as .*modules.py:Small, .*modules.py:Residual"),
        (
            "nowhere.at.all:Net",
            "no module 'nowhere.at.all' is installed or in this folder; of a file, give FILE",
        ),
        ("torch.nn:Module", "Module has no forward: "),
        ("torch.nn:Linear", r"Linear takes \(in_features: int, .*: missing a required argument: 'in_features'; argum"),
        ("nowhere.py:Net", "no file nowhere.py"),
        ("torch.nn:Nothing", "torch.nn has no 'Nothing'"),
        ("torch.nn.functional:relu", "relu takes .*: missing a required argument: 'input'"),
        ("builtins:list", "list makes a list, not a torch.nn.Module"),
    ],
)
def test_invalid_targets_are_refused(target, message):
    with pytest.raises((td.UsageError, td.DefinitionError), match=message):
        td.port(target, {"x": "N,3"})


def test_targets_that_cannot_be_imported_are_refused():
    with pytest.raises(td.UsageError, match="cannot be imported by name"):
        td.port(lambda: torch.nn.ReLU(), {"input": "N,3"})
    with pytest.raises(td.UsageError, match="arguments= is for what can be imported"):
        td.port(f"{MODULES}:Small", {"image": "N,3,8,8"}, arguments={"width": 8})
    with pytest.raises(td.UsageError, match="no input has a dimension T"):
        td.port("torch.nn:ReLU", {"input": "N,3"}, dims={"T": (1, 2, 3)})
    with pytest.raises(td.UsageError, match="must be an identifier"):
        td.port("torch.nn:ReLU", {"input": "N,3"}, name="a b")


def test_a_class_is_a_target_and_a_fixed_dimension_is_a_number():
    text = td.port(torch.nn.ReLU, {"input": td.Input(("N", 3))}, dims={"N": 2})
    assert "td.Input((2, 3))" in text and "from torch.nn.modules.activation import ReLU" in text


def test_calls_without_a_counterpart_are_marked_and_fail_at_definition(tmp_path):
    result = ported(f"{MODULES}:Fft", {"x": "N,8"}, file=tmp_path / "x.py", weights=tmp_path / "fft.safetensors")
    assert result.missing == ["torch.fft.hfft"]
    lines = result.text.split("\n")
    place = next(number for number, line in enumerate(lines) if "td.missing" in line)
    assert (
        lines[place].strip()
        == 'spectrum = td.missing("torch.fft.hfft", F.linear(x, w.fc.weight, w.fc.bias), norm="ortho")'
    )
    assert lines[place - 1].strip().startswith("# torch.fft.hfft has no counterpart here: of (4, 8) float32 it makes")
    (tmp_path / "fft.py").write_text(result.text)
    spec = td.load_spec(tmp_path / "fft.py")
    with pytest.raises(td.UnsupportedError, match=rf"fft.py:{place + 1}: torch.fft.hfft has no counterpart") as raised:
        spec.define(weights=result.module.state_dict())
    assert "(N, 8) float32" in str(raised.value)


def test_the_module_itself_is_left_as_it_was():
    module = torch.nn.Linear(3, 2)
    from trtdsl.porting.tracing.trace import trace

    before = dict(vars(module))
    trace(module, {"input": ((2, 3), torch.float32)})
    assert vars(module) == before and not module._forward_hooks and not module._forward_pre_hooks


@pytest.mark.parametrize(
    ("text", "shape"),
    [("N,21*H*W:bool", "(N, 21*H*W)"), ("(T+1)//2,8*T-1", "((T + 1) // 2, 8*T - 1)"), ("2*3,H8*8", "(6, 8*H8)")],
)
def test_a_size_may_be_calculated(text, shape):
    assert str(parsed("mask", text).shape).replace("((T + 1)//2", "((T + 1) // 2") == shape


@pytest.mark.parametrize(
    "text", ["N**2", "N/2", "f(N)", "N if N else 1", "1//0", "N,", "-", "N" * 200, "(" * 90, "True"]
)
def test_a_size_that_is_no_number_name_or_calculation_is_refused(text):
    with pytest.raises(td.UsageError, match=r"a size is a number, a name, or a calculation such as 8\*H"):
        parsed("mask", text)


def test_a_size_that_divides_by_zero():
    dims = {name: (1, 2, most) for name, most in (("N", 4), ("M", 3), ("K", 3))}
    with pytest.raises(td.UsageError, match="the size of an input divides by 0"):
        ported(torch.nn.ReLU(), {"input": "N//(M//(K//(N//M))),3"}, dims=dims)
