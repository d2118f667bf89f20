#include "trtdsl_engine.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>
#include <variant>

namespace trtdsl {

// ---- errors ----------------------------------------------------------------------------------------------------------

std::map<std::string, int> const& error_codes() {
    static std::map<std::string, int> const codes{
        {"engine-missing", 2},   {"manifest-missing", 2}, {"feed-name", 2},          {"feed-dtype", 2},
        {"feed-rank", 2},        {"feed-shape", 2},       {"feed-place", 2},         {"feed-profile", 2},
        {"wrong-product", 5},    {"version-mismatch", 5}, {"compute-capability", 5}, {"library-mismatch", 5},
        {"missing-plugin", 5},   {"engine-stripped", 5},  {"host-code", 5},          {"engine-refused", 5},
        {"no-driver", 6},        {"driver-too-old", 6},   {"engine-too-short", 7},   {"not-an-engine", 7},
        {"engine-prefixed", 7},  {"engine-truncated", 7}, {"engine-damaged", 7},     {"manifest-damaged", 7},
        {"execution-failed", 8}, {"out-of-memory", 8},
    };
    return codes;
}

Error::Error(std::string code, std::string const& message) : std::runtime_error(message), code_(std::move(code)) {
    exit_code_ = error_codes().at(code_);
}

// ---- sha256 (FIPS 180-4) ---------------------------------------------------------------------------------------------

namespace {

constexpr std::array<std::uint32_t, 64> kRound{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t rotate(std::uint32_t x, int n) { return x >> n | x << (32 - n); }

void compress(std::array<std::uint32_t, 8>& state, unsigned char const* block) {
    std::array<std::uint32_t, 64> w{};
    for (int i = 0; i < 16; ++i)
        w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
               std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
    for (int i = 16; i < 64; ++i) {
        auto const s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        auto const s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int i = 0; i < 64; ++i) {
        auto const t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
        auto const t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    std::array<std::uint32_t, 8> const next{a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state[i] += next[i];
}

}  // namespace

std::string sha256(std::string const& data) {
    std::array<std::uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    auto const* bytes = reinterpret_cast<unsigned char const*>(data.data());
    std::size_t const whole = data.size() / 64 * 64;
    for (std::size_t at = 0; at < whole; at += 64) compress(state, bytes + at);
    std::string tail = data.substr(whole) + '\x80';
    tail.resize((tail.size() + 8 + 63) / 64 * 64, '\0');
    std::uint64_t const bits = std::uint64_t{data.size()} * 8;
    for (int i = 0; i < 8; ++i) tail[tail.size() - 1 - i] = static_cast<char>(bits >> 8 * i);
    for (std::size_t at = 0; at < tail.size(); at += 64)
        compress(state, reinterpret_cast<unsigned char const*>(tail.data()) + at);
    std::string text;
    for (auto word : state)
        for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
    return text;
}

// ---- JSON, as far as a manifest needs it (RFC 8259) ------------------------------------------------------------------

namespace {

struct Json;
using Object = std::map<std::string, Json>;
using List = std::vector<Json>;

struct Json {
    std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, List, Object> value;
};

class Parser {
public:
    Parser(std::string const& text, std::string const& label) : text_(text), label_(label) {}

    Json parse() {
        Json value = any(0);
        space();
        if (at_ != text_.size()) fail();
        return value;
    }

private:
    [[noreturn]] void fail() const {
        throw Error("manifest-damaged", label_ + " is not JSON: it is damaged, or not a manifest");
    }

    void space() {
        while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) && text_[at_]) ++at_;
    }

    char peek() {
        space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }

    void expect(char const* word) {
        for (; *word; ++word, ++at_)
            if (at_ >= text_.size() || text_[at_] != *word) fail();
    }

    Json any(int depth) {
        if (depth > 64) fail();
        switch (peek()) {
            case '{': return object(depth);
            case '[': return list(depth);
            case '"': return {string()};
            case 't': return expect("true"), Json{true};
            case 'f': return expect("false"), Json{false};
            case 'n': return expect("null"), Json{nullptr};
            default: return number();
        }
    }

    Json object(int depth) {
        Object result;
        ++at_;
        if (peek() == '}') return ++at_, Json{result};
        while (true) {
            if (peek() != '"') fail();
            std::string key = string();
            if (peek() != ':') fail();
            ++at_;
            result[key] = any(depth + 1);
            char const next = peek();
            ++at_;
            if (next == '}') return {result};
            if (next != ',') fail();
        }
    }

    Json list(int depth) {
        List result;
        ++at_;
        if (peek() == ']') return ++at_, Json{result};
        while (true) {
            result.push_back(any(depth + 1));
            char const next = peek();
            ++at_;
            if (next == ']') return {result};
            if (next != ',') fail();
        }
    }

    unsigned hex() {
        unsigned code = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            char const* digits = "0123456789abcdefABCDEF";
            char const* found = at_ < text_.size() && text_[at_] ? std::strchr(digits, text_[at_]) : nullptr;
            if (!found) fail();
            auto const digit = static_cast<unsigned>(found - digits);
            code = code * 16 + (digit < 16 ? digit : digit - 6);
        }
        return code;
    }

    std::string string() {
        std::string result;
        ++at_;
        while (true) {
            if (at_ >= text_.size()) fail();
            char const letter = text_[at_++];
            if (letter == '"') return result;
            if (static_cast<unsigned char>(letter) < 0x20) fail();
            if (letter != '\\') {
                result += letter;
                continue;
            }
            if (at_ >= text_.size()) fail();
            char const escape = text_[at_++];
            char const* const plain = "\"\\/bfnrt";
            char const* const meaning = "\"\\/\b\f\n\r\t";
            if (char const* found = escape ? std::strchr(plain, escape) : nullptr) {
                result += meaning[found - plain];
            } else if (escape == 'u') {
                utf8(result);
            } else {
                fail();
            }
        }
    }

    void utf8(std::string& result) {
        unsigned code = hex();
        if (code >= 0xd800 && code < 0xdc00) {
            expect("\\u");
            unsigned const low = hex();
            if (low < 0xdc00 || low > 0xdfff) fail();
            code = 0x10000 + (code - 0xd800) * 0x400 + (low - 0xdc00);
        }
        if (code < 0x80) {
            result += static_cast<char>(code);
            return;
        }
        int const more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        unsigned const lead[] = {0, 0xc0, 0xe0, 0xf0};
        result += static_cast<char>(lead[more] | code >> 6 * more);
        for (int i = more - 1; i >= 0; --i) result += static_cast<char>(0x80 | (code >> 6 * i & 0x3f));
    }

    Json number() {
        std::size_t const start = at_;
        while (at_ < text_.size() && text_[at_] && std::strchr("+-0123456789.eE", text_[at_])) ++at_;
        std::string const text = text_.substr(start, at_ - start);
        try {
            std::size_t used = 0;
            Json result{};
            if (text.find_first_of(".eE") == std::string::npos)
                result.value = static_cast<std::int64_t>(std::stoll(text, &used));
            else
                result.value = std::stod(text, &used);
            if (used == text.size()) return result;
        } catch (std::exception const&) {
        }
        fail();
    }

    std::string const& text_;
    std::string const& label_;
    std::size_t at_ = 0;
};

// An object of the manifest and the path to it, for messages.
class Reader {
public:
    Reader(Json const* json, std::string label, std::string path) : label_(std::move(label)), path_(std::move(path)) {
        object_ = json ? std::get_if<Object>(&json->value) : nullptr;
        if (!object_) throw Error("manifest-damaged", label_ + ": " + (path_.empty() ? "the whole" : path_) + " must be an object");
    }

