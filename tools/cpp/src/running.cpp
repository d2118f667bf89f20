// Engines and contexts: what calls TensorRT.
#include <algorithm>

#include "device.hpp"

namespace trtdsl {

namespace {

std::string dtype_of(nvinfer1::DataType type) {
    using T = nvinfer1::DataType;
    switch (type) {
        case T::kFLOAT: return "float32";
        case T::kHALF: return "float16";
        case T::kBF16: return "bfloat16";
        case T::kINT8: return "int8";
        case T::kINT32: return "int32";
        case T::kINT64: return "int64";
        case T::kBOOL: return "bool";
        case T::kUINT8: return "uint8";
        case T::kFP8: return "float8_e4m3fn";
        default: throw Error("engine-refused", "the engine has a tensor of a type that cannot be fed from here");
    }
}

std::string dotted(int major, int minor, int patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

bool says_out_of_memory(std::string const& text) {
    return text.find("OutOfMemory") != std::string::npos || text.find("out of memory") != std::string::npos;
}

Error refusal(std::string const& text) {
    auto const has = [&](char const* part) { return text.find(part) != std::string::npos; };
    if (has("find plugin") || has("IPluginCreator not found")) return Error("missing-plugin", "the engine needs a plugin that is not registered: " + text);
    if (has("Version tag") || has("expecting library version")) return Error("version-mismatch", "TensorRT says that another version built the engine: " + text);
    if (has("incompatible device")) return Error("compute-capability", "TensorRT says that the engine is for another GPU: " + text);
    if (has("ost code")) return Error("host-code", "the engine carries code for the CPU, which is off: " + text);
    if (says_out_of_memory(text)) return Error("out-of-memory", text);
    return Error("engine-refused", "TensorRT does not load this engine: " + text);
}

std::size_t bytes_of(Shape const& shape, std::string const& dtype) {
    auto const bytes = byte_count(shape, dtype);
    if (bytes < 0) throw Error("execution-failed", "a tensor of shape " + text_of(shape) + " is not known or too large");
    return static_cast<std::size_t>(bytes);
}

constexpr std::uintptr_t kAlignment = 256;  // of addresses that TensorRT takes

// What TensorRT and CUDA keep for one run at a time.
struct Lane {
    std::unique_ptr<nvinfer1::IExecutionContext> context;
    cudaStream_t own = nullptr;
    cudaEvent_t done = nullptr;  // of the latest run, on whatever stream it is
    std::size_t profile = 0;
    std::map<std::string, Memory> inputs, outputs;
    std::map<std::string, std::unique_ptr<Allocator>> allocators;
    std::map<std::string, View> results;

    Lane() = default;
    Lane(Lane const&) = delete;
    ~Lane() {
        if (done) cudaEventSynchronize(done);
        if (own) cudaStreamSynchronize(own);
        context.reset();
        if (done) cudaEventDestroy(done);
        if (own) cudaStreamDestroy(own);
    }
};

}  // namespace

struct Engine::State {
    Log log;
    std::unique_ptr<nvinfer1::IRuntime> runtime;
    std::unique_ptr<nvinfer1::ICudaEngine> engine;
    int device = 0;
    Signature signature;
    std::mutex mutex;
    std::vector<std::unique_ptr<Lane>> idle;  // guarded by mutex

    ~State() {
        int before = 0;
        bool const known = cudaGetDevice(&before) == cudaSuccess;
        cudaSetDevice(device);
        idle.clear(), engine.reset(), runtime.reset();
        if (known) cudaSetDevice(before);
    }

    Error failed(std::string const& what) {
        auto const text = log.take();
        return Error(says_out_of_memory(text) ? "out-of-memory" : "execution-failed", what + ": " + text);
    }

