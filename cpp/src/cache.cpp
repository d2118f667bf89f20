// TensorRT-RTX's runtime cache on disk, in the format of trtdsl/engine/loading/runtime_cache.py: a line of JSON that says what
// follows, then TensorRT-RTX's bytes.
#include "internal.hpp"
#include "json.hpp"

namespace trtdsl {

namespace {

constexpr char kMark[] = "trtdsl-runtime-cache";
constexpr std::size_t kLine = 4096;  // more than the first line ever has

// Whether the first line is that of a cache; what it says then.
bool read_head(std::string const& line, std::string& sha256, std::uint64_t& bytes, std::map<std::string, std::string>& made_for) try {
    Json const json = parse_json(line, "", "runtime cache");
    Reader const reader(&json, "", "");
    if (reader.text("kind") != kMark) return false;
    sha256 = reader.text("sha256"), bytes = reader.size("bytes");
    auto const given = reader.at("for");
    for (auto const& [name, value] : given.object()) made_for[name] = given.text(name);
    return true;
} catch (Error const&) {
    return false;
}

std::string quoted(std::string const& text) {
    std::string result = "\"";
    for (char letter : text) {
        if (letter == '"' || letter == '\\') result += '\\';
        result += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
    return result + "\"";
}

}  // namespace

std::optional<std::string> read_runtime_cache(std::filesystem::path const& path, std::string const& version, std::string const& compute_capability,
                                              std::function<void(std::string const& reason)> const& warn) try {
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !error) return std::nullopt;
    std::string content;
    try {
        content = Input(path, "usage", "there is no").rest();
    } catch (Error const&) {
        warn("it cannot be read");
        return std::nullopt;
    }
    auto const end = content.find('\n');
    std::string hash;
    std::uint64_t bytes = 0;
    std::map<std::string, std::string> made_for;
    if (end == std::string::npos || end >= kLine || !read_head(content.substr(0, end), hash, bytes, made_for)) {
        warn("it is not a runtime cache");
        return std::nullopt;
    }
    content.erase(0, end + 1);
    if (content.size() != bytes || sha256(content) != hash) {
        warn("it is damaged");
        return std::nullopt;
    }
    if (made_for != std::map<std::string, std::string>{{"backend", version}, {"compute_capability", compute_capability}}) {
        warn("it was made by another version or for another GPU");
        return std::nullopt;
    }
    return content;
} catch (...) {
    rethrow();
}

void write_runtime_cache(std::filesystem::path const& path, std::string const& version, std::string const& compute_capability, std::string const& data) try {
    auto const head = "{\"bytes\": " + std::to_string(data.size()) + ", \"for\": {\"backend\": " + quoted(version) + ", \"compute_capability\": " +
                      quoted(compute_capability) + "}, \"kind\": " + quoted(kMark) + ", \"sha256\": " + quoted(sha256(data)) + "}\n";
    write_file(path, kCacheFile, {head, data});
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
