// A device without a GPU. Its memory has addresses that the host cannot touch, every access is checked for life and
// bounds, freed memory is gone, and streams do their work when somebody waits for it and not before.
#include "device.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

struct CUevent_st {
    cudaStream_t stream = nullptr;  // nullptr: not recorded
    std::size_t position = 0;       // of that stream's work
};

struct CUgraph_st {
    virtual ~CUgraph_st() = default;
    std::vector<std::function<void()>> work;
};

struct CUgraphExec_st : CUgraph_st {};

struct CUstream_st {
    std::deque<std::function<void()>> work;
    std::size_t finished = 0;
    std::unique_ptr<CUgraph_st> captured;  // while it is
};

namespace {

constexpr std::uintptr_t kFarAway = std::uintptr_t{0x7ff} << 52;  // no address that a program can have
std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;
std::map<std::uintptr_t, std::vector<char>> memory;
std::map<cudaStream_t, std::unique_ptr<CUstream_st>> streams;
std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
std::map<CUgraph_st*, std::unique_ptr<CUgraph_st>> graphs;
std::map<std::string, int> counts;
CUstream_st by_default;  // the default stream
std::uintptr_t next_address = kFarAway;
thread_local int current = 0;

[[noreturn]] void wrong(char const* what) {
    std::fprintf(stderr, "the simulated device: %s\n", what);
    std::abort();
}

cudaStream_t actual(cudaStream_t stream) { return !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread ? &by_default : stream; }

void advance(cudaStream_t stream, std::size_t position) {
    if (stream != &by_default && !streams.count(stream)) return;  // destroyed: its work was done then
    while (stream->finished < position) {
        auto const work = std::move(stream->work.front());
        stream->work.pop_front();
        work();
        ++stream->finished;
    }
}

CUstream_st& checked(cudaStream_t stream) {
    stream = actual(stream);
    if (stream != &by_default && !streams.count(stream)) wrong("a stream that there is not");
    return *stream;
}

void finish(cudaStream_t stream) {
    auto& there = checked(stream);
    advance(&there, there.finished + there.work.size());
}

CUevent_st& checked(cudaEvent_t event) {
    if (!events.count(event)) wrong("an event that there is not");
    return *event;
}

cudaError_t unless(char const* what, cudaError_t error) {
    device::count(what);
    return device::fails(what) ? error : cudaSuccess;
}

}  // namespace

namespace device {

std::function<void()> before_run;

char* access(void const* pointer, std::size_t size) {
    Lock const lock(mutex);
    auto const address = reinterpret_cast<std::uintptr_t>(pointer);
    auto found = memory.upper_bound(address);
    if (found == memory.begin()) wrong("an address that is none of the device's");
    --found;
    auto const offset = address - found->first;
    if (offset > found->second.size() || size > found->second.size() - offset) wrong("an access outside of living memory");
    return found->second.data() + offset;
}

bool owns(void const* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) >= kFarAway; }

void enqueue(cudaStream_t stream, std::function<void()> work) {
    Lock const lock(mutex);
    auto& there = checked(stream);
    if (there.captured) there.captured->work.push_back(std::move(work));
    else there.work.push_back(std::move(work));
}

bool is_captured(cudaStream_t stream) {
    Lock const lock(mutex);
    return checked(stream).captured != nullptr;
}

void count(std::string const& what) {
    Lock const lock(mutex);
    ++counts[what];
}

int counted(std::string const& what) {
    Lock const lock(mutex);
    return counts[what];
}

bool fails(std::string const& what) {
    Lock const lock(mutex);
    static std::map<std::string, int> calls;
    char const* const plan = std::getenv("DOUBLE_FAIL");
    if (!plan) return false;
    std::string const text = plan;
    auto const at = text.find(':');
    return text.substr(0, at) == what && ++calls[what] == std::atoi(text.c_str() + at + 1);
}

