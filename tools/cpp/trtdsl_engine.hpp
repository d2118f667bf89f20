// Engines that `trtdsl build` wrote, loaded and run from C++17 with the judgements and error codes of trtdsl.load_engine.
//
// Everything above TRTDSL_WITH_TENSORRT needs neither TensorRT nor CUDA. See docs/engines.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace trtdsl {

// What went wrong, by the `code` that trtdsl/core/errors.py gives the same error ("usage" for its UsageError), and the
// command line's exit code. Nothing here throws anything else, but std::bad_alloc.
class Error : public std::runtime_error {
public:
    Error(std::string code, std::string const& message);
    std::string const& code() const { return code_; }
    int exit_code() const { return exit_code_; }

private:
    std::string code_;
    int exit_code_;
};

// Every code with its exit code.
std::map<std::string, int> const& error_codes();

using Shape = std::vector<std::int64_t>;

struct TensorInfo {
    std::string name;
    std::string dtype;  // torch's name: float32, int64, …
    Shape shape;        // -1 for a dynamic size
    bool on_host = false;  // whether TensorRT reads or writes it on the CPU: the value of a shape; known to an Engine only
};

struct Range {
    Shape min, opt, max;
};

// A size as a requirement has it: a number, the name of a dimension, or an operation (+ * // max min) on sizes.
struct Expression {
    std::string word;  // the name or the operation; empty for a number
    std::int64_t number = 0;
    std::vector<Expression> parts;  // of an operation
};

// Where a dimension is found: the size of that axis is factor * dimension + offset.
struct Place {
    std::string input;
    std::size_t axis = 0;
    std::int64_t factor = 1, offset = 0;
};

// What td.require says of the sizes of the inputs.
struct Requirement {
    std::string condition, why;  // for messages
    std::string comparison;      // == != < <= > >=
    Expression left, right;
    std::map<std::string, Place> dims;
};

struct Signature {
    std::vector<TensorInfo> inputs, outputs;
    std::vector<std::map<std::string, Range>> profiles;
    std::vector<Requirement> requirements;  // from the manifest
};

// What the first bytes of an engine say.
struct Header {
    std::string product;  // tensorrt or tensorrt-rtx
    std::string version;
    bool open_targets = false;  // built for no GPU in particular
};

// The manifest beside an engine: NAME.engine.json.
struct Manifest {
    std::string network, product, version, sha256;
    std::uint64_t size = 0;
    std::vector<std::string> compute_capabilities, weights;
    Signature signature;
    bool version_compatible = false, stripped = false;
};

// The TensorRT that is to load an engine.
struct Have {
    std::string product, version;
};

struct LoadOptions {
    bool manifest = true;           // false for an engine that has none
    bool allow_host_code = false;   // for version compatible engines, which carry code for the CPU
    int device = 0;
};

struct EngineFile {
    std::string data;
    Header header;
    std::optional<Manifest> manifest;
};

// An array on the host, in C order.
struct Array {
    std::string dtype;
    Shape shape;
    std::string data;
};

// Bytes of one element. Throws feed-dtype for a dtype that is not known.
std::size_t item_size(std::string const& dtype);
std::string sha256(std::string const& data);

Header read_header(std::string const& data, std::string const& label);
Manifest parse_manifest(std::string const& text, std::string const& label);

// Reads engine and manifest and judges, in this order: size, magic, product, version, sha256, and what only a GPU or
// other weights could cure. Throws Error.
EngineFile open_engine(std::filesystem::path const& path, Have const& have, LoadOptions const& options = {});

void check_version(std::string const& built, Have const& have, bool version_compatible, std::string const& network);
void check_compute_capability(Manifest const& manifest, Header const& header, std::string const& device);
void check_library(std::string const& headers, std::string const& library);

// The index of the profile that holds these feeds. Throws feed-name, -dtype, -rank, -shape; and feed-profile for sizes
// that no profile holds, or that do not fulfil a requirement.
std::size_t check_feeds(Signature const& signature, std::map<std::string, Array> const& feeds);

// A name from outside with a suffix, as the name of one file. Throws usage for one that would lead to another folder.
std::string file_name(std::string const& name, std::string const& suffix = "");

// Throws feed-name where there is no file, feed-dtype for what cannot be fed.
Array read_npy(std::filesystem::path const& path);
// Writes the file whole or not at all. Throws usage.
void write_npy(std::filesystem::path const& path, Array const& array);

#ifdef TRTDSL_WITH_TENSORRT

// A tensor in memory that somebody else owns: on the GPU, at a multiple of 256 bytes; on the CPU where
// TensorInfo::on_host says so.
struct View {
    std::string dtype;
    Shape shape;
    void* data = nullptr;
};

using Stream = void*;  // a cudaStream_t

// An engine on a GPU, for all threads: copies are the same engine, and it lives as long as one of them or a Context.
class Engine {
public:
    explicit Engine(std::filesystem::path const& path, LoadOptions const& options = {});

    Signature const& signature() const;

    // Runs on arrays of the host and waits. Threads that call it at the same time run at the same time.
    std::map<std::string, Array> run(std::map<std::string, Array> const& feeds) const;

    // Product and version of the TensorRT library; throws library-mismatch when the headers are another version's.
    static Have have();

private:
    friend class Context;
    struct State;
    std::shared_ptr<State> state_;
};

// One run of an engine at a time: one a thread. Nothing is copied, and only finish() and run() wait.
class Context {
public:
    explicit Context(Engine const& engine);
    ~Context();
    Context(Context&&) noexcept;

    // Enqueues a run on `stream`, or on the context's own for nullptr. Inputs must live, and outputs be left alone, until
    // the stream is there. Outputs that are not given go to memory of the context, until its next run.
    // Throws feed-name, -dtype, -rank, -shape, -profile, -place, and what running throws.
    void enqueue(std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs = {}, Stream stream = nullptr);

    // Waits for the latest run; its outputs, with the shapes that depend on data.
    std::map<std::string, View> finish();

    // Copies arrays of the host, runs on the context's own stream and waits.
    std::map<std::string, Array> run(std::map<std::string, Array> const& feeds);

    Stream stream() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

#endif

}  // namespace trtdsl
