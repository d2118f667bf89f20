// A double of TensorRT: just what the library calls, with TensorRT's names and signatures. nvinfer.cpp of this folder
// says how it behaves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_runtime_api.h"

#define NV_TENSORRT_MAJOR 1
#define NV_TENSORRT_MINOR 7
#define NV_TENSORRT_PATCH 1

namespace nvinfer1 {

enum class DataType : std::int32_t { kFLOAT = 0, kHALF = 1, kINT8 = 2, kINT32 = 3, kBOOL = 4, kUINT8 = 5, kFP8 = 6, kBF16 = 7, kINT64 = 8, kINT4 = 9 };
enum class TensorLocation : std::int32_t { kDEVICE = 0, kHOST = 1 };
enum class TensorIOMode : std::int32_t { kNONE = 0, kINPUT = 1, kOUTPUT = 2 };
enum class OptProfileSelector : std::int32_t { kMIN = 0, kOPT = 1, kMAX = 2 };

class Dims {
public:
    static constexpr std::int32_t MAX_DIMS{8};
    std::int32_t nbDims;
    std::int64_t d[MAX_DIMS];
};

class ILogger {
public:
    enum class Severity : std::int32_t { kINTERNAL_ERROR = 0, kERROR = 1, kWARNING = 2, kINFO = 3, kVERBOSE = 4 };
    virtual void log(Severity severity, char const* message) noexcept = 0;
    virtual ~ILogger() = default;
};

class IOutputAllocator {
public:
    virtual void* reallocateOutputAsync(char const* name, void* current, std::uint64_t size, std::uint64_t alignment, cudaStream_t stream) = 0;
    virtual void notifyShape(char const* name, Dims const& dims) noexcept = 0;
    virtual ~IOutputAllocator() = default;
};

class IExecutionContext {
public:
    virtual ~IExecutionContext() noexcept = default;
    virtual bool setOptimizationProfileAsync(std::int32_t index, cudaStream_t stream) noexcept = 0;
    virtual bool setInputShape(char const* name, Dims const& dims) noexcept = 0;
    virtual bool setInputTensorAddress(char const* name, void const* data) noexcept = 0;
    virtual bool setTensorAddress(char const* name, void* data) noexcept = 0;
    virtual bool setOutputAllocator(char const* name, IOutputAllocator* allocator) noexcept = 0;
    virtual std::int32_t inferShapes(std::int32_t count, char const** names) noexcept = 0;
    virtual Dims getTensorShape(char const* name) const noexcept = 0;
    virtual bool enqueueV3(cudaStream_t stream) noexcept = 0;
};

class ICudaEngine {
public:
    virtual ~ICudaEngine() noexcept = default;
    virtual std::int32_t getNbIOTensors() const noexcept = 0;
    virtual char const* getIOTensorName(std::int32_t index) const noexcept = 0;
    virtual TensorIOMode getTensorIOMode(char const* name) const noexcept = 0;
    virtual TensorLocation getTensorLocation(char const* name) const noexcept = 0;
    virtual DataType getTensorDataType(char const* name) const noexcept = 0;
    virtual Dims getTensorShape(char const* name) const noexcept = 0;
    virtual std::int32_t getNbOptimizationProfiles() const noexcept = 0;
    virtual Dims getProfileShape(char const* name, std::int32_t index, OptProfileSelector select) const noexcept = 0;
    virtual IExecutionContext* createExecutionContext() noexcept = 0;
};

class IRuntime {
public:
    virtual ~IRuntime() noexcept = default;
    virtual void setEngineHostCodeAllowed(bool allowed) noexcept = 0;
    virtual ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept = 0;
};

IRuntime* createInferRuntime(ILogger& logger) noexcept;

}  // namespace nvinfer1

extern "C" {
std::int32_t getInferLibMajorVersion() noexcept;
std::int32_t getInferLibMinorVersion() noexcept;
std::int32_t getInferLibPatchVersion() noexcept;
std::int32_t getInferLibBuildVersion() noexcept;
}
