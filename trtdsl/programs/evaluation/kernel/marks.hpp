// Which bytes of the shared memory kernels read and write: a mark for each, in as much memory behind it.
//
// The compiler calls these functions at every access (-fsanitize=thread); the library that it means is not linked.
#pragma once

#include <cstddef>
#include <cstring>

#define UNMARKED __attribute__((no_sanitize("thread")))

static char* memory;
static size_t marked;  // bytes that have marks, which stand behind them
enum Mark : unsigned char { READ = 1, WRITTEN = 2 };

UNMARKED static void mark(const void* address, size_t size, Mark how) {
    const size_t at = size_t(static_cast<const char*>(address) - memory);  // huge for what lies before: a stack's
    if (at < marked)
        for (size_t i = 0; i < size; ++i) memory[marked + at + i] |= how;
}

#define ACCESSES(SIZE)                                                                     \
    UNMARKED void __tsan_read##SIZE(void* at) { mark(at, SIZE, READ); }                    \
    UNMARKED void __tsan_write##SIZE(void* at) { mark(at, SIZE, WRITTEN); }                \
    UNMARKED void __tsan_volatile_read##SIZE(void* at) { mark(at, SIZE, READ); }           \
    UNMARKED void __tsan_volatile_write##SIZE(void* at) { mark(at, SIZE, WRITTEN); }       \
    UNMARKED void __tsan_unaligned_read##SIZE(void* at) { mark(at, SIZE, READ); }          \
    UNMARKED void __tsan_unaligned_write##SIZE(void* at) { mark(at, SIZE, WRITTEN); }      \
    UNMARKED void __tsan_read_write##SIZE(void* at) { mark(at, SIZE, READ), mark(at, SIZE, WRITTEN); }

extern "C" {
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
UNMARKED void __tsan_read_range(void* at, size_t size) { mark(at, size, READ); }
UNMARKED void __tsan_write_range(void* at, size_t size) { mark(at, size, WRITTEN); }
UNMARKED void* __tsan_memcpy(void* to, const void* from, size_t size) {
    mark(from, size, READ), mark(to, size, WRITTEN);
    return std::memcpy(to, from, size);
}
UNMARKED void* __tsan_memmove(void* to, const void* from, size_t size) {
    mark(from, size, READ), mark(to, size, WRITTEN);
    return std::memmove(to, from, size);
}
UNMARKED void* __tsan_memset(void* to, int value, size_t size) {
    mark(to, size, WRITTEN);
    return std::memset(to, value, size);
}
UNMARKED void __tsan_func_entry(void*) {}
UNMARKED void __tsan_func_exit() {}
UNMARKED void __tsan_init() {}
}
