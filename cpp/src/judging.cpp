#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "internal.hpp"
#include "json.hpp"

namespace trtdsl {

namespace {

constexpr std::size_t kHeader = 28, kVersionAt = 24;                        // both products
constexpr std::size_t kRtxHeader = 64, kRtxSizeAt = 16, kRtxTargetsAt = 32;  // see trtdsl/engine/loading/loader.py
constexpr int kRtxTargets = 6;

std::string product_of(std::string const& data, std::size_t at = 0) {
    return data.compare(at, 4, "ftrt") == 0 ? "tensorrt" : data.compare(at, 4, "vtrt") == 0 ? "tensorrt-rtx" : "";
}

std::string name_of(std::string const& product) { return product == "tensorrt" ? "TensorRT" : "TensorRT-RTX"; }

std::uint64_t little(std::string const& data, std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(data[at + i]);
    return value;
}

std::string guess(std::string const& data) {
    if (little(data, 0) < data.size() && data[8] == '{') return " but a safetensors file";
    if (data.rfind("PK", 0) == 0) return " but a zip archive, such as a torch checkpoint";
    if (data[0] == '\x80') return " but a pickle, such as a torch checkpoint";
    if (data.substr(0, 64).find("\"kind\": \"engines\"") != std::string::npos)
        return " but the manifest of several, each for some of the sizes, which Python's load_engine takes: name one of its engines";
    if (data[0] == '{' || data[0] == '[') return " but JSON: the engine stands beside its manifest, without .json";
    if (data[0] == '\x08') return "; it looks like a protobuf message, such as an ONNX model";
    if (data.find_first_not_of('\0') == std::string::npos) return ": it holds zeros, as a file that was never written";
    return "";
}

// Major, minor, patch, build: the first four runs of digits, as trtdsl/engine/loading/loader.py reads them.
std::vector<std::uint64_t> numbers(std::string const& version) {
    constexpr std::uint64_t most = std::uint64_t{1} << 60;
    std::vector<std::uint64_t> result;
    bool inside = false;
    for (char letter : version.substr(0, version.find(".post"))) {
        bool const digit = letter >= '0' && letter <= '9';
        if (digit && !inside && result.size() == 4) break;
        if (digit && !inside) result.push_back(0);
        if (digit) result.back() = std::min(result.back() * 10 + static_cast<std::uint64_t>(letter - '0'), most);
        inside = digit;
    }
    return result;
}

}  // namespace

Header read_header(std::string const& data, std::string const& label) try {
    if (data.size() < kHeader)
        throw Error("engine-too-short", label + (data.empty() ? " is empty" : " has " + std::to_string(data.size()) + " bytes, less than an engine's header"));
    std::string const product = product_of(data);
    if (product.empty()) {
        for (std::size_t at = 1; at + kHeader <= std::min<std::size_t>(data.size(), 1 << 20); ++at)
            if (data[at + 1] == 't' && !product_of(data, at).empty() && data.compare(at + 5, 3, std::string(3, '\0')) == 0 &&
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
} catch (...) {
    rethrow();
}

void check_version(std::string const& built, Have const& have, bool version_compatible, std::string const& network) try {
    auto const from = numbers(built), here = numbers(have.version);
    if (from == here) return;
    if (version_compatible && have.product == "tensorrt" && !from.empty() && from < here &&
        (from[0] == here[0] || (from[0] == 8 && here[0] == 10) || (from[0] == 10 && here[0] == 11)))
        return;
    throw Error("version-mismatch", "the engine was built by " + name_of(have.product) + " " + built + ", and here is " + have.version +
                                        ": install " + built + ", or build " + (network.empty() ? "it" : "network '" + network + "'") + " again here with `trtdsl build`");
} catch (...) {
    rethrow();
}

void check_library(std::string const& headers, std::string const& library) try {
    if (numbers(headers) != numbers(library))
        throw Error("library-mismatch", "this program was compiled for TensorRT " + headers + ", and the library that it loaded is " + library +
                                            ": use one version for both, and look at LD_LIBRARY_PATH");
} catch (...) {
    rethrow();
}

void check_compute_capability(Manifest const& manifest, Header const& header, std::string const& device) try {
    auto const& list = manifest.compute_capabilities;
    auto const has = [&](std::string const& text) { return std::find(list.begin(), list.end(), text) != list.end(); };
    if (header.open_targets || has(device) || has("current")) return;
    std::string names;
    for (auto const& text : list) names += (names.empty() ? "" : ", ") + text;
    throw Error("compute-capability", "the engine was built for compute capability " + names + ", and this GPU has " + device +
                                          ": build it again with --compute-capability " + device);
} catch (...) {
    rethrow();
}

void check_world(Manifest const& manifest, void const* communicator) try {
    if (manifest.ranks < 2) return;
    constexpr char const* kLaunchers[][2]{{"RANK", "WORLD_SIZE"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
    auto const own = std::to_string(manifest.rank), all = std::to_string(manifest.ranks);
    auto const engine = "the engine is rank " + own + " of " + all;
    for (auto const& [rank, size] : kLaunchers) {
        char const *const here = std::getenv(rank), *const of = std::getenv(size);
        if (here && of && (own != here || all != of))
            throw Error("usage", engine + ", and this process is " + here + " of " + of + ", by " + rank + " and " + size + ": each process loads the engine of its own rank");
    }
    if (!communicator) throw Error("usage", engine + ", which exchange values by NCCL: give LoadOptions::communicator, this rank's ncclComm_t");
} catch (...) {
    rethrow();
}

EngineFile open_engine(std::filesystem::path const& path, Have const& have, LoadOptions const& options) try {
    EngineFile file;
    std::string const label = path.string();
    file.data = Input(path, "engine-missing", "there is no engine").rest();
    file.header = read_header(file.data, label);
    if (file.header.product != have.product)
        throw Error("wrong-product", "this engine was built by " + name_of(file.header.product) + " and cannot be loaded by " +
                                         name_of(have.product) + ": build it again with --backend " + have.product);
    std::optional<Error> unread;
    if (options.manifest) {
        try {
            auto beside = std::filesystem::path(path).concat(".json");
            std::error_code none;
            if (!std::filesystem::exists(beside, none) && std::filesystem::is_symlink(path, none))
                beside = std::filesystem::canonical(path).concat(".json");  // of a link: where it leads
            file.manifest = parse_manifest(Input(beside, "manifest-missing", "there is no manifest").rest(kLargestJson), beside.string());
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
    if (manifest->stripped && options.weights.empty()) {
        std::string names;
        for (auto const& name : manifest->weights) names += (names.empty() ? "" : ", ") + name;
        throw Error("engine-stripped", "the engine was built without its weights and needs them first, for " + names);
    }
    return file;
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
