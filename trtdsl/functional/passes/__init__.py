"""Passes over the graph of a network that is whole: each looks for calls that are better made otherwise.

They run in the order of ``PASSES``, before any call is lowered. A pass is a function of the graph: it asks for layers
by a pattern (:mod:`.patterns`) or by what they are (:meth:`~trtdsl.definition.graph.Graph.layers`), has a result made
otherwise (:meth:`~trtdsl.definition.graph.Graph.replace`), and says what it did, or why it did nothing, by the author's
line. It never asks which network it is in.
"""

from __future__ import annotations

from collections.abc import Callable

from ...definition.graph import Graph
from .handwritten import handwritten_activations, handwritten_rounding
from .places_in_channels import places_in_channels
from .traps import casts_before_loops, signs_in_int8

PASSES: tuple[Callable[[Graph], None], ...] = (
    handwritten_rounding,
    handwritten_activations,
    signs_in_int8,
    casts_before_loops,
    places_in_channels,
)
