"""The network being defined: inputs, outputs, constants, layer names and the author's places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import PathLike
from typing import Any, TypeVar, Union

from ..core.backend import Backend, Messages, get_backend
from ..core.caller import to_write
from ..core.dtypes import as_dtype, dtype_name
from ..core.errors import DefinitionError, Location, ShapeError, UnsupportedError, UsageError
from ..core.files.names import check_characters
from ..core.html import folded, table
from ..core.lazy import CURRENT_NETWORK, complexes, np, torch
from ..core.tensors.exact import Exact
from ..core.tensors.layer_target import LayerTarget
from ..core.tensors.memory import contiguous, flat
from ..sizes.constraints import Constraints
from ..sizes.dim import Dim
from ..sizes.profile import Profile, as_profiles
from ..sizes.shape import Shape, linear, shape_text, substitute
from ..sizes.size import Atom, Size, SizeLike, value
from .graph import Graph
from .input import NEXT, Input, State
from .operation import Operation, author_location
from .precision import Policy, as_precision, is_low
from .tensor import Tensor, common_parent, modules_of
from .tuning.choices import Choices
from .tuning.precisions import Precisions, around
from .weights.scope import Scope
from .weights.source import Source, Weights
from .wrap import PluginUse, wrap

R = TypeVar("R")
Operand = Union[Tensor, "torch.Tensor", "np.ndarray", bool, int, float]

CONTROL_FLOW = {"scan", "while_loop", "cond"}
MAX_DIMS = 8


class Network:
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
        self.name = name
        self._profiles = as_profiles(profiles) or (Profile(),)
        self.precision: torch.dtype | None = None
        """The lowest that it computes in, where that is not float32: it is judged by it."""
        self.policy: Policy | None = None
        """What says in which dtype each call computes; None where that is its operands'."""
        self.asked = precision
        """The precision that was asked for, with which another definition computes alike."""
        if isinstance(precision, Precisions):
            self.policy = Policy(calls=precision)
            used = {as_precision(around(dtype)) for dtype in precision.tuned.values()}
            self.precision = next((dtype for dtype in (torch.float16, torch.bfloat16) if dtype in used), None)
        elif (low := as_precision(precision)) is not None:
            self.policy, self.precision = Policy(low), low
        self.backend = backend if isinstance(backend, Backend) else get_backend(backend)
        self.trt = self.backend.trt
        self.graph = Graph(self)
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        self.input_specs: dict[str, Input] = {}
        """The inputs as they were described, with what a check feeds them."""
        self.dims: dict[str, Dim] = {}
        self.fixed: dict[str, int] = {}
        """Dimensions of the network file that have one size here."""
        self.rank, self.ranks = 0, 1
        """Which part it is of a network on several GPUs."""
        self.others: Callable[[], Sequence[Network]] = list
        """Defines the other parts, in order."""
        self.locations: dict[str, Location] = {}
        """The author's place for each layer, by layer name."""
        self.plugins: dict[str, PluginUse] = {}  # by layer
        self.weight_names: dict[str, tuple[str, ...]] = {}
        """The weights (by their names in the state_dict) that a layer uses, by layer name."""
        self.numbers: dict[str, dict[str, float]] = {}
        """The attributes of a layer that TensorRT keeps as C floats, as they were given, by layer name."""
        self.calls: dict[str, Operation] = {}
        """The author's call that a layer is part of, by layer name."""
        self.shapes: dict[str, Shape] = {}
        """The shapes that TensorRT leaves open, in the author's dimensions, by the name that a tensor was given first:
        its layer's, or its own where a layer has several."""
        self.target = LayerTarget(self, self.backend.create_network())
        self.cache: dict[Any, Any] = {}  # what lowerings share within the network: shape tensors, small constants
        self.unsearched: Weights | None = None  # those in which check_weights has to look for NaN and Inf
        self.choices = Choices()
        """Which way each call is lowered that has several."""
        self.has_tensors = False
        """Whether constants were given that have no exact values beside: numbers that may have been rounded before."""
        self.exact: Exact | None = None
        """The exact values of its constants, beside those that TensorRT has; None where nobody needs them."""
        self.fold_limit = 1 << 16  # elements that a folded constant may have in any case
        self.constraints = Constraints()
        self._dim_places: dict[str, Any] = {}  # the operations
        self._names: dict[str, int] = {}
        self._places: dict[Location, str] = {}  # as metadata has them
        self._scope = ""
        self.current_operation: Operation | None = None
        """The author's call that is being lowered."""
        self.is_from_spec = False
        """Whether a function under @td.network writes it: defined again, it is a new one."""
        self.log = Messages()
        """What TensorRT has logged of its definition and nobody has looked at."""
        self.listens = False  # whether that is collected now
        self.bodies = 0  # of control flow that are being written, one in the other
        with self.operation("network"):
            self.target.definition.name = name

    @property
    def definition(self) -> Any:
        """TensorRT's INetworkDefinition, with everything that the network has so far."""
        self.graph.emit()
        return self.target.definition

    # -- what the author calls -------------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[Any], dtype: Any = "float32", *, sample: Any = None) -> Tensor:
        """Adds an :class:`Input`; a str in ``shape`` names a dynamic dimension. UsageError for a name taken before."""
        return self.add_input(name, Input(tuple(shape), dtype, sample))

    def output(self, tensor: Tensor, name: str) -> None:
        """Marks ``tensor`` as the output ``name``."""
        with self.operation("output"):
            _check_name(name, "output")
            if name in self.outputs or name in self.inputs:
                raise UsageError(_taken(self, name))
            if not isinstance(tensor, Tensor):
                kind = "a size" if isinstance(tensor, Size) else f"{type(tensor).__module__}.{type(tensor).__name__}"
                raise DefinitionError(f"output {name!r} must be a trtdsl.Tensor, not {kind}")
            if tensor.network is not self:
                raise UsageError(f"output {name!r} is a tensor of another network")
            before = next((before for before, after in self.states.items() if after == name), None)
            if before is not None:
                tensor = tensor.to(self.inputs[before].dtype)
            elif self.precision is not None and is_low(tensor):  # outputs are float32, whatever ran inside
                tensor = tensor.to(torch.float32)
            if tensor.is_constant:
                self.backend.data_type(tensor.dtype)
            call = self.current_operation
        assert call is not None
        self.outputs[name] = tensor
        self.graph.add_output(name, call)

    @property
    def states(self) -> dict[str, str]:
        """Of each input that is a :class:`State`, the name of the output that the next run takes for it."""
        return {name: NEXT + name for name, spec in self.input_specs.items() if isinstance(spec, State)}

    def check_states(self) -> None:
        """DefinitionError for a state without an output, or with one of another shape."""
        for name, after in self.states.items():
            state, found = self.inputs[name], self.outputs.get(after)
            if found is None:
                raise DefinitionError(f"the state {name!r} needs an output {after!r}: what the next run takes for it")
            if found.shape != state.shape:
                raise DefinitionError(f"the state {name!r} is {shape_text(state.shape)}, and {after!r} {found}")

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
            network.graph.emit()
        exact = Exact(known={} if self.exact is None else self.exact.known)
        exact.rounded_constants = any(network.exact is None or network.has_tensors for network in together)
        return exact

    def make_output(self, name: str, handle: Any, is_copied: bool) -> None:
        """Makes an ITensor an output of TensorRT's network; a copy of it where TensorRT would not take it as one."""
        definition, tensor = self.target.definition, self.outputs[name]
        if is_copied or tensor.is_constant or handle.is_network_input or handle.is_network_output:
            layer = definition.add_identity(handle)  # TensorRT marks neither inputs nor a tensor twice
            self._named(layer, f"{name}.identity")
            handle = layer.get_output(0)
            self.outputs[name] = tensor = Tensor(self, tensor.shape, tensor.dtype, handle=handle, name=name)
        if handle.name != name:
            if name in self._names:
                self._rename_inner(name)
            else:
                tensor.name = self.take_name(name)
            handle.name = name
        definition.mark_output(handle)

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
            return wrap(self, tensor, shape)

    def constant(self, data: Operand | Sequence[Any], dtype: Any = None, *, source: str | None = None) -> Tensor:
        """A constant Tensor; becomes a layer only where a layer needs it as an input.

        ``data`` is a torch tensor, a numpy array, a number or a list of them: Python floats are float32, ints int64.
        ``source`` is the weight's name in the state_dict, for the names of the layers that use it.
        """
        weight_names, given = (source,) if source else (), data
        if isinstance(data, Tensor):
            if dtype is None or as_dtype(dtype) == data.dtype:
                return data
            if not data.is_constant:
                raise UsageError("this Tensor is computed when the network runs: use its .to(dtype)")
            weight_names = data.weight_names
            data = data.data
        try:
            tensor = data if isinstance(data, torch.Tensor) else torch.as_tensor(data)
        except (TypeError, ValueError, RuntimeError) as error:  # texts, dates, records, another order of bytes
            raise UnsupportedError(f"no constant is made of {type(data).__name__}: {str(error)[:200]}") from None
        if dtype is not None:
            tensor = tensor.to(as_dtype(dtype))
        if isinstance(given, (torch.Tensor, np.ndarray)):  # the caller may change his own
            self.has_tensors |= tensor.is_floating_point() and (self.exact is None or not self.exact.has(tensor))
            tensor = tensor.clone()
        elif isinstance(data, float):
            tensor = tensor.to(torch.float32)
        if not tensor.is_cpu:
            raise UsageError(f"constants are made from CPU tensors, not from one on {tensor.device}")
        return self.plain_constant(tensor.detach() if tensor.requires_grad else tensor, weight_names)

    def plain_constant(self, data: torch.Tensor, weight_names: tuple[str, ...]) -> Tensor:
        """As :meth:`constant`, of a CPU tensor without history, which is made from the weights ``weight_names``."""
        if data.dtype.is_complex:
            return complexes.complex_constant(self, data, weight_names)
        return Tensor(self, tuple(data.shape), data.dtype, data=data, weight_names=weight_names)

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
        outer, self._scope = self._scope, f"{self._scope}.{name}" if self._scope else name
        try:
            yield
        finally:
            self._scope = outer

    @contextmanager
    def current(self) -> Iterator[Network]:
        """Makes this the network of functions that take no Tensor (``F.zeros``, ``F.arange``).

        Raises DefinitionError in the end for what TensorRT refuses by its log alone, of the author's own calls too.
        """
        token = CURRENT_NETWORK.set(self)
        before, self.listens = self.listens, True
        self.backend.listening.append(self.log)
        try:
            yield self
        finally:
            self.backend.listening.pop()
            self.listens = before
            CURRENT_NETWORK.reset(token)
        self.log.check("TensorRT refused a call while the network was defined")

    @contextmanager
    def authors_code(self) -> Iterator[None]:
        """Inside, calls are the author's again: of the functions that a control flow is given."""
        operation, self.current_operation = self.current_operation, None
        self.bodies += 1
        try:
            yield
        finally:
            self.bodies -= 1
            self.current_operation = operation

    # -- what the layers floor calls ---------------------------------------------------------------------------------

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
                dim = self._dim(atom, known)
                known[dim.name] = dim
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
            self.input_specs[name], self.dims = spec, known
            self._dim_places = dict.fromkeys(known, self.current_operation) | self._dim_places
        return self.inputs[name]

    @staticmethod
    def _dim(atom: Atom, known: Mapping[str, Dim]) -> Dim:
        """A dimension of an input, with the range that this or an earlier one of its name has."""
        if not isinstance(atom, Dim):
            raise UsageError(f"an input's size must be made of Dims, not of {atom}")
        before = known.get(atom.name, atom)
        if atom.range is not None and before.range is not None and before.range != atom.range:
            raise UsageError(f"two dimensions are named {atom.name}, with the ranges {before.range} and {atom.range}")
        return atom if before.range is None else before

    def name_layer(self, layer: Any, operation: str, operands: Sequence[Tensor]) -> tuple[str, str]:
        """Gives a layer its place and a unique name, by the module whose weights it uses; its users' scope, too."""
        prefix, scope, weight_names = self.place_layer(operation, operands)
        return self._named(layer, f"{prefix}.{operation}" if prefix else operation, weight_names), scope

    def _named(self, layer: Any, wanted: str, weight_names: tuple[str, ...] = ()) -> str:
        layer.name = name = self.take_name(wanted)
        self.locate(layer, name)
        if weight_names:
            self.weight_names[name] = weight_names
        return name

    def place_layer(self, operation: str, operands: Sequence[Tensor]) -> tuple[str, str, tuple[str, ...]]:
        """What the name of a layer begins with, its users' scope, and the weights that it uses."""
        weight_names: tuple[str, ...] = ()
        scope = prefix = ""
        for tensor in reversed(operands):
            weight_names += tensor.weight_names
            if tensor.data is None:
                scope = tensor.scope
        owners = modules_of(weight_names)
        if len(owners) == 1:
            (owner,) = owners
            module, _, part = owner.rpartition(".")
            if part not in ("", operation, operation[:-2]):
                prefix = owner  # tcn.2.conv2d, but gcn.conv's is gcn.conv2d
            scope = module if owner else scope
        elif owners:
            scope = common_parent(owners) or scope
        current = self.current_operation  # a loop stands where it is written, whatever it goes along
        inner = "" if current is not None and current.name in CONTROL_FLOW else scope
        scope = (self._scope if current is None else current.scope) or inner
        return prefix or scope, scope, weight_names

    def locate(self, layer: Any, name: str) -> None:
        """Remembers the author's place for a layer; its metadata says it, too, and the layer's scope.

        TensorRT puts together the metadata of what it fuses, each text once.
        """
        operation = self.current_operation
        if operation is None:
            location = author_location()
        else:
            location = operation.location
            self.calls[name] = operation
        if location is not None:
            self.locations[name] = location
            place = self._places.get(location)
            if place is None:
                place = self._places[location] = location.short
            scope = name.rpartition(".")[0]
            layer.metadata = f"{place} in {scope}" if scope else place

    def materialize(self, tensor: Tensor) -> Any:
        """The ITensor of a constant: the layer is added the first time that it is needed."""
        data = tensor.data
        if tensor.weight_names or data.numel() > 16:
            return self._constant_layer(data, tensor.weight_names)
        value = bytes(flat(contiguous(data)).view(torch.uint8).tolist())  # by its bytes, since 0.0 == -0.0
        return self.shared(("constant", data.dtype, data.shape, value), lambda: self._constant_layer(data, ()))

    def _constant_layer(self, data: torch.Tensor, weight_names: tuple[str, ...]) -> Any:
        layer = self.target.definition.add_constant(tuple(data.shape), self.target.buffer(data))
        name = "*".join(weight_names) if len(weight_names) in (1, 2) else "constant"
        handle = layer.get_output(0)
        handle.name = self._named(layer, name, weight_names)
        return handle

    def _rename_inner(self, name: str) -> None:
        """Gives the tensor that has the name of its layer another one: an output's name is the author's to choose."""
        definition = self.target.definition
        for layer in map(definition.get_layer, range(definition.num_layers)):
            for handle in map(layer.get_output, range(layer.num_outputs)):
                if handle.name == name:
                    handle.name = self.take_name(name)

    def take_name(self, name: str) -> str:
        """A name that nothing in the network has yet: this one, or with a number."""
        count = self._names.get(name)
        if count is None:
            self._names[name] = 1
            return name
        self._names[name] = count + 1
        return self.take_name(f"{name}_{count}")

    def operation(self, name: str, location: Location | None = None) -> AbstractContextManager[Any]:
        """The author's call that layers are added for; nothing within another one, since the outermost counts."""
        return Operation(self, name, location) if self.current_operation is None else nullcontext()

    def shared(self, key: Any, make: Callable[[], R]) -> R:
        """What lowerings have in common, made by the first of them."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    @property
    def regions(self) -> int:
        """Loops and branches, all that there are so far."""
        return len(self.graph.regions)

    # -- facts ---------------------------------------------------------------------------------------------------------

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles that an engine of this network has, each with the range of every Dim; equal ones count once.

        Raises UsageError for a dimension that is not there or has no range, and for a range outside its own.
        """
        profiles = self._known_profiles()
        missing = [name for profile in profiles for name in self.dims if name not in profile.ranges]
        if missing:
            name = missing[0]
            given = to_write(f"dims={{{name!r}: (1, 4, 16)}}", f"--dim {name}=1:4:16")
            raise UsageError(
                f"dimension {', '.join(dict.fromkeys(missing))} has no range: give one with "
                f"td.Dim({name!r}, min=1, opt=4, max=16) in the input's shape, in each td.Profile"
                f"{f', or {given}' if self.is_from_spec else ''}",
                location=self._dim_places[name].location,
            )
        return profiles

    def _known_profiles(self) -> tuple[Profile, ...]:
        for profile in self._profiles:
            profile.check(self.dims, self.name)
        return tuple(dict.fromkeys(profile.within(self.dims) for profile in self._profiles))

    def check_sizes(self) -> None:
        """Walks the network at the ends of each profile's ranges.

        Raises ShapeError with the author's line for a size that would be negative, or that does not divide or match.
        """
        self.graph.emit()  # what lowered calls need of sizes, too
        for profile in self._known_profiles():
            try:
                self.constraints.check(profile.ranges)
            except ShapeError as error:
                if not self.is_from_spec:
                    error.context.append("the call stays in this td.Network: write it otherwise, from a new one on")
                raise

    def resolved(self, size: SizeLike) -> SizeLike:
        """The size with the dimensions that the network has in the place of the file's own, of the same names."""
        if isinstance(size, int):
            return size
        names = {atom.name: atom for atom in size.atoms() if isinstance(atom, Dim)}
        others: dict[str, SizeLike] = {name: self.fixed[name] for name in names if name in self.fixed}
        others.update((name, self.dims[name]) for name in names if name in self.dims)
        changed = any(others[name] is not names[name] for name in others)
        return substitute(size, others) if changed else size

    def place_of(self, dim: Atom) -> tuple[Tensor, int, int, int]:
        """An input and its axis of size ``a * dim + b``, a and b: alone where there is one. ShapeError for none."""
        candidates = [
            (tensor, axis, *solution)
            for tensor in self.inputs.values()
            for axis, size in enumerate(tensor.shape)
            if (solution := linear(size, dim)) is not None
        ]
        if not candidates:
            raise ShapeError(f"no input has the dimension {dim}")
        return min(candidates, key=lambda found: (found[2], abs(found[3])))

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
        return f"Network({self.name}: {inputs} -> {', '.join(self.outputs)}; {len(self.graph.nodes)} layers)"


def _check_name(name: Any, what: str) -> None:
    if not isinstance(name, str) or not name:
        raise UsageError(f"the name of an {what} is a text that is not empty, not {name!r}")
    check_characters(name, f"the name of an {what}")


RUN_AGAIN = ": to run a notebook's cell again, run the one with its td.Network(…) first"


def _taken(network: Network, name: str) -> str:
    """Why an output cannot have this name, and what to write."""
    if name in network.inputs:
        return f"the output {name!r} has the name of an input: call it otherwise, such as {name + '_out'!r}"
    return f"there are two outputs {name!r}: give each a name of its own{'' if network.is_from_spec else RUN_AGAIN}"
