// A block of threads on the host: indices, shared memory, barriers, and a kernel called with addresses.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "numbers.hpp"

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((unused))
#define __restrict__ __restrict
#define __align__(N) alignas(N)
#define __launch_bounds__(...)
#define __HAS_FP16
#define __HAS_BF16
#define __HAS_FP8

struct Index3 {
    unsigned x, y, z;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};

static Index3 gridDim, blockDim, blockIdx, threadIdx;

constexpr size_t MOST_THREADS = 1024, STACK = 256 << 10, SHARED_MEMORY = 256 << 10, GUARD = 16 << 10;
alignas(128) static char shared_memory[SHARED_MEMORY];

// One thread of a block, on a stack of its own where the kernel has a barrier.
struct Fiber {
    ucontext_t context;
    Index3 index;
    bool finished;
};
static Fiber fibers[MOST_THREADS];
static ucontext_t scheduler;
static Fiber* running;

#if defined(__x86_64__)
// Exchanges stacks as a call does: the registers that a callee saves, and the stack pointer.
extern "C" void exchange_stacks(void** own, void* other);
asm(R"(
.text
exchange_stacks:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
)");
static void* stack_pointers[MOST_THREADS];
static void* scheduler_pointer;
static void to_scheduler() { exchange_stacks(&stack_pointers[running - fibers], scheduler_pointer); }
static void to_fiber(size_t thread) { exchange_stacks(&scheduler_pointer, stack_pointers[thread]); }
static void prepare(size_t thread, char* stack, void (*entry)()) {
    void** top = reinterpret_cast<void**>(stack + STACK) - 3;  // a called function finds its stack 8 off 16
    *--top = reinterpret_cast<void*>(entry);
    top -= 6;
    stack_pointers[thread] = top;
}
#else
static void to_scheduler() { swapcontext(&running->context, &scheduler); }
static void to_fiber(size_t thread) { swapcontext(&scheduler, &fibers[thread].context); }
static void prepare(size_t thread, char* stack, void (*entry)()) {
    ucontext_t& context = fibers[thread].context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = &scheduler;
    makecontext(&context, entry, 0);
}
#endif

static char* stacks() {  // reserved before the process gives up its rights; a page costs memory when it is touched
    static char* const all = static_cast<char*>(mmap(nullptr, MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    return all;
}

// Waits until every thread of the block that still runs has come here: all others run first.
static void __syncthreads() {
    to_scheduler();
    threadIdx = running->index;
}
static inline void __syncwarp(unsigned = 0) { __syncthreads(); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}

// Ends this process; with no more than the two calls that it may still make.
[[noreturn]] static void end(int code) {
    for (;;) syscall(SYS_exit, code);
}

[[noreturn]] static void refuse(const char* what, int code = 3) {
    if (write(2, what, std::strlen(what)) < 0) end(4);
    end(code);
}

// A kernel with the addresses of its arguments: a pointer is the address itself, a number lies there.
using Call = void (*)(void* const*);

template <class T>
static T argument(void* address) {
    if constexpr (std::is_pointer_v<T>) {
        return static_cast<T>(address);
    } else {
        T value;
        std::memcpy(&value, address, sizeof value);
        return value;
    }
}

template <auto kernel>
struct Caller;
template <class... Arguments, void (*kernel)(Arguments...)>
struct Caller<kernel> {
    static constexpr size_t count = sizeof...(Arguments);
    template <size_t... I>
    static void with(void* const* addresses, std::index_sequence<I...>) {
        kernel(argument<Arguments>(addresses[I])...);
    }
    static void call(void* const* addresses) { with(addresses, std::make_index_sequence<count>()); }
    // All threads of a block, one after the other: the kernel stands in the loop, and the compiler sees both.
    static void block(void* const* addresses) {
        for (threadIdx.z = 0; threadIdx.z < blockDim.z; ++threadIdx.z)
            for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)
                for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) call(addresses);
    }
};

struct Kernel {
    const char* name;
    Call call, block;
    size_t arguments;
    bool has_barrier;
};
extern const Kernel kernels[];
extern const size_t kernel_count;

static const Kernel* current;
static void* const* current_addresses;
static bool backwards;  // the last block and the last thread first: what depends on the order is a race

// Number ``i`` of ``count`` in the order of this launch.
template <class I>
static I turn(I i, I count) { return backwards ? count - 1 - i : i; }

static void run_fiber() {
    threadIdx = running->index;
    current->call(current_addresses);
    running->finished = true;
    to_scheduler();
}

static void run_block(const Kernel& kernel, void* const* addresses) {
    if (!kernel.has_barrier && !backwards) return kernel.block(addresses);
    const size_t threads = size_t(blockDim.x) * blockDim.y * blockDim.z;
    current = &kernel, current_addresses = addresses;
    for (size_t thread = 0; thread < threads; ++thread) {
        const unsigned all = static_cast<unsigned>(thread);
        fibers[thread].index = {all % blockDim.x, all / blockDim.x % blockDim.y, all / blockDim.x / blockDim.y};
        fibers[thread].finished = false;
        prepare(thread, stacks() + thread * STACK, run_fiber);
    }
    for (bool waiting = true; waiting;) {
        waiting = false;
        for (size_t i = 0; i < threads; ++i) {
            const size_t thread = turn(i, threads);
            if (fibers[thread].finished) continue;
            running = &fibers[thread];
            to_fiber(thread);
            waiting |= !running->finished;
        }
    }
}

static void launch(const Kernel& kernel, Index3 grid, Index3 block, size_t shared, bool reversed,
                   void* const* addresses) {
    if (size_t(block.x) * block.y * block.z > MOST_THREADS || shared > SHARED_MEMORY) refuse("a block is too large");
    gridDim = grid, blockDim = block, backwards = reversed;
    char* const behind = shared_memory + shared;
    const size_t guard = std::min(GUARD, SHARED_MEMORY - shared);
    std::memset(behind, 0x7f, guard);
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                blockIdx = {turn(x, grid.x), turn(y, grid.y), turn(z, grid.z)};
                std::memset(shared_memory, 0x7f, shared);
                run_block(kernel, addresses);
            }
    const auto is_changed = [](char byte) { return byte != 0x7f; };
    if (std::any_of(behind, behind + guard, is_changed)) refuse("writes behind its shared memory", 5);
}
