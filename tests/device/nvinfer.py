"""TensorRT's names where it needs a device: Runtime, ICudaEngine, IExecutionContext, Refitter, and the builder's plans.

Real TensorRT-RTX builds every plan. The definition that it was built from is kept beside the hash of the plan's bytes,
and the interpreter computes with it what a GPU would.
"""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from trtdsl.core import errors as errors
from trtdsl.definition.network import Network
from trtdsl.interpreter.feeds import dims_of
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.sizes.size import value

from .machine import Machine
from .memory import ALIGNMENT, IllegalAccessError, host_bytes, is_device
from .work import Work

MARK = b"kernels "
DATA_DEPENDENT = ("NON_ZERO", "NMS")


class Forwarding:
    """Stands for a real object; what it does not do itself, that one does."""

    def __init__(self, real: Any):
        object.__setattr__(self, "_real", real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __dir__(self) -> list[str]:
        return dir(self._real)

    def __setattr__(self, name: str, given: Any) -> None:
        if name in self.__dict__ or name.startswith("_"):
            object.__setattr__(self, name, given)
        else:
            setattr(self._real, name, given)


@dataclass
class Built:
    """What is known of a plan besides its bytes."""

    definition: Any
    network: Network | None
    profiles: list[Any]
    flags: set[str]
    capabilities: list[str]
    kept: list[Any] = field(default_factory=list)

    def outputs(self) -> list[Any]:
        return [self.definition.get_output(index) for index in range(self.definition.num_outputs)]

    def inputs(self) -> list[Any]:
        return [self.definition.get_input(index) for index in range(self.definition.num_inputs)]


class Shelf:
    """Plans that were built in this process, by their hash."""

    def __init__(self) -> None:
        self._plans: dict[str, Built] = {}
        self.networks: weakref.WeakValueDictionary[int, Network] = weakref.WeakValueDictionary()
        self.parsers: dict[int, Any] = {}

    def keep(self, data: bytes, built: Built) -> None:
        self._plans[hashlib.sha256(data).hexdigest()] = built

    def find(self, data: bytes) -> Built | None:
        return self._plans.get(hashlib.sha256(data).hexdigest())


# -- building ----------------------------------------------------------------------------------------------------------


class BuilderConfig(Forwarding):
    """An IBuilderConfig that tells afterwards what was set; refitting, which asks for a GPU, is only noted."""

    NOTED = ("REFIT", "STRIP_PLAN", "REFIT_IDENTICAL")

    def __init__(self, real: Any):
        super().__init__(real)
        self._profiles: list[Any] = []
        self._flags: set[str] = set()
        self._capabilities: list[str] = []

    def set_flag(self, flag: Any) -> None:
        if flag.name in self.NOTED:
            self._flags.add(flag.name)
        else:
            self._real.set_flag(flag)

    def clear_flag(self, flag: Any) -> None:
        self._flags.discard(flag.name)
        self._real.clear_flag(flag)

    def add_optimization_profile(self, profile: Any) -> int:
        self._profiles.append(profile)
        return self._real.add_optimization_profile(profile)

    def set_compute_capability(self, capability: Any, index: int = 0) -> Any:
        self._capabilities.append(capability.name)
        return self._real.set_compute_capability(capability, index)


class Builder(Forwarding):
    """An IBuilder whose plans the simulated device can run."""

    def __init__(self, real: Any, trt: Any, shelf: Shelf):
        super().__init__(real)
        self._trt, self._shelf = trt, shelf

    def create_builder_config(self) -> BuilderConfig:
        return BuilderConfig(self._real.create_builder_config())

    def build_serialized_network(self, definition: Any, config: BuilderConfig) -> Any:
        types = {definition.get_layer(index).type.name for index in range(definition.num_layers)}
        if types.intersection(DATA_DEPENDENT):
            data = self._stand_in(config._real)
        else:
            data = self._real.build_serialized_network(definition, config._real)
        if data is not None:
            shelf = self._shelf
            network = shelf.networks.get(id(definition))
            built = Built(definition, network, config._profiles, config._flags, config._capabilities)
            built.kept.append(shelf.parsers.get(id(definition)))
            shelf.keep(bytes(data), built)
        return data

    def _stand_in(self, config: Any) -> Any:
        """A plan of another network: without a GPU this one's has no kernels."""
        stand_in = self._real.create_network(0)
        number = np.random.default_rng().standard_normal(4).astype(np.float32)
        layer = stand_in.add_constant((4,), self._trt.Weights(number))
        layer.get_output(0).name = "y"
        stand_in.mark_output(layer.get_output(0))
        return self._real.build_serialized_network(stand_in, self._real.create_builder_config())


# -- running -----------------------------------------------------------------------------------------------------------


class Simulated:
    """What the doubles of a backend have in common."""

    def __init__(self, backend: Any, trt: Any, machine: Machine):
        self.backend, self.trt, self.machine = backend, trt, machine
        self.shelf = Shelf()

    def say(self, text: str, severity: int = 1) -> None:
        """TensorRT's log."""
        self.backend.logger.log(self.trt.ILogger.Severity(severity), text)

    def enter(self, name: str) -> bool:
        """Counts a call of TensorRT's; False when it is to fail."""
        machine = self.machine
        with machine.lock:
            machine.counts[name] += 1
            machine.log.append(name)
            machine.clock += 0.001
            for index, (which, text, after) in enumerate(machine.faults):
                if which == name:
                    if after:
                        machine.faults[index] = (which, text, after - 1)
                        continue
                    del machine.faults[index]
                    self.say(text or f"{name}: Error Code 1: Internal Error (simulated)")
                    return False
        if machine.lost is not None:
            self.say(f"Error Code 1: Cuda Runtime (simulated {machine.lost})")
            return False
        return True


class Runtime:
    """IRuntime."""

    def __init__(self, simulated: Simulated, logger: Any):
        self._simulated, self.logger = simulated, logger
        self.engine_host_code_allowed = False

    def get_engine_validity(self, data: bytes) -> tuple[Any, int]:
        trt = self._simulated.trt
        built = self._simulated.shelf.find(bytes(data))
        bits = trt.EngineInvalidityDiagnostics.__members__
        if built is None:
            return trt.EngineValidity.INVALID, int(bits["MALFORMED_ENGINE"])
        here = "SM{}{}".format(*self._simulated.machine.capability)
        if built.capabilities and here not in built.capabilities:
            return trt.EngineValidity.INVALID, int(bits["UNSUPPORTED_CC"])
        return trt.EngineValidity.VALID, 0

    def deserialize_cuda_engine(self, data: bytes) -> Engine | None:
        if not self._simulated.enter("deserialize_cuda_engine"):
            return None
        built = self._simulated.shelf.find(bytes(data))
        if built is None:
            self._simulated.say("the simulated device knows only plans that were built in its process")
            return None
        with self._simulated.machine.lock:
            machine = self._simulated.machine
            memory = machine.memory.allocate(len(data), machine.current, "an engine's weights")
            if memory is None:
                self._simulated.say("Error Code 2: OutOfMemory (no further information)")
                return None
        return Engine(self._simulated, self, built, memory)


class Model:
    """What a GPU would compute, and on which memory."""

    def __init__(self, simulated: Simulated, built: Built):
        self._memory, self._built = simulated.machine.memory, built
        self.inputs = {tensor.name: tensor for tensor in built.inputs()}
        tensors = [*self.inputs.values(), *built.outputs()]
        self.on_host = {tensor.name for tensor in tensors if tensor.is_shape_tensor}
        formats = simulated.trt.TensorFormat
        last = [1 << int(each) for each in (formats.HWC, formats.DHWC)]
        self.channels_last = {tensor.name for tensor in tensors if tensor.allowed_formats in last}
        self.dtypes = {tensor.name: simulated.backend.torch_dtype(tensor.dtype) for tensor in tensors}
        self._interpreter: Interpreter | None = None

    def prepare(self) -> Interpreter:
        """Reads the weights, as they are now."""
        self._interpreter = Interpreter(self._built.network or self._built.definition)
        return self._interpreter

    def compute(self, feeds: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return (self._interpreter or self.prepare())(feeds)

    def read(self, name: str, addresses: dict[str, int], shapes: Any, host: dict[str, torch.Tensor]) -> torch.Tensor:
        if name in host:
            return host[name]
        shape, dtype = shapes[name], self.dtypes[name]
        size = int(np.prod(shape)) * dtype.itemsize
        if not size:
            return torch.empty(shape, dtype=dtype)
        found = torch.from_numpy(self._memory.bytes(addresses[name], size).copy()).view(dtype)
        if name in self.channels_last:
            return found.reshape(shape[0], *shape[2:], shape[1]).movedim(-1, 1)
        return found.reshape(shape)

    def write(self, name: str, address: int, result: torch.Tensor) -> None:
        if result.numel():
            if name in self.channels_last:
                result = result.movedim(1, -1)
            data = result.contiguous().reshape(-1).view(torch.uint8).numpy()
            target = host_bytes(address, data.size) if name in self.on_host else self._memory.bytes(address, data.size)
            target[:] = data


class Engine:
    """ICudaEngine."""

    def __init__(self, simulated: Simulated, runtime: Runtime, built: Built, memory: int):
        self._simulated, self._runtime, self._built, self._memory = simulated, runtime, built, memory
        self._inputs = {tensor.name: tensor for tensor in built.inputs()}
        self._outputs = {tensor.name: tensor for tensor in built.outputs()}
        self._tensors = {**self._inputs, **self._outputs}
        self._lacking = "STRIP_PLAN" in built.flags
        self._model = Model(simulated, built)
        self.name = built.definition.name
        self.device_memory_size_v2 = 1 << 16
        self.num_io_tensors = len(self._tensors)
        self.num_optimization_profiles = max(len(built.profiles), 1)
        self.refittable = bool(built.flags.intersection(("REFIT", "REFIT_IDENTICAL")))
        weakref.finalize(self, simulated.machine.memory.free, memory)

    def get_tensor_name(self, index: int) -> str:
        return list(self._tensors)[index]

    def get_tensor_dtype(self, name: str) -> Any:
        return self._tensors[name].dtype

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def get_tensor_format(self, name: str) -> Any:
        formats, allowed = self._simulated.trt.TensorFormat, self._tensors[name].allowed_formats
        return next((each for each in (formats.HWC, formats.DHWC) if allowed == 1 << int(each)), formats.LINEAR)

    def get_tensor_location(self, name: str) -> Any:
        locations = self._simulated.trt.TensorLocation
        return locations.HOST if self._tensors[name].is_shape_tensor else locations.DEVICE

    def get_tensor_mode(self, name: str) -> Any:
        modes = self._simulated.trt.TensorIOMode
        return modes.INPUT if name in self._inputs else modes.OUTPUT

    def get_aliased_input_tensor(self, name: str) -> str | None:
        definition = self._built.definition
        for layer in map(definition.get_layer, range(definition.num_layers)):
            if layer.type.name == "KV_CACHE_UPDATE" and layer.get_output(0).name == name:
                return layer.get_input(0).name
        return None

    def get_tensor_profile_shape(self, name: str, index: int) -> list[tuple[int, ...]]:
        shape = self.get_tensor_shape(name)
        if min(shape, default=0) >= 0 or not self._built.profiles:
            return [shape] * 3
        return [tuple(each) for each in self._built.profiles[index].get_shape(name)]

    def get_tensor_profile_values(self, name: int, profile_index: str) -> list[list[int]]:
        # In TensorRT's own order, whatever its signature says: the profile's index, then the name.
        index, tensor = name, profile_index
        return [list(each) for each in self._built.profiles[index].get_shape_input(tensor)]

    def create_runtime_config(self) -> RuntimeConfig:
        return RuntimeConfig(self._simulated)

    def create_execution_context(self, runtime_config: RuntimeConfig | None = None) -> Context | None:
        simulated = self._simulated
        if not simulated.enter("create_execution_context"):
            return None
        with simulated.machine.lock:
            machine = simulated.machine
            memory = machine.memory.allocate(self.device_memory_size_v2, machine.current, "a context's memory")
        if memory is None:
            simulated.say("Error Code 2: OutOfMemory (Requested size was 65536 bytes.)")
            return None
        return Context(simulated, self, runtime_config, memory)

    # -- what the doubles need of each other -----------------------------------------------------------------------

    def _shape_of(self, name: str, shapes: dict[str, tuple[int, ...]], host: dict[str, torch.Tensor]) -> Any:
        """An output's shape; -1 for a size that only running tells."""
        network = self._built.network
        static = self.get_tensor_shape(name)
        if min(static, default=0) >= 0:
            return static
        if network is not None:
            env = dims_of({name: tensor.shape for name, tensor in network.inputs.items()}, shapes)
            sizes = network.outputs[name].shape
            try:
                return tuple(size if isinstance(size, int) else value(size, env) for size in sizes)
            except errors.ShapeError:
                return static
        zeros = {
            given: host.get(given, torch.zeros(shapes[given], dtype=self._torch_dtype(given))) for given in self._inputs
        }
        return tuple(self._model.compute(zeros)[name].shape)

    def _torch_dtype(self, name: str) -> torch.dtype:
        return self._simulated.backend.torch_dtype(self._tensors[name].dtype)


class RuntimeConfig:
    """IRuntimeConfig."""

    def __init__(self, simulated: Simulated):
        trt = simulated.trt
        self._simulated = simulated
        self.cuda_graph_strategy = trt.CudaGraphStrategy.DISABLED
        self.dynamic_shapes_kernel_specialization_strategy = trt.DynamicShapesKernelSpecializationStrategy.LAZY
        self._cache: RuntimeCache | None = None

    def create_runtime_cache(self) -> RuntimeCache:
        return RuntimeCache()

    def set_runtime_cache(self, cache: RuntimeCache | None) -> bool:
        if not self._simulated.enter("set_runtime_cache"):
            return False
        self._cache = cache
        return True

    def get_runtime_cache(self) -> RuntimeCache | None:
        return self._cache


class RuntimeCache:
    """IRuntimeCache: the shapes that kernels were compiled for."""

    def __init__(self) -> None:
        self._kernels: set[str] = set()

    def serialize(self) -> bytes:
        return MARK + "\n".join(sorted(self._kernels)).encode()

    def deserialize(self, data: bytes) -> bool:
        data = bytes(data)
        if not data.startswith(MARK):
            return False
        self._kernels = set(filter(None, data[len(MARK) :].decode().split("\n")))
        return True

    def reset(self) -> bool:
        self._kernels = set()
        return True


class Context:
    """IExecutionContext."""

    def __init__(self, simulated: Simulated, engine: Engine, config: RuntimeConfig | None, memory: int):
        self._simulated, self.engine, self._memory = simulated, engine, memory
        self._config = None if config is None else weakref.ref(config)
        self._strategies = () if config is None else (
            config.cuda_graph_strategy.name, config.dynamic_shapes_kernel_specialization_strategy.name,
        )  # fmt: skip
        self._cache = None if config is None else config.get_runtime_cache()
        self._shapes = {name: engine.get_tensor_shape(name) for name in engine._inputs}
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}
        self._patients: list[Any] = []  # what pybind11 keeps alive with this object
        self._profile = 0
        self._last: Work | None = None
        machine = simulated.machine
        weakref.finalize(self, _release, machine, memory)

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        if not self._simulated.enter("set_optimization_profile_async"):
            return False
        if not 0 <= profile_index < self.engine.num_optimization_profiles:
            self._simulated.say(f"Error Code 3: API Usage Error (profile {profile_index} of {len(self._addresses)})")
            return False
        self._profile = profile_index
        return True

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        if not self._simulated.enter("set_input_shape"):
            return False
        low, _, high = self.engine.get_tensor_profile_shape(name, self._profile)
        if len(shape) != len(low) or not all(a <= s <= b for a, s, b in zip(low, shape, high, strict=True)):
            self._simulated.say(f"Error Code 3: API Usage Error ({name}: {shape} is not in {low} to {high})")
            return False
        self._shapes[name] = tuple(shape)
        return True

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if not self._simulated.enter("set_tensor_address"):
            return False
        self._addresses[name] = int(memory)
        return True

    def set_output_allocator(self, name: str, output_allocator: Any) -> bool:
        if not self._simulated.enter("set_output_allocator"):
            return False
        self._patients.append(output_allocator)
        self._allocators[name] = output_allocator
        return True

    def set_communicator(self, communicator: Any) -> bool:
        pointer = ctypes.pythonapi.PyCapsule_GetPointer  # which takes no other object
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        self.communicator = pointer(communicator, None)
        return self._simulated.enter("set_communicator")

    def infer_shapes(self) -> list[str]:
        if not self._simulated.enter("infer_shapes"):
            raise RuntimeError("infer_shapes failed")
        engine = self.engine
        missing = [name for name, shape in self._shapes.items() if min(shape, default=0) < 0]
        missing += [name for name in engine._inputs if self._on_host(name) and name not in self._addresses]
        if not missing and engine._built.network is not None:
            try:
                inputs = engine._built.network.inputs
                dims_of({name: tensor.shape for name, tensor in inputs.items()}, self._shapes)
            except Exception as error:
                self._simulated.say(f"Error Code 4: Shape Error ({error})")
                raise RuntimeError("infer_shapes failed") from error
        return missing

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        if name in self._shapes:
            return self._shapes[name]
        return self.engine._shape_of(name, self._shapes, self._host_values())

    def execute_async_v3(self, stream_handle: int) -> bool:
        simulated, engine, machine = self._simulated, self.engine, self._simulated.machine
        if not simulated.enter("execute_async_v3"):
            return False
        with machine.lock:
            self._judge(stream_handle)
            unknown = [name for name in engine._tensors if name not in self._addresses and name not in self._allocators]
            if unknown:
                simulated.say(f"Error Code 3: API Usage Error (no address for {', '.join(unknown)})")
                return False
            addresses, shapes = dict(self._addresses), dict(self._shapes)
            host = self._host_values()
            late = [name for name in self._allocators if min(self.get_tensor_shape(name), default=0) < 0]
            self._compile(shapes)
            stream = machine.stream(stream_handle)
            previous, allocators, alive, model = self._last, self._allocators, weakref.ref(self), engine._model

            def kernel() -> None:
                if alive() is None:
                    machine.violations.append("the context was let go before its work was done")
                if previous is not None and not previous.done:
                    machine.violations.append("two runs share one context's memory and no order is between them")
                made = model.compute({name: model.read(name, addresses, shapes, host) for name in model.inputs})
                for name, result in made.items():
                    if name in late:
                        size = result.numel() * result.itemsize
                        addresses[name] = allocators[name].reallocate_output_async(
                            name, 0, size, ALIGNMENT, int(stream_handle)
                        )
                        allocators[name].notify_shape(name, tuple(result.shape))
                    model.write(name, addresses[name], result)

            work = machine.launch(stream, "engine", kernel)
            if work is not None:
                self._last = work
                if late:  # TensorRT has to know sizes before it asks for memory: it waits
                    machine.finish(work)
            return True

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _on_host(self, name: str) -> bool:
        return self.engine._tensors[name].is_shape_tensor

    def _host_values(self) -> dict[str, torch.Tensor]:
        found = {}
        for name in self.engine._inputs:
            if self._on_host(name) and name in self._addresses:
                shape, dtype = self._shapes[name], self.engine._torch_dtype(name)
                size = int(np.prod(shape)) * dtype.itemsize
                if is_device(self._addresses[name]):
                    raise IllegalAccessError(f"input {name!r} is read on the host, and is on the device")
                data = host_bytes(self._addresses[name], size).copy() if size else np.empty(0, np.uint8)
                found[name] = torch.from_numpy(data).view(dtype).reshape(shape)
        return found

    def _judge(self, stream_handle: int) -> None:
        """What TensorRT does not check, and documents."""
        violations = self._simulated.machine.violations
        for name, address in self._addresses.items():
            if not self._on_host(name) and address % ALIGNMENT:
                violations.append(f"the address of {name!r} is not aligned to {ALIGNMENT} bytes")
        self._judge_overlaps(violations)
        if self._config is not None and self._config() is None:
            violations.append("the context's runtime configuration is gone")
        if self.engine._lacking:
            violations.append("the engine runs without its weights")
        if int(stream_handle) in (0, 1):
            self._simulated.say(
                "Using default stream in enqueueV3() may lead to performance issues due to additional calls to "
                "cudaStreamSynchronize() by TensorRT to ensure correct synchronization.",
                2,
            )
            if "WHOLE_GRAPH_CAPTURE" in self._strategies:
                self._simulated.say("CUDA graphs are not captured from the default stream.", 2)
                self._simulated.machine.counts["run without the graph that was asked for"] += 1

    def _judge_overlaps(self, violations: list[str]) -> None:
        """Outputs that share memory with an input or with each other: kernels run in an order of TensorRT's own."""
        ranges = {}
        for name, address in self._addresses.items():
            shape = self.get_tensor_shape(name)
            if not self._on_host(name) and min(shape, default=0) >= 0:
                ranges[name] = (address, address + int(np.prod(shape)) * self.engine._torch_dtype(name).itemsize)
        for name in self.engine._outputs:
            alias = self.engine.get_aliased_input_tensor(name)
            if alias is not None and self._addresses[alias] != self._addresses.get(name):
                violations.append(f"output {name!r} is written where {alias!r} lies, and they have two addresses")
            for other, (low, high) in ranges.items():
                if name in ranges and other not in (name, alias) and ranges[name][0] < high and low < ranges[name][1]:
                    violations.append(f"output {name!r} and {other!r} share memory")

    def _compile(self, shapes: dict[str, tuple[int, ...]]) -> None:
        if self._cache is not None and "EAGER" in self._strategies:
            self._cache._kernels.add(repr(sorted(shapes.items())))


def _release(machine: Machine, memory: int) -> None:
    machine.memory.free(memory)


class Refitter:
    """IRefitter."""

    def __init__(self, simulated: Simulated, engine: Engine, logger: Any):
        self._simulated, self._engine = simulated, engine
        self._layers: dict[tuple[str, str], tuple[Any, str]] = {}
        self._given: dict[tuple[str, str], Any] = {}
        from trtdsl.layers.evaluation import Node, weights_of

        definition = engine._built.definition
        for index in range(definition.num_layers):
            node = Node(simulated.backend, definition.get_layer(index))
            for attribute, role in weights_of(node).items():
                if role and getattr(node.layer, attribute).size:
                    self._layers[node.name, role] = (node.layer, attribute)

    def get_all(self) -> tuple[list[str], list[Any]]:
        roles = self._simulated.trt.WeightsRole.__members__
        return [name for name, _ in self._layers], [roles[role] for _, role in self._layers]

    def set_weights(self, layer_name: str, role: Any, weights: Any) -> bool:
        if not self._simulated.enter("set_weights"):
            return False
        layer, attribute = self._layers[layer_name, role.name]
        if weights.size != getattr(layer, attribute).size:
            self._simulated.say(f"Error Code 3: API Usage Error ({layer_name}: {weights.size} weights)")
            return False
        self._given[layer_name, role.name] = weights
        return True

    def refit_cuda_engine(self) -> bool:
        if not self._simulated.enter("refit_cuda_engine"):
            return False
        if self._given.keys() != self._layers.keys():
            self._simulated.say("Error Code 4: Internal Error (missing weights)")
            return False
        before = {}
        for key, weights in self._given.items():
            layer, attribute = self._layers[key]
            before[key] = getattr(layer, attribute)
            setattr(layer, attribute, weights.numpy().copy())
        engine = self._engine
        engine._model.prepare()
        engine._kept = [getattr(layer, attribute) for layer, attribute in self._layers.values()]
        for key, weights in before.items():
            layer, attribute = self._layers[key]
            setattr(layer, attribute, weights)
        engine._lacking = False
        return True
