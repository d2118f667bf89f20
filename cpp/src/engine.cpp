// Engines: loading, the pool of contexts, warming up, new weights, and the runtime cache.
#include "lane.hpp"

#include <algorithm>
#include <iostream>
#include <shared_mutex>

namespace trtdsl {

namespace {

using Select = nvinfer1::OptProfileSelector;

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

nvinfer1::DataType type_of(std::string const& name, std::string const& dtype) {
    using T = nvinfer1::DataType;
    for (auto type : {T::kFLOAT, T::kHALF, T::kBF16, T::kINT8, T::kINT32, T::kINT64, T::kBOOL, T::kUINT8, T::kFP8})
        if (dtype_of(type) == dtype) return type;
    throw Error("weights-mismatch", name + " is " + dtype + ", which TensorRT does not have");
}

// TensorRT's roles, by number.
char const* const kRoles[]{"KERNEL", "BIAS", "SHIFT", "SCALE", "CONSTANT"};

std::string dotted(int major, int minor, int patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

std::string lowered(std::string text) {
    for (auto& letter : text)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    return text;
}

bool says(std::string const& text, std::initializer_list<char const*> parts) {
    return std::any_of(parts.begin(), parts.end(), [&](char const* part) { return text.find(part) != std::string::npos; });
}

// As trtdsl/engine/loading/loader.py: too little memory, rather than wrong use of memory.
bool says_out_of_memory(std::string const& text) {
    return says(lowered(text), {"outofmemory", "out of memory", "outof memory", "out ofmemory", "memory allocation", "memoryallocation", "insufficient memory", "not enough memory"});
}

Error refusal(std::string const& text) {
    auto const lower = lowered(text);
    if (says(lower, {"cannot find plugin", "could not find plugin", "iplugincreator not found"})) return Error("missing-plugin", "the engine needs a plugin that is not registered: " + text);
    if (says(lower, {"version tag", "expecting library version", "not compatible with this version"})) return Error("version-mismatch", "TensorRT says that another version built the engine: " + text);
    if (says(lower, {"generated on an incompatible device"}) || (says(lower, {"compute"}) && says(lower, {"does not match"})))
        return Error("compute-capability", "TensorRT says that the engine is for another GPU: " + text);
    if (says(lower, {"host code"})) return Error("host-code", "the engine carries code for the CPU, which is off: " + text);
    if (says_out_of_memory(text)) return Error("out-of-memory", text);
    return Error("engine-refused", "TensorRT does not load this engine: " + text);
}

// The best values of an input that TensorRT reads on the CPU: 64 bits each where TensorRT has that, from 10.11 on.
template <typename Api>
auto profile_values(Api const& engine, char const* name, std::int32_t profile, int) -> decltype(engine.getProfileTensorValuesV2(name, profile, Select::kOPT)) {
    return engine.getProfileTensorValuesV2(name, profile, Select::kOPT);
}
template <typename Api>
auto profile_values(Api const& engine, char const* name, std::int32_t profile, long) -> decltype(engine.getProfileTensorValues(name, profile, Select::kOPT)) {
    return engine.getProfileTensorValues(name, profile, Select::kOPT);
}

// The input in whose memory an output is written, as TensorRT says from 10.15 on; nullptr for none.
template <typename Api>
auto alias_of(Api const& engine, char const* output, int) -> decltype(engine.getAliasedInputTensor(output)) {
    return engine.getAliasedInputTensor(output);
}
template <typename Api>
char const* alias_of(Api const&, char const*, long) {
    return nullptr;
}

#ifdef TRT_MAJOR_RTX

// The error for TensorRT-RTX's diagnosis of an engine on a machine with a driver.
void judge_validity(nvinfer1::IRuntime const& runtime, std::string const& data, std::string const& capability) {
    using Reason = nvinfer1::EngineInvalidityDiagnostics;
    std::uint64_t found = 0;
    if (runtime.getEngineValidity(data.data(), static_cast<std::int64_t>(data.size()), &found) != nvinfer1::EngineValidity::kINVALID) return;
    auto const has = [&](Reason reason) { return (found & static_cast<std::uint64_t>(reason)) != 0; };
    if (has(Reason::kMALFORMED_ENGINE)) throw Error("engine-damaged", "TensorRT-RTX finds the engine malformed: build it again");
    if (has(Reason::kVERSION_MISMATCH)) throw Error("version-mismatch", "TensorRT-RTX says that another version built the engine: build it again");
    if (has(Reason::kUNSUPPORTED_CC))
        throw Error("compute-capability", "TensorRT-RTX says that the engine is not for this GPU: build it with --compute-capability " + capability);
    if (has(Reason::kOLD_CUDA_DRIVER)) throw Error("driver-too-old", "TensorRT-RTX says that the NVIDIA driver is too old: update it");
    if (has(Reason::kOLD_CUDA_RUNTIME)) throw Error("driver-too-old", "TensorRT-RTX says that the CUDA runtime is too old: update it");
    if (has(Reason::kCUDA_ERROR)) throw Error("no-driver", "TensorRT-RTX says that the CUDA driver or runtime is not installed correctly; the engine was not judged");
    if (has(Reason::kINSUFFICIENT_GPU_MEMORY)) throw Error("out-of-memory", "out of GPU memory: the engine needs more memory");
    throw Error("engine-refused", "TensorRT-RTX says that the engine is invalid");
}

#endif

}  // namespace

Loaded::~Loaded() {
    workers.finish();
    on_device(device, [this] {
        idle.clear();
#ifdef TRT_MAJOR_RTX
        cache.reset();
#endif
        engine.reset(), runtime.reset();
    });
}

Error Loaded::failed(std::string const& what) {
    auto const text = log.take();
    return Error(says_out_of_memory(text) ? "out-of-memory" : "execution-failed", what + ": " + text);
}

void Loaded::warn(std::string const& code, std::string const& message) const {
    if (options.warn) options.warn(code, message);
    else std::clog << "warning: " << message << " [" << code << "]\n";
}

void Loaded::read_signature() {
    for (int i = 0; i < engine->getNbIOTensors(); ++i) {
        char const* const name = engine->getIOTensorName(i);
        if (!name) throw Error("engine-refused", "the engine has a tensor without a name");
        bool const input = engine->getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT;
        bool const on_host = engine->getTensorLocation(name) == nvinfer1::TensorLocation::kHOST;
        char const* const alias = input ? nullptr : alias_of(*engine, name, 0);
        auto const format = engine->getTensorFormat(name);
        bool const last = format == nvinfer1::TensorFormat::kHWC || format == nvinfer1::TensorFormat::kDHWC;
        if (!last && format != nvinfer1::TensorFormat::kLINEAR)
            throw Error("engine-refused", std::string("'") + name + "' lies in memory in a format of TensorRT which cannot be fed here");
        (input ? signature.inputs : signature.outputs)
            .push_back({name, dtype_of(engine->getTensorDataType(name)), shape_of(engine->getTensorShape(name)), on_host, alias ? alias : "", last});
    }
    for (auto const& info : signature.outputs)
        if (!info.alias.empty() && std::none_of(signature.inputs.begin(), signature.inputs.end(), [&](auto const& each) { return each.name == info.alias; }))
            throw Error("engine-refused", "TensorRT writes output '" + info.name + "' where input '" + info.alias + "' lies, and there is none");
    for (int index = 0; index < engine->getNbOptimizationProfiles(); ++index) {
        std::map<std::string, Range> profile;
        for (auto const& info : signature.inputs) {
            auto const at = [&](Select which) { return shape_of(engine->getProfileShape(info.name.c_str(), index, which)); };
            profile[info.name] = {at(Select::kMIN), at(Select::kOPT), at(Select::kMAX)};
        }
        signature.profiles.push_back(profile);
    }
}

#ifdef TRT_MAJOR_RTX

// The settings of a context: cache, graphs, and when kernels are specialized.
std::unique_ptr<nvinfer1::IRuntimeConfig> Loaded::make_config(bool graphs, bool eager_now) {
    std::lock_guard<std::mutex> const lock(mutex);
    std::unique_ptr<nvinfer1::IRuntimeConfig> config(engine->createRuntimeConfig());
    if (!config) throw failed("TensorRT-RTX makes no runtime configuration");
    if ((graphs || options.cuda_graphs) && !config->setCudaGraphStrategy(nvinfer1::CudaGraphStrategy::kWHOLE_GRAPH_CAPTURE))
        throw failed("TensorRT-RTX does not take the strategy of CUDA graphs");
    using Strategy = nvinfer1::DynamicShapesKernelSpecializationStrategy;
    auto const& chosen = options.specialization.empty() && eager_now ? "eager" : options.specialization;
    if (!chosen.empty()) config->setDynamicShapesKernelSpecializationStrategy(chosen == "eager" ? Strategy::kEAGER : chosen == "none" ? Strategy::kNONE : Strategy::kLAZY);
    if (options.runtime_cache.empty()) return config;
    if (!cache) {
        auto const file = options.runtime_cache.string();
        auto const discard = [&](std::string const& reason) { warn("runtime-cache", "the runtime cache " + file + " is not used, and is built anew: " + reason); };
        cache.reset(config->createRuntimeCache());
        if (!cache) throw failed("TensorRT-RTX makes no runtime cache");
        auto const data = trtdsl::read_runtime_cache(options.runtime_cache, version, capability, discard);
        if (data && !cache->deserialize(data->data(), data->size())) {
            discard("TensorRT-RTX does not take it");
            cache->reset();
        }
    }
    if (!config->setRuntimeCache(*cache)) throw failed("TensorRT-RTX does not take its own runtime cache");
    return config;
}

std::string Loaded::serialized_cache() {
    std::unique_ptr<nvinfer1::IHostMemory> const memory(cache ? cache->serialize() : nullptr);
    return memory ? std::string(static_cast<char const*>(memory->data()), memory->size()) : std::string();
}

#endif

std::unique_ptr<Lane> Loaded::take() {
    {
        std::unique_lock<std::mutex> lock(mutex);
        returned.wait(lock, [this] { return !idle.empty() || options.contexts == 0 || lanes < options.contexts; });
        if (!idle.empty()) {
            auto lane = std::move(idle.back());
            idle.pop_back();
            return lane;
        }
        ++lanes;
    }
    try {
        return std::make_unique<Lane>(*this, false, eager);
    } catch (...) {
        lost();
        throw;
    }
}

void Loaded::give(std::unique_ptr<Lane> lane) {
    {
        std::lock_guard<std::mutex> const lock(mutex);
        idle.push_back(std::move(lane));
    }
    returned.notify_one();
}

void Loaded::lost() {
    {
        std::lock_guard<std::mutex> const lock(mutex);
        --lanes;
    }
    returned.notify_one();
}

void Loaded::free_idle() {
    lanes -= idle.size();
    idle.clear();
    returned.notify_all();
}

std::size_t Loaded::check(Arrays const& feeds, Profile profile, Views const& states) const {
    Views all = states;
    for (auto const& [name, array] : feeds) all[name] = {array.dtype, array.shape, nullptr};
    auto const index = check_feeds(signature, all, profile);
    for (auto const& [name, array] : feeds)
        if (array.data.size() != bytes_of(array.shape, array.dtype)) throw Error("feed-shape", "input '" + name + "' has not the bytes of its shape");
    return index;
}

Arrays Loaded::run(Arrays const& feeds, Profile profile) try {
    auto const index = check(feeds, profile);
    std::shared_lock<Gate> const entered(gate);
    OnDevice const here(device);
    auto lane = take();
    try {
        auto results = lane->run(feeds, index);
        give(std::move(lane));
        return results;
    } catch (...) {
        lane.reset();  // it is not known what is on its stream
        lost();
        throw;
    }
} catch (...) {
    rethrow();
}

// Gives TensorRT every weight that it asks for, by LAYER:ROLE.
void Loaded::apply(WeightsFile const& weights) {
    log.forget();
    std::unique_ptr<nvinfer1::IRefitter> const refitter(nvinfer1::createInferRefitter(*engine, log));
    if (!refitter) throw failed("TensorRT does not refit this engine");
    auto const count = refitter->getAll(0, nullptr, nullptr);
    std::vector<char const*> layers(static_cast<std::size_t>(std::max(count, 0)));
    std::vector<nvinfer1::WeightsRole> roles(layers.size());
    if (count > 0 && refitter->getAll(count, layers.data(), roles.data()) != count) throw failed("TensorRT does not say which weights it takes");
    std::vector<std::pair<std::string, Array const*>> wanted;
    std::string missing;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        auto const role = static_cast<std::size_t>(roles[i]);
        auto const name = std::string(layers[i] ? layers[i] : "") + ":" + (role < std::size(kRoles) ? kRoles[role] : "ANY");
        auto const found = weights.tensors.find(name);
        if (found == weights.tensors.end()) missing += "\n  " + name + ": missing";
        else wanted.emplace_back(name, &found->second);
    }
    if (!missing.empty()) throw Error("weights-mismatch", "the engine takes other weights:" + missing);
    std::string refused;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        auto const& [name, array] = wanted[i];
        auto const size = item_size(array->dtype);
        nvinfer1::Weights const given{type_of(name, array->dtype), array->data.data(), static_cast<std::int64_t>(array->data.size() / size)};
        if (!refitter->setWeights(layers[i], roles[i], given)) refused += (refused.empty() ? "" : ", ") + name;
    }
    if (!refused.empty()) throw Error("weights-mismatch", "TensorRT refuses the new weights of " + refused + ": " + log.take());
    if (!refitter->refitCudaEngine()) throw failed("TensorRT did not take the new weights");
}

