// TensorRT's runtime on the simulated device. Its engines have a sound header of 64 bytes and then lines of text:
//   in NAME SIZES…                an input of float32, -1 for a dynamic size
//   host NAME SIZE                an input of int64 that is read on the CPU
//   type NAME NUMBER              of a tensor before it: its DataType, by number
//   format NAME NUMBER            of a tensor before it: its TensorFormat, by number
//   profile INDEX NAME RANK MIN… OPT… MAX…
//   values INDEX NAME COUNT MIN… OPT… MAX…    of an input that is read on the CPU
//   alias OUT NAME                OUT is written where the input NAME lies; TensorRT before 10.15, as the other double is,
//                                 knows of none
//   weight LAYER ROLE VALUE       that a refit replaces; ROLE as in WeightsRole, by number
//   invalid BITS                  what TensorRT-RTX says of the engine
//   out NAME RULE SOURCE SIZES…   twice: SOURCE * 2, or times the last weight · shape: SOURCE's shape, on the CPU ·
//                                 positive: SOURCE's values above 0, whose number only the run knows · fill: ones, in the
//                                 shape that SOURCE holds · sum: SOURCE + OTHER, where SOURCE is written SOURCE,OTHER ·
//                                 write: CACHE,TOKENS,STARTS, a cache of one number a slot with each sequence's tokens from
//                                 its start on · follow: CACHE,STARTS,LENGTHS, logits that are 1 for the sum of all that is in
//                                 a sequence's cache then, modulo the tokens that there are, else 0 · lost: the same, not
//                                 a number in place of 1
// A context keeps the weights that it was made with, as a captured graph does. Of TensorRT-RTX it counts "compile eager",
// "compile lazy" for each new shape, and "capture", "replay" where graphs are on.
#include "NvInfer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <atomic>
#include <vector>

#include "device.hpp"

namespace {

using namespace nvinfer1;

struct Tensor {
    bool input = false;
    TensorLocation location = TensorLocation::kDEVICE;
    DataType type = DataType::kFLOAT;
    TensorFormat format = TensorFormat::kLINEAR;
    Dims dims{};
    std::string rule, source;
    std::vector<std::string> sources;  // `source` is the first
};

#ifdef TRT_MAJOR_RTX
constexpr bool kAliases = true;
#else
constexpr bool kAliases = false;
#endif

struct Program {
    std::vector<std::string> order;
    std::map<std::string, Tensor> tensors;
    std::map<int, std::map<std::string, std::vector<Dims>>> profiles, values;
    std::map<std::string, std::string> aliases;
    std::vector<std::pair<std::pair<std::string, WeightsRole>, float>> weights;
    std::uint64_t invalid = 0;
};

Dims sizes(std::istream& words, int count) {
    Dims dims{};
    for (std::int64_t size; (count < 0 || dims.nbDims < count) && dims.nbDims < Dims::MAX_DIMS && words >> size;) dims.d[dims.nbDims++] = size;
    return dims;
}

bool parse(std::string const& text, Program& program) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string what, name;
        words >> what;
        if (what == "profile" || what == "values") {
            int index = 0, rank = 0;
            words >> index >> name >> rank;
            for (int i = 0; i < 3; ++i) (what == "values" ? program.values : program.profiles)[index][name].push_back(sizes(words, rank));
        } else if (what == "weight") {
            int role = 0;
            float value = 0;
            words >> name >> role >> value;
            program.weights.push_back({{name, static_cast<WeightsRole>(role)}, value});
        } else if (what == "type") {
            int number = 0;
            words >> name >> number;
            program.tensors.at(name).type = static_cast<DataType>(number);
        } else if (what == "format") {
            int number = 0;
            words >> name >> number;
            program.tensors.at(name).format = static_cast<TensorFormat>(number);
        } else if (what == "alias") {
            words >> name >> program.aliases[name];
        } else if (what == "invalid") {
            words >> program.invalid;
        } else if (words >> name && (what == "in" || what == "host" || what == "out")) {
            Tensor tensor;
            tensor.input = what != "out";
            if (what == "out") words >> tensor.rule >> tensor.source;
            std::istringstream sources(tensor.source);
            while (std::getline(sources, tensor.source, ',')) tensor.sources.push_back(tensor.source);
            if (!tensor.sources.empty()) tensor.source = tensor.sources[0];
            if (what == "host" || tensor.rule == "shape") tensor.location = TensorLocation::kHOST, tensor.type = DataType::kINT64;
            tensor.dims = sizes(words, -1);
            program.order.push_back(name), program.tensors[name] = tensor;
        } else {
            return false;
        }
    }
    return true;
}

