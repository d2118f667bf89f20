// What the sources share and no program needs.
#pragma once

#include <array>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "trtdsl/engine.hpp"

namespace trtdsl {

// A regular file, read from its beginning. What fails throws `code`; for a file that is not there it says `missing`.
class Input {
public:
    Input(std::filesystem::path const& path, char const* code, std::string const& missing);
    std::uint64_t left() const { return left_; }  // bytes that were not read yet
    void read(char* target, std::size_t size);    // no more than are left
    std::string read(std::size_t size);
    std::string rest(std::uint64_t most = std::numeric_limits<std::uint64_t>::max());  // throws for more bytes

private:
    std::filesystem::path path_;
    char const* code_;
    std::ifstream file_;
    std::uint64_t left_ = 0;
};

// What is written: its name in messages, how such a file begins, and what is in its first 4096 bytes. One that was being
// written when power failed may begin with zeros.
struct FileKind {
    std::string label, head, mark;
    bool may_be_zeros = false;
};
extern FileKind const kArrayFile, kCacheFile;

// Throws usage where there is a file of another kind, which writing would destroy: as trtdsl/core/files/writing.py.
void check_kind(std::filesystem::path const& path, FileKind const& kind);

// Writes a file of these parts under a temporary name, and renames it. Throws usage.
void write_file(std::filesystem::path const& path, FileKind const& kind, std::initializer_list<std::string_view> parts);

class Sha256 {
public:
    void add(std::string_view data);
    std::string hex();  // of everything that was added; nothing is added afterwards

private:
    std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<char, 64> block_{};
    std::size_t filled_ = 0;
    std::uint64_t size_ = 0;
};

// Bytes of an array, -1 where a size is unknown or the product does not fit. What becomes of it is the caller's error.
std::int64_t byte_count(Shape const& shape, std::string const& dtype);

// Throws feed-dtype, feed-rank, feed-shape for what is no feed of this input in any profile.
void check_feed(TensorInfo const& info, View const& given);

// The index of the profile that holds these shapes, of some inputs or of all: the one that is asked for, or the first.
// Throws feed-profile.
std::size_t check_sizes(Signature const& signature, std::map<std::string, View> const& feeds, std::optional<std::size_t> profile = {});

// Sums and products of whole numbers; nothing where they do not fit 64 bits.
std::optional<std::int64_t> add(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> multiply(std::int64_t a, std::int64_t b);
// Rounded down, as Python's //.
std::optional<std::int64_t> divide(std::int64_t a, std::int64_t b);

// A number of float16, by its bits.
float of_half(std::uint16_t bits);

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

// Whether a text has no character that a terminal obeys or that nobody sees: UNPRINTED in trtdsl/core/files/names.py.
bool is_printable(std::string_view text);

// A shape for messages.
std::string text_of(Shape const& shape);

}  // namespace trtdsl
