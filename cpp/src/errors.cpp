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

Error::Error(std::string code, std::string const& message) : std::runtime_error(message), code_(std::move(code)) {
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