// What lies in so many bytes of the device.
template <typename Number>
std::vector<Number> numbers(void const* address, std::size_t bytes) {
    std::vector<Number> result(bytes / sizeof(Number));
    if (bytes) std::memcpy(result.data(), device::access(address, bytes), bytes);
    return result;
}

std::int64_t volume(Dims const& dims) {
    std::int64_t result = 1;
    for (int i = 0; i < dims.nbDims; ++i) result *= dims.d[i];
    return result;
}

[[noreturn]] void wrong(std::string const& what) {
    std::fprintf(stderr, "TensorRT's double: %s\n", what.c_str());
    std::abort();
}

#ifdef TRT_MAJOR_RTX
class HostMemory : public IHostMemory {
public:
    explicit HostMemory(std::string data) : data_(std::move(data)) {}
    void* data() const noexcept override { return const_cast<char*>(data_.data()); }
    std::size_t size() const noexcept override { return data_.size(); }

private:
    std::string data_;
};

constexpr char kMark[] = "kernels\n";

class RuntimeCache : public IRuntimeCache {
public:
    IHostMemory* serialize() const noexcept override {
        std::string text = kMark;
        for (auto const& kernel : *kernels) text += kernel + "\n";
        return new HostMemory(text);
    }
    bool deserialize(void const* blob, std::size_t size) noexcept override {
        std::istringstream lines(std::string(static_cast<char const*>(blob), size));
        std::string line;
        if (!std::getline(lines, line) || line + "\n" != kMark) return false;
        while (std::getline(lines, line)) kernels->insert(line);
        return true;
    }
    bool reset() noexcept override { return kernels->clear(), true; }

    std::unique_ptr<std::set<std::string>> kernels = std::make_unique<std::set<std::string>>();
};

class RuntimeConfig : public IRuntimeConfig {
public:
    IRuntimeCache* createRuntimeCache() const noexcept override { return new RuntimeCache; }
    bool setRuntimeCache(IRuntimeCache const& given) noexcept override { return cache = static_cast<RuntimeCache const*>(&given), !device::fails("setRuntimeCache"); }
    void setDynamicShapesKernelSpecializationStrategy(DynamicShapesKernelSpecializationStrategy given) noexcept override { strategy = given; }
    bool setCudaGraphStrategy(CudaGraphStrategy given) noexcept override { return graphs = given, true; }

    RuntimeCache const* cache = nullptr;
    DynamicShapesKernelSpecializationStrategy strategy = DynamicShapesKernelSpecializationStrategy::kLAZY;
    CudaGraphStrategy graphs = CudaGraphStrategy::kDISABLED;
};
#endif

class Context : public IExecutionContext {
public:
    Context(Program const& program, ILogger& log) : program_(program), log_(log), factor_(program.weights.empty() ? 2 : program.weights.back().second) {
        for (auto const& [name, tensor] : program.tensors)
            if (tensor.input && std::count(tensor.dims.d, tensor.dims.d + tensor.dims.nbDims, -1) == 0) shapes_[name] = tensor.dims;
    }

#ifdef TRT_MAJOR_RTX
    Context(Program const& program, ILogger& log, RuntimeConfig const* config) : Context(program, log) { config_ = config; }
#endif

    bool setOptimizationProfileAsync(std::int32_t index, cudaStream_t) noexcept override {
        return profile_ = index, program_.profiles.count(index) == 1;
    }

    bool setInputShape(char const* name, Dims const& dims) noexcept override {
        auto const found = program_.profiles.find(profile_);
        if (found == program_.profiles.end() || !found->second.count(name)) return shapes_[name] = dims, true;
        return inside(dims, found->second.at(name)) && (shapes_[name] = dims, true);
    }

