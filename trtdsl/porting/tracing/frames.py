"""The author's code in Python's stack of frames: which line is running, inside of which functions."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from types import FrameType, FunctionType
from typing import Any

from ...core.errors import PACKAGE, Location
from ...core.lazy import torch

MODULE_FILE = os.path.join("torch", "nn", "modules", "module.py")


@cache
def is_inside(file: str) -> bool:
    """Whether the file is torch's, trtdsl's or Python's own, and not the author's."""
    # The last is Python itself, whose exit() is written in it.
    inside = (os.path.dirname(torch.__file__) + os.sep, PACKAGE, "<frozen")
    return file.startswith(inside) or file.endswith(("contextlib.py", "functools.py"))


@cache
def _is_pythons(file: str) -> bool:
    """Whether the file is Python's own or numpy's, which compute for whoever calls them."""
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    if file.startswith(sysconfig.get_path("stdlib")) and not file.startswith(tuple(packages)):
        return True
    return file == "<string>" or f"{os.sep}numpy{os.sep}" in file


NUMBERS = ("traced_sizes.py", "stand_ins.py", "frames.py", "numbers.py", "scripts.py")
"""Files with what numbers of a trace do themselves."""


def _asking_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and os.path.basename(frame.f_code.co_filename) in NUMBERS:
        frame = frame.f_back
    first = frame
    while frame is not None and _is_pythons(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None and not is_inside(frame.f_code.co_filename):
        return frame
    while frame is not None and is_inside(frame.f_code.co_filename) and frame.f_code.co_name != "_made":
        if frame.f_code.co_name == "_run" and frame.f_code.co_filename.endswith(
            "apart.py"
        ):  # torch asks in the place of what the author has called
            return authors_frame()
        frame = frame.f_back
    return first if first is not None and first.f_code.co_filename == "<string>" else None  # which torch calls


def asking() -> Location | None:
    """The author's line that asks something of a number; None where torch does."""
    frame = _asking_frame()
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)


LOGGED = {"print", "warn", "warning", "info", "debug", "error", "critical", "exception", "log", "write"}
"""Words of the names of functions that tell something, as ``warn_once``."""


def _statement(frame: FrameType, line: int | None = None) -> ast.stmt | None:
    """The innermost statement that the frame runs, or that it has at a line."""
    found: ast.stmt | None = None
    for node in _statements(frame.f_code.co_filename):
        if node.lineno <= (line or frame.f_lineno) <= (node.end_lineno or node.lineno):
            found = node
    return found


def is_raised(error: BaseException | None) -> bool:
    """Whether a statement of the author's raises the error, or has torch check a condition, and no other call does.

    One that needs a name, an attribute or a key that is not there raises it, whatever the values are.
    """
    traceback = error.__traceback__ if error is not None else None
    asked = torch.nn.Module.__getattr__.__code__  # for an attribute of a module's
    inside, statement = True, None
    while traceback is not None:
        inside, further = is_inside(traceback.tb_frame.f_code.co_filename), traceback.tb_next
        statement = None if inside else _statement(traceback.tb_frame, traceback.tb_lineno)
        if further is None or further.tb_frame.f_code is asked or _checks(statement):
            break
        traceback = further
    if inside:
        return False
    return _lacks_a_name(error) or _checks(statement) or isinstance(statement, (ast.Raise, ast.Assert))


def _lacks_a_name(error: BaseException | None) -> bool:
    """Whether the error says that a name is not there; of what may stand in for another, it says nothing."""
    if isinstance(error, AttributeError):
        own = type(error.obj)
        room = own.__module__.startswith(("trtdsl.", "torch._numpy"))
        stands_in = room or issubclass(own, (torch.Tensor, int, float, FunctionType))
        return error.name is not None and not stands_in
    return isinstance(error, NameError) or (isinstance(error, KeyError) and [*map(type, error.args)] == [str])


def unless_it_raises() -> bool | None:
    """The truth of a value with which the author's statement raises nothing; None for one that does not assert.

    None where forward may catch what is raised, too.
    """
    frame = authors_frame()
    if frame is None or _may_be_caught(frame):
        return None
    outcomes = {True} if _checks(_statement(frame)) else set[bool]()
    for node in _statements(frame.f_code.co_filename):
        if not isinstance(node, (ast.Assert, ast.If)):
            continue
        asserts = isinstance(node, ast.Assert) or (isinstance(node.body[-1], ast.Raise) and not node.orelse)
        if asserts and node.test.lineno <= frame.f_lineno <= (node.test.end_lineno or 0):
            outcomes = set(_outcomes(node.test, isinstance(node, ast.Assert)))
    return outcomes.pop() if len(outcomes) == 1 else None


def _checks(statement: ast.stmt | None) -> bool:
    """Whether a statement calls one of torch's functions that raise unless a condition holds (``torch._check``)."""
    name = _called(statement) or ""
    return name.startswith(("_assert", "_check")) and hasattr(torch, name)


