// TensorRT's runtime on the simulated device. Its engines have a sound header of 64 bytes and then lines of text:
//   in NAME SIZES…                an input of float32, -1 for a dynamic size
//   host NAME SIZES…              an input of int64 that is read on the CPU
//   profile INDEX NAME RANK MIN… OPT… MAX…
//   out NAME RULE SOURCE SIZES…   twice: SOURCE * 2 · shape: SOURCE's shape, on the CPU · positive: SOURCE's values
//                                 above 0, whose number only the run knows
#include "NvInfer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
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
    Dims dims{};
    std::string rule, source;
};

struct Program {
    std::vector<std::string> order;
    std::map<std::string, Tensor> tensors;
    std::map<int, std::map<std::string, std::vector<Dims>>> profiles;
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
        if (what == "profile") {
            int index = 0, rank = 0;
            words >> index >> name >> rank;
            for (int i = 0; i < 3; ++i) program.profiles[index][name].push_back(sizes(words, rank));
        } else if (words >> name && (what == "in" || what == "host" || what == "out")) {
            Tensor tensor;
            tensor.input = what != "out";
            if (what == "out") words >> tensor.rule >> tensor.source;
            if (what == "host" || tensor.rule == "shape") tensor.location = TensorLocation::kHOST, tensor.type = DataType::kINT64;
            tensor.dims = sizes(words, -1);
            program.order.push_back(name), program.tensors[name] = tensor;
        } else {
            return false;
        }
    }
    return true;
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

class Context : public IExecutionContext {
public:
    Context(Program const& program, ILogger& log) : program_(program), log_(log) {}

    bool setOptimizationProfileAsync(std::int32_t index, cudaStream_t) noexcept override {
        return profile_ = index, program_.profiles.count(index) == 1;
    }

    bool setInputShape(char const* name, Dims const& dims) noexcept override {
        auto const& ranges = program_.profiles.at(profile_).at(name);
        for (int i = 0; i < dims.nbDims; ++i)
            if (dims.d[i] < ranges[0].d[i] || dims.d[i] > ranges[2].d[i]) return log_.log(ILogger::Severity::kERROR, "a shape outside of the profile"), false;
        return shapes_[name] = dims, true;
    }

    bool setInputTensorAddress(char const* name, void const* data) noexcept override { return setTensorAddress(name, const_cast<void*>(data)); }

    bool setTensorAddress(char const* name, void* data) noexcept override {
        bool const host = program_.tensors.at(name).location == TensorLocation::kHOST;
        if (host == device::owns(data)) wrong(std::string(name) + (host ? " is on the CPU, and got an address of the GPU" : " is on the GPU, and got an address of the CPU"));
        if (!host && reinterpret_cast<std::uintptr_t>(data) % 256) wrong("an address that is not aligned");
        return addresses_[name] = data, true;
    }

    bool setOutputAllocator(char const* name, IOutputAllocator* allocator) noexcept override { return allocators_[name] = allocator, true; }

    std::int32_t inferShapes(std::int32_t, char const**) noexcept override {
        for (auto const& [name, tensor] : program_.tensors)
            if (tensor.input && !shapes_.count(name)) return 1;
        return 0;
    }

    Dims getTensorShape(char const* name) const noexcept override {
        auto const& tensor = program_.tensors.at(name);
        if (tensor.input) return shapes_.at(name);
        return tensor.rule == "twice" ? shapes_.at(tensor.source) : tensor.dims;
    }

    bool enqueueV3(cudaStream_t stream) noexcept override {
        if (running_.exchange(true)) wrong("one context runs in two threads");
        bool const fine = !device::fails("enqueueV3") && run(stream);
        if (!fine) log_.log(ILogger::Severity::kERROR, "the double did not run");
        running_ = false;
        return fine;
    }

private:
    bool run(cudaStream_t stream) {
        for (auto const& name : program_.order) {
            auto const& tensor = program_.tensors.at(name);
            if (tensor.input) continue;
            auto const& shape = shapes_.at(tensor.source);
            auto const bytes = static_cast<std::size_t>(volume(shape)) * sizeof(float);
            void const* const source = addresses_.at(tensor.source);
            if (tensor.rule == "twice") {
                void* const target = addresses_.at(name);
                device::enqueue(stream, [=] {
                    std::vector<float> values(bytes / sizeof(float));
                    std::memcpy(values.data(), device::access(source, bytes), bytes);
                    for (auto& value : values) value *= 2;
                    std::memcpy(device::access(target, bytes), values.data(), bytes);
                });
            } else if (tensor.rule == "shape") {
                std::copy_n(shape.d, shape.nbDims, static_cast<std::int64_t*>(addresses_.at(name)));
            } else if (!positive(name, source, bytes, stream)) {
                return false;
            }
        }
        return true;
    }

    // As TensorRT does it: the shape is known, and said, before enqueueV3 returns.
    bool positive(std::string const& name, void const* source, std::size_t bytes, cudaStream_t stream) {
        cudaStreamSynchronize(stream);
        std::vector<float> values(bytes / sizeof(float)), found;
        std::memcpy(values.data(), device::access(source, bytes), bytes);
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
    Dims getTensorShape(char const* name) const noexcept override { return at(name).dims; }
    std::int32_t getNbOptimizationProfiles() const noexcept override { return static_cast<std::int32_t>(program_.profiles.size()); }
    Dims getProfileShape(char const* name, std::int32_t index, OptProfileSelector select) const noexcept override {
        return program_.profiles.at(index).at(name)[static_cast<std::size_t>(select)];
    }
    IExecutionContext* createExecutionContext() noexcept override {
        if (!device::fails("createExecutionContext")) return new Context(program_, log_);
        return log_.log(ILogger::Severity::kERROR, "Error Code 2: OutOfMemory (Requested size was 7 bytes.)"), nullptr;
    }

private:
    Tensor const& at(char const* name) const { return program_.tensors.at(name); }
    Program program_;
    ILogger& log_;
};

class Runtime : public IRuntime {
public:
    explicit Runtime(ILogger& log) : log_(log) {}
    void setEngineHostCodeAllowed(bool) noexcept override {}
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

extern "C" {
std::int32_t getInferLibMajorVersion() noexcept { return NV_TENSORRT_MAJOR; }
std::int32_t getInferLibMinorVersion() noexcept { return NV_TENSORRT_MINOR; }
std::int32_t getInferLibPatchVersion() noexcept { return NV_TENSORRT_PATCH; }
std::int32_t getInferLibBuildVersion() noexcept { return 116; }
}