    bool setTensorAddress(char const* name, void* data) noexcept override {
        bool const host = program_.tensors.at(name).location == TensorLocation::kHOST;
        if (host == device::owns(data)) wrong(std::string(name) + (host ? " is on the CPU, and got an address of the GPU" : " is on the GPU, and got an address of the CPU"));
        if (!host && reinterpret_cast<std::uintptr_t>(data) % 256) wrong("an address that is not aligned");
        return addresses_[name] = data, true;
    }

    bool setOutputAllocator(char const* name, IOutputAllocator* allocator) noexcept override { return allocators_[name] = allocator, true; }

    std::int32_t inferShapes(std::int32_t, char const**) noexcept override {
        for (auto const& [name, tensor] : program_.tensors) {
            if (!tensor.input) continue;
            if (!shapes_.count(name)) return 1;
            if (tensor.location != TensorLocation::kHOST) continue;
            if (!addresses_.count(name)) return 1;
            auto const found = program_.values.find(profile_);
            if (found != program_.values.end() && found->second.count(name) && !inside(held(name), found->second.at(name))) return -1;
        }
        return 0;
    }

    Dims getTensorShape(char const* name) const noexcept override {
        auto const& tensor = program_.tensors.at(name);
        if (tensor.input) return shapes_.at(name);
        if (tensor.rule == "twice" || tensor.rule == "sum" || tensor.rule == "write") return shapes_.at(tensor.source);
        if (tensor.rule != "follow" && tensor.rule != "lost") return tensor.rule == "fill" ? held(tensor.source) : tensor.dims;
        Dims dims = tensor.dims;
        return dims.d[0] = shapes_.at(tensor.sources[1]).d[0], dims;
    }

    bool enqueueV3(cudaStream_t stream) noexcept override {
        if (running_.exchange(true)) wrong("one context runs in two threads");
        if (device::before_run) device::before_run();
        bool const fine = !device::fails("enqueueV3") && run(stream);
        if (!fine) log_.log(ILogger::Severity::kERROR, "the double did not run");
        running_ = false;
        return fine;
    }

    bool setCommunicator(void* communicator) noexcept override { return device::count("setCommunicator"), communicator && !device::fails("setCommunicator"); }

private:
    bool inside(Dims const& dims, std::vector<Dims> const& ranges) {
        for (int i = 0; i < dims.nbDims; ++i)
            if (dims.d[i] < ranges[0].d[i] || dims.d[i] > ranges[2].d[i]) return log_.log(ILogger::Severity::kERROR, "a shape outside of the profile"), false;
        return true;
    }

    // The sizes that an input on the CPU holds.
    Dims held(std::string const& name) const {
        Dims dims{};
        dims.nbDims = static_cast<std::int32_t>(shapes_.at(name).d[0]);
        std::copy_n(static_cast<std::int64_t const*>(addresses_.at(name)), dims.nbDims, dims.d);
        return dims;
    }

#ifdef TRT_MAJOR_RTX
    // Compiles for this shape, where that was not done, and captures a graph.
    void prepare() {
        if (!config_) return;
        std::string key;
        for (auto const& [name, dims] : shapes_)
            for (int i = 0; i < dims.nbDims; ++i) key += name + std::to_string(dims.d[i]) + " ";
        auto& kernels = config_->cache ? *config_->cache->kernels : own_;
        using Strategy = DynamicShapesKernelSpecializationStrategy;
        if (config_->strategy != Strategy::kNONE && kernels.insert(key).second) device::count(config_->strategy == Strategy::kEAGER ? "compile eager" : "compile lazy");
        if (config_->graphs == CudaGraphStrategy::kWHOLE_GRAPH_CAPTURE) device::count(captured_.insert(key).second ? "capture" : "replay");
    }

    RuntimeConfig const* config_ = nullptr;
    std::set<std::string> own_, captured_;
#endif