Have Engine::have() try {
    std::string const library = dotted(getInferLibMajorVersion(), getInferLibMinorVersion(), getInferLibPatchVersion());
    check_library(dotted(NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR, NV_TENSORRT_PATCH), library);
    return {TRTDSL_PRODUCT, library + "." + std::to_string(getInferLibBuildVersion())};
} catch (...) {
    rethrow();
}

Engine::Engine(std::filesystem::path const& path, LoadOptions const& options) try : state_(std::make_shared<Loaded>(options)) {
    auto const& when = options.specialization;
    if (!when.empty() && when != "lazy" && when != "eager" && when != "none") throw Error("usage", "specialization is one of lazy, eager, none, not '" + when + "'");
    auto const here = have();
    auto file = open_engine(path, here, options);
    if (file.manifest) check_world(*file.manifest, options.communicator);
#ifdef TRT_MAJOR_RTX
    check_kind(options.runtime_cache, kCacheFile);
#endif
    check_driver(options.device);
    auto& state = *state_;
    state.device = options.device, state.version = here.version;
    OnDevice const current(options.device);
    state.capability = compute_capability(options.device);
    if (file.manifest) check_compute_capability(*file.manifest, file.header, state.capability);
    state.runtime.reset(nvinfer1::createInferRuntime(state.log));
    if (!state.runtime) throw Error("execution-failed", "TensorRT does not start: " + state.log.take());
    state.runtime->setEngineHostCodeAllowed(options.allow_host_code);
#ifdef TRT_MAJOR_RTX
    judge_validity(*state.runtime, file.data, state.capability);
#endif
    state.log.forget();
    state.engine.reset(state.runtime->deserializeCudaEngine(file.data.data(), file.data.size()));
    if (!state.engine) throw refusal(state.log.take());
    state.read_signature();
    if (file.manifest) state.signature.requirements = file.manifest->signature.requirements;
    state.manifest = std::move(file.manifest);
    if (!options.weights.empty()) refit(options.weights);
    state.give(state.take());
} catch (...) {
    rethrow();
}

