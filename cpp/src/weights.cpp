// Weights in safetensors files: https://huggingface.co/docs/safetensors
#include <algorithm>
#include <vector>

#include "internal.hpp"
#include "json.hpp"

namespace trtdsl {

namespace {

// safetensors' names, torch's, and bytes of an element.
struct Kind {
    char const *name, *dtype;
    std::int64_t size;
};
constexpr Kind kKinds[]{{"F64", "float64", 8}, {"F32", "float32", 4}, {"F16", "float16", 2}, {"BF16", "bfloat16", 2},
                        {"F8_E4M3", "float8_e4m3fn", 1}, {"F8_E5M2", "float8_e5m2", 1}, {"I64", "int64", 8}, {"I32", "int32", 4},
                        {"I16", "int16", 2}, {"I8", "int8", 1}, {"U8", "uint8", 1}, {"BOOL", "bool", 1}};
constexpr std::size_t kLength = 8;  // bytes of the header's length
constexpr int kMostParts = 64;      // of a name, as trtdsl/definition/weights/files.py has it

struct Part {
    std::string name;
    std::int64_t begin, end;
};

Error damaged(std::string const& label, std::string const& why) { return Error("weights-damaged", label + " is truncated or not a safetensors file: " + why); }

Array entry(std::string const& name, Reader const& reader, std::string const& label, Part& place) {
    auto const kind_name = reader.text("dtype");
    auto const* const kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](auto const& each) { return each.name == kind_name; });
    if (kind == std::end(kKinds)) throw Error("weights-mismatch", label + ": " + name + " is " + kind_name + ", which is not read here");
    Array array{kind->dtype, reader.sizes("shape", reader.list("shape").size()), {}};
    auto const offsets = reader.sizes("data_offsets", 2);
    place = {name, offsets[0], offsets[1]};
    std::optional<std::int64_t> bytes = kind->size;
    for (auto size : array.shape) bytes = bytes ? multiply(*bytes, size) : bytes;
    if (place.begin > place.end || bytes != place.end - place.begin) throw damaged(label, name + " has not the bytes of its shape");
    return array;
}

void read_metadata(Reader const& reader, WeightsFile& file) {
    for (auto const& [name, json] : reader.object()) file.metadata[name] = reader.text(name);
}

// sha256 over names, dtypes and bytes, as trtdsl/engine/refit.py has it.
std::string values_hash(WeightsFile const& weights) {
    Sha256 hash;
    for (auto const& [name, array] : weights.tensors) hash.add(name + " torch." + array.dtype), hash.add(array.data);
    return hash.hex();
}

}  // namespace

WeightsFile read_safetensors(std::filesystem::path const& path) try {
    auto const label = path.string();
    Input input(path, "usage", "no weights file");
    if (input.left() < kLength) throw damaged(label, "it has " + std::to_string(input.left()) + " bytes");
    auto const digits = input.read(kLength);
    std::uint64_t length = 0;
    for (auto i = kLength; i-- > 0;) length = length << 8 | static_cast<unsigned char>(digits[i]);
    if (length > input.left()) throw damaged(label, "its header does not end");
    if (length > kLargestJson) throw damaged(label, "its header is larger than the " + std::to_string(kLargestJson >> 20) + " MiB that are read");
    WeightsFile file;
    std::vector<Part> places;
    try {
        auto const text = input.read(static_cast<std::size_t>(length));
        if (text.empty() || text[0] != '{') throw damaged(label, "its header is not JSON");
        Json const json = parse_json(text, label, "safetensors file's header", true);
        Reader const reader(&json, label, "");
        for (auto const& [name, value] : reader.object()) {
            if (name == "__metadata__") {
                read_metadata(reader.at(name), file);
                continue;
            }
            if (!is_printable(name) || std::count(name.begin(), name.end(), '.') >= kMostParts)
                throw damaged(label, "the name " + name + " must be printable text of at most " + std::to_string(kMostParts) + " parts");
            file.tensors[name] = entry(name, reader.at(name), label, places.emplace_back());
        }
    } catch (Error const& error) {
        if (error.code() != "manifest-damaged") throw;
        throw damaged(label, error.what());
    }
    std::sort(places.begin(), places.end(), [](auto const& a, auto const& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::int64_t at = 0;
    auto const room = static_cast<std::int64_t>(input.left());
    for (auto const& place : places) {
        if (place.begin != at || place.end > room) throw damaged(label, place.name + " is not where it must be");
        at = place.end;
    }
    if (at != room) throw damaged(label, "it has " + std::to_string(room - at) + " bytes after its tensors");
    for (auto const& place : places) file.tensors.at(place.name).data = input.read(static_cast<std::size_t>(place.end - place.begin));
    return file;
} catch (...) {
    rethrow();
}

void check_weights(Refit const& refit, WeightsFile const& weights, std::string const& label) try {
    auto const derived = weights.metadata.find("trtdsl-derived");
    if (derived == weights.metadata.end())
        throw Error("weights-mismatch", label + " has the names of a state_dict, and an engine takes what is derived of it: make that with "
                                                "`trtdsl weights derive NETWORK.py derived.safetensors --weights " + label + "`");
    if (derived->second != refit.structure)
        throw Error("weights-mismatch", "the network is not the one that the engine was built from: its layers differ. Build the engine again");
    std::string problems;
    for (auto const& [name, wanted] : refit.values) {
        auto const found = weights.tensors.find(name);
        if (found == weights.tensors.end()) {
            problems += "\n  " + name + ": missing";
            continue;
        }
        auto const& array = found->second;
        auto const count = byte_count(array.shape, "int8");  // elements of one byte
        if (count != wanted.first) problems += "\n  " + name + ": has " + std::to_string(count) + " elements, not " + std::to_string(wanted.first);
        else if (array.dtype != wanted.second) problems += "\n  " + name + ": is " + array.dtype + ", not " + wanted.second;
    }
    if (!problems.empty()) throw Error("weights-mismatch", "the engine takes other weights:" + problems);
    if (refit.identical && values_hash(weights) != refit.values_sha256)
        throw Error("weights-mismatch", "the engine was built without its weights and for these alone: with others its results are undefined. "
                                        "Build it with --refit to give it new ones");
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
