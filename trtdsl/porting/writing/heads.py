"""The head of a loop: the sequence that it iterates over, and the name of one element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..passes.rounds import COUNTED
from ..render import Renderer
from ..statements import Literal, Loop, is_of_names
from .lines import wrapped_call
from .roles import singular


def loop_head(
    loop: Loop, renderer: Renderer, counts: Mapping[str, int], used: set[str]
) -> tuple[list[str], dict[str, str]]:
    """``for x, block in zip(levels, w.blocks):``, and the names of the parts of the weights that its first round has.

    ``counts`` has the numbered parts of each path in the weights; ``used`` are names that variables have already.
    """
    if not loop.containers and not loop.over:
        return [f"    for _ in range({loop.count}):"], {}
    variables = [renderer.value(element) for element, _ in loop.over]
    sources = [
        _progression(given) or renderer.tree(tuple(given) if isinstance(given, list) else given)
        for _, given in loop.over
    ]
    first: dict[str, str] = {}
    lists = [container.removesuffix(".") for container in loop.containers if not is_of_names(container)]
    for container in lists:
        own = container.rpartition(".")[2]
        name = own.rstrip("0123456789_")
        if any(other != container and _stem(other) == _stem(container) for other in lists):
            name = own  # siblings such as cv2 and cv3
        name = singular(name) if name.isidentifier() else "part"
        names = (name, "layer", "part", f"{name}_part")
        part = next(each for each in names if each not in used | set(first.values()))
        first[f"{container}.{loop.start}".lstrip(".")] = part
        sources.append(f"{renderer.path(container)}{_numbers(loop, counts.get(container, 0))}")
    variables += first.values()
    if named := list(filter(is_of_names, loop.containers)):
        number = next(each for each in ("number", "index", "place") if each not in used | set(variables))
        variables.append(number)
        count = None if loop.rounds is None else loop.rounds.parameter
        stop: Any = loop.start + loop.step * loop.count if count is None else f"{count} + {loop.start}"
        sources.append(f"range({', '.join(map(str, (loop.start, stop, loop.step)[: 2 if loop.step == 1 else 3]))})")
        for container in named:
            above, _, own = container.rpartition(".")
            first[f"{container}{loop.start}"] = f'{renderer.path(above)}[f"{own}{{{number}}}"]'
    head = f"for {', '.join(variables)} in "
    return [f"    {head}{sources[0]}:"] if len(sources) == 1 else wrapped_call(f"{head}zip", sources, 4, ":"), first


def _progression(given: Any) -> str:
    """``range(…)`` for four whole numbers or more of one distance; empty for anything else."""
    numbers = [each.value for each in given if isinstance(each, Literal)] if isinstance(given, (list, tuple)) else []
    if len(numbers) < COUNTED or len(numbers) != len(given) or any(type(number) is not int for number in numbers):
        return ""
    step = numbers[1] - numbers[0]
    run = range(numbers[0], numbers[-1] + (1 if step > 0 else -1), step or 1)
    ends = [run.start, run.stop, step][run.start == 0 and step == 1 : 2 if step == 1 else 3]
    return f"range({', '.join(map(str, ends))})" if list(run) == numbers else ""


def _stem(path: str) -> str:
    return path.rstrip("0123456789")


def _numbers(loop: Loop, count: int) -> str:
    """The slice of ``count`` numbered parts that a loop iterates over; empty for all of them."""
    stop = loop.start + loop.step * loop.count
    if loop.step < 0:
        begin = "" if loop.start == count - 1 else loop.start
        return f"[{begin}:{stop if stop >= 0 else ''}:-1]"
    end = "" if stop >= count else stop
    return f"[{loop.start or ''}:{end}]" if loop.start or end else ""
