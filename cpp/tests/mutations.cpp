// Reads many spoiled files: mutations SEED COUNT FOLDER FILE...
// Each FILE is a sound .engine (its manifest beside it), .npy, .safetensors or .cache. Whatever is read, the library answers or throws its own
// Error; anything else ends this program. Compile it with -fsanitize=address,undefined.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>

#include "trtdsl/engine.hpp"

namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

std::string content(fs::path const& path) {
    std::string data(static_cast<std::size_t>(fs::file_size(path)), '\0');
    std::ifstream(path, std::ios::binary).read(data.data(), static_cast<std::streamsize>(data.size()));
    return data;
}

void put(fs::path const& path, std::string const& data) { std::ofstream(path, std::ios::binary) << data; }

std::size_t below(Random& random, std::size_t end) { return end ? random() % end : 0; }

std::string mutate(std::string data, Random& random) {
    static std::vector<std::string> const pieces{"(", ")", "'", ",", "{", "}", "[", "]", "\"", "-1", "null", "1e999", "data_offsets", "F64", "__metadata__", "\\u", "\xff",
                                                 "99999999999999999999", "9223372036854775807", "'shape':", "(4294967296, 4294967296)"};
    for (std::size_t left = 1 + below(random, 2); left; --left) {
        auto const at = below(random, below(random, 2) ? data.size() : std::min<std::size_t>(data.size(), 128));
        auto const length = std::min(data.size() - at, std::size_t{1} << below(random, 10));
        switch (below(random, 6)) {
            case 0: if (!data.empty()) data[at] = static_cast<char>(data[at] ^ 1 << below(random, 8)); break;
            case 1: for (auto i = at; i < at + length; ++i) data[i] = static_cast<char>(random()); break;
            case 2: data.resize(at); break;
            case 3: data.erase(at, length); break;
            case 4: data.insert(at, data.substr(below(random, data.size()), length)); break;
            default: data.insert(at, pieces[below(random, pieces.size())]);
        }
    }
    return data;
}

std::map<std::string, trtdsl::Array> feeds(trtdsl::Signature const& signature, Random& random) {
    std::map<std::string, trtdsl::Array> result;
    for (auto const& info : signature.inputs) {
        trtdsl::Array array{info.dtype, info.shape, {}};
        for (auto& size : array.shape)
            if (size < 0 || below(random, 8) == 0) size = static_cast<std::int64_t>(below(random, 8) ? random() % 6 : random());
        result[info.name] = array;
    }
    return result;
}

// Whether the files were fine.
bool read(fs::path const& path, Random& random) try {
    if (path.extension() == ".npy") {
        auto const array = trtdsl::read_npy(path);
        if (array.data.size() % trtdsl::item_size(array.dtype)) std::abort();
        return true;
    }
    if (path.extension() == ".safetensors") {
        auto const file = trtdsl::read_safetensors(path);
        trtdsl::Refit refit{file.metadata.count("trtdsl-derived") ? file.metadata.at("trtdsl-derived") : "none", "", below(random, 8) == 0, {}};
        for (auto const& [name, array] : file.tensors) {
            std::size_t bytes = trtdsl::item_size(array.dtype);
            for (auto size : array.shape) bytes *= static_cast<std::size_t>(size);
            if (bytes != array.data.size()) std::abort();
            auto const count = below(random, 9) ? bytes / trtdsl::item_size(array.dtype) : below(random, 30);
            refit.values[name] = {static_cast<std::int64_t>(count), array.dtype};
        }
        trtdsl::check_weights(refit, file, "it");
        return true;
    }
    if (path.extension() == ".cache") {
        int warnings = 0;
        auto const data = trtdsl::read_runtime_cache(path, "1.7.1.116", "8.9", [&](std::string const&) { ++warnings; });
        if (data.has_value() == (warnings == 1)) std::abort();
        return data.has_value();
    }
    auto const file = trtdsl::open_engine(path, {"tensorrt-rtx", trtdsl::read_header(content(path), "it").version});
    if (file.manifest) trtdsl::check_feeds(file.manifest->signature, feeds(file.manifest->signature, random));
    return true;
} catch (trtdsl::Error const& error) {
    if (!trtdsl::error_codes().count(error.code())) std::abort();
    return false;
}

// The same for a manifest alone, whose engine is not looked at: what the sha256 hides otherwise.
bool read_manifest(std::string const& text, Random& random) try {
    auto const manifest = trtdsl::parse_manifest(text, "it");
    trtdsl::check_feeds(manifest.signature, feeds(manifest.signature, random), below(random, 2) ? std::optional(below(random, 3)) : std::nullopt);
    if (manifest.refit) trtdsl::check_weights(*manifest.refit, {}, "it");
    return true;
} catch (trtdsl::Error const&) {
    return false;
}

}  // namespace

int main(int count, char** values) {
    if (count < 5) return 2;
    Random random(std::strtoull(values[1], nullptr, 10));
    long const rounds = std::atol(values[2]);
    fs::path const folder = values[3];
    std::map<bool, long> verdicts;
    for (long round = 0; round < rounds; ++round) {
        fs::path const original = values[4 + below(random, static_cast<std::size_t>(count - 4))];
        fs::path const spoiled = folder / ("spoiled" + original.extension().string());
        bool const engine = original.extension() == ".engine";
        auto const manifest = engine ? content(original.string() + ".json") : std::string();
        if (engine && below(random, 2)) {
            ++verdicts[read_manifest(mutate(manifest, random), random)];
            continue;
        }
        bool const first = !engine || below(random, 2);
        put(spoiled, first ? mutate(content(original), random) : content(original));
        if (engine) put(spoiled.string() + ".json", first ? manifest : mutate(manifest, random));
        ++verdicts[read(spoiled, random)];
    }
    std::cout << verdicts[true] << " fine, " << verdicts[false] << " refused\n";
}
