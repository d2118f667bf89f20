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

struct CUstream_st {
    std::deque<std::function<void()>> work;
    std::size_t finished = 0;
};

namespace {

constexpr std::uintptr_t kFarAway = std::uintptr_t{0x7ff} << 52;  // no address that a program can have
std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;
std::map<std::uintptr_t, std::vector<char>> memory;
std::map<cudaStream_t, std::unique_ptr<CUstream_st>> streams;
std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
std::uintptr_t next_address = kFarAway;
thread_local int current = 0;

[[noreturn]] void wrong(char const* what) {
    std::fprintf(stderr, "the simulated device: %s\n", what);
    std::abort();
}

void advance(cudaStream_t stream, std::size_t position) {
    auto const found = streams.find(stream);
    if (found == streams.end()) return;  // destroyed: its work was done then
    while (found->second->finished < position) {
        auto const work = std::move(found->second->work.front());
        found->second->work.pop_front();
        work();
        ++found->second->finished;
    }
}

CUstream_st& checked(cudaStream_t stream) {
    if (!streams.count(stream)) wrong("a stream that there is not");
    return *stream;
}

void finish(cudaStream_t stream) { advance(stream, checked(stream).finished + stream->work.size()); }

CUevent_st& checked(cudaEvent_t event) {
    if (!events.count(event)) wrong("an event that there is not");
    return *event;
}

cudaError_t unless(char const* what, cudaError_t error) { return device::fails(what) ? error : cudaSuccess; }

}  // namespace

namespace device {

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
    checked(stream).work.push_back(std::move(work));
}

bool fails(std::string const& what) {
    Lock const lock(mutex);
    static std::map<std::string, int> counts;
    char const* const plan = std::getenv("DOUBLE_FAIL");
    if (!plan) return false;
    std::string const text = plan;
    auto const at = text.find(':');
    return text.substr(0, at) == what && ++counts[what] == std::atoi(text.c_str() + at + 1);
}

std::size_t living() {
    Lock const lock(mutex);
    return memory.size() + streams.size() + events.size();
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

cudaError_t cudaFree(void* pointer) {
    Lock const lock(mutex);
    if (!pointer) return cudaSuccess;
    for (auto const& [stream, owned] : streams) finish(stream);
    if (!memory.erase(reinterpret_cast<std::uintptr_t>(pointer))) wrong("memory that is freed twice");
    return cudaSuccess;
}

// Pageable memory of the host: what goes to the device is read at once, what comes back is written late.
cudaError_t cudaMemcpyAsync(void* target, void const* source, std::size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
    if (auto const error = unless("cudaMemcpyAsync", cudaErrorIllegalAddress)) return error;
    if (kind == cudaMemcpyHostToDevice) {
        std::string const data(static_cast<char const*>(source), size);
        device::enqueue(stream, [=] { std::memcpy(device::access(target, size), data.data(), size); });
    } else {
        device::enqueue(stream, [=] { std::memcpy(target, device::access(source, size), size); });
    }
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
    checked(event) = {stream, checked(stream).finished + stream->work.size()};
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    Lock const lock(mutex);
    auto const at = checked(event);
    if (at.stream) advance(at.stream, at.position);
    return unless("cudaEventSynchronize", cudaErrorIllegalAddress);
}

}  // extern "C"