Signature const& Engine::signature() const { return state_->signature; }
std::optional<Manifest> const& Engine::manifest() const { return state_->manifest; }

std::map<std::string, Array> Engine::run(std::map<std::string, Array> const& feeds, Profile profile) const { return state_->run(feeds, profile); }

std::future<std::map<std::string, Array>> Engine::run_async(std::map<std::string, Array> feeds, Profile profile) const try {
    auto& state = *state_;  // whose destructor waits for its workers
    state.check(feeds, profile);
    std::packaged_task<Arrays()> work([&state, feeds = std::move(feeds), profile] { return state.run(feeds, profile); });
    auto result = work.get_future();
    state.workers.add(std::move(work));
    return result;
} catch (...) {
    rethrow();
}

void Engine::warm_up(int runs) const try {
    auto& state = *state_;
    state.eager = true;
    for (std::size_t index = 0; index < state.signature.profiles.size(); ++index) {
        Arrays feeds;
        for (auto const& info : state.signature.inputs) {
            auto& array = feeds[info.name] = {info.dtype, state.signature.profiles[index].at(info.name).opt, {}};
            resize(array.data, bytes_of(array.shape, array.dtype));
            if (!info.on_host) continue;
            auto const* const values = profile_values(*state.engine, info.name.c_str(), static_cast<std::int32_t>(index), 0);
            auto const size = item_size(info.dtype);
            if (!values || (size != 4 && size != 8)) throw Error("execution-failed", "TensorRT does not say the values of input '" + info.name + "'");
            for (std::size_t i = 0; i * size < array.data.size(); ++i)  // little end first, on every machine with such a GPU
                for (std::size_t byte = 0; byte < size; ++byte) array.data[i * size + byte] = static_cast<char>(static_cast<std::uint64_t>(values[i]) >> 8 * byte);
        }
        for (int i = 0; i < runs; ++i) run(feeds, index);
    }
    save_runtime_cache();
} catch (...) {
    rethrow();
}

