// Runs an engine that `trtdsl build` wrote, on .npy files:
//   run_engine ENGINE --input x=x.npy --output out/
// With --check it judges engine, manifest and inputs and runs nothing; compiled without TensorRT it can do only that,
// for the TensorRT named by --have PRODUCT=VERSION. Exit codes are those of the trtdsl command.
#include <charconv>
#include <iostream>

#include <trtdsl/engine.hpp>

namespace {

struct Arguments {
    std::string engine, output = ".";
    std::map<std::string, std::string> inputs;
    trtdsl::LoadOptions options;
    std::optional<trtdsl::Have> have;
    bool check = false;
};

char const* const kUsage =
    "usage: run_engine ENGINE [--input NAME=FILE.npy]... [--output FOLDER] [--check] [--have PRODUCT=VERSION]\n"
    "                  [--no-manifest] [--allow-host-code] [--device N]\n";

std::optional<Arguments> parse(int count, char** values) {
    Arguments arguments;
    for (int i = 1; i < count; ++i) {
        std::string const word = values[i];
        auto const next = [&] { return i + 1 < count ? std::string(values[++i]) : std::string(); };
        auto const pair = [&] {
            auto const text = next();
            auto const at = text.find('=');
            return std::pair(text.substr(0, at), at == std::string::npos ? std::string() : text.substr(at + 1));
        };
        if (word == "--input") arguments.inputs.insert(pair());
        else if (word == "--output") arguments.output = next();
        else if (word == "--check") arguments.check = true;
        else if (word == "--have") { auto const [product, version] = pair(); arguments.have = trtdsl::Have{product, version}; }
        else if (word == "--no-manifest") arguments.options.manifest = false;
        else if (word == "--allow-host-code") arguments.options.allow_host_code = true;
        else if (word == "--device") {
            auto const text = next();
            auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), arguments.options.device);
            if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
        }
        else if (word.rfind("--", 0) == 0 || !arguments.engine.empty()) return std::nullopt;
        else arguments.engine = word;
    }
    if (arguments.engine.empty()) return std::nullopt;
    return arguments;
}

// The precision that the network was built with, and that of each call that has one of its own: by which file, and what
// was measured on which data.
void print_precision(trtdsl::Manifest const& manifest) {
    if (!manifest.precision.empty()) std::cout << "precision " << trtdsl::printable(manifest.precision) << "\n";
    if (auto const& found = manifest.precisions) {
        if (!found->file.empty()) std::cout << "precision of each call by " << trtdsl::printable(found->file) << ", sha256 " << trtdsl::printable(found->sha256) << "\n";
        for (auto const& [dtype, calls] : found->calls) std::cout << "calls in " << trtdsl::printable(dtype) << ": " << calls << "\n";
        for (auto const& [name, decibels] : found->sqnr) {
            if (decibels) std::cout << *decibels << " dB " << trtdsl::printable(name) << "\n";
            else std::cout << "exact " << trtdsl::printable(name) << "\n";
        }
        if (!found->data.empty()) std::cout << "measured on " << trtdsl::printable(found->data) << "\n";
    }
    if (!manifest.refit) return;
    for (auto const& call : manifest.refit->calls) {
        std::cout << trtdsl::printable(call.file + " " + call.within + ": " + call.operation) << " " << call.ordinal << " in " << trtdsl::printable(call.dtype);
        for (auto scale : call.scales) std::cout << " " << scale;
        std::cout << "\n";
    }
}

void run(Arguments const& arguments) {
    std::map<std::string, trtdsl::Array> feeds;
    for (auto const& [name, path] : arguments.inputs) feeds[name] = trtdsl::read_npy(path);
#ifdef TRTDSL_WITH_TENSORRT
    if (!arguments.check) {
        trtdsl::Engine engine(arguments.engine, arguments.options);
        std::map<std::string, std::filesystem::path> paths;
        for (auto const& info : engine.signature().outputs)
            paths[info.name] = std::filesystem::path(arguments.output) / trtdsl::file_name(info.name, ".npy");
        std::error_code error;
        std::filesystem::create_directories(arguments.output, error);
        if (error) throw trtdsl::Error("usage", "cannot make the folder " + arguments.output + ": " + error.message());
        for (auto const& [name, array] : engine.run(feeds)) {
            auto const& path = paths.at(name);
            if (std::filesystem::is_symlink(path, error)) throw trtdsl::Error("usage", "cannot write " + path.string() + ": it is a link, which may lead out of the folder");
            trtdsl::write_npy(path, array);
            std::cout << trtdsl::printable(path.string()) << "\n";
        }
        return;
    }
    auto const have = arguments.have ? *arguments.have : trtdsl::Engine::have();
#else
    if (!arguments.have) throw trtdsl::Error("library-mismatch", "this program was compiled without TensorRT: say for which to judge, --have PRODUCT=VERSION");
    auto const have = *arguments.have;
#endif
    auto const file = trtdsl::open_engine(arguments.engine, have, arguments.options);
    if (file.manifest && !feeds.empty()) trtdsl::check_feeds(file.manifest->signature, feeds);
    std::cout << file.header.product << " " << file.header.version << ", " << file.data.size() << " bytes\n";
    if (file.manifest) print_precision(*file.manifest);
#ifndef TRTDSL_WITH_TENSORRT
    if (!arguments.check) throw trtdsl::Error("no-driver", "this program was compiled without TensorRT: the engine was judged, and not run");
#endif
}

}  // namespace

int main(int count, char** values) {
    auto const arguments = parse(count, values);
    if (!arguments) {
        std::cerr << kUsage;
        return 2;
    }
    try {
        run(*arguments);
        return 0;
    } catch (trtdsl::Error const& error) {
        std::cerr << "error: " << error.what() << " [" << error.code() << "]\n";
        return error.exit_code();
    } catch (std::exception const& error) {
        std::cerr << "error: " << error.what() << "\n";
        return 8;
    }
}