    void read_signature();
    std::unique_ptr<Lane> make_lane();
    void bind_outputs(Lane& lane, std::map<std::string, View> const& given);
    void enqueue(Lane& lane, std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs, cudaStream_t stream);
    std::map<std::string, View> finish(Lane& lane);
    std::map<std::string, Array> run(Lane& lane, std::map<std::string, Array> const& feeds);
};

void Engine::State::read_signature() {
    for (int i = 0; i < engine->getNbIOTensors(); ++i) {
        char const* const name = engine->getIOTensorName(i);
        if (!name) throw Error("engine-refused", "the engine has a tensor without a name");
        bool const input = engine->getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT;
        bool const on_host = engine->getTensorLocation(name) == nvinfer1::TensorLocation::kHOST;
        (input ? signature.inputs : signature.outputs)
            .push_back({name, dtype_of(engine->getTensorDataType(name)), shape_of(engine->getTensorShape(name)), on_host});
    }
    for (int index = 0; index < engine->getNbOptimizationProfiles(); ++index) {
        std::map<std::string, Range> profile;
        for (auto const& info : signature.inputs) {
            using Select = nvinfer1::OptProfileSelector;
            auto const at = [&](Select which) { return shape_of(engine->getProfileShape(info.name.c_str(), index, which)); };
            profile[info.name] = {at(Select::kMIN), at(Select::kOPT), at(Select::kMAX)};
        }
        signature.profiles.push_back(profile);
    }
}

std::unique_ptr<Lane> Engine::State::make_lane() {
    auto lane = std::make_unique<Lane>();
    lane->context.reset(engine->createExecutionContext());
    if (!lane->context) throw failed("TensorRT makes no execution context");
    cuda(cudaStreamCreateWithFlags(&lane->own, cudaStreamNonBlocking), "making a stream");
    cuda(cudaEventCreateWithFlags(&lane->done, cudaEventDisableTiming), "making an event");
    return lane;
}

// Gives every output its memory: the caller's, or the lane's own, on the CPU where TensorRT writes it there.
void Engine::State::bind_outputs(Lane& lane, std::map<std::string, View> const& given) {
    for (auto const& [name, view] : given)
        if (std::none_of(signature.outputs.begin(), signature.outputs.end(), [&, &wanted = name](auto const& info) { return info.name == wanted; }))
            throw Error("feed-name", "there is no output '" + name + "'");
    lane.results.clear();
    for (auto const& info : signature.outputs) {
        char const* const name = info.name.c_str();
        auto const shape = shape_of(lane.context->getTensorShape(name));
        bool const known = std::find(shape.begin(), shape.end(), -1) == shape.end();
        auto const found = given.find(info.name);
        View view{info.dtype, shape, nullptr};
        if (found != given.end()) {
            view.data = found->second.data;
            if (!known) throw Error("feed-shape", "the shape of output '" + info.name + "' is known only after the run: it needs the context's memory");
            if (found->second.dtype != info.dtype) throw Error("feed-dtype", "output '" + info.name + "' is " + info.dtype + ", and memory for " + found->second.dtype + " was given");
            if (found->second.shape != shape) throw Error("feed-shape", "output '" + info.name + "' has shape " + text_of(shape) + ", and memory for " + text_of(found->second.shape) + " was given");
            if (!view.data || (!info.on_host && reinterpret_cast<std::uintptr_t>(view.data) % kAlignment)) throw Error("feed-place", "the address of output '" + info.name + "' must be one of a multiple of 256");
        } else if (!known && !info.on_host) {
            auto& allocator = lane.allocators[info.name] = std::make_unique<Allocator>(lane.outputs[info.name]);
            if (!lane.context->setOutputAllocator(name, allocator.get())) throw failed("TensorRT takes no memory for output '" + info.name + "'");
            lane.results[info.name] = view;
            continue;
        } else {
            auto const size = bytes_of(shape, info.dtype);
            view.data = info.on_host ? lane.outputs[info.name].reserve_host(size) : lane.outputs[info.name].reserve(size);
        }
        if (!lane.context->setTensorAddress(name, view.data)) throw failed("TensorRT does not take the address of output '" + info.name + "'");
        lane.results[info.name] = view;
    }
}

void Engine::State::enqueue(Lane& lane, std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs, cudaStream_t stream) {
    std::map<std::string, Array> shapes;
    for (auto const& [name, view] : inputs) shapes[name] = {view.dtype, view.shape, {}};
    auto const profile = check_feeds(signature, shapes);
    cuda(cudaStreamWaitEvent(stream, lane.done, 0), "waiting for the run before");
    if (profile != lane.profile) {
        if (!lane.context->setOptimizationProfileAsync(static_cast<int>(profile), stream)) throw failed("a profile cannot be chosen");
        lane.profile = profile;
    }
    for (auto const& info : signature.inputs) {
        auto const& view = inputs.at(info.name);
        bool const empty = byte_count(view.shape, view.dtype) == 0;
        void const* address = view.data;
        if (empty && !address) address = info.on_host ? lane.inputs[info.name].reserve_host(1) : lane.inputs[info.name].reserve(1);
        if (!address || (!info.on_host && reinterpret_cast<std::uintptr_t>(address) % kAlignment))
            throw Error("feed-place", "the address of input '" + info.name + "' must be one of a multiple of 256");
        nvinfer1::Dims dims{};
        dims.nbDims = static_cast<int>(view.shape.size());
        std::copy(view.shape.begin(), view.shape.end(), dims.d);
        if (!lane.context->setInputShape(info.name.c_str(), dims)) throw failed("TensorRT does not take the shape of input '" + info.name + "'");
        if (!lane.context->setInputTensorAddress(info.name.c_str(), address)) throw failed("TensorRT does not take the address of input '" + info.name + "'");
    }
    if (lane.context->inferShapes(0, nullptr) != 0) throw failed("the shapes are not known");
    bind_outputs(lane, outputs);
    bool const ran = lane.context->enqueueV3(stream);
    for (auto const& [name, allocator] : lane.allocators) allocator->check();
    if (!ran) throw failed("the engine did not run");
    cuda(cudaEventRecord(lane.done, stream), "marking the end of a run");
}

std::map<std::string, View> Engine::State::finish(Lane& lane) {
    cuda(cudaEventSynchronize(lane.done), "the run");
    for (auto const& [name, allocator] : lane.allocators) {
        lane.results[name].shape = allocator->shape();
        lane.results[name].data = allocator->data();
    }
    return lane.results;
}

std::map<std::string, Array> Engine::State::run(Lane& lane, std::map<std::string, Array> const& feeds) try {
    check_feeds(signature, feeds);
    std::map<std::string, View> inputs;
    for (auto const& info : signature.inputs) {
        auto const& array = feeds.at(info.name);
        if (array.data.size() != bytes_of(array.shape, array.dtype)) throw Error("feed-shape", "input '" + info.name + "' has not the bytes of its shape");
        View view{array.dtype, array.shape, const_cast<char*>(array.data.data())};
        if (!info.on_host) {
            view.data = lane.inputs[info.name].reserve(array.data.size());
            cuda(cudaMemcpyAsync(view.data, array.data.data(), array.data.size(), cudaMemcpyHostToDevice, lane.own), "copying an input");
        }
        inputs[info.name] = view;
    }
    enqueue(lane, inputs, {}, lane.own);
    std::map<std::string, Array> results;
    auto const views = finish(lane);
    for (auto const& info : signature.outputs) {
        auto const& view = views.at(info.name);
        auto& array = results[info.name] = {view.dtype, view.shape, {}};
        array.data.resize(bytes_of(view.shape, view.dtype));
        if (array.data.empty()) continue;
        if (info.on_host) std::copy_n(static_cast<char const*>(view.data), array.data.size(), array.data.begin());
        else cuda(cudaMemcpyAsync(array.data.data(), view.data, array.data.size(), cudaMemcpyDeviceToHost, lane.own), "copying an output");
    }
    cuda(cudaStreamSynchronize(lane.own), "the run");
    return results;
} catch (...) {
    cudaStreamSynchronize(lane.own);  // the feeds may go when this returns
    throw;
}

Have Engine::have() {
    std::string const library = dotted(getInferLibMajorVersion(), getInferLibMinorVersion(), getInferLibPatchVersion());
    check_library(dotted(NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR, NV_TENSORRT_PATCH), library);
    return {TRTDSL_PRODUCT, library + "." + std::to_string(getInferLibBuildVersion())};
}

Engine::Engine(std::filesystem::path const& path, LoadOptions const& options) : state_(std::make_shared<State>()) {
    auto const file = open_engine(path, have(), options);
    check_driver(options.device);
    auto& state = *state_;
    state.device = options.device;
    OnDevice const here(options.device);
    int major = 0, minor = 0;
    cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, options.device), "asking the GPU");
    cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, options.device), "asking the GPU");
    if (file.manifest) check_compute_capability(*file.manifest, file.header, std::to_string(major) + "." + std::to_string(minor));
    state.runtime.reset(nvinfer1::createInferRuntime(state.log));
    if (!state.runtime) throw Error("execution-failed", "TensorRT does not start: " + state.log.take());
    state.runtime->setEngineHostCodeAllowed(options.allow_host_code);
    state.engine.reset(state.runtime->deserializeCudaEngine(file.data.data(), file.data.size()));
    if (!state.engine) throw refusal(state.log.take());
    state.read_signature();
    if (file.manifest) state.signature.requirements = file.manifest->signature.requirements;
    state.idle.push_back(state.make_lane());
}