    bool run(cudaStream_t stream) {
#ifdef TRT_MAJOR_RTX
        prepare();
#endif
        for (auto const& name : program_.order) {
            auto const& tensor = program_.tensors.at(name);
            if (tensor.input) continue;
            if (tensor.rule == "fill") {
                auto const filled = static_cast<std::size_t>(volume(held(tensor.source)));
                device::enqueue(stream, [target = addresses_.at(name), filled] {
                    std::vector<float> const ones(filled, 1);
                    if (filled) std::memcpy(device::access(target, filled * sizeof(float)), ones.data(), filled * sizeof(float));
                });
                continue;
            }
            if (tensor.rule == "follow" || tensor.rule == "lost") {
                follow(name, stream);
                continue;
            }
            auto const& shape = shapes_.at(tensor.source);
            auto const bytes = static_cast<std::size_t>(volume(shape)) * sizeof(float);
            void const* const source = addresses_.at(tensor.source);
            if (tensor.location == TensorLocation::kDEVICE && tensor.rule != "positive") check_memory(name, bytes);
            if (tensor.rule == "sum") {
                device::enqueue(stream, [bytes, source, other = addresses_.at(tensor.sources[1]), target = addresses_.at(name)] {
                    auto a = numbers<float>(source, bytes);
                    auto const b = numbers<float>(other, bytes);
                    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
                    std::memcpy(device::access(target, bytes), a.data(), bytes);
                });
            } else if (tensor.rule == "write") {
                write(tensor, bytes, addresses_.at(name), stream);
            } else if (tensor.rule == "twice") {
                void* const target = addresses_.at(name);
                device::enqueue(stream, [=, factor = factor_] {
                    auto values = numbers<float>(source, bytes);
                    for (auto& value : values) value *= factor;
                    if (bytes) std::memcpy(device::access(target, bytes), values.data(), bytes);
                });
            } else if (tensor.rule == "shape") {
                std::copy_n(shape.d, shape.nbDims, static_cast<std::int64_t*>(addresses_.at(name)));
            } else if (!positive(name, source, bytes, stream)) {
                return false;
            }
        }
        return true;
    }

    void write(Tensor const& tensor, std::size_t bytes, void* target, cudaStream_t stream) const {
        auto const slots = static_cast<std::size_t>(shapes_.at(tensor.source).d[2]);
        auto const rows = static_cast<std::size_t>(shapes_.at(tensor.sources[1]).d[0]), columns = static_cast<std::size_t>(shapes_.at(tensor.sources[1]).d[1]);
        device::enqueue(stream, [=, source = addresses_.at(tensor.source), given = addresses_.at(tensor.sources[1]), from = addresses_.at(tensor.sources[2])] {
            auto cache = numbers<float>(source, bytes);
            auto const tokens = numbers<std::int64_t>(given, rows * columns * sizeof(std::int64_t));
            auto const starts = numbers<std::int32_t>(from, rows * sizeof(std::int32_t));
            for (std::size_t i = 0; i < tokens.size(); ++i) {
                auto const slot = static_cast<std::size_t>(starts[i / columns]) + i % columns;
                if (slot >= slots) wrong("a token behind the end of a cache");
                cache[i / columns * slots + slot] = static_cast<float>(tokens[i]);
            }
            std::memcpy(device::access(target, bytes), cache.data(), bytes);
        });
    }

    void follow(std::string const& name, cudaStream_t stream) const {
        auto const& tensor = program_.tensors.at(name);
        auto const words = static_cast<std::size_t>(tensor.dims.d[1]), rows = static_cast<std::size_t>(shapes_.at(tensor.sources[1]).d[0]);
        auto const slots = static_cast<std::size_t>(program_.tensors.at(tensor.source).dims.d[2]), wide = tensor.type == DataType::kFLOAT ? sizeof(float) : sizeof(std::uint16_t);
        std::uint32_t const bits = tensor.rule == "lost" ? 0x7fc00000 : tensor.type == DataType::kHALF ? 0x3c000000 : 0x3f800000;  // in front, of 32
        device::enqueue(stream, [=, source = addresses_.at(tensor.source), from = addresses_.at(tensor.sources[1]), given = addresses_.at(tensor.sources[2]), target = addresses_.at(name)] {
            auto const cache = numbers<float>(source, rows * slots * sizeof(float));
            auto const starts = numbers<std::int32_t>(from, rows * sizeof(std::int32_t)), lengths = numbers<std::int32_t>(given, rows * sizeof(std::int32_t));
            std::vector<char> logits(rows * words * wide);
            for (std::size_t row = 0; row < rows; ++row) {
                std::size_t sum = 0;
                for (std::size_t slot = 0; slot < static_cast<std::size_t>(starts[row] + lengths[row]); ++slot) sum += static_cast<std::size_t>(cache[row * slots + slot]);
                std::memcpy(&logits[(row * words + sum % words) * wide], reinterpret_cast<char const*>(&bits) + sizeof(bits) - wide, wide);
            }
            std::memcpy(device::access(target, logits.size()), logits.data(), logits.size());
        });
    }

