"""trtdsl: TensorRT networks written in Python with torch's vocabulary, and proven equal to torch without a GPU.

By task; the errors that each raises stand in its docstring:

====================  ================================================================================================
write a network       ``network``, ``Input``, ``Output``, ``State``, ``Dim``, ``Profile``, ``Tensor``, ``Scope``,
                      ``Size``, ``Network``; ``functional`` (torch's names), ``layers`` (TensorRT's); ``require``,
                      ``size_min``, ``size_max``, ``size_sqrt``, ``shard``; ``cond``, ``while_loop``, ``scan``;
                      ``quantize``, ``dequantize``, ``precision``
begin from a module   ``port``, ``from_module``, ``missing``, ``of_constants``
weights               ``Weights``, ``convert_weights``, ``derive_weights``, ``stubs``
load and define       ``load_spec``, ``NetworkSpec``, ``summarize``, ``Summary``, ``inspect``, ``explain_einsum``,
                      ``EinsumPlan``
generate text         ``Generator``, ``check_generation``
is it right?          ``check``, ``Tolerance``, ``CheckReport``; ``interpret``, ``Interpreter``, ``sample_feeds``;
                      ``mutate``, ``MutationReport``; ``obstacles``, ``Obstacle``
where does it part?   ``compare_calls``, ``CallReport``, ``locate_call``
what will the GPU do  ``program``, ``evaluate_engine``, ``Program``, ``Launch``, ``find_hazards``, ``Hazard``,
                      ``floor_of``, ``compare_programs``, ``programs_alike``, ``Comparison``, ``compare``;
                      ``compare_runs``, ``RunComparison``; ``view``, ``View``; ``advise``, ``Advice``
how precisely?        ``find_precision``, ``PrecisionReport``, ``SQNR``
build                 ``build``, ``Build``, ``build_several``, ``BuildConfig``, ``tune``, ``TuneReport``
run                   ``load_engine``, ``Engine``, ``run_files``, ``bench``, ``BenchReport``
ship                  ``export_cpp``, ``export_triton``
this machine          ``diagnose``
====================  ================================================================================================

The contents page is ``__init__.pyi``: each name is imported when it is first used.
"""

import typing as _typing

import lazy_loader as _lazy_loader

_import, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> _typing.Any:
    if name in __all__:
        return _import(name)
    from .core.errors import no_attribute

    raise no_attribute(__name__, name, __all__)
