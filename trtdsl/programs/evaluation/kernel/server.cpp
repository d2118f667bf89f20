// Runs kernels on memory that another process shares: a request names a kernel, its grid and its arguments' places.
//
// The process keeps only what is open when it begins: it maps the memory, then forbids itself every other call of the
// system than reading requests, writing answers and ending (where the kernel has that mode), and has a time limit.
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "device.hpp"

struct Request {
    uint32_t kernel, arguments, grid[3], block[3], shared, backwards;
};

static bool read_all(void* to, size_t size) {
    for (char* at = static_cast<char*>(to); size;) {
        const ssize_t got = read(0, at, size);
        if (got <= 0) return false;
        at += got, size -= got;
    }
    return true;
}

#if MARKS
#include "marks.hpp"
#else
static char* memory;
#endif
static void* addresses[256];
static uint64_t offsets[256];

// Before the constructors that a kernel's text may have.
__attribute__((constructor(101))) static void enclose(int, char** arguments, char**) {
    const int shared = std::atoi(arguments[1]);
    const size_t size = std::strtoull(arguments[2], nullptr, 10), seconds = std::strtoull(arguments[3], nullptr, 10);
    memory = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0));
#if MARKS
    marked = size / 2;
#endif
    if (memory == MAP_FAILED || stacks() == MAP_FAILED) refuse("no memory");
    close(shared);
    const size_t most = size + (size_t(1) << 30);
    const rlimit time{seconds, seconds}, space{most, most}, none{0, 0};
    setrlimit(RLIMIT_CPU, &time);
    setrlimit(RLIMIT_AS, &space);
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_NOFILE, &none);
    setrlimit(RLIMIT_FSIZE, &none);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
}

int main() {
    for (Request request; read_all(&request, sizeof request);) {
        if (request.kernel >= kernel_count || request.arguments > 256) refuse("no such kernel");
        const Kernel& kernel = kernels[request.kernel];
        if (!read_all(offsets, request.arguments * sizeof offsets[0])) break;
        if (kernel.arguments != request.arguments) refuse("a kernel with another number of arguments");
        for (size_t i = 0; i < request.arguments; ++i) addresses[i] = memory + offsets[i];
        const auto& [gx, gy, gz] = request.grid;
        const auto& [bx, by, bz] = request.block;
        launch(kernel, {gx, gy, gz}, {bx, by, bz}, request.shared, request.backwards, addresses);
        const char done = 1;
        if (write(1, &done, 1) != 1) break;
    }
    end(0);
}
