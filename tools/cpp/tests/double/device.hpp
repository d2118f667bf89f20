// The simulated device: what the doubles of CUDA and TensorRT share, and what tests ask of it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "cuda_runtime_api.h"

namespace device {

// Where bytes of device memory are, for the device itself. Ends the program for an address that is not alive.
char* access(void const* pointer, std::size_t size);
bool owns(void const* pointer);

// Puts work on a stream; it happens as late as CUDA allows.
void enqueue(cudaStream_t stream, std::function<void()> work);

// Whether this call of `what` is the one that the environment says shall fail: DOUBLE_FAIL=what:3 for the third.
bool fails(std::string const& what);

// What is alive: allocations, streams and events.
std::size_t living();

}  // namespace device