def _may_be_caught(frame: FrameType | None) -> bool:
    """Whether the frame, or one of the author's that calls it, runs the body of a ``try`` or a ``suppress``."""
    while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        for node in [] if is_inside(frame.f_code.co_filename) else _statements(frame.f_code.co_filename):
            if not isinstance(node, (ast.Try, ast.With)):
                continue
            caught = bool(node.handlers) if isinstance(node, ast.Try) else "suppress" in ast.unparse(node.items[0])
            if caught and node.body[0].lineno <= frame.f_lineno <= (node.body[-1].end_lineno or 0):
                return True
        frame = frame.f_back
    return False


def _outcomes(test: ast.expr, wanted: bool) -> Iterator[bool]:
    """What each part of a condition is, so that all of it is ``wanted``."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _outcomes(part, wanted)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _outcomes(test.operand, not wanted)
    else:
        yield wanted


def _called(found: ast.stmt | None) -> str | None:
    """The name of the function that a statement calls, whose result nobody takes."""
    call = found.value if isinstance(found, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    return getattr(function, "attr", None) or getattr(function, "id", None)


TRANSFORMS = (
    "what torch.vmap or torch.func run here has no trace{}: write out what it computes (a dimension more for vmap)"
)


def transforms(error: BaseException) -> bool:
    """Whether the error comes from a function of torch that takes the author's functions."""
    traceback, inside = error.__traceback__, ("_functorch", "_higher_order_ops")
    while traceback is not None:
        if any(f"{os.sep}{name}{os.sep}" in traceback.tb_frame.f_code.co_filename for name in inside):
            return True
        traceback = traceback.tb_next
    return False


def named_only() -> bool:
    """Whether the line that runs raises, asserts or logs, so that a text that it makes decides nothing."""
    frame = _asking_frame()
    if frame is None:
        return True
    found = _statement(frame)
    if isinstance(found, (ast.Raise, ast.Assert)):
        return True
    return not LOGGED.isdisjoint((_called(found) or "").split("_"))


@cache
def _statements(file: str) -> list[ast.stmt]:
    """The statements of a file, each after the one that it is a part of."""
    try:
        return [node for node in ast.walk(ast.parse("".join(linecache.getlines(file)))) if isinstance(node, ast.stmt)]
    except SyntaxError:
        return []


def authors_frame() -> FrameType | None:
    """The innermost frame of the author's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def here() -> Location | None:
    """The author's line that is running."""
    frame = authors_frame()
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)


def place_of(error: BaseException) -> Location | None:
    """The author's line that raised the error."""
    place = None
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not is_inside(file):
            place = Location(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place


def helper_frames(begins: bool) -> list[FrameType]:
    """The functions of the author's that run inside of the running module's forward, outermost first.

    ``begins`` says that another module is about to run.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    if begins:  # torch's own call of the module that begins
        while frame is not None and not frame.f_code.co_filename.endswith(MODULE_FILE):
            frame = frame.f_back
        while frame is not None and frame.f_code.co_filename.endswith(MODULE_FILE):
            frame = frame.f_back
    while frame is not None and not frame.f_code.co_filename.endswith(MODULE_FILE):
        if not is_inside(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    names = [frame.f_code.co_name for frame in frames]
    frames = frames[names.index("forward") + 1 if "forward" in names else 1 :]
    return [frame for frame in frames if not _anonymous(frame)]


def _anonymous(frame: FrameType) -> bool:
    """Whether the frame is a comprehension, a lambda, a generator or a decorator's."""
    code = frame.f_code
    wraps = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) and code.co_freevars
    return code.co_name.startswith("<") or bool(code.co_flags & inspect.CO_GENERATOR) or bool(wraps)


def returned_names(forward: Any) -> list[str]:
    """The variables that a function returns as a tuple; none where its returns differ or are other expressions."""
    code = getattr(getattr(inspect.unwrap(forward), "__func__", forward), "__code__", None)
    if code is None:
        return []
    line = (code.co_name, code.co_firstlineno)
    functions = (node for node in _statements(code.co_filename) if isinstance(node, ast.FunctionDef))
    function = next((f for f in functions if (f.name, min([f, *f.decorator_list], key=_line).lineno) == line), None)
    returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)] if function else []
    found = {
        tuple(each.id for each in value.elts if isinstance(each, ast.Name)) if isinstance(value, ast.Tuple) else ()
        for value in returns
    }
    return list(found.pop()) if len(found) == 1 else []


def _line(node: ast.expr | ast.stmt) -> int:
    return node.lineno


def bound(forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names of forward's parameters; those of ``*args`` as one list."""
    signature = inspect.signature(forward)
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return {**{f"argument_{index}": item for index, item in enumerate(args)}, **kwargs}
    result: dict[str, Any] = {}
    for name, given in arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            result.update(given)
        else:
            result[name] = given
    return result