Signature const& Engine::signature() const { return state_->signature; }

std::map<std::string, Array> Engine::run(std::map<std::string, Array> const& feeds) const {
    auto& state = *state_;
    OnDevice const here(state.device);
    std::unique_ptr<Lane> lane;
    {
        std::lock_guard<std::mutex> const lock(state.mutex);
        if (!state.idle.empty()) lane = std::move(state.idle.back()), state.idle.pop_back();
    }
    if (!lane) lane = state.make_lane();
    auto results = state.run(*lane, feeds);
    std::lock_guard<std::mutex> const lock(state.mutex);
    state.idle.push_back(std::move(lane));
    return results;
}

struct Context::State {
    std::shared_ptr<Engine::State> engine;
    std::unique_ptr<Lane> lane;

    ~State() {
        int before = 0;
        bool const known = cudaGetDevice(&before) == cudaSuccess;
        cudaSetDevice(engine->device);
        lane.reset();
        if (known) cudaSetDevice(before);
    }
};

Context::Context(Engine const& engine) : state_(std::make_unique<State>()) {
    state_->engine = engine.state_;
    OnDevice const here(engine.state_->device);
    state_->lane = engine.state_->make_lane();
}

Context::~Context() = default;
Context::Context(Context&&) noexcept = default;

Stream Context::stream() const { return state_->lane->own; }

void Context::enqueue(std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs, Stream stream) {
    OnDevice const here(state_->engine->device);
    auto& lane = *state_->lane;
    state_->engine->enqueue(lane, inputs, outputs, stream ? static_cast<cudaStream_t>(stream) : lane.own);
}

std::map<std::string, View> Context::finish() {
    OnDevice const here(state_->engine->device);
    return state_->engine->finish(*state_->lane);
}

std::map<std::string, Array> Context::run(std::map<std::string, Array> const& feeds) {
    OnDevice const here(state_->engine->device);
    return state_->engine->run(*state_->lane, feeds);
}

}  // namespace trtdsl