    // An output lies apart from all inputs, or exactly where the one lies that it replaces.
    void check_memory(std::string const& name, std::size_t bytes) const {
        auto const at = [&](std::string const& tensor) { return reinterpret_cast<std::uintptr_t>(addresses_.at(tensor)); };
        auto const alias = program_.aliases.find(name);
        for (auto const& [other, tensor] : program_.tensors) {
            if (!tensor.input || tensor.location == TensorLocation::kHOST) continue;
            auto const size = static_cast<std::size_t>(volume(shapes_.at(other))) * sizeof(float);
            if (kAliases && alias != program_.aliases.end() && alias->second == other) {
                if (at(name) != at(other)) wrong("an output that is written in the memory of an input has an address of its own");
            } else if (at(name) < at(other) + size && at(other) < at(name) + bytes) {
                wrong("an output in the memory of its input");
            }
        }
    }

    // As TensorRT does it: the shape is known, and said, before enqueueV3 returns.
    bool positive(std::string const& name, void const* source, std::size_t bytes, cudaStream_t stream) {
        if (cudaStreamSynchronize(stream) != cudaSuccess) return false;
        auto const values = numbers<float>(source, bytes);
        std::vector<float> found;
        std::copy_if(values.begin(), values.end(), std::back_inserter(found), [](float value) { return value > 0; });
        auto const allocator = allocators_.find(name);
        if (allocator == allocators_.end() || !allocator->second) wrong("an output of unknown shape without an allocator");
        auto const size = found.size() * sizeof(float);
        void* const target = allocator->second->reallocateOutputAsync(name.c_str(), nullptr, std::max<std::size_t>(size, 1), 256, stream);
        if (!target) return false;
        if (!found.empty()) std::memcpy(device::access(target, size), found.data(), size);
        Dims dims{};
        dims.nbDims = 1, dims.d[0] = static_cast<std::int64_t>(found.size());
        return allocator->second->notifyShape(name.c_str(), dims), true;
    }

    Program const& program_;
    ILogger& log_;
    float factor_;
    int profile_ = 0;
    std::map<std::string, Dims> shapes_;
    std::map<std::string, void*> addresses_;
    std::map<std::string, IOutputAllocator*> allocators_;
    std::atomic<bool> running_{false};
};

class CudaEngine : public ICudaEngine {
public:
    CudaEngine(Program program, ILogger& log) : program_(std::move(program)), log_(log) {}
    std::int32_t getNbIOTensors() const noexcept override { return static_cast<std::int32_t>(program_.order.size()); }
    char const* getIOTensorName(std::int32_t index) const noexcept override { return program_.order[static_cast<std::size_t>(index)].c_str(); }
    TensorIOMode getTensorIOMode(char const* name) const noexcept override { return at(name).input ? TensorIOMode::kINPUT : TensorIOMode::kOUTPUT; }
    TensorLocation getTensorLocation(char const* name) const noexcept override { return at(name).location; }
    DataType getTensorDataType(char const* name) const noexcept override { return at(name).type; }
    TensorFormat getTensorFormat(char const* name) const noexcept override { return at(name).format; }
    Dims getTensorShape(char const* name) const noexcept override { return at(name).dims; }
    std::int32_t getNbOptimizationProfiles() const noexcept override { return static_cast<std::int32_t>(program_.profiles.size()); }
    Dims getProfileShape(char const* name, std::int32_t index, OptProfileSelector select) const noexcept override {
        auto const found = program_.profiles.find(index);
        if (found == program_.profiles.end() || !found->second.count(name)) return at(name).dims;
        return found->second.at(name)[static_cast<std::size_t>(select)];
    }
    std::int64_t const* getProfileTensorValuesV2(char const* name, std::int32_t index, OptProfileSelector select) const noexcept override {
        auto const found = program_.values.find(index);
        return found == program_.values.end() || !found->second.count(name) ? nullptr : found->second.at(name)[static_cast<std::size_t>(select)].d;
    }
#ifdef TRT_MAJOR_RTX
    char const* getAliasedInputTensor(char const* name) const noexcept override {
        auto const found = program_.aliases.find(name);
        return found == program_.aliases.end() ? nullptr : found->second.c_str();
    }
    IRuntimeConfig* createRuntimeConfig() noexcept override { return new RuntimeConfig; }
    IExecutionContext* createExecutionContext(IRuntimeConfig* config) noexcept override {
        device::count("createExecutionContext");
        if (!device::fails("createExecutionContext")) return new Context(program_, log_, static_cast<RuntimeConfig*>(config));
#else
    IExecutionContext* createExecutionContext(ExecutionContextAllocationStrategy) noexcept override {
        device::count("createExecutionContext");
        if (!device::fails("createExecutionContext")) return new Context(program_, log_);
#endif
        return log_.log(ILogger::Severity::kERROR, "Error Code 2: OutOfMemory (Requested size was 7 bytes.)"), nullptr;
    }

    Program& program() { return program_; }

private:
    Tensor const& at(char const* name) const { return program_.tensors.at(name); }
    Program program_;
    ILogger& log_;
};

class Refitter : public IRefitter {
public:
    explicit Refitter(Program& program) : program_(program), values_(program.weights.size()) {}

