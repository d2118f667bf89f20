"""A reference that shares nothing with the network: run on copies, from the same state each time, in any precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ...core.author import authors_code
from ...core.errors import told
from ...core.lazy import torch
from ...core.tensors.dense import writes
from ...core.tensors.exact import Exact
from ...definition.spec.reference import call_reference, forward_of, with_hooks
from .recording import Recording

Feeds = Mapping[str, "torch.Tensor"]


class Reference:
    """A torch reference that can be run repeatedly, whatever it does to its inputs, buffers and attributes.

    It runs with exact values beside its own, where it runs with these. ``notes`` lists what it changes. Such changes
    are undone before the next call and never reach the network. ``precision`` is autocast's, ``working`` the one that
    the network that it judges computes in, ``folder`` the one whose modules it can import. What it raises becomes a
    DefinitionError with its author's line. ``recording`` has what it does, with ``values`` its calls, too.
    """

    def __init__(
        self,
        make: Callable[[], torch.nn.Module],
        precision: torch.dtype | None,
        exact: Exact,
        working: torch.dtype | None = None,
        folder: Path | None = None,
        *,
        values: bool = False,
    ):
        with exact:
            self.module = make()
        self.precision, self.exact, self.working, self.folder = precision, exact, working, folder
        self.at = ""
        """The sizes, for what is said where it fails."""
        self.notes: dict[str, None] = {}
        self.not_exact: str | None = None
        """Why it does not run in exact arithmetic, where it does not."""
        self.recording = Recording(exact, values=values)

    def __call__(self, feeds: Feeds, *, noise: tuple[int, float] | None = None, by: str = "both") -> Any:
        """Torch's result in the network's precision, under autocast where it has one; with noise by seed and size.

        By ``meaning``, only its exact values are known afterwards, by its ``own``, only these.
        """
        exact, failed = self.exact, None
        with (
            authors_code(forward_of(self.module), f"the reference fails{self.at}: ", self.folder),
            _copied(self.module, self._note) as module,
            torch.autocast("cpu", self.precision, enabled=self.precision is not None),
        ):
            if self.not_exact is None and by != "own":
                for tensor in (*feeds.values(), *module.parameters(), *module.buffers()):
                    if tensor.is_floating_point():
                        exact.of(tensor)
                for tensor in (*module.parameters(), *module.buffers()):
                    exact.keep_rounded(tensor)
                for exact.alone in (True, False) if by == "meaning" else (False,):
                    exact.seen, exact.complete = self.recording.choices.of_operation if noise is None else None, True
                    try:
                        with exact, nullcontext() if noise is None else exact.noisy(*noise):
                            return self._called(module, feeds)
                    except Exception as error:  # of an operator that takes plain tensors alone, or of the author's code
                        failed = told(error).splitlines()[0].removesuffix(": ")
                    finally:
                        exact.alone, exact.complete, exact.seen = False, False, None
            returned = self._called(module, feeds)
            self.not_exact = self.not_exact or failed
            return returned

    @contextmanager
    def copied(self) -> Iterator[torch.nn.Module]:
        """A context with the module as it was made, which may be changed; what is raised is the author's error."""
        with (
            authors_code(forward_of(self.module), folder=self.folder),
            _copied(self.module, lambda text: None) as module,
        ):
            yield module

    def _called(self, module: torch.nn.Module, feeds: Feeds) -> Any:
        asked = self.recording.asked
        try:
            return self._returned(module, feeds)
        except TypeError:
            if asked.branches:
                raise
            asked.branches = True  # sizes are plain ints from now on, which forward may insist on
            return self._returned(module, feeds)

    def _returned(self, module: torch.nn.Module, feeds: Feeds) -> Any:
        copies = {name: feed.clone() for name, feed in feeds.items()}
        versions = {name: writes(feed) for name, feed in copies.items()}
        with self.recording.of(module):
            returned = call_reference(module, copies)
        for name, feed in copies.items():
            if writes(feed) != versions[name]:
                self._note(f"the reference changes its input {name!r} in place")
        return returned

    def _note(self, text: str) -> None:
        self.notes[text] = None


@contextmanager
def _copied(module: torch.nn.Module, note: Callable[[str], None]) -> Iterator[torch.nn.Module]:
    """The module with copies of all that it keeps except its parameters; what it changes is noted."""
    try:
        made = with_hooks(module, {id(parameter): parameter for parameter in module.parameters()})
    except Exception:  # a module may hold what cannot be copied: then the module itself is run
        note("the reference cannot be copied: what it keeps from one call is there in the next")
        made = module
    kinds = {"buffer": made.named_buffers, "parameter": made.named_parameters}
    before = {(kind, name): (held, writes(held)) for kind, each in kinds.items() for name, held in each()}
    yield made
    for kind, name, held in ((kind, name, held) for kind, each in kinds.items() for name, held in each()):
        known, count = before.get((kind, name), (held, writes(held)))
        if held is not known or writes(held) != count:
            note(f"the reference changes its {kind} {name!r}")
