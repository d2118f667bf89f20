// A double of TensorRT-RTX, and with DOUBLE_STANDARD of TensorRT: just what the library calls, with their names and
// signatures, one declaration a line (../compare.py reads this file). nvinfer.cpp of this folder says how it behaves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_runtime_api.h"

#ifdef DOUBLE_STANDARD
#define NV_TENSORRT_MAJOR 11
#define NV_TENSORRT_MINOR 1
#define NV_TENSORRT_PATCH 0
#else
#define NV_TENSORRT_MAJOR 1
#define NV_TENSORRT_MINOR 7
#define NV_TENSORRT_PATCH 1
#define TRT_MAJOR_RTX 1
#endif

namespace nvinfer1 {

enum class DataType : std::int32_t { kFLOAT = 0, kHALF = 1, kINT8 = 2, kINT32 = 3, kBOOL = 4, kUINT8 = 5, kFP8 = 6, kBF16 = 7, kINT64 = 8, kINT4 = 9 };
enum class TensorFormat : std::int32_t { kLINEAR = 0, kCHW32 = 5, kHWC = 8, kDHWC = 12 };
enum class TensorLocation : std::int32_t { kDEVICE = 0, kHOST = 1 };
enum class TensorIOMode : std::int32_t { kNONE = 0, kINPUT = 1, kOUTPUT = 2 };
enum class OptProfileSelector : std::int32_t { kMIN = 0, kOPT = 1, kMAX = 2 };
enum class ExecutionContextAllocationStrategy : std::int32_t { kSTATIC = 0 };
enum class WeightsRole : std::int32_t { kKERNEL = 0, kBIAS = 1, kSHIFT = 2, kSCALE = 3, kCONSTANT = 4, kANY = 5 };
#ifdef TRT_MAJOR_RTX
enum class EngineValidity : std::int32_t { kVALID = 0, kSUBOPTIMAL = 1, kINVALID = 2 };
enum class EngineInvalidityDiagnostics : std::uint64_t { kVERSION_MISMATCH = 1, kUNSUPPORTED_CC = 2, kOLD_CUDA_DRIVER = 4, kOLD_CUDA_RUNTIME = 8, kINSUFFICIENT_GPU_MEMORY = 16, kMALFORMED_ENGINE = 32, kCUDA_ERROR = 64 };
enum class DynamicShapesKernelSpecializationStrategy : std::int32_t { kLAZY = 0, kEAGER = 1, kNONE = 2 };
enum class CudaGraphStrategy : std::int32_t { kDISABLED = 0, kWHOLE_GRAPH_CAPTURE = 1 };
#endif

class Dims {
public:
    static constexpr std::int32_t MAX_DIMS{8};
    std::int32_t nbDims;
    std::int64_t d[MAX_DIMS];
};

class Weights {
public:
    DataType type;
    void const* values;
    std::int64_t count;
};

class ILogger {
public:
    enum class Severity : std::int32_t { kINTERNAL_ERROR = 0, kERROR = 1, kWARNING = 2, kINFO = 3, kVERBOSE = 4 };
    virtual void log(ILogger::Severity severity, char const* message) noexcept = 0;
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
    virtual bool setTensorAddress(char const* name, void* data) noexcept = 0;
    virtual bool setOutputAllocator(char const* name, IOutputAllocator* allocator) noexcept = 0;
    virtual std::int32_t inferShapes(std::int32_t count, char const** names) noexcept = 0;
    virtual Dims getTensorShape(char const* name) const noexcept = 0;
    virtual bool enqueueV3(cudaStream_t stream) noexcept = 0;
    virtual bool setCommunicator(void* communicator) noexcept = 0;
};

#ifdef TRT_MAJOR_RTX
class IHostMemory {
public:
    virtual ~IHostMemory() noexcept = default;
    virtual void* data() const noexcept = 0;
    virtual std::size_t size() const noexcept = 0;
};

class IRuntimeCache {
public:
    virtual ~IRuntimeCache() noexcept = default;
    virtual IHostMemory* serialize() const noexcept = 0;
    virtual bool deserialize(void const* blob, std::size_t size) noexcept = 0;
    virtual bool reset() noexcept = 0;
};

class IRuntimeConfig {
public:
    virtual ~IRuntimeConfig() noexcept = default;
    virtual IRuntimeCache* createRuntimeCache() const noexcept = 0;
    virtual bool setRuntimeCache(IRuntimeCache const& cache) noexcept = 0;
    virtual void setDynamicShapesKernelSpecializationStrategy(DynamicShapesKernelSpecializationStrategy strategy) noexcept = 0;
    virtual bool setCudaGraphStrategy(CudaGraphStrategy strategy) noexcept = 0;
};
#endif

class ICudaEngine {
public:
    virtual ~ICudaEngine() noexcept = default;
    virtual std::int32_t getNbIOTensors() const noexcept = 0;
    virtual char const* getIOTensorName(std::int32_t index) const noexcept = 0;
    virtual TensorIOMode getTensorIOMode(char const* name) const noexcept = 0;
    virtual TensorLocation getTensorLocation(char const* name) const noexcept = 0;
    virtual DataType getTensorDataType(char const* name) const noexcept = 0;
    virtual TensorFormat getTensorFormat(char const* name) const noexcept = 0;
    virtual Dims getTensorShape(char const* name) const noexcept = 0;
    virtual std::int32_t getNbOptimizationProfiles() const noexcept = 0;
    virtual Dims getProfileShape(char const* name, std::int32_t index, OptProfileSelector select) const noexcept = 0;
    virtual std::int64_t const* getProfileTensorValuesV2(char const* name, std::int32_t index, OptProfileSelector select) const noexcept = 0;
#ifdef TRT_MAJOR_RTX
    virtual char const* getAliasedInputTensor(char const* tensorName) const noexcept = 0;
    virtual IRuntimeConfig* createRuntimeConfig() noexcept = 0;
    virtual IExecutionContext* createExecutionContext(IRuntimeConfig* config) noexcept = 0;
#else
    virtual IExecutionContext* createExecutionContext(ExecutionContextAllocationStrategy strategy = ExecutionContextAllocationStrategy::kSTATIC) noexcept = 0;
#endif
};

class IRefitter {
public:
    virtual ~IRefitter() noexcept = default;
    virtual std::int32_t getAll(std::int32_t size, char const** layers, WeightsRole* roles) noexcept = 0;
    virtual bool setWeights(char const* layer, WeightsRole role, Weights weights) noexcept = 0;
    virtual bool refitCudaEngine() noexcept = 0;
};

class IRuntime {
public:
    virtual ~IRuntime() noexcept = default;
    virtual void setEngineHostCodeAllowed(bool allowed) noexcept = 0;
#ifdef TRT_MAJOR_RTX
    virtual EngineValidity getEngineValidity(void const* blob, std::int64_t size, std::uint64_t* diagnostics) const noexcept = 0;
#endif
    virtual ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept = 0;
};

IRuntime* createInferRuntime(ILogger& logger) noexcept;
IRefitter* createInferRefitter(ICudaEngine& engine, ILogger& logger) noexcept;

}  // namespace nvinfer1

extern "C" {
std::int32_t getInferLibMajorVersion() noexcept;
std::int32_t getInferLibMinorVersion() noexcept;
std::int32_t getInferLibPatchVersion() noexcept;
std::int32_t getInferLibBuildVersion() noexcept;
}
