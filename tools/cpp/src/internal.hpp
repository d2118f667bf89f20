// What the sources share and no program needs.
#pragma once

#include "trtdsl_engine.hpp"

namespace trtdsl {

// The bytes of a file. Throws `code`, saying `what` and the path.
std::string read_file(std::filesystem::path const& path, char const* code, std::string const& what);

// Writes a file under a new name that nobody can guess, and renames it. Throws usage.
void write_file(std::filesystem::path const& path, std::string const& data);

// Bytes of an array, -1 where a size is unknown or the product does not fit. What becomes of it is the caller's error.
std::int64_t byte_count(Shape const& shape, std::string const& dtype);

// Sums and products of whole numbers; nothing where they do not fit 64 bits.
std::optional<std::int64_t> add(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> multiply(std::int64_t a, std::int64_t b);
// Rounded down, as Python's //.
std::optional<std::int64_t> divide(std::int64_t a, std::int64_t b);

// Throws out-of-memory where the CPU has not so much, in place of what the standard library throws.
template <typename Container>
void resize(Container& container, std::size_t size) {
    try {
        container.resize(size);
    } catch (std::exception const&) {
        throw Error("out-of-memory", "out of memory: " + std::to_string(size * sizeof(*container.data())) + " bytes are needed on the CPU");
    }
}

// For the handler of each function that a program calls: throws what is being handled, and out-of-memory in place of what
// the standard library throws where there is no memory, or no container can be so large.
[[noreturn]] void rethrow();

// A shape for messages.
std::string text_of(Shape const& shape);

}  // namespace trtdsl
