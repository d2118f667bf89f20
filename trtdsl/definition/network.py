"""The network being defined: inputs, outputs, constants, layer names and the author's places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

from ..core.backend import Backend, get_backend
from ..core.errors import DefinitionError, Location, ShapeError, UsageError, nearest, several
from ..core.tensors.exact import Exact
from ..sizes.dim import Dim, tensor_dim
from ..sizes.profile import Profile, as_profiles
from ..sizes.shape import Shape, channels_last, shape_text, substitute
from .common import Size, SizeLike, as_dtype, check_characters, dtype_name, folded, table, to_write, torch, value
from .emission import Emission
from .graph import Graph
from .input import MAX_DIMS, MAX_SIZE, NEXT, Input, PluginUse, State, check_format
from .precision import Policy, as_precision, is_low
from .tensor import Draft, Tensor, swapped
from .tuning.precisions import Precisions, around
from .weights.source import Scope, Source, Weights


@dataclass(frozen=True)
class Output:
    """An output with a ``format``, as :class:`Input` has it: returned by a network in the place of the ``tensor``.

    >>> import trtdsl.functional as F
    >>> @td.network(inputs={"x": td.Input((1, 3, 8, 8), format="channels_last")})
    ... def net(x):
    ...     return {"y": td.Output(F.relu(x), format="channels_last")}
    >>> sorted(net.define().channels_last)
    ['x', 'y']
    """

    tensor: Tensor
    format: str | None = None


class Network(Draft):
    """A TensorRT network under construction, and what trtdsl knows about it beyond TensorRT.

    >>> import trtdsl.functional as F
    >>> net = Network(backend="tensorrt-rtx")
    >>> x = net.input("x", (2, "T", 3))
    >>> net.output(F.relu(x), "y")
    >>> net.outputs["y"].shape
    (2, T, 3)
    """

    def __init__(
        self,
        name: str = "network",
        *,
        backend: str | Backend | None = None,
        precision: str | Precisions | None = None,
        profiles: Sequence[Profile] = (),
    ):
        check_characters(name, "the network's name")
        super().__init__(name, backend if isinstance(backend, Backend) else get_backend(backend))
        self._profiles = as_profiles(profiles) or (Profile(),)
        self.policy: Policy | None = None
        self.asked = precision
        """The precision that was asked for, with which another definition computes alike."""
        if isinstance(precision, Precisions):
            self.policy = Policy(precision.low, precision)
            used = {precision.low, *(as_precision(around(dtype)) for dtype in precision.tuned.values())}
            self.precision = next((dtype for dtype in (torch.float16, torch.bfloat16) if dtype in used), None)
        elif (low := as_precision(precision)) is not None:
            self.policy, self.precision = Policy(low), low
        self.graph = Graph(self)
        self.emit = Emission(self.graph).emit
        self.input_specs: dict[str, Input] = {}
        """The inputs as they were described, with what a check feeds them."""
        self.fixed: dict[str, int] = {}
        """Dimensions of the network file that have one size here."""
        self.others: Callable[[], Sequence[Network]] = list
        """Defines the other parts, in order."""
        self.unsearched: Weights | None = None  # those in which check_weights has to look for NaN and Inf
        self.is_from_spec = False
        """Whether a function under @td.network writes it: defined again, it is a new one."""
        self._dim_places: dict[str, Any] = {}  # the operations
        with self.operation("network"):
            self.target.definition.name = name

    @property
    def definition(self) -> Any:
        """TensorRT's INetworkDefinition, with everything that the network has so far."""
        self.emit()
        return self.target.definition

    def input(
        self,
        name: str,
        shape: Sequence[Any],
        dtype: Any = "float32",
        *,
        sample: Any = None,
        format: str | None = None,
    ) -> Tensor:
        """Adds an :class:`Input`; a str in ``shape`` names a dynamic dimension. UsageError for a name taken before."""
        return self.add_input(name, Input(tuple(shape), dtype, sample, format=format))

    def output(self, tensor: Tensor | Output, name: str) -> None:
        """Marks ``tensor`` as the output ``name``."""
        form = None
        if isinstance(tensor, Output):
            tensor, form = tensor.tensor, tensor.format
        with self.operation("output"):
            _check_name(name, "output")
            if name in self.inputs:
                instead = f"call it otherwise, such as {name + '_out'!r}"
                raise UsageError(f"the output {name!r} has the name of an input: {instead}")
            if name in self.outputs:
                again = "" if self.is_from_spec else RUN_AGAIN
                raise UsageError(f"there are two outputs {name!r}: give each a name of its own{again}")
            if not isinstance(tensor, Tensor):
                kind = "a size" if isinstance(tensor, Size) else type(tensor).__name__
                raise DefinitionError(f"output {name!r} must be a td.Tensor, not {kind}")
            if tensor.network is not self:
                raise UsageError(f"output {name!r} is a tensor of another network")
            before = next((before for before, after in self.states.items() if after == name), None)
            if before is not None:
                tensor = _as_state(before, self.inputs[before], name, tensor)
            elif self.precision is not None and is_low(tensor):  # outputs are float32, whatever ran inside
                tensor = tensor.to(torch.float32)
            if tensor.is_constant:
                self.backend.data_type(tensor.dtype)
            if form is not None:
                check_format(f"output {name!r}", form, tensor.ndim, tensor.dtype)
                if before is not None:
                    raise UsageError(f"output {name!r} is what a run leaves in a state, which has no format")
                self.channels_last.add(name)
            call = self.current_operation
        assert call is not None
        self.outputs[name] = tensor
        self.graph.add_output(name, call)

    @property
    def states(self) -> dict[str, str]:
        """Of each input that is a :class:`State`, the name of the output that the next run takes for it."""
        return {name: NEXT + name for name, spec in self.input_specs.items() if isinstance(spec, State)}

    @property
    def slots(self) -> dict[str, int]:
        """Of each state that has a slot for each token, the dimension of them."""
        states = {name: spec for name, spec in self.input_specs.items() if isinstance(spec, State)}
        return {name: axis for name, spec in states.items() if (axis := spec.slot_axis) is not None}

    def check_states(self) -> None:
        """DefinitionError for a state without an output."""
        with self.operation("output"):
            for name, after in self.states.items():
                if after not in self.outputs:
                    raise DefinitionError(
                        f"the state {name!r} needs an output {after!r}, which the next run takes for it"
                    )

    def sharded(self, name: str) -> int | None:
        """The dimension of an input, or of a state's output, of which each rank has a part."""
        states = {after: state for state, after in self.states.items()}
        spec = self.input_specs.get(states.get(name, name))
        return None if spec is None or self.ranks == 1 else spec.sharded

    def whole_shape(self, name: str) -> Shape:
        """The shape of an input with the parts of all ranks."""
        axis, shape = self.sharded(name), self.inputs[name].shape
        return tuple(size * self.ranks if axis == place else size for place, size in enumerate(shape))

    def exact_values(self) -> Exact:
        """What computes with its constants as they are without rounding; without that record, as they are rounded."""
        together = [self, *self.others()]
        for network in together:  # outside of what is returned, since two such contexts know each other's tensors
            network.emit()
        exact = Exact(known={} if self.exact is None else self.exact.known)
        exact.numbers |= {} if self.exact is None else self.exact.numbers
        exact.rounded_constants = any(network.exact is None or network.has_tensors for network in together)
        return exact

    def wrap(self, tensor: Any, shape: Sequence[int | str | Size] | None = None) -> Tensor:
        """Any ITensor of this network, added through TensorRT's own API, as a Tensor.

        ``shape`` says the sizes that TensorRT leaves open, by names of the inputs' dimensions; without it each is read
        from the tensor when the network runs. Raises UsageError for what is no ITensor of this network, ShapeError for
        a shape that is not TensorRT's.

        >>> net = td.Network()
        >>> x = net.input("x", ("N", 3))
        >>> layer = net.definition.add_activation(x.trt, net.trt.ActivationType.RELU)
        >>> net.wrap(layer.get_output(0), ("N", 3)) + 1
        Tensor(add: (N, 3) float32)
        """
        with self.operation("wrap"):
            if not isinstance(tensor, self.trt.ITensor):
                raise UsageError(f"net.wrap takes an ITensor of {self.backend.name}, not {type(tensor).__name__}")
            if not any(tensor is own for own in _handles(self.definition)):
                raise UsageError(f"the tensor {tensor.name!r} is none of the network {self.name!r}")
            with self.backend.listen() as messages:
                try:
                    dims = tuple(tensor.shape)
                except ValueError:  # how TensorRT tells that a layer before it is not valid
                    raise UsageError(f"TensorRT has no shape of {tensor.name!r}: {messages.summary()}") from None
            self._names.setdefault(tensor.name, 1)  # no later layer takes it
            dtype = self.backend.torch_dtype(tensor.dtype)
            made = Tensor(self, dims, dtype, handle=tensor, name=tensor.name)
            made.shape = _sizes(self, made, dims, shape)
            for size in made.shape:
                self.constraints.not_negative(size, self.current_operation)
            return made

    def weights(self, source: Source) -> Scope:
        """A safetensors file or a mapping, such as a state_dict, as :class:`Scope`: ``w.conv1.weight``.

        Raises WeightsError for a file that is not there or is damaged.

        >>> net = td.Network()
        >>> w = net.weights({"fc.weight": torch.ones(2, 3)})
        >>> F.linear(net.input("x", (5, 3)), w.fc.weight).shape
        (5, 2)
        """
        return Scope(self, Weights(source))

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Layers added inside are named under ``name``. UsageError for what is no name."""
        if not isinstance(name, str) or not name:
            hint = ": weights are net.weights(…)" if isinstance(name, (Mapping, PathLike)) else f": {name!r}"
            raise UsageError(f"net.scope takes a module's name, such as 'head', not {type(name).__name__}{hint}")
        check_characters(name, "a module's name")
        with swapped(self, _scope=f"{self._scope}.{name}" if self._scope else name):
            yield

    def add_input(self, name: str, spec: Input) -> Tensor:
        """Adds the input that ``spec`` describes and takes note of its dynamic dimensions."""
        with self.operation("input"):
            _check_name(name, "input")
            if name in self.inputs:
                raise UsageError(f"the network has an input {name!r} already{RUN_AGAIN}")
            if len(spec.shape) > MAX_DIMS:
                raise DefinitionError(
                    f"input {name!r} has {len(spec.shape)} dimensions; TensorRT has at most {MAX_DIMS}"
                )
            shape, dtype, known = spec.shape, as_dtype(spec.dtype), dict(self.dims)
            for atom in (atom for size in shape if isinstance(size, Size) for atom in size.atoms()):
                if not isinstance(atom, Dim):
                    raise UsageError(f"an input's size must be made of Dims, not of {atom}")
                before = known.get(atom.name, atom)
                if atom.range is not None and before.range not in (None, atom.range):
                    ranges = f"{before.range} and {atom.range}"
                    raise UsageError(f"two dimensions are named {atom.name}, with the ranges {ranges}")
                known[atom.name] = atom if before.range is None else before  # one of a name may have the range alone
            self.take_name(name)
            dims = tuple(size if isinstance(size, int) else -1 for size in shape)
            with self.backend.listen() as messages:
                handle = self.target.definition.add_input(name, self.backend.data_type(dtype), dims)
            if handle is None:
                raise DefinitionError(f"input {name!r}: {messages.summary()}")
            for axis, size in enumerate(shape):
                if isinstance(size, Dim):
                    handle.set_dimension_name(axis, size.name)
            self.inputs[name] = Tensor(self, shape, dtype, handle=handle, name=name)
            if spec.format is not None:
                self.backend.lay_channels_last(handle)
                self.inputs[name].order = channels_last(len(shape))
                self.channels_last.add(name)
            self.input_specs[name], self.dims = spec, known
            self._dim_places = dict.fromkeys(known, self.current_operation) | self._dim_places
        return self.inputs[name]

    @property
    def plugins(self) -> list[PluginUse]:
        """Those that its layers are."""
        return [facts.plugin for facts in self.layers.values() if facts.plugin is not None]

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles that an engine of this network has, each with the range of every Dim; equal ones count once.

        Raises UsageError for a dimension that is not there or has no range, for a range outside its own, and for sizes
        of an input that TensorRT lacks.
        """
        profiles = self._known_profiles()
        missing = [name for profile in profiles for name in self.dims if name not in profile.ranges]
        if missing:
            name = missing[0]
            given = to_write(f"dims={{{name!r}: (1, 4, 16)}}", f"--dim {name}=1:4:16")
            raise UsageError(
                f"dimension {', '.join(dict.fromkeys(missing))} has no range: give one with "
                f"td.Dim({name!r}, min=1, opt=4, max=16) in the input's shape, or in each td.Profile"
                f"{f', or {given}' if self.is_from_spec else ''}",
                location=self._dim_places[name].location,
            )
        for name, most in ((name, self.input_shape(name, each.at("max"))) for each in profiles for name in self.inputs):
            if max(most, default=0) > MAX_SIZE:
                raise UsageError(f"input {name!r} would be {most}: TensorRT's sizes are at most {MAX_SIZE}")
        return profiles

    def _known_profiles(self) -> tuple[Profile, ...]:
        for profile in self._profiles:
            profile.check(self.dims, self.name)
        return tuple(dict.fromkeys(profile.within(self.dims) for profile in self._profiles))

    def check_sizes(self) -> None:
        """Walks the network at the ends of each profile's ranges.

        Raises ShapeError with the author's line for a size that would be negative, or that does not divide or match.
        """
        self.emit()  # what lowered calls need of sizes, too
        for profile in self._known_profiles():
            try:
                self.constraints.check(profile.ranges)
            except ShapeError as error:
                if not self.is_from_spec:
                    error.context.append("the call stays in this td.Network: write it otherwise, from a new one on")
                raise

    def check_weights(self) -> None:
        """Looks for NaN and Inf in the weights, once, where they are read: before a build and an evaluation.

        Raises WeightsError naming every such weight, at the author's first line that uses the first of them.
        """
        if self.unsearched is not None:
            places: dict[str, Location] = {}
            for layer in self.layers.values():
                if layer.location is not None:
                    places = dict.fromkeys(layer.weights, layer.location) | places
            self.unsearched.check_finite(places)
            self.unsearched = None

    def resolved(self, size: SizeLike) -> SizeLike:
        """The size with the dimensions that the network has in the place of the file's own, of the same names."""
        if isinstance(size, int):
            return size
        names = {atom.name: atom for atom in size.atoms() if isinstance(atom, Dim)}
        others: dict[str, SizeLike] = {name: self.fixed[name] for name in names if name in self.fixed}
        others.update((name, self.dims[name]) for name in names if name in self.dims)
        changed = any(others[name] is not names[name] for name in others)
        return substitute(size, others) if changed else size

    def requirements(self) -> list[dict[str, Any]]:
        """What the network requires of its sizes (:func:`trtdsl.require`), as a manifest has it."""
        facts = []
        for each in self.constraints.required:
            dims = {}
            for atom in sorted(each.condition.atoms(), key=str):
                tensor, axis, factor, offset = self.place_of(atom)
                dims[str(atom)] = {"input": tensor.name, "axis": axis, "factor": factor, "offset": offset}
            facts.append(
                {
                    "condition": str(each.condition),
                    "why": each.what,
                    "place": each.location.short if each.location else "",
                    "expression": each.condition.to_json(),
                    "dims": dims,
                }
            )
        return facts

    def input_shape(self, name: str, env: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an input where the Dims have the values in ``env``."""
        return tuple(value(size, env) for size in self.inputs[name].shape)

    def __reduce__(self) -> Any:
        raise UsageError(
            f"the network {self.name!r} is its process's own, and is not copied or pickled: give other processes what "
            "td.network made, or the file, and let each define it"
        )

    def _repr_html_(self) -> str:
        rows = [
            (side, name, tensor.shape, dtype_name(tensor.dtype))
            for side, named in (("input", self.inputs), ("output", self.outputs))
            for name, tensor in named.items()
        ]
        return folded(repr(self), table(["", "name", "shape", "dtype"], rows))

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {shape_text(tensor.shape)}" for name, tensor in self.inputs.items())
        layers = self.target.definition.num_layers or len(self.graph.nodes)  # what is emitted, or only recorded yet
        return f"Network({self.name}: {inputs} -> {', '.join(self.outputs)}; {several(layers, 'layer')})"


def _check_name(name: Any, what: str) -> None:
    if not isinstance(name, str) or not name:
        raise UsageError(f"the name of an {what} is a text that is not empty, not {name!r}")
    check_characters(name, f"the name of an {what}")


RUN_AGAIN = ": to run a notebook's cell again, run the one with its td.Network(…) first"


def _as_state(name: str, state: Tensor, after: str, tensor: Tensor) -> Tensor:
    """What the next run takes for a state, in its dtype. DefinitionError for another shape or kind of numbers."""
    if tensor.shape != state.shape:
        shapes = shape_text(state.shape), shape_text(tensor.shape)
        raise DefinitionError(f"the state {name!r} has the shape {shapes[0]}, and {after!r} {shapes[1]}")
    if len({(dtype.is_floating_point, dtype == torch.bool) for dtype in (tensor.dtype, state.dtype)}) > 1:
        wanted, found = dtype_name(state.dtype), dtype_name(tensor.dtype)
        raise DefinitionError(f"the state {name!r} is {wanted}, and {after!r} {found}: say .to(torch.{wanted})")
    return tensor.to(state.dtype)


def _handles(definition: Any) -> list[Any]:
    """Every ITensor of a definition."""
    layers = map(definition.get_layer, range(definition.num_layers))
    made = [layer.get_output(index) for layer in layers for index in range(layer.num_outputs)]
    return [*map(definition.get_input, range(definition.num_inputs)), *made]


def _sizes(network: Network, tensor: Tensor, dims: tuple[int, ...], shape: Sequence[int | str | Size] | None) -> Shape:
    """TensorRT's sizes where it knows them; those that it leaves open in the author's words, or as the tensor's own."""
    if shape is not None and len(shape) != len(dims):
        raise ShapeError(f"{tensor.name!r} has {len(dims)} dimensions, {dims}, and the shape {len(shape)}")
    sizes: list[SizeLike] = []
    for axis, size in enumerate(dims):
        if shape is None:
            sizes.append(size if size >= 0 else tensor_dim(tensor, axis, tensor.name))
            continue
        given = shape[axis]
        ours = network.resolved(Dim(given) if isinstance(given, str) else given)
        for atom in ours.atoms() if isinstance(ours, Size) else ():
            if isinstance(atom, Dim) and atom.name not in network.dims:
                raise UsageError(f"no input has the dimension {atom.name!r}{nearest(atom.name, network.dims)}")
        if size >= 0 and ours != size:
            raise ShapeError(f"TensorRT has the shape {dims} for {tensor.name!r}, not {ours} at {axis}")
        sizes.append(ours)
    return tuple(sizes)
