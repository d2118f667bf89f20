#include "device.hpp"

#include <algorithm>

namespace trtdsl {

void Log::log(Severity severity, char const* message) noexcept {
    if (severity > Severity::kERROR || !message) return;
    try {
        std::lock_guard<std::mutex> const lock(mutex_);
        if (messages_.size() < kMost) messages_.emplace_back(std::this_thread::get_id(), std::string(message).substr(0, kLongest));
    } catch (...) {  // no memory for a message
    }
}

std::string Log::take() {
    std::lock_guard<std::mutex> const lock(mutex_);
    auto const here = std::this_thread::get_id();
    bool const own = std::any_of(messages_.begin(), messages_.end(), [&](auto const& each) { return each.first == here; });
    std::string text;
    auto const taken = std::stable_partition(messages_.begin(), messages_.end(), [&](auto const& each) { return own && each.first != here; });
    for (auto each = taken; each != messages_.end(); ++each) text += (text.empty() ? "" : " ") + each->second;
    messages_.erase(taken, messages_.end());
    return text.empty() ? "TensorRT gave no message" : text;
}

void Log::forget() {
    std::lock_guard<std::mutex> const lock(mutex_);
    auto const here = std::this_thread::get_id();
    messages_.erase(std::remove_if(messages_.begin(), messages_.end(), [&](auto const& each) { return each.first == here; }), messages_.end());
}

void cuda(cudaError_t status, std::string const& what, std::size_t needed) {
    if (status == cudaSuccess) return;
    if (status == cudaErrorMemoryAllocation) {
        std::size_t free = 0, total = 0;
        cudaGetLastError();
        cudaMemGetInfo(&free, &total);
        throw Error("out-of-memory", "out of GPU memory: " + what + " needs " + std::to_string(needed) + " bytes, and " + std::to_string(free) + " bytes are free");
    }
    throw Error("execution-failed", what + " failed: " + cudaGetErrorString(status));
}

void check_driver(int device) {
    int driver = 0, count = 0;
    char const* const unjudged = "; whether the engine fits a GPU was not judged";
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        throw Error("no-driver", std::string("an engine runs on an NVIDIA GPU, and no NVIDIA driver is installed") + unjudged);
    if (driver / 1000 < CUDART_VERSION / 1000)
        throw Error("driver-too-old", "the NVIDIA driver here serves CUDA " + std::to_string(driver / 1000) + ", and this program needs CUDA " +
                                          std::to_string(CUDART_VERSION / 1000) + " or later: update the driver" + unjudged);
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        throw Error("no-driver", std::string("the CUDA driver finds no device") + unjudged);
    if (device < 0 || device >= count)
        throw Error("no-driver", "there is no GPU " + std::to_string(device) + ": this machine has " + std::to_string(count) + ", counted from 0");
}

std::string compute_capability(int device) {
    int major = 0, minor = 0;
    cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking the GPU");
    cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking the GPU");
    return std::to_string(major) + "." + std::to_string(minor);
}

void check_place(std::string const& what, void const* data, bool on_host, int device) {
    cudaPointerAttributes found{};
    if (cudaPointerGetAttributes(&found, data) != cudaSuccess) {
        cudaGetLastError();
        return;
    }
    if (on_host && found.type == cudaMemoryTypeDevice) throw Error("feed-place", what + " is the value of a shape, on the CPU: its memory cannot be the GPU's");
    if (!on_host && found.type == cudaMemoryTypeUnregistered)
        throw Error("feed-place", what + " must be in memory of the GPU, and this is the CPU's: run() takes arrays of the CPU");
    if (!on_host && found.type == cudaMemoryTypeDevice && found.device != device)
        throw Error("feed-place", what + " is on GPU " + std::to_string(found.device) + ", the engine on GPU " + std::to_string(device));
}

void* Memory::reserve(std::size_t size, bool on_host, Retired& retired) {
    size = std::max<std::size_t>(size, 1);  // TensorRT wants an address for an empty tensor too
    if (on_host) {
        if (host_.size() < size / sizeof(std::int64_t) + 1) resize(host_, size / sizeof(std::int64_t) + 1);
        return host_.data();
    }
    if (size > size_) {
        void* pointer = nullptr;
        cuda(cudaMalloc(&pointer, size), "a tensor", size);
        if (pointer_) retired.add(pointer_);
        pointer_ = pointer, size_ = size;
    }
    return pointer_;
}

std::pair<void*, std::size_t> Memory::held() {
    if (host_.empty()) return {pointer_, size_};
    return {host_.data(), host_.size() * sizeof(std::int64_t)};
}

void* Allocator::reallocateOutputAsync(char const*, void*, std::uint64_t size, std::uint64_t, cudaStream_t) noexcept {
    try {
        return data_ = memory_.reserve(size, on_host_, retired_);
    } catch (Error const& error) {
        failure_ = error;
        return nullptr;
    } catch (...) {
        failure_ = Error("out-of-memory", "there is no memory for an output");
        return nullptr;
    }
}

Shape shape_of(nvinfer1::Dims const& dims) { return Shape(dims.d, dims.d + std::clamp<int>(dims.nbDims, 0, nvinfer1::Dims::MAX_DIMS)); }

Shape Allocator::shape() const {
    check();
    if (!known_ || dims_.nbDims < 0) throw Error("execution-failed", "TensorRT did not say the shape of an output");
    return shape_of(dims_);
}

}  // namespace trtdsl
