#include "device.hpp"

#include <algorithm>

namespace trtdsl {

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
        throw Error("usage", "there is no GPU " + std::to_string(device) + ": this machine has " + std::to_string(count));
}

void* Memory::reserve(std::size_t size) {
    size = std::max<std::size_t>(size, 1);  // TensorRT wants an address for an empty tensor too
    if (size > size_) {
        cudaFree(std::exchange(pointer_, nullptr));
        size_ = 0;
        cuda(cudaMalloc(&pointer_, size), "a tensor", size);
        size_ = size;
    }
    return pointer_;
}

void* Allocator::reallocateOutputAsync(char const*, void*, std::uint64_t size, std::uint64_t, cudaStream_t) noexcept {
    try {
        return data_ = memory_.reserve(size);
    } catch (Error const& error) {
        failure_ = error;
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
