// What running needs of CUDA, with errors as trtdsl has them.
#pragma once

#include <NvInfer.h>
#include <cuda_runtime_api.h>

#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "internal.hpp"

namespace trtdsl {

constexpr std::uintptr_t kAlignment = 256;  // of addresses that TensorRT takes

inline bool is_aligned(void const* address) { return reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0; }

// Keeps what TensorRT says, for the message of an error: what it said in the thread that asks, or in any other.
class Log : public nvinfer1::ILogger {
public:
    void log(Severity severity, char const* message) noexcept override;
    std::string take();
    void forget();  // what was said in this thread, before something new is tried

private:
    static constexpr std::size_t kMost = 64, kLongest = 4096;  // messages, and letters of one
    std::mutex mutex_;
    std::vector<std::pair<std::thread::id, std::string>> messages_;
};

// Throws out-of-memory, execution-failed.
void cuda(cudaError_t status, std::string const& what, std::size_t needed = 0);

// Throws no-driver, driver-too-old; no-driver where there is no such device.
void check_driver(int device);

// "8.9". Throws execution-failed.
std::string compute_capability(int device);

// Throws feed-place for memory that is not where the engine on this device needs it: on the CPU, or on that GPU.
void check_place(std::string const& what, void const* data, bool on_host, int device);

// Another GPU is the thread's own while this lives.
class OnDevice {
public:
    explicit OnDevice(int device) {
        cuda(cudaGetDevice(&before_), "asking for the GPU");
        cuda(cudaSetDevice(device), "choosing the GPU");
    }
    OnDevice(OnDevice const&) = delete;
    OnDevice& operator=(OnDevice const&) = delete;
    ~OnDevice() { cudaSetDevice(before_); }

private:
    int before_ = 0;
};

// The same where nothing may be thrown.
template <typename Work>
void on_device(int device, Work const& work) noexcept {
    int before = 0;
    bool const known = cudaGetDevice(&before) == cudaSuccess;
    cudaSetDevice(device);
    work();
    if (known) cudaSetDevice(before);
}

// Device memory that was replaced by more, until the runs that may use it are done.
class Retired {
public:
    Retired() = default;
    Retired(Retired const&) = delete;
    Retired& operator=(Retired const&) = delete;
    ~Retired() { release(); }
    void add(void* pointer) { pointers_.push_back(pointer); }
    void release() {
        for (auto* pointer : std::exchange(pointers_, {})) cudaFree(pointer);
    }

private:
    std::vector<void*> pointers_;
};

// Memory of a tensor, on the GPU or on the CPU.
class Memory {
public:
    Memory() = default;
    Memory(Memory const&) = delete;
    Memory& operator=(Memory const&) = delete;
    ~Memory() { cudaFree(pointer_); }

    // At least so many bytes, which stay where they are until more are asked for. Throws out-of-memory.
    void* reserve(std::size_t size, bool on_host, Retired& retired);
    // Where it is and how large.
    std::pair<void*, std::size_t> held();

private:
    void* pointer_ = nullptr;
    std::size_t size_ = 0;
    std::vector<std::int64_t> host_;  // aligned for every type
};

// Gives TensorRT memory for an output whose shape it knows only when it has run.
class Allocator : public nvinfer1::IOutputAllocator {
public:
    Allocator(Memory& memory, bool on_host, Retired& retired) : memory_(memory), on_host_(on_host), retired_(retired) {}
    void* reallocateOutputAsync(char const* name, void* current, std::uint64_t size, std::uint64_t alignment, cudaStream_t stream) noexcept override;
    void notifyShape(char const*, nvinfer1::Dims const& dims) noexcept override { dims_ = dims, known_ = true; }

    void begin() { known_ = false, failure_.reset(); }  // another run
    // Throws what went wrong in a call of TensorRT's.
    void check() const {
        if (failure_) throw *failure_;
    }
    Shape shape() const;
    void* data() const { return data_; }

private:
    Memory& memory_;
    bool on_host_;
    Retired& retired_;
    void* data_ = nullptr;
    nvinfer1::Dims dims_{};
    bool known_ = false;
    std::optional<Error> failure_;
};

Shape shape_of(nvinfer1::Dims const& dims);

}  // namespace trtdsl
