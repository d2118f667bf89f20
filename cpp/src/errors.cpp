#include <array>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "internal.hpp"

namespace trtdsl {

std::map<std::string, int> const& error_codes() {
    static std::map<std::string, int> const codes{
        {"engine-missing", 2},   {"manifest-missing", 2}, {"feed-name", 2},          {"feed-dtype", 2},
        {"feed-rank", 2},        {"feed-shape", 2},       {"feed-place", 2},         {"feed-profile", 2},
        {"wrong-product", 5},    {"version-mismatch", 5}, {"compute-capability", 5}, {"library-mismatch", 5},
        {"missing-plugin", 5},   {"engine-stripped", 5},  {"host-code", 5},          {"engine-refused", 5},
        {"no-driver", 6},        {"driver-too-old", 6},   {"engine-too-short", 7},   {"not-an-engine", 7},
        {"engine-prefixed", 7},  {"engine-truncated", 7}, {"engine-damaged", 7},     {"manifest-damaged", 7},
        {"execution-failed", 8}, {"out-of-memory", 8},    {"usage", 2},              {"weights-mismatch", 3},
        {"unsupported", 3},      {"weights-damaged", 7},    {"input-damaged", 7},
    };
    return codes;
}

char const* version() { return TRTDSL_VERSION_STRING; }

namespace {

constexpr std::size_t kLongestLine = 600, kMostLines = 64;  // bytes of a line of a message, and its lines

struct Character {
    std::size_t size;  // in bytes
    bool is_printable;
};

// The first character of a text. Each byte that is not part of one in UTF-8 is one that cannot be printed.
Character first_of(std::string_view text) {
    auto const byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
    auto const first = byte(0);
    auto const size = first < 0x80 ? 1U : first >> 5 == 0x6 ? 2U : first >> 4 == 0xe ? 3U : first >> 3 == 0x1e ? 4U : 0U;
    auto code = size == 1 ? first : first & (0x7fU >> size);
    bool is_whole = size > 0;
    for (std::size_t at = 1; at < size; ++at) {
        is_whole = is_whole && byte(at) >> 6 == 0x2;
        code = code << 6 | (byte(at) & 0x3f);
    }
    auto const within = [&](unsigned low, unsigned high) { return code >= low && code <= high; };
    constexpr std::array<unsigned, 5> least{0, 0, 0x80, 0x800, 0x10000};  // fewer bytes would do for less
    if (!is_whole || code < least[size] || code > 0x10ffff || within(0xd800, 0xdfff)) return {1, false};
    bool const is_control = code < 0x20 || within(0x7f, 0x9f);
    return {size, !is_control && !within(0x200b, 0x200f) && !within(0x2028, 0x202e) && !within(0x2060, 0x206f) && code != 0xfeff};
}

// One line, without its middle where it is long. No character is cut in two.
std::string cut(std::string const& line) {
    if (line.size() <= kLongestLine) return line;
    auto const is_inside = [&](std::size_t at) { return (line[at] & 0xc0) == 0x80; };
    std::size_t first = kLongestLine / 2, last = line.size() - kLongestLine / 2;
    while (first > 0 && is_inside(first)) --first;
    while (last < line.size() && is_inside(last)) ++last;
    return line.substr(0, first) + "…" + line.substr(last);
}

// A message with names out of files in it: what is long is cut. Its lines are those that begin with two blanks, as the
// library's own lists have them.
std::string message_of(std::string const& message) {
    std::string result, line;
    std::size_t lines = 0;
    auto const end = [&] {
        if (lines++ < kMostLines) result += (lines > 1 ? "\n" : "") + cut(line);
        line.clear();
    };
    for (std::string_view rest = message; !rest.empty();) {
        auto const [size, is_printable] = first_of(rest);
        if (rest.substr(0, 3) == "\n  ") end();
        else line += is_printable ? rest.substr(0, size) : "?";
        rest.remove_prefix(size);
    }
    end();
    return lines > kMostLines ? result + "\n  … (" + std::to_string(lines - 1) + " in all)" : result;
}

}  // namespace

bool is_printable(std::string_view text) {
    for (; !text.empty(); text.remove_prefix(first_of(text).size))
        if (!first_of(text).is_printable) return false;
    return true;
}

std::string printable(std::string const& text) {
    std::string result;
    for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(first_of(rest).size))
        result += first_of(rest).is_printable ? rest.substr(0, first_of(rest).size) : "?";
    return result;
}

Error::Error(std::string code, std::string const& message) : std::runtime_error(message_of(message)), code_(std::move(code)) {
    auto const found = error_codes().find(code_);
    exit_code_ = found == error_codes().end() ? 8 : found->second;
}

void rethrow() {
    try {
        throw;
    } catch (std::bad_alloc const&) {
    } catch (std::length_error const&) {
    } catch (std::system_error const& error) {  // no thread, no lock
        throw Error("execution-failed", std::string("the operating system: ") + error.what());
    }
    throw Error("out-of-memory", "out of memory on the CPU");
}

}  // namespace trtdsl
