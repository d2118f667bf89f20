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
        {"unsupported", 3},      {"weights-damaged", 7},
    };
    return codes;
}

char const* version() { return TRTDSL_VERSION_STRING; }

namespace {

constexpr std::size_t kLongestLine = 600, kMostLines = 64;  // bytes of a line of a message, and its lines

// The bytes of the character here that cannot be printed; 0 where it can be.
std::size_t unprinted(std::string_view text) {
    auto const byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
    auto const within = [](unsigned value, unsigned first, unsigned last) { return value >= first && value <= last; };
    if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
    if (byte(0) == 0xc2) return within(byte(1), 0x80, 0x9f) ? 2 : 0;
    if (byte(0) == 0xe2 && byte(1) == 0x80) return within(byte(2), 0x8b, 0x8f) || within(byte(2), 0xa8, 0xae) ? 3 : 0;
    if (byte(0) == 0xe2 && byte(1) == 0x81) return within(byte(2), 0xa0, 0xaf) ? 3 : 0;
    return byte(0) == 0xef && byte(1) == 0xbb && byte(2) == 0xbf ? 3 : 0;
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

// A message with names out of files in it, fit to be shown: what cannot be printed is "?", and what is long is cut. Its lines
// are those that begin with two blanks, as the library's own lists have them.
std::string shown(std::string const& message) {
    std::string result, line;
    std::size_t lines = 0;
    auto const end = [&] {
        if (lines++ < kMostLines) result += (lines > 1 ? "\n" : "") + cut(line);
        line.clear();
    };
    for (std::size_t at = 0; at < message.size();) {
        auto const rest = std::string_view(message).substr(at);
        auto const size = unprinted(rest);
        if (rest.substr(0, 3) == "\n  ") end();
        else line += size ? '?' : rest[0];
        at += size ? size : 1;
    }
    end();
    return lines > kMostLines ? result + "\n  … (" + std::to_string(lines - 1) + " in all)" : result;
}

}  // namespace

bool is_printable(std::string_view text) {
    for (; !text.empty(); text.remove_prefix(1))
        if (unprinted(text)) return false;
    return true;
}

Error::Error(std::string code, std::string const& message) : std::runtime_error(shown(message)), code_(std::move(code)) {
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
