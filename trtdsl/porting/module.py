"""A spec for an existing module: traced, written and defined without a file."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.errors import BuildError, UnsupportedError, UsageError
from ..core.lazy import torch
from ..definition.spec.reference import state_of
from .attempts.attempt import Attempt
from .attempts.remedies import attempted
from .calls import Branch, leaves, operations, rebuilt
from .given import Given, checked_inputs
from .missing import no_counterpart
from .origin import Origin
from .tracing.agree import traced_at_all_sizes
from .tracing.trace import Trace, check_traceable, copied
from .writing.comments import noted
from .writing.write import File

if TYPE_CHECKING:
    from ..definition.network import Network
    from ..definition.spec.spec import NetworkSpec


def spec_of(
    module: torch.nn.Module, inputs: Mapping[str, Any] | Sequence[Any], dims: dict[str, Any], name: str | None
) -> NetworkSpec:
    """The result of :func:`trtdsl.from_module`."""
    if isinstance(module, torch.export.ExportedProgram):
        module = module.module()
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"from_module takes a torch.nn.Module, not a {type(module).__name__}")
    check_traceable(module)
    module = copied(module).eval()
    if not isinstance(module, torch.jit.ScriptModule):  # which takes no hooks
        module.register_forward_hook(_numbers_as_tensors)

    def made(attempt: Attempt) -> NetworkSpec:
        def of(trace: Trace) -> NetworkSpec:
            return _spec_of(trace, attempt.module, attempt.given, name)

        return traced_at_all_sizes(attempt.source, attempt.given, of)

    return attempted(made, Attempt(module, checked_inputs(module, inputs, dims)))[0]


def _spec_of(trace: Trace, module: torch.nn.Module, given: Given, name: str | None) -> NetworkSpec:
    written = File(Origin.of(module), trace, given, name, None, None)
    if written.missing:
        raise UnsupportedError(
            f"{no_counterpart(written.missing[0])}, or port the module to a file and replace its td.missing",
            location=written.missing_at,
        )
    spec = written_spec(written, written.text(), module, trace.constants)
    drawn = {key: each.sample for key, each in given.inputs.items() if callable(each.sample)}  # no text can name these
    if drawn:
        inputs = {key: replace(each, sample=drawn.get(key, each.sample)) for key, each in spec.inputs.items()}
        spec = replace(spec, inputs=inputs)
    if trace.several:
        defined(spec, trace)
    return spec


def defined(spec: NetworkSpec, trace: Trace) -> Network:
    """The network that is written in the file.

    Raises TrtdslError where it is one of several ways that forward goes and does not give what the others do, or where
    TensorRT builds no engine of its branches.
    """
    network = spec.define(exact=True)
    if trace.elsewhere:
        from ..checking.check import check

        check(spec, network=network, sizes=trace.elsewhere).raise_for_mismatch()
    elif trace.branches:
        from ..engine.compiling.compiler import compile_engine

        try:
            compile_engine(network)
        except BuildError as error:
            branch = next(op for op in operations(trace.root) if isinstance(op, Branch))
            raise UnsupportedError(
                "TensorRT builds no engine of the td.cond that is written for this: compute both sides, and "
                f"torch.where(condition, a, b). {error.message}",
                location=branch.location,
            ) from error
        return spec.define(exact=True)
    return network


def _numbers_as_tensors(module: Any, args: Any, result: Any) -> Any:
    """Tensors of the numbers where forward returns numbers alone, such as sizes: outputs are tensors."""
    numbers = list(leaves(result))
    if not numbers or not all(isinstance(number, (bool, int, float)) for number in numbers):
        return result
    kinds = {bool: torch.bool, int: torch.int64, float: torch.float32}
    return rebuilt(
        result, lambda n: torch.full((), n, dtype=next(kinds[kind] for kind in kinds if isinstance(n, kind)))
    )


def written_spec(
    written: File,
    text: str,
    module: torch.nn.Module,
    constants: Mapping[str, torch.Tensor],
    note: Callable[[int, str, Any], None] | None = None,
) -> NetworkSpec:
    """The spec that is written in the text, with the module's weights; errors show its lines.

    ``note`` gets the value of each assignment.
    """
    name, place = written.name, f"{written.name} (ported)"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    code, more = (compile(text, place, "exec"), {}) if note is None else noted(text, place, note)
    namespace = {"__name__": name, "__file__": str(written.folder / "port.py"), **more}
    exec(code, namespace)
    weights = {**state_of(module), **constants} if written.main.scoped else None
    return replace(namespace[name], weights=weights, reference=lambda: copied(module), file=None)
