// What calls TensorRT and CUDA.
#include <NvInfer.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "internal.hpp"

namespace trtdsl {

namespace {

// Keeps what TensorRT says, for the message of an error.
class Log : public nvinfer1::ILogger {
public:
    void log(Severity severity, char const* message) noexcept override {
        if (severity > Severity::kERROR) return;
        std::lock_guard<std::mutex> const lock(mutex_);
        text_ += (text_.empty() ? "" : " ") + std::string(message);
    }

    std::string take() {
        std::lock_guard<std::mutex> const lock(mutex_);
        return text_.empty() ? "TensorRT gave no message" : std::exchange(text_, {});
    }

private:
    std::mutex mutex_;
    std::string text_;
};

void cuda(cudaError_t status, std::string const& what, std::size_t needed = 0) {
    if (status == cudaSuccess) return;
    if (status == cudaErrorMemoryAllocation) {
        std::size_t free = 0, total = 0;
        cudaMemGetInfo(&free, &total);
        throw Error("out-of-memory", "out of GPU memory: " + what + " needs " + std::to_string(needed) + " bytes, and " + std::to_string(free) + " bytes are free");
    }
    throw Error("execution-failed", what + " failed: " + cudaGetErrorString(status));
}

class Memory {
public:
    Memory() = default;
    Memory(Memory const&) = delete;
    ~Memory() { cudaFree(pointer_); }

    void* reserve(std::size_t size) {
        size = std::max<std::size_t>(size, 1);  // TensorRT wants an address for an empty tensor too
        if (size > size_) {
            cudaFree(std::exchange(pointer_, nullptr));
            size_ = 0;
            cuda(cudaMalloc(&pointer_, size), "a tensor", size);
            size_ = size;
        }
        return pointer_;
    }

    void* pointer() const { return pointer_; }

private:
    void* pointer_ = nullptr;
    std::size_t size_ = 0;
};

// Gives TensorRT memory for an output whose shape it knows only when it has run.
class Allocator : public nvinfer1::IOutputAllocator {
public:
    explicit Allocator(Memory& memory) : memory_(memory) {}

    void* reallocateOutputAsync(char const*, void*, std::uint64_t size, std::uint64_t, cudaStream_t) noexcept override {
        try {
            return memory_.reserve(size);
        } catch (Error const&) {
            return nullptr;
        }
    }

    void notifyShape(char const*, nvinfer1::Dims const& dims) noexcept override { shape = Shape(dims.d, dims.d + dims.nbDims); }

    Shape shape;

private:
    Memory& memory_;
};

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

Shape shape_of(nvinfer1::Dims const& dims) { return Shape(dims.d, dims.d + std::max(dims.nbDims, 0)); }

std::size_t bytes_of(Shape const& shape, std::string const& dtype) {
    std::size_t bytes = item_size(dtype);
    for (auto size : shape) bytes *= static_cast<std::size_t>(size);
    return bytes;
}

void check_driver() {
    int driver = 0, count = 0;
    char const* const unjudged = "; whether the engine fits a GPU was not judged";
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        throw Error("no-driver", std::string("an engine runs on an NVIDIA GPU, and no NVIDIA driver is installed") + unjudged);
    if (driver / 1000 < CUDART_VERSION / 1000)
        throw Error("driver-too-old", "the NVIDIA driver here serves CUDA " + std::to_string(driver / 1000) + ", and this program needs CUDA " +
                                          std::to_string(CUDART_VERSION / 1000) + " or later: update the driver" + unjudged);
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        throw Error("no-driver", std::string("the CUDA driver finds no device") + unjudged);
}

Error refusal(std::string const& text) {
    auto const has = [&](char const* part) { return text.find(part) != std::string::npos; };
    if (has("find plugin") || has("IPluginCreator not found")) return Error("missing-plugin", "the engine needs a plugin that is not registered: " + text);
    if (has("Version tag") || has("expecting library version")) return Error("version-mismatch", "TensorRT says that another version built the engine: " + text);
    if (has("incompatible device")) return Error("compute-capability", "TensorRT says that the engine is for another GPU: " + text);
    if (has("ost code")) return Error("host-code", "the engine carries code for the CPU, which is off: " + text);
    if (has("OutOfMemory") || has("out of memory")) return Error("out-of-memory", text);
    return Error("engine-refused", "TensorRT does not load this engine: " + text);
}

}  // namespace

struct Engine::State {
    Log log;
    std::unique_ptr<nvinfer1::IRuntime> runtime;
    std::unique_ptr<nvinfer1::ICudaEngine> engine;
    std::unique_ptr<nvinfer1::IExecutionContext> context;
    cudaStream_t stream = nullptr;
    int device = 0;
    std::size_t profile = 0;
    Signature signature;
    std::map<std::string, Memory> memory;

    ~State() {
        if (stream) cudaStreamDestroy(stream);
    }