std::size_t living() {
    Lock const lock(mutex);
    return memory.size() + streams.size() + events.size() + graphs.size();
}

}  // namespace device

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) { return *version = std::getenv("DOUBLE_DRIVER") ? std::atoi(std::getenv("DOUBLE_DRIVER")) : CUDART_VERSION, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, unless("cudaGetDeviceCount", cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* device) { return *device = current, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? (current = 0, cudaSuccess) : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) { return *value = attribute == cudaDevAttrComputeCapabilityMajor ? 8 : 9, cudaSuccess; }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) { return *free = 1000, *total = 2000, cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
char const* cudaGetErrorString(cudaError_t error) { return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "an error"; }

cudaError_t cudaMalloc(void** pointer, std::size_t size) {
    Lock const lock(mutex);
    if (auto const error = unless("cudaMalloc", cudaErrorMemoryAllocation)) return error;
    if (size > std::size_t{1} << 30) return cudaErrorMemoryAllocation;
    memory.emplace(next_address, std::vector<char>(size, '\x7f'));
    *pointer = reinterpret_cast<void*>(next_address);
    next_address += (size / 256 + 2) * 256;
    return cudaSuccess;
}

// It waits for nothing: whoever frees memory that work on a stream still uses finds out when that work is done.
cudaError_t cudaFree(void* pointer) {
    Lock const lock(mutex);
    if (pointer && !memory.erase(reinterpret_cast<std::uintptr_t>(pointer))) wrong("memory that is freed twice");
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* pointer) {
    *attributes = {device::owns(pointer) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered, 0};
    return cudaSuccess;
}

// Pageable memory of the host: what goes to the device is read at once, what comes back is written late.
cudaError_t cudaMemcpyAsync(void* target, void const* source, std::size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
    if (auto const error = unless("cudaMemcpyAsync", cudaErrorIllegalAddress)) return error;
    if (kind == cudaMemcpyHostToDevice) {
        std::string const data(static_cast<char const*>(source), size);
        device::enqueue(stream, [=] { std::memcpy(device::access(target, size), data.data(), size); });
    } else if (kind == cudaMemcpyDefault && device::owns(target) && device::owns(source)) {
        device::enqueue(stream, [=] { std::memmove(device::access(target, size), device::access(source, size), size); });
    } else {
        device::enqueue(stream, [=] { std::memcpy(target, device::access(source, size), size); });
    }
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t size, cudaStream_t stream) {
    if (auto const error = unless("cudaMemsetAsync", cudaErrorIllegalAddress)) return error;
    device::enqueue(stream, [=] { std::memset(device::access(pointer, size), value, size); });
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    Lock const lock(mutex);
    if (auto const error = unless("cudaStreamCreateWithFlags", cudaErrorIllegalAddress)) return error;
    auto owned = std::make_unique<CUstream_st>();
    *stream = owned.get();
    streams[*stream] = std::move(owned);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    Lock const lock(mutex);
    finish(stream);
    streams.erase(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    Lock const lock(mutex);
    if (checked(stream).captured) return cudaErrorStreamCaptureUnsupported;
    finish(stream);
    return unless("cudaStreamSynchronize", cudaErrorIllegalAddress);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    Lock const lock(mutex);
    if (auto const at = checked(event); at.stream) device::enqueue(stream, [at] { advance(at.stream, at.position); });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    Lock const lock(mutex);
    auto owned = std::make_unique<CUevent_st>();
    *event = owned.get();
    events[*event] = std::move(owned);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    Lock const lock(mutex);
    checked(event);
    events.erase(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    Lock const lock(mutex);
    auto& there = checked(stream);
    checked(event) = {&there, there.finished + there.work.size()};
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    Lock const lock(mutex);
    auto const at = checked(event);
    bool const gone = at.stream != &by_default && !streams.count(at.stream);
    return !at.stream || gone || at.stream->finished >= at.position ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
    Lock const lock(mutex);
    finish(&by_default);
    for (auto const& [stream, owned] : streams) finish(stream);
    return unless("cudaDeviceSynchronize", cudaErrorIllegalAddress);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    Lock const lock(mutex);
    if (actual(stream) == &by_default || checked(stream).captured) return cudaErrorStreamCaptureUnsupported;
    if (auto const error = unless("cudaStreamBeginCapture", cudaErrorIllegalAddress)) return error;
    stream->captured = std::make_unique<CUgraph_st>();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    Lock const lock(mutex);
    auto captured = std::move(checked(stream).captured);
    if (!captured) return cudaErrorInvalidValue;
    *graph = captured.get();
    graphs[*graph] = std::move(captured);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    Lock const lock(mutex);
    if (auto const error = unless("cudaGraphInstantiateWithFlags", cudaErrorMemoryAllocation)) return error;
    auto owned = std::make_unique<CUgraphExec_st>();
    owned->work = graph->work;
    *executable = owned.get();
    graphs[*executable] = std::move(owned);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    Lock const lock(mutex);
    if (auto const error = unless("cudaGraphLaunch", cudaErrorIllegalAddress)) return error;
    for (auto const& work : executable->work) device::enqueue(stream, work);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    Lock const lock(mutex);
    if (!graphs.erase(graph)) wrong("a graph that there is not");
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    Lock const lock(mutex);
    if (!graphs.erase(executable)) wrong("a graph that there is not");
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    Lock const lock(mutex);
    auto const at = checked(event);
    if (at.stream) advance(at.stream, at.position);
    return unless("cudaEventSynchronize", cudaErrorIllegalAddress);
}

}  // extern "C"