    std::int32_t getAll(std::int32_t size, char const** layers, WeightsRole* roles) noexcept override {
        for (std::size_t i = 0; layers && i < std::min<std::size_t>(static_cast<std::size_t>(size), program_.weights.size()); ++i)
            layers[i] = program_.weights[i].first.first.c_str(), roles[i] = program_.weights[i].first.second;
        return static_cast<std::int32_t>(program_.weights.size());
    }

    bool setWeights(char const* layer, WeightsRole role, Weights weights) noexcept override {
        for (std::size_t i = 0; i < values_.size(); ++i)
            if (program_.weights[i].first == std::pair(std::string(layer), role)) return values_[i] = weights.values, weights.type == DataType::kFLOAT && weights.count == 1;
        return false;
    }

    bool refitCudaEngine() noexcept override {  // the values are read only now
        for (std::size_t i = 0; i < values_.size(); ++i) std::memcpy(&program_.weights[i].second, values_[i], sizeof(float));
        return !device::fails("refitCudaEngine");
    }

private:
    Program& program_;
    std::vector<void const*> values_;
};

class Runtime : public IRuntime {
public:
    explicit Runtime(ILogger& log) : log_(log) {}
    void setEngineHostCodeAllowed(bool) noexcept override {}
#ifdef TRT_MAJOR_RTX
    EngineValidity getEngineValidity(void const* blob, std::int64_t size, std::uint64_t* diagnostics) const noexcept override {
        Program program;
        parse(std::string(static_cast<char const*>(blob) + 64, static_cast<std::size_t>(size) - 64), program);
        return *diagnostics = program.invalid, program.invalid ? EngineValidity::kINVALID : EngineValidity::kVALID;
    }
#endif
    ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept override {
        Program program;
        if (size >= 64 && parse(std::string(static_cast<char const*>(blob) + 64, size - 64), program)) return new CudaEngine(std::move(program), log_);
        return log_.log(ILogger::Severity::kERROR, "Cannot find plugin: Twice, version: 1"), nullptr;
    }

private:
    ILogger& log_;
};

}  // namespace

nvinfer1::IRuntime* nvinfer1::createInferRuntime(ILogger& logger) noexcept { return new Runtime(logger); }
nvinfer1::IRefitter* nvinfer1::createInferRefitter(ICudaEngine& engine, ILogger&) noexcept { return new Refitter(static_cast<CudaEngine&>(engine).program()); }

extern "C" {
std::int32_t getInferLibMajorVersion() noexcept { return NV_TENSORRT_MAJOR; }
std::int32_t getInferLibMinorVersion() noexcept { return NV_TENSORRT_MINOR; }
std::int32_t getInferLibPatchVersion() noexcept { return NV_TENSORRT_PATCH; }
std::int32_t getInferLibBuildVersion() noexcept { return 116; }
}