    Error wrong(std::string const& key, std::string const& expected) const {
        return Error("manifest-damaged", label_ + ": " + dotted(key) + " must be " + expected);
    }

    Json const* find(std::string const& key) const {
        auto const found = object_->find(key);
        return found == object_->end() ? nullptr : &found->second;
    }

    template <class T>
    T get(std::string const& key, char const* expected) const {
        auto const* json = find(key);
        auto const* value = json ? std::get_if<T>(&json->value) : nullptr;
        if (!value) throw wrong(key, expected);
        return *value;
    }

    std::string text(std::string const& key) const { return get<std::string>(key, "a string"); }

    std::uint64_t size(std::string const& key) const {
        auto const value = get<std::int64_t>(key, "a number of 0 or more");
        if (value < 0) throw wrong(key, "a number of 0 or more");
        return static_cast<std::uint64_t>(value);
    }

    bool flag(std::string const& key) const { return find(key) ? get<bool>(key, "true or false") : false; }

    Reader at(std::string const& key) const { return Reader(find(key), label_, dotted(key)); }

    List list(std::string const& key) const { return get<List>(key, "a list"); }

    std::vector<std::string> strings(std::string const& key) const {
        std::vector<std::string> result;
        for (auto const& item : list(key)) {
            auto const* value = std::get_if<std::string>(&item.value);
            if (!value) throw wrong(key, "a list of strings");
            result.push_back(*value);
        }
        return result;
    }

    Shape sizes(std::string const& key, std::size_t rank) const {
        Shape result;
        for (auto const& item : list(key)) {
            auto const* value = std::get_if<std::int64_t>(&item.value);
            if (!value || *value < 0) throw wrong(key, "sizes of 0 or more");
            result.push_back(*value);
        }
        if (result.size() != rank) throw wrong(key, std::to_string(rank) + " sizes of 0 or more");
        return result;
    }