void Engine::refit(std::filesystem::path const& path) const try {
    auto& state = *state_;
    if (!state.manifest || !state.manifest->refit) throw Error("usage", "this engine takes no new weights: build it with --refit");
    auto const weights = read_safetensors(path);
    check_weights(*state.manifest->refit, weights, path.string());
    std::unique_lock<Gate> const alone(state.gate);
    OnDevice const here(state.device);
    cuda(cudaDeviceSynchronize(), "waiting for all runs");
    state.apply(weights);
    std::lock_guard<std::mutex> const lock(state.mutex);
    state.free_idle();  // a context may have captured the old weights
    ++state.generation;
} catch (...) {
    rethrow();
}

void Engine::save_runtime_cache() const try {
#ifdef TRT_MAJOR_RTX
    auto& state = *state_;
    std::lock_guard<std::mutex> const lock(state.mutex);
    if (!state.cache) return;
    auto data = state.serialized_cache();
    if (data.empty() || data == state.saved) return;
    write_runtime_cache(state.options.runtime_cache, state.version, state.capability, data);
    state.saved = std::move(data);
#endif
} catch (...) {
    rethrow();
}

void Engine::close() const try {
    save_runtime_cache();
    auto& state = *state_;
    OnDevice const here(state.device);
    std::lock_guard<std::mutex> const lock(state.mutex);
    state.free_idle();
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
