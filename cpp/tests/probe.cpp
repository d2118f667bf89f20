// What tests/engine/test_cpp*.py asks of the C++ library beyond run_engine.
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <new>
#include <sstream>

#include "../src/internal.hpp"

namespace {

long left = -1;  // allocations until one finds no memory; below 0 for none
bool failed = false;  // whether one has

void* allocate(std::size_t size) {
    if (left >= 0 && left-- == 0) {
        failed = true;
        throw std::bad_alloc();
    }
    if (void* const pointer = std::malloc(size ? size : 1)) return pointer;
    throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete[](void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }
void operator delete[](void* pointer, std::size_t) noexcept { std::free(pointer); }

namespace {

// Reads a file of any kind that the library knows, by its name; the code of the error, if any. The library's allocation
// of this number finds no memory: `left` counts in its functions alone.
std::string code_of(std::filesystem::path const& path, long nth = -1) {
    auto const kind = path.extension();
    auto const label = path.string(), version = std::string("1"), capability = std::string("8.9");
    auto const copy = std::filesystem::path(label + ".copy");
    std::function<void(std::string const&)> const ignore = [](std::string const&) {};
    trtdsl::Refit const refit{"none", "", false, {{"a", {1, "float32"}}}};
    trtdsl::Have const have{"tensorrt-rtx", "1.7.1.116"};
    trtdsl::LoadOptions const options;
    failed = false, left = nth;
    try {
        if (kind == ".npy") trtdsl::write_npy(copy, trtdsl::read_npy(path));
        else if (kind == ".safetensors") trtdsl::check_weights(refit, trtdsl::read_safetensors(path), label);
        else if (kind == ".cache") trtdsl::write_runtime_cache(copy, version, capability, trtdsl::read_runtime_cache(path, version, capability, ignore).value_or(""));
        else trtdsl::open_engine(path, have, options);
    } catch (trtdsl::Error const& error) {
        left = -1;
        return error.code();
    }
    left = -1;
    return "fine";
}

// Reads the file again and again: the first allocation finds no memory, then the second, until there is none left to fail.
void starve(std::filesystem::path const& path) {
    std::cout << code_of(path);
    std::map<std::string, long> codes;
    for (long nth = 0;; ++nth) {
        auto const code = code_of(path, nth);
        if (!failed) break;
        ++codes[code];
    }
    for (auto const& [code, count] : codes) std::cout << " " << code << "=" << count;
    std::cout << "\n";
}

void fits(trtdsl::Signature const& signature, std::string const& line) {
    std::map<std::string, trtdsl::Array> feeds;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
        auto const at = word.find('=');
        auto& array = feeds[word.substr(0, at)];
        array.dtype = "float32";
        std::istringstream sizes(word.substr(at + 1));
        for (std::string size; std::getline(sizes, size, ',');) array.shape.push_back(std::stoll(size));
    }
    try {
        std::cout << trtdsl::check_feeds(signature, feeds) << "\n";
    } catch (trtdsl::Error const& error) {
        std::cout << error.code() << ": " << error.what() << "\n";
    }
}

}  // namespace

int main(int count, char** values) {
    std::string const what = count > 1 ? values[1] : "";
    try {
        if (what == "codes") {
            for (auto const& [code, exit_code] : trtdsl::error_codes()) std::cout << code << " " << exit_code << "\n";
        } else if (what == "sha256") {
            std::string const data((std::istreambuf_iterator<char>(std::cin)), {});
            std::cout << trtdsl::sha256(data) << "\n";
        } else if (what == "npy") {
            trtdsl::write_npy(values[3], trtdsl::read_npy(values[2]));
        } else if (what == "copies") {  // TARGET, then one file after another on stdin
            for (std::string path; std::getline(std::cin, path);) trtdsl::write_npy(values[2], trtdsl::read_npy(path));
        } else if (what == "rank") {
            auto const rank = std::stoul(values[3]);
            trtdsl::write_npy(values[2], {"int8", trtdsl::Shape(rank, 1), "x"});
        } else if (what == "nul") {  // a file's name, then NUL and more, to all that opens files
            auto const path = std::string(values[2]) + std::string("\0.more", 6);
            trtdsl::LoadOptions options;
            options.manifest = false;
            std::function<void(std::string const&)> const warn = [](std::string const& reason) { throw trtdsl::Error("runtime-cache", reason); };
            std::function<void()> const calls[]{[&] { trtdsl::write_npy(path, {"int8", {1}, "x"}); }, [&] { trtdsl::write_runtime_cache(path, "1", "8.9", "x"); },
                                                [&] { trtdsl::read_npy(path); }, [&] { trtdsl::read_safetensors(path); },
                                                [&] { trtdsl::read_runtime_cache(path, "1", "8.9", warn); }, [&] { trtdsl::open_engine(path, {"tensorrt-rtx", "1.7.1.116"}, options); }};
            for (auto const& call : calls) {
                try {
                    call();
                    std::cout << "fine\n";
                } catch (trtdsl::Error const& error) {
                    std::cout << error.code() << (std::string(error.what()).find("NUL") == std::string::npos ? "" : " NUL") << "\n";
                }
            }
        } else if (what == "library") {
            trtdsl::check_library(values[2], values[3]);
        } else if (what == "version") {
            trtdsl::check_version(values[2], {"tensorrt", values[3]}, std::string(values[4]) == "1", "");
        } else if (what == "capability") {
            trtdsl::Manifest manifest;
            manifest.compute_capabilities = {"8.6", "8.9"};
            trtdsl::check_compute_capability(manifest, {}, values[2]);
        } else if (what == "halves") {  // every number of float16, as float32
            for (std::uint32_t bits = 0; bits < 1 << 16; ++bits) {
                std::cout << std::hexfloat << trtdsl::of_half(static_cast<std::uint16_t>(bits)) << "\n";
            }
        } else if (what == "dtype") {
            std::cout << trtdsl::item_size(values[2]) << "\n";
        } else if (what == "name") {
            std::cout << trtdsl::file_name(values[2], ".npy") << "\n";
        } else if (what == "fits") {  // MANIFEST, then feeds of float32 on stdin, a line each: x=2,3 k=3
            std::ifstream file(values[2], std::ios::binary);
            auto const manifest = trtdsl::parse_manifest({std::istreambuf_iterator<char>(file), {}}, values[2]);
            for (std::string line; std::getline(std::cin, line);) fits(manifest.signature, line);
        } else if (what == "read") {
            std::cout << code_of(values[2]) << "\n";
        } else if (what == "starve") {
            starve(values[2]);
        } else if (what == "npys") {  // one file after another on stdin
            for (std::string path; std::getline(std::cin, path);) {
                try {
                    auto const array = trtdsl::read_npy(path);
                    std::cout << array.dtype;
                    for (auto size : array.shape) std::cout << "," << size;
                    std::cout << "\n";
                } catch (trtdsl::Error const& error) {
                    std::cout << error.code() << "\n";
                }
            }
        } else if (what == "weights") {  // one safetensors file after another on stdin: names, dtypes, shapes and hashes
            for (std::string path; std::getline(std::cin, path);) {
                try {
                    for (auto const& [name, array] : trtdsl::read_safetensors(path).tensors) {
                        std::cout << name << " " << array.dtype;
                        for (auto size : array.shape) std::cout << "," << size;
                        std::cout << " " << trtdsl::sha256(array.data) << ";";
                    }
                    std::cout << "\n";
                } catch (trtdsl::Error const& error) {
                    std::cout << error.code() << ": " << error.what() << "\n";
                }
            }
        } else if (what == "cache") {  // READ WRITTEN VERSION CAPABILITY
            auto const warn = [](std::string const& reason) { std::cerr << reason << "\n"; };
            auto const data = trtdsl::read_runtime_cache(values[2], values[4], values[5], warn);
            if (data) trtdsl::write_runtime_cache(values[3], values[4], values[5], *data);
            std::cout << (data ? std::to_string(data->size()) : "none") << "\n";
        } else if (what == "judge") {  // PRODUCT VERSION, then one engine after another on stdin
            std::string path;
            while (std::getline(std::cin, path)) {
                try {
                    trtdsl::open_engine(path, {values[2], values[3]}, {true});  // without a warning for what is left out
                    std::cout << "fine\n";
                } catch (trtdsl::Error const& error) {
                    std::cout << error.code() << "\n";
                }
            }
        }
    } catch (trtdsl::Error const& error) {
        std::cerr << error.code() << ": " << error.what() << "\n";
        return error.exit_code();
    }
}