    Object const& object() const { return *object_; }
    std::string const& path() const { return path_; }
    std::string const& label() const { return label_; }

private:
    std::string dotted(std::string const& key) const { return path_.empty() ? key : path_ + "." + key; }

    Object const* object_;
    std::string label_, path_;
};

std::map<std::string, std::size_t> const kItemSizes{
    {"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"int8", 1},          {"int32", 4},
    {"int64", 8},   {"bool", 1},    {"uint8", 1},    {"float8_e4m3fn", 1}, {"int4", 1},
    {"float4_e2m1fn_x2", 1},        {"float8_e8m0fnu", 1}};

TensorInfo read_tensor(std::string const& name, Reader const& reader) {
    TensorInfo info{name, reader.text("dtype"), {}};
    if (!kItemSizes.count(info.dtype)) throw reader.wrong("dtype", "a dtype that TensorRT has");
    for (auto const& item : reader.list("shape")) {
        if (auto const* size = std::get_if<std::int64_t>(&item.value); size && *size >= 0)
            info.shape.push_back(*size);
        else if (std::holds_alternative<std::string>(item.value))
            info.shape.push_back(-1);
        else
            throw reader.wrong("shape", "sizes of 0 or more, and text for dynamic ones");
    }
    if (info.shape.size() > 8) throw reader.wrong("shape", "a list of at most 8 sizes");
    return info;
}

Range read_range(Reader const& reader, std::size_t rank) {
    Range range{reader.sizes("min", rank), reader.sizes("opt", rank), reader.sizes("max", rank)};
    for (std::size_t axis = 0; axis < rank; ++axis)
        if (range.min[axis] > range.opt[axis] || range.opt[axis] > range.max[axis])
            throw Error("manifest-damaged", reader.label() + ": " + reader.path() + " must have min <= opt <= max");
    return range;
}

Signature read_signature(Reader const& reader) {
    Signature signature;
    auto const inputs = reader.at("inputs"), outputs = reader.at("outputs");
    for (auto const& [name, json] : inputs.object()) signature.inputs.push_back(read_tensor(name, inputs.at(name)));
    for (auto const& [name, json] : outputs.object()) signature.outputs.push_back(read_tensor(name, outputs.at(name)));
    for (auto const& item : reader.list("profiles")) {
        auto const shapes = Reader(&item, reader.label(), "profiles").at("inputs");
        std::map<std::string, Range> profile;
        for (auto const& info : signature.inputs)
            profile[info.name] = read_range(shapes.at(info.name), info.shape.size());
        signature.profiles.push_back(profile);
    }
    if (signature.profiles.empty()) throw reader.wrong("profiles", "a list of at least one");
    return signature;
}

}  // namespace

Manifest parse_manifest(std::string const& text, std::string const& label) {
    Json const json = Parser(text, label).parse();
    Reader const reader(&json, label, "");
    if (auto const schema = reader.size("schema"); schema != 2 && schema != 3)
        throw Error("manifest-damaged",
                    label + " has schema " + std::to_string(schema) + ", and this program reads 2 and 3");
    auto const backend = reader.at("backend"), engine = reader.at("engine");
    Manifest manifest;
    manifest.network = reader.text("network");
    manifest.product = backend.text("name");
    manifest.version = backend.text("version");
    if (manifest.product != "tensorrt" && manifest.product != "tensorrt-rtx")
        throw backend.wrong("name", "tensorrt or tensorrt-rtx");
    manifest.sha256 = engine.text("sha256");
    if (manifest.sha256.size() != 64 || manifest.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
        throw engine.wrong("sha256", "64 hexadecimal digits");
    manifest.size = engine.size("bytes");
    manifest.compute_capabilities = reader.strings("compute_capabilities");
    manifest.signature = read_signature(reader);
    if (reader.find("config")) {
        auto const config = reader.at("config");
        manifest.version_compatible = config.flag("version_compatible");
        manifest.stripped = config.flag("strip_weights");
    }
    if (reader.find("refit") && reader.at("refit").find("weights"))
        manifest.weights = reader.at("refit").strings("weights");
    return manifest;
}

// ---- the engine's own first bytes ------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kHeader = 28, kVersionAt = 24;                        // both products
constexpr std::size_t kRtxHeader = 64, kRtxSizeAt = 16, kRtxTargetsAt = 32;  // see trtdsl/engine/loader.py
constexpr int kRtxTargets = 6;

std::string product_of(std::string const& data, std::size_t at = 0) {
    auto const magic = data.substr(at, 4);
    return magic == "ftrt" ? "tensorrt" : magic == "vtrt" ? "tensorrt-rtx" : "";
}

std::string name_of(std::string const& product) { return product == "tensorrt" ? "TensorRT" : "TensorRT-RTX"; }

std::uint64_t little(std::string const& data, std::size_t at) {
    std::uint64_t value = 0;
    for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(data[at + i]);
    return value;
}

std::string guess(std::string const& data) {
    if (little(data, 0) < data.size() && data[8] == '{') return " but a safetensors file";
    if (data.rfind("PK", 0) == 0) return " but a zip archive, such as a torch checkpoint";
    if (data[0] == '\x80') return " but a pickle, such as a torch checkpoint";
    if (data[0] == '{' || data[0] == '[') return " but JSON: the engine stands beside its manifest, without .json";
    if (data[0] == '\x08') return "; it looks like a protobuf message, such as an ONNX model";
    if (data.find_first_not_of('\0') == std::string::npos) return ": it holds zeros, as a file that was never written";
    return "";
}

std::string read_file(std::filesystem::path const& path, char const* code, std::string const& what) {
    std::ifstream file(path, std::ios::binary);
    std::error_code ignored;
    if (!file || std::filesystem::is_directory(path, ignored)) throw Error(code, what + " " + path.string());
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<int> numbers(std::string const& version) {
    std::vector<int> result;
    std::stringstream text(version.substr(0, version.find(".post")));
    for (std::string part; result.size() < 4 && std::getline(text, part, '.');) result.push_back(std::atoi(part.c_str()));
    return result;
}

}  // namespace

Header read_header(std::string const& data, std::string const& label) {
    if (data.size() < kHeader)
        throw Error("engine-too-short", label + (data.empty() ? " is empty" : " has " + std::to_string(data.size()) + " bytes, less than an engine's header"));
    std::string const product = product_of(data);
    if (product.empty()) {
        for (std::size_t at = 1; at + kHeader <= std::min<std::size_t>(data.size(), 1 << 20); ++at)
            if (!product_of(data, at).empty() && data.compare(at + 5, 3, std::string(3, '\0')) == 0 &&
                (data[at + kVersionAt] != 0 || data[at + kVersionAt + 1] != 0))
                throw Error("engine-prefixed", label + " has " + std::to_string(at) + " bytes of another program before its engine: cut them off");
        throw Error("not-an-engine", label + " is not an engine" + guess(data));
    }
    Header header;
    header.product = product;
    for (std::size_t i = 0; i < 4; ++i)
        header.version += (i ? "." : "") + std::to_string(static_cast<unsigned char>(data[kVersionAt + i]));
    if (product == "tensorrt") return header;
    if (data.size() < kRtxHeader)
        throw Error("engine-too-short", label + " has " + std::to_string(data.size()) + " bytes, less than an engine's header");
    auto const size = little(data, kRtxSizeAt);
    if (data.size() < size)
        throw Error("engine-truncated", label + " ends after " + std::to_string(data.size()) + " of its " + std::to_string(size) + " bytes: copy or build it again");
    if (data.size() > size)
        throw Error("engine-damaged", label + " has " + std::to_string(data.size() - size) + " bytes after the engine's end: build it again");
    header.open_targets = little(data, kRtxTargetsAt) >> kRtxTargets != 0;
    return header;
}

void check_version(std::string const& built, Have const& have, bool version_compatible, std::string const& network) {
    auto const from = numbers(built), here = numbers(have.version);
    if (from == here) return;
    if (version_compatible && have.product == "tensorrt" && from < here &&
        (from[0] == here[0] || (from[0] == 8 && here[0] == 10) || (from[0] == 10 && here[0] == 11)))
        return;
    throw Error("version-mismatch", "the engine was built by " + name_of(have.product) + " " + built + ", and here is " + have.version +
                                        ": install " + built + ", or build " + (network.empty() ? "it" : "network '" + network + "'") + " again here with `trtdsl build`");
}

void check_library(std::string const& headers, std::string const& library) {
    if (numbers(headers) != numbers(library))
        throw Error("library-mismatch", "this program was compiled for TensorRT " + headers + ", and the library that it loaded is " + library +
                                            ": use one version for both, and look at LD_LIBRARY_PATH");
}

void check_compute_capability(Manifest const& manifest, Header const& header, std::string const& device) {
    auto const& list = manifest.compute_capabilities;
    auto const has = [&](std::string const& text) { return std::find(list.begin(), list.end(), text) != list.end(); };
    if (header.open_targets || has(device) || has("current")) return;
    std::string names;
    for (auto const& text : list) names += (names.empty() ? "" : ", ") + text;
    throw Error("compute-capability", "the engine was built for compute capability " + names + ", and this GPU has " + device +
                                          ": build it again with --compute-capability " + device);
}

EngineFile open_engine(std::filesystem::path const& path, Have const& have, LoadOptions const& options) {
    EngineFile file;
    std::string const label = path.string();
    file.data = read_file(path, "engine-missing", "there is no engine");
    file.header = read_header(file.data, label);
    if (file.header.product != have.product)
        throw Error("wrong-product", "this engine was built by " + name_of(file.header.product) + " and cannot be loaded by " +
                                         name_of(have.product) + ": build it again with --backend " + have.product);
    std::optional<Error> unread;
    if (options.manifest) {
        try {
            auto const beside = std::filesystem::path(label + ".json");
            file.manifest = parse_manifest(read_file(beside, "manifest-missing", "there is no manifest"), beside.string());
        } catch (Error const& error) {
            unread = error;
        }
    }
    auto const& manifest = file.manifest;
    check_version(file.header.version, have, manifest && manifest->version_compatible, manifest ? manifest->network : "");
    if (unread) throw *unread;
    if (!manifest) return file;
    if (manifest->product != file.header.product)
        throw Error("manifest-damaged", "the manifest of " + label + " is that of a " + name_of(manifest->product) + " engine");
    if (file.data.size() < manifest->size)
        throw Error("engine-truncated", label + " ends after " + std::to_string(file.data.size()) + " of its " + std::to_string(manifest->size) + " bytes: copy or build it again");
    if (sha256(file.data) != manifest->sha256)
        throw Error("engine-damaged", label + " is not what was built: its sha256 is not the one in its manifest; copy both again, or build it again");
    auto said = numbers(manifest->version), is = numbers(file.header.version);
    said.resize(3), is.resize(3);
    if (said != is)
        throw Error("manifest-damaged", "the manifest of " + label + " says " + manifest->version + ", the engine itself " + file.header.version);
    if (manifest->version_compatible && !options.allow_host_code)
        throw Error("host-code", "the engine carries code for the CPU, as version compatible ones do: allow it if you trust where it comes from");
    if (manifest->stripped) {
        std::string names;
        for (auto const& name : manifest->weights) names += (names.empty() ? "" : ", ") + name;
        throw Error("engine-stripped", "the engine was built without its weights and needs them first, for " + names);
    }
    return file;
}

// ---- feeds and npy files ---------------------------------------------------------------------------------------------

namespace {

std::string text_of(Shape const& shape) {
    std::string text;
    for (auto size : shape) text += (text.empty() ? "" : ", ") + (size < 0 ? std::string("?") : std::to_string(size));
    return "(" + text + ")";
}

// numpy's type strings, little-endian, and torch's names.
std::map<std::string, std::string> const kDescr{{"<f4", "float32"}, {"<f2", "float16"}, {"<i4", "int32"}, {"<i8", "int64"},
                                                {"|i1", "int8"},    {"|u1", "uint8"},   {"|b1", "bool"},  {"<f8", "float64"}};

[[noreturn]] void not_npy(std::filesystem::path const& path, std::string const& why) {
    throw Error("feed-dtype", path.string() + " is not an array that can be fed: " + why);
}

}  // namespace

std::size_t item_size(std::string const& dtype) { return dtype == "float64" ? 8 : kItemSizes.at(dtype); }

std::size_t check_feeds(Signature const& signature, std::map<std::string, Array> const& feeds) {
    for (auto const& info : signature.inputs)
        if (!feeds.count(info.name)) throw Error("feed-name", "input '" + info.name + "' is missing");
    for (auto const& [name, array] : feeds) {
        auto const info = std::find_if(signature.inputs.begin(), signature.inputs.end(), [&, &n = name](auto const& each) { return each.name == n; });
        if (info == signature.inputs.end()) throw Error("feed-name", "there is no input '" + name + "'");
        if (array.dtype != info->dtype)
            throw Error("feed-dtype", "input '" + name + "' must be " + info->dtype + ", and " + array.dtype + " was fed");
        if (array.shape.size() != info->shape.size())
            throw Error("feed-rank", "input " + name + " " + text_of(info->shape) + " has " + std::to_string(info->shape.size()) + " dimensions, and " + text_of(array.shape) + " was fed");
        for (std::size_t axis = 0; axis < array.shape.size(); ++axis)
            if (info->shape[axis] >= 0 && info->shape[axis] != array.shape[axis])
                throw Error("feed-shape", "dimension " + std::to_string(axis) + " of input '" + name + "' must be " + std::to_string(info->shape[axis]) + ", and " + std::to_string(array.shape[axis]) + " was fed");
    }
    std::string problem;
    for (std::size_t index = 0; index < signature.profiles.size(); ++index) {
        std::string outside;
        for (auto const& [name, range] : signature.profiles[index])
            for (std::size_t axis = 0; axis < range.min.size(); ++axis) {
                auto const got = feeds.at(name).shape[axis];
                if (got < range.min[axis] || got > range.max[axis])
                    outside = "dimension " + std::to_string(axis) + " of input '" + name + "' is " + std::to_string(got) + ", and the engine serves " + std::to_string(range.min[axis]) + " to " + std::to_string(range.max[axis]);
            }
        if (outside.empty()) return index;
        problem = outside;
    }
    throw Error("feed-profile", problem);
}

Array read_npy(std::filesystem::path const& path) {
    std::string const data = read_file(path, "feed-name", "there is no array");
    if (data.size() < 12 || data.compare(0, 6, "\x93NUMPY") != 0) not_npy(path, "it is no .npy file");
    bool const first = data[6] == 1;
    std::size_t const start = first ? 10 : 12;
    std::size_t length = 0;
    for (int i = first ? 1 : 3; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(data[8 + i]);
    if (data.size() < start + length) not_npy(path, "it is truncated");
    std::string const header = data.substr(start, length);
    auto const after = [&](std::string const& key) {
        auto const at = header.find("'" + key + "':");
        if (at == std::string::npos) not_npy(path, "it has no " + key);
        return header.find_first_not_of(' ', at + key.size() + 3);
    };
    auto const type = after("descr");
    auto const quoted = header.substr(type + 1, header.find('\'', type + 1) - type - 1);
    auto const found = kDescr.find(quoted);
    if (found == kDescr.end()) not_npy(path, "its type is " + quoted);
    if (header.compare(after("fortran_order"), 5, "False") != 0) not_npy(path, "it is in Fortran's order");
    auto const open = header.find('(', after("shape")), close = header.find(')', open);
    if (open == std::string::npos || close == std::string::npos) not_npy(path, "it has no shape");
    Array array{found->second, {}, {}};
    std::size_t bytes = item_size(array.dtype);
    std::stringstream sizes(header.substr(open + 1, close - open - 1));
    for (std::string part; std::getline(sizes, part, ',');)
        if (part.find_first_of("0123456789") != std::string::npos) {
            array.shape.push_back(std::atoll(part.c_str()));
            bytes *= static_cast<std::size_t>(array.shape.back());
        }
    array.data = data.substr(start + length);
    if (array.data.size() != bytes) not_npy(path, "it has " + std::to_string(array.data.size()) + " bytes of data, not " + std::to_string(bytes));
    return array;
}

void write_npy(std::filesystem::path const& path, Array const& array) {
    std::string descr;
    for (auto const& [text, dtype] : kDescr)
        if (dtype == array.dtype) descr = text;
    if (descr.empty()) throw Error("execution-failed", "numpy has no " + array.dtype);
    std::string shape;
    for (auto size : array.shape) shape += std::to_string(size) + ",";
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
    header += '\n';
    auto const temporary = path.string() + ".part";
    {
        std::ofstream file(temporary, std::ios::binary);
        file.write("\x93NUMPY\x01\x00", 8);
        file.put(static_cast<char>(header.size() & 255)).put(static_cast<char>(header.size() >> 8));
        file << header << array.data;
        if (!file.flush()) throw Error("execution-failed", "cannot write " + path.string());
    }
    std::filesystem::rename(temporary, path);
}

}  // namespace trtdsl

#ifdef TRTDSL_WITH_TENSORRT
// ---- TensorRT --------------------------------------------------------------------------------------------------------

#include <NvInfer.h>
#include <cuda_runtime_api.h>

#include <mutex>

namespace trtdsl {

namespace {

// Keeps what TensorRT says, for the message of an error.
class Log : public nvinfer1::ILogger {
public:
    void log(Severity severity, char const* message) noexcept override {
        if (severity > Severity::kERROR) return;
        std::lock_guard<std::mutex> const lock(mutex_);
        text_ += (text_.empty() ? "" : " ") + std::string(message);
    }

    std::string take() {
        std::lock_guard<std::mutex> const lock(mutex_);
        return text_.empty() ? "TensorRT gave no message" : std::exchange(text_, {});
    }

private:
    std::mutex mutex_;
    std::string text_;
};

void cuda(cudaError_t status, std::string const& what, std::size_t needed = 0) {
    if (status == cudaSuccess) return;
    if (status == cudaErrorMemoryAllocation) {
        std::size_t free = 0, total = 0;
        cudaMemGetInfo(&free, &total);
        throw Error("out-of-memory", "out of GPU memory: " + what + " needs " + std::to_string(needed) + " bytes, and " + std::to_string(free) + " bytes are free");
    }
    throw Error("execution-failed", what + " failed: " + cudaGetErrorString(status));
}

class Memory {
public:
    Memory() = default;
    Memory(Memory const&) = delete;
    ~Memory() { cudaFree(pointer_); }

    void* reserve(std::size_t size) {
        size = std::max<std::size_t>(size, 1);  // TensorRT wants an address for an empty tensor too
        if (size > size_) {
            cudaFree(std::exchange(pointer_, nullptr));
            size_ = 0;
            cuda(cudaMalloc(&pointer_, size), "a tensor", size);
            size_ = size;
        }
        return pointer_;
    }

    void* pointer() const { return pointer_; }

private:
    void* pointer_ = nullptr;
    std::size_t size_ = 0;
};

// Gives TensorRT memory for an output whose shape it knows only when it has run.
class Allocator : public nvinfer1::IOutputAllocator {
public:
    explicit Allocator(Memory& memory) : memory_(memory) {}

    void* reallocateOutputAsync(char const*, void*, std::uint64_t size, std::uint64_t, cudaStream_t) noexcept override {
        try {
            return memory_.reserve(size);
        } catch (Error const&) {
            return nullptr;
        }
    }

    void notifyShape(char const*, nvinfer1::Dims const& dims) noexcept override { shape = Shape(dims.d, dims.d + dims.nbDims); }

    Shape shape;

private:
    Memory& memory_;
};

std::string dtype_of(nvinfer1::DataType type) {
    using T = nvinfer1::DataType;
    switch (type) {
        case T::kFLOAT: return "float32";
        case T::kHALF: return "float16";
        case T::kBF16: return "bfloat16";
        case T::kINT8: return "int8";
        case T::kINT32: return "int32";
        case T::kINT64: return "int64";
        case T::kBOOL: return "bool";
        case T::kUINT8: return "uint8";
        case T::kFP8: return "float8_e4m3fn";
        default: throw Error("engine-refused", "the engine has a tensor of a type that cannot be fed from here");
    }
}

std::string dotted(int major, int minor, int patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

Shape shape_of(nvinfer1::Dims const& dims) { return Shape(dims.d, dims.d + std::max(dims.nbDims, 0)); }

std::size_t bytes_of(Shape const& shape, std::string const& dtype) {
    std::size_t bytes = item_size(dtype);
    for (auto size : shape) bytes *= static_cast<std::size_t>(size);
    return bytes;
}

void check_driver() {
    int driver = 0, count = 0;
    char const* const unjudged = "; whether the engine fits a GPU was not judged";
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        throw Error("no-driver", std::string("an engine runs on an NVIDIA GPU, and no NVIDIA driver is installed") + unjudged);
    if (driver / 1000 < CUDART_VERSION / 1000)
        throw Error("driver-too-old", "the NVIDIA driver here serves CUDA " + std::to_string(driver / 1000) + ", and this program needs CUDA " +
                                          std::to_string(CUDART_VERSION / 1000) + " or later: update the driver" + unjudged);
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        throw Error("no-driver", std::string("the CUDA driver finds no device") + unjudged);
}

Error refusal(std::string const& text) {
    auto const has = [&](char const* part) { return text.find(part) != std::string::npos; };
    if (has("find plugin") || has("IPluginCreator not found")) return Error("missing-plugin", "the engine needs a plugin that is not registered: " + text);
    if (has("Version tag") || has("expecting library version")) return Error("version-mismatch", "TensorRT says that another version built the engine: " + text);
    if (has("incompatible device")) return Error("compute-capability", "TensorRT says that the engine is for another GPU: " + text);
    if (has("ost code")) return Error("host-code", "the engine carries code for the CPU, which is off: " + text);
    if (has("OutOfMemory") || has("out of memory")) return Error("out-of-memory", text);
    return Error("engine-refused", "TensorRT does not load this engine: " + text);
}

}  // namespace

struct Engine::State {
    Log log;
    std::unique_ptr<nvinfer1::IRuntime> runtime;
    std::unique_ptr<nvinfer1::ICudaEngine> engine;
    std::unique_ptr<nvinfer1::IExecutionContext> context;
    cudaStream_t stream = nullptr;
    int device = 0;
    std::size_t profile = 0;
    Signature signature;
    std::map<std::string, Memory> memory;

    ~State() {
        if (stream) cudaStreamDestroy(stream);
    }

    void read_signature() {
        for (int i = 0; i < engine->getNbIOTensors(); ++i) {
            char const* const name = engine->getIOTensorName(i);
            bool const input = engine->getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT;
            (input ? signature.inputs : signature.outputs)
                .push_back({name, dtype_of(engine->getTensorDataType(name)), shape_of(engine->getTensorShape(name))});
        }
        for (int index = 0; index < engine->getNbOptimizationProfiles(); ++index) {
            std::map<std::string, Range> profile;
            for (auto const& info : signature.inputs) {
                using Select = nvinfer1::OptProfileSelector;
                auto const at = [&](Select which) { return shape_of(engine->getProfileShape(info.name.c_str(), index, which)); };
                profile[info.name] = {at(Select::kMIN), at(Select::kOPT), at(Select::kMAX)};
            }
            signature.profiles.push_back(profile);
        }
    }

    void feed(std::string const& name, Array const& array) {
        nvinfer1::Dims dims{};
        dims.nbDims = static_cast<int>(array.shape.size());
        std::copy(array.shape.begin(), array.shape.end(), dims.d);
        if (!context->setInputShape(name.c_str(), dims)) throw Error("execution-failed", "TensorRT does not take the shape of input '" + name + "'");
        if (engine->getTensorLocation(name.c_str()) == nvinfer1::TensorLocation::kHOST) {
            context->setInputTensorAddress(name.c_str(), array.data.data());  // the value of a shape, read on the CPU
            return;
        }
        void* const target = memory[name].reserve(array.data.size());
        cuda(cudaMemcpyAsync(target, array.data.data(), array.data.size(), cudaMemcpyHostToDevice, stream), "copying an input");
        context->setInputTensorAddress(name.c_str(), target);
    }
};

Have Engine::have() {
    std::string const library = dotted(getInferLibMajorVersion(), getInferLibMinorVersion(), getInferLibPatchVersion());
    check_library(dotted(NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR, NV_TENSORRT_PATCH), library);
    return {TRTDSL_PRODUCT, library + "." + std::to_string(getInferLibBuildVersion())};
}

Engine::Engine(std::filesystem::path const& path, LoadOptions const& options) : state_(std::make_unique<State>()) {
    auto const here = have();
    auto const file = open_engine(path, here, options);
    check_driver();
    auto& state = *state_;
    state.device = options.device;
    cuda(cudaSetDevice(options.device), "choosing the GPU");
    int major = 0, minor = 0;
    cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, options.device), "asking the GPU");
    cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, options.device), "asking the GPU");
    if (file.manifest) check_compute_capability(*file.manifest, file.header, std::to_string(major) + "." + std::to_string(minor));
    state.runtime.reset(nvinfer1::createInferRuntime(state.log));
    if (!state.runtime) throw Error("execution-failed", "TensorRT does not start: " + state.log.take());
    state.runtime->setEngineHostCodeAllowed(options.allow_host_code);
    state.engine.reset(state.runtime->deserializeCudaEngine(file.data.data(), file.data.size()));
    if (!state.engine) throw refusal(state.log.take());
    state.context.reset(state.engine->createExecutionContext());
    if (!state.context) {
        std::string const text = state.log.take();
        bool const memory = text.find("emory") != std::string::npos;
        throw Error(memory ? "out-of-memory" : "execution-failed", "TensorRT makes no execution context: " + text);
    }
    cuda(cudaStreamCreateWithFlags(&state.stream, cudaStreamNonBlocking), "making a stream");
    state.read_signature();
}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

Signature const& Engine::signature() const { return state_->signature; }

std::map<std::string, Array> Engine::run(std::map<std::string, Array> const& feeds) {
    auto& state = *state_;
    cuda(cudaSetDevice(state.device), "choosing the GPU");
    auto const profile = check_feeds(state.signature, feeds);
    auto const fail = [&](std::string const& what) { return Error("execution-failed", what + ": " + state.log.take()); };
    if (profile != state.profile) {
        if (!state.context->setOptimizationProfileAsync(static_cast<int>(profile), state.stream)) throw fail("a profile cannot be chosen");
        state.profile = profile;
    }
    for (auto const& [name, array] : feeds) state.feed(name, array);
    if (state.context->inferShapes(0, nullptr) != 0) throw fail("the shapes are not known");
    std::map<std::string, Array> results;
    std::map<std::string, std::unique_ptr<Allocator>> allocators;
    for (auto const& info : state.signature.outputs) {
        char const* const name = info.name.c_str();
        auto const shape = shape_of(state.context->getTensorShape(name));
        results[info.name] = {info.dtype, shape, {}};
        if (std::find(shape.begin(), shape.end(), -1) != shape.end()) {
            allocators[info.name] = std::make_unique<Allocator>(state.memory[info.name]);
            state.context->setOutputAllocator(name, allocators[info.name].get());
        } else {
            state.context->setTensorAddress(name, state.memory[info.name].reserve(bytes_of(shape, info.dtype)));
        }
    }
    if (!state.context->enqueueV3(state.stream)) throw fail("the engine did not run");
    for (auto& [name, array] : results) {
        if (auto const found = allocators.find(name); found != allocators.end()) {
            array.shape = found->second->shape;
            state.context->setOutputAllocator(name.c_str(), nullptr);
        }
        array.data.resize(bytes_of(array.shape, array.dtype));
        cuda(cudaMemcpyAsync(array.data.data(), state.memory[name].pointer(), array.data.size(), cudaMemcpyDeviceToHost, state.stream), "copying an output");
    }
    cuda(cudaStreamSynchronize(state.stream), "the run");
    return results;
}

}  // namespace trtdsl
#endif
