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

// Puts work on a stream; it happens as late as CUDA allows. On a stream that is being captured it goes into the graph.
void enqueue(cudaStream_t stream, std::function<void()> work);
bool is_captured(cudaStream_t stream);

// Whether this call of `what` is the one that the environment says shall fail: DOUBLE_FAIL=what:3 for the third.
bool fails(std::string const& what);

// What an execution context does first when it runs an engine, in the thread that enqueues it; nothing where it is empty.
extern std::function<void()> before_run;

// What is alive: allocations, streams, events and graphs.
std::size_t living();

// How often something happened: calls of CUDA by their names, and what nvinfer.cpp counts.
void count(std::string const& what);
int counted(std::string const& what);

}  // namespace device