    void read_signature() {
        for (int i = 0; i < engine->getNbIOTensors(); ++i) {
            char const* const name = engine->getIOTensorName(i);
            bool const input = engine->getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT;
            (input ? signature.inputs : signature.outputs)
                .push_back({name, dtype_of(engine->getTensorDataType(name)), shape_of(engine->getTensorShape(name))});
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

    void feed(std::string const& name, Array const& array) {
        nvinfer1::Dims dims{};
        dims.nbDims = static_cast<int>(array.shape.size());
        std::copy(array.shape.begin(), array.shape.end(), dims.d);
        if (!context->setInputShape(name.c_str(), dims)) throw Error("execution-failed", "TensorRT does not take the shape of input '" + name + "'");
        if (engine->getTensorLocation(name.c_str()) == nvinfer1::TensorLocation::kHOST) {
            context->setInputTensorAddress(name.c_str(), array.data.data());  // the value of a shape, read on the CPU
            return;
        }
        void* const target = memory[name].reserve(array.data.size());
        cuda(cudaMemcpyAsync(target, array.data.data(), array.data.size(), cudaMemcpyHostToDevice, stream), "copying an input");
        context->setInputTensorAddress(name.c_str(), target);
    }
};

Have Engine::have() {
    std::string const library = dotted(getInferLibMajorVersion(), getInferLibMinorVersion(), getInferLibPatchVersion());
    check_library(dotted(NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR, NV_TENSORRT_PATCH), library);
    return {TRTDSL_PRODUCT, library + "." + std::to_string(getInferLibBuildVersion())};
}

Engine::Engine(std::filesystem::path const& path, LoadOptions const& options) : state_(std::make_unique<State>()) {
    auto const here = have();
    auto const file = open_engine(path, here, options);
    check_driver();
    auto& state = *state_;
    state.device = options.device;
    cuda(cudaSetDevice(options.device), "choosing the GPU");
    int major = 0, minor = 0;
    cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, options.device), "asking the GPU");
    cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, options.device), "asking the GPU");
    if (file.manifest) check_compute_capability(*file.manifest, file.header, std::to_string(major) + "." + std::to_string(minor));
    state.runtime.reset(nvinfer1::createInferRuntime(state.log));
    if (!state.runtime) throw Error("execution-failed", "TensorRT does not start: " + state.log.take());
    state.runtime->setEngineHostCodeAllowed(options.allow_host_code);
    state.engine.reset(state.runtime->deserializeCudaEngine(file.data.data(), file.data.size()));
    if (!state.engine) throw refusal(state.log.take());
    state.context.reset(state.engine->createExecutionContext());
    if (!state.context) {
        std::string const text = state.log.take();
        bool const memory = text.find("emory") != std::string::npos;
        throw Error(memory ? "out-of-memory" : "execution-failed", "TensorRT makes no execution context: " + text);
    }
    cuda(cudaStreamCreateWithFlags(&state.stream, cudaStreamNonBlocking), "making a stream");
    state.read_signature();
}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

Signature const& Engine::signature() const { return state_->signature; }

std::map<std::string, Array> Engine::run(std::map<std::string, Array> const& feeds) {
    auto& state = *state_;
    cuda(cudaSetDevice(state.device), "choosing the GPU");
    auto const profile = check_feeds(state.signature, feeds);
    auto const fail = [&](std::string const& what) { return Error("execution-failed", what + ": " + state.log.take()); };
    if (profile != state.profile) {
        if (!state.context->setOptimizationProfileAsync(static_cast<int>(profile), state.stream)) throw fail("a profile cannot be chosen");
        state.profile = profile;
    }
    for (auto const& [name, array] : feeds) state.feed(name, array);
    if (state.context->inferShapes(0, nullptr) != 0) throw fail("the shapes are not known");
    std::map<std::string, Array> results;
    std::map<std::string, std::unique_ptr<Allocator>> allocators;
    for (auto const& info : state.signature.outputs) {
        char const* const name = info.name.c_str();
        auto const shape = shape_of(state.context->getTensorShape(name));
        results[info.name] = {info.dtype, shape, {}};
        if (std::find(shape.begin(), shape.end(), -1) != shape.end()) {
            allocators[info.name] = std::make_unique<Allocator>(state.memory[info.name]);
            state.context->setOutputAllocator(name, allocators[info.name].get());
        } else {
            state.context->setTensorAddress(name, state.memory[info.name].reserve(bytes_of(shape, info.dtype)));
        }
    }
    if (!state.context->enqueueV3(state.stream)) throw fail("the engine did not run");
    for (auto& [name, array] : results) {
        if (auto const found = allocators.find(name); found != allocators.end()) {
            array.shape = found->second->shape;
            state.context->setOutputAllocator(name.c_str(), nullptr);
        }
        array.data.resize(bytes_of(array.shape, array.dtype));
        cuda(cudaMemcpyAsync(array.data.data(), state.memory[name].pointer(), array.data.size(), cudaMemcpyDeviceToHost, state.stream), "copying an output");
    }
    cuda(cudaStreamSynchronize(state.stream), "the run");
    return results;
}

}  // namespace trtdsl
