"""docs/layers.md: what its table says, and what the builder says of a case."""

from __future__ import annotations

from pathlib import Path

from cases import BACKEND, CASES, Builder, Case, outputs_of

from trtdsl.building.buildable import Obstacle, obstacles

PAGE = Path(__file__).parents[2] / "docs" / "layers.md"
NEEDS_A_PROFILE = {"start-from-an-input"}  # a shape tensor that is fed

HEAD = """\
# What cannot be built without a GPU

Written by `tools/make_layers_doc.py`; a test fails when it is not current.

TensorRT-RTX takes every layer of `trtdsl.layers` (`L`) into a network, and [interpreter.md](interpreter.md) lists how
each is evaluated. A few it cannot build on a machine without a GPU. `trtdsl check` names such a layer at the line that
made it, before anything is built, and so does `td.obstacles(network)`. Each case of `tests/layers/cases` was built, and
those alone failed that are listed here.

With dynamic sizes the same layers are built as with static ones: every case was built with its first dimensions, its
last ones and all of them dynamic. What failed is refused when the network is written: attention whose query and key
heads are different sizes of which one is dynamic, and ND indices whose last dimension is dynamic.

| layer | reason, and what to write instead |
|---|---|
"""


def defined(item: Case) -> Builder:
    """The network of a case, with static inputs."""
    builder = Builder()
    with BACKEND.listen():
        inputs = [
            builder.network.add_input(f"x{i}", item.dtypes.get(i, BACKEND.data_type(feed.dtype)), tuple(feed.shape))
            for i, feed in enumerate(item.feeds)
        ]
        for index, tensor in enumerate(outputs_of(item.build(builder, *inputs))):
            tensor.name = f"y{index}"
            builder.network.mark_output(tensor)
    return builder


def buildable_cases() -> list[Case]:
    """The cases that can be tried with static inputs and no profile."""
    return [item for item in CASES if item.raises is None and not item.dynamic and item.name not in NEEDS_A_PROFILE]


def builds(builder: Builder) -> bool:
    """Whether TensorRT builds it."""
    with BACKEND.listen():
        config = BACKEND.builder.create_builder_config()
        return BACKEND.builder.build_serialized_network(builder.network, config) is not None


def announced(builder: Builder) -> list[Obstacle]:
    """What is said beforehand, as without a GPU."""
    return obstacles(builder.network, gpu=False)


def page() -> str:
    """The document's text."""
    reasons: dict[str, list[str]] = {}
    for item in buildable_cases():
        for obstacle in announced(defined(item)):
            found = reasons.setdefault(obstacle.type, [])
            if obstacle.reason not in found:
                found.append(obstacle.reason)
    lines = [f"| {type} | {'; '.join(found)} |" for type, found in sorted(reasons.items())]
    return HEAD + "\n".join(lines) + "\n"
