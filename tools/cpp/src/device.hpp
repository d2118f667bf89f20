// What running needs of CUDA, with errors as trtdsl has them.
#pragma once

#include <NvInfer.h>
#include <cuda_runtime_api.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "internal.hpp"

namespace trtdsl {

// Keeps what TensorRT says, for the message of an error.
class Log : public nvinfer1::ILogger {
public:
    void log(Severity severity, char const* message) noexcept override {
        if (severity > Severity::kERROR || !message) return;
        std::lock_guard<std::mutex> const lock(mutex_);
        if (text_.size() < kMost) text_ += (text_.empty() ? "" : " ") + std::string(message).substr(0, kMost);
    }

    std::string take() {
        std::lock_guard<std::mutex> const lock(mutex_);
        return text_.empty() ? "TensorRT gave no message" : std::exchange(text_, {});
    }

private:
    static constexpr std::size_t kMost = 4096;
    std::mutex mutex_;
    std::string text_;
};

// Throws out-of-memory, execution-failed.
void cuda(cudaError_t status, std::string const& what, std::size_t needed = 0);

// Throws no-driver, driver-too-old; usage where there is no such device.
void check_driver(int device);

// Another GPU is the thread's own while this lives.
class OnDevice {
public:
    explicit OnDevice(int device) {
        cuda(cudaGetDevice(&before_), "asking for the GPU");
        cuda(cudaSetDevice(device), "choosing the GPU");
    }
    OnDevice(OnDevice const&) = delete;
    ~OnDevice() { cudaSetDevice(before_); }

private:
    int before_ = 0;
};

// Memory of a tensor, on the GPU or on the CPU.
class Memory {
public:
    Memory() = default;
    Memory(Memory const&) = delete;
    Memory& operator=(Memory const&) = delete;
    ~Memory() { cudaFree(pointer_); }

    void* reserve(std::size_t size);                                       // on the GPU
    void* reserve_host(std::size_t size) { return host_.resize(size / 8 + 1), host_.data(); }

private:
    void* pointer_ = nullptr;
    std::size_t size_ = 0;
    std::vector<std::int64_t> host_;  // aligned for every type
};

// Gives TensorRT memory for an output whose shape it knows only when it has run.
class Allocator : public nvinfer1::IOutputAllocator {
public:
    explicit Allocator(Memory& memory) : memory_(memory) {}
    void* reallocateOutputAsync(char const* name, void* current, std::uint64_t size, std::uint64_t alignment, cudaStream_t stream) noexcept override;
    void notifyShape(char const*, nvinfer1::Dims const& dims) noexcept override { dims_ = dims, known_ = true; }

    // Throws what went wrong in a call of TensorRT's.
    void check() const {
        if (failure_) throw *failure_;
    }
    Shape shape() const;
    void* data() const { return data_; }

private:
    Memory& memory_;
    void* data_ = nullptr;
    nvinfer1::Dims dims_{};
    bool known_ = false;
    std::optional<Error> failure_;
};

Shape shape_of(nvinfer1::Dims const& dims);

}  // namespace trtdsl
