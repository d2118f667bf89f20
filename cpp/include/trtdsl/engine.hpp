// Engines that `trtdsl build` wrote, loaded and run from C++17 with the judgements and error codes of trtdsl.load_engine.
//
// Everything above TRTDSL_WITH_TENSORRT needs neither TensorRT nor CUDA. See docs/engines.md.
//
// What is promised across versions is the source of a program, not binaries. These are structs of types of the standard
// library, so that a program and this library are compiled with the same headers, compiler, standard library, and settings
// that change its types (_GLIBCXX_USE_CXX11_ABI, _GLIBCXX_DEBUG, /MD, _ITERATOR_DEBUG_LEVEL). That is why the library is
// static by default. A shared one (BUILD_SHARED_LIBS) has the soversion MAJOR.MINOR: two versions that differ in it do not
// replace each other, and patches of one do. Tests compile it with g++ and clang++ against libstdc++.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "version.hpp"

#ifdef __GNUC__
#pragma GCC visibility push(default)  // what a shared library exports is what this file declares
#endif

namespace trtdsl {

// That of the library which was linked; TRTDSL_VERSION_STRING is that of this file.
char const* version();

// What went wrong, by the `code` that trtdsl/core/errors.py gives the same error, and the command line's exit code.
// Nothing here throws anything else, not where memory of the CPU ends either, but for the std::bad_alloc of an error whose
// own message found none. A message has "?" for what a terminal would obey; its long lines lack their middle, and a list of
// more than 64 lines its end.
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
    std::string alias{};   // of an output: the input in whose memory TensorRT writes it; known to an Engine only
    bool channels_last = false;  // whether (N, C, H, W) lies in memory as (N, H, W, C), and (N, C, D, H, W) as (N, D, H, W, C)
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

// A call of the author's network, and the precision that it has.
struct CallPrecision {
    std::string file, within, operation, dtype;  // its file and function, what it calls, and how that computes
    std::int64_t ordinal = 0;                    // which of such calls, from 0
    std::vector<double> scales;                  // of int8 and float8
};

// The precision of each call, where they have one of their own: the counts by dtype, and what was measured.
struct Precisions {
    std::map<std::string, std::int64_t> calls;
    std::string file, sha256, data;                     // where it stands, and on which data it was measured
    std::map<std::string, std::optional<double>> sqnr;  // decibels by output; nothing for an exact one
};

// What a manifest says of the weights that an engine takes.
struct Refit {
    std::string structure, values_sha256;  // of the network, and of the values that it was built with
    bool identical = false;                // whether it takes those values alone
    std::map<std::string, std::pair<std::int64_t, std::string>> values;  // by LAYER:ROLE, number of elements and dtype
    std::vector<CallPrecision> calls{};    // those whose precision was chosen
};

// The manifest beside an engine: NAME.engine.json.
struct Manifest {
    std::string network, product, version, sha256;
    std::uint64_t size = 0;
    std::vector<std::string> compute_capabilities, weights;
    Signature signature;
    std::map<std::string, std::string> states;  // of each input that is a state, the output that the next run takes for it
    std::map<std::string, std::int64_t> slots;  // of each state that has a slot for each token, the dimension of them
    std::string precision;                      // of the network: float32, float16, bfloat16
    std::optional<Precisions> precisions;
    bool version_compatible = false, stripped = false;
    std::optional<Refit> refit;
    std::int64_t rank = 0, ranks = 1;  // which of several engines that exchange values
};

// The TensorRT that is to load an engine.
struct Have {
    std::string product, version;
};

// As the arguments of trtdsl.load_engine. The last six matter to an Engine; TensorRT itself has only CUDA graphs of
// its caller's (see Captured), and ignores runtime_cache, cuda_graphs and specialization as it does in Python.
struct LoadOptions {
    bool manifest = true;                   // false for an engine that has none
    bool allow_host_code = false;           // for version compatible engines, which carry code for the CPU
    int device = 0;
    std::filesystem::path weights{};        // of `trtdsl weights derive`, for an engine that takes or needs weights
    std::filesystem::path runtime_cache{};  // a file where TensorRT-RTX keeps what it compiles for this GPU
    bool cuda_graphs = false;               // whether TensorRT-RTX runs each shape as a CUDA graph
    std::string specialization{};           // when it compiles for a shape: lazy (its default), eager, none
    std::size_t contexts = 8;               // of the pool, each with memory of its own: so many runs at once, 0 for any number
    std::function<void(std::string const& code, std::string const& message)> warn{};  // std::clog without one
    void* communicator = nullptr;  // this rank's ncclComm_t, for an engine of several ranks; all ranks make each context together
};

struct EngineFile {
    std::string data;
    Header header;
    std::optional<Manifest> manifest;
};

// An array on the host, in C order: what goes to an input, or comes from an output, that lies channels last is put in order.
struct Array {
    std::string dtype;
    Shape shape;
    std::string data;
};

// A tensor in memory that somebody else owns: on the engine's GPU; on the CPU where TensorInfo::on_host says so. It lies
// channels last where TensorInfo::channels_last says so; the shape is the same.
struct View {
    std::string dtype;
    Shape shape;
    void* data = nullptr;
};

// A safetensors file.
struct WeightsFile {
    std::map<std::string, Array> tensors;
    std::map<std::string, std::string> metadata;
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
// Throws usage for an engine of several ranks without a communicator, or in a process of another rank or number by the
// variables that torchrun and MPI set.
void check_world(Manifest const& manifest, void const* communicator);
void check_library(std::string const& headers, std::string const& library);

// The index of the profile that holds these feeds: the one that is asked for, or the first. Throws feed-name, -dtype,
// -rank, -shape; and feed-profile for sizes that no profile holds, or that do not fulfil a requirement.
std::size_t check_feeds(Signature const& signature, std::map<std::string, Array> const& feeds, std::optional<std::size_t> profile = {});
std::size_t check_feeds(Signature const& signature, std::map<std::string, View> const& feeds, std::optional<std::size_t> profile = {});

// A text from outside as a terminal may have it: "?" stands for what it would obey, what nobody sees, and what is not UTF-8.
std::string printable(std::string const& text);

// A name from outside with a suffix, as the name of one file. Throws usage for one that would lead to another folder.
std::string file_name(std::string const& name, std::string const& suffix = "");

// Throws feed-name where there is no file, input-damaged for what cannot be fed: with a header of more than 10,000 bytes, too.
// An array in Fortran's order is put into C's.
Array read_npy(std::filesystem::path const& path);
// Writes the file whole or not at all; a link stays one. Throws feed-dtype for what numpy lacks, such as 65 dimensions; usage,
// also where there is a file that is neither empty nor begins as an array does, and for data that is not that of the shape.
void write_npy(std::filesystem::path const& path, Array const& array);

// Throws weights-mismatch where there is no file, and for a dtype that is not known; weights-damaged for a file that is
// not safetensors or not whole.
WeightsFile read_safetensors(std::filesystem::path const& path);

// Whether the values of a file are those that an engine takes. Throws weights-mismatch, naming those that are not.
void check_weights(Refit const& refit, WeightsFile const& weights, std::string const& label);

// A runtime cache is trtdsl's file around TensorRT-RTX's bytes, the same from Python and from C++. Reading gives nothing
// for a file that is not there, and calls `warn` with the reason for one that is damaged or made for something else.
std::optional<std::string> read_runtime_cache(std::filesystem::path const& path, std::string const& version, std::string const& compute_capability,
                                              std::function<void(std::string const& reason)> const& warn);
// Throws usage, also where there is a file that is neither empty nor begins as a cache does.
void write_runtime_cache(std::filesystem::path const& path, std::string const& version, std::string const& compute_capability, std::string const& data);

#ifdef TRTDSL_WITH_TENSORRT

using Stream = void*;  // a cudaStream_t

struct Loaded;  // what an engine, its contexts and its captured runs share
using Profile = std::optional<std::size_t>;  // one of the engine's, counted from 0; the first that holds all shapes

// An engine on a GPU, for all threads: copies are the same engine, and it lives as long as one of them or a Context. What
// was moved from is destroyed or assigned to, and nothing else.
class Engine {
public:
    // Throws what open_engine throws, and no-driver, driver-too-old, compute-capability, library-mismatch, missing-plugin,
    // engine-refused, out-of-memory; usage for an unknown specialization.
    explicit Engine(std::filesystem::path const& path, LoadOptions const& options = {});

    Signature const& signature() const;
    // What was read beside the engine; nothing where it was loaded without.
    std::optional<Manifest> const& manifest() const;

    // Runs on arrays of the host and waits. Threads that call it at the same time run at the same time, each with a
    // context of its own from a pool of LoadOptions::contexts; more threads wait for one.
    // Throws feed-name, -dtype, -rank, -shape, -profile, out-of-memory, execution-failed.
    std::map<std::string, Array> run(std::map<std::string, Array> const& feeds, Profile profile = {}) const;

    // The same in threads of the engine: returns at once, and runs begin in their order, as many at a time as the pool has
    // contexts. Throws what feeds are wrong in; the future has the outputs, or throws what running throws. The last copy of
    // an engine waits for its runs. For memory on the GPU and streams see Context.
    std::future<std::map<std::string, Array>> run_async(std::map<std::string, Array> feeds, Profile profile = {}) const;

    // Runs each profile at its best sizes with zeros, so that nothing is compiled or allocated later; from then on
    // TensorRT-RTX compiles for a shape before it first runs it, unless a specialization was asked for. Writes the cache.
    void warm_up(int runs = 3) const;

    // Puts the values of a file of `trtdsl weights derive` into an engine that was built with --refit. Waits for runs
    // that have begun; those that begin meanwhile, and what makes a Context or a Session, wait for it. Throws usage,
    // weights-mismatch, weights-damaged.
    void refit(std::filesystem::path const& weights) const;

    // Writes the runtime cache, where there is one and it has changed. Throws usage.
    void save_runtime_cache() const;

    // Writes the runtime cache and frees the contexts of the pool.
    void close() const;

    // Product and version of the TensorRT library; throws library-mismatch when the headers are another version's.
    static Have have();

private:
    friend class Context;
    friend class Captured;
    friend class Session;
    std::shared_ptr<Loaded> state_;
};

// One run of an engine at a time: one a thread. Only finish() and run() wait. What was moved from is destroyed or assigned
// to, and nothing else.
class Context {
public:
    explicit Context(Engine const& engine);
    ~Context();
    Context(Context&&) noexcept;
    Context& operator=(Context&&) noexcept;

    // Enqueues a run on `stream`, or on the context's own for nullptr; CUDA's default stream is cudaStreamLegacy, and the
    // run is on the context's own between two events then. Memory is used where it lies; only what is not at a multiple
    // of 256 bytes, and an output in the memory of an input, is copied on the GPU. Inputs must live, and outputs be left
    // alone, until the stream is there. Outputs that are not given go to memory of the context, until its next run, and
    // no input of that may lie there. An output with an alias is written in place where it is given its input's memory;
    // otherwise that input is copied first, and stays as it is.
    // Throws feed-name, -dtype, -rank, -shape, -profile, -place, and what running throws.
    void enqueue(std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs = {}, Stream stream = nullptr, Profile profile = {});

    // Waits for the latest run; its outputs, with the shapes that depend on data.
    std::map<std::string, View> finish();

    // Whether the latest run is done, so that finish() does not wait. Throws execution-failed.
    bool ready() const;

    // Copies arrays of the host, runs on the context's own stream and waits.
    std::map<std::string, Array> run(std::map<std::string, Array> const& feeds, Profile profile = {});

    Stream stream() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

// An engine at one set of shapes with its memory bound, as a CUDA graph: TensorRT's work is captured from the stream,
// TensorRT-RTX keeps the graph itself. Without `graph` memory is bound alike, and kernels are launched one by one.
// Threads take turns.
class Captured {
public:
    // In memory of its own, for feeds of these shapes, and these values of inputs that are read on the CPU.
    // Throws as running does, and unsupported for outputs whose shapes depend on data.
    Captured(Engine const& engine, std::map<std::string, Array> const& feeds, Profile profile = {}, bool graph = true);
    // In the caller's memory, whose addresses are part of the graph: at multiples of 256 bytes (feed-place), and alive as
    // long as this. Outputs that are not given are in memory of its own; one with an alias is in that input's memory,
    // which every launch changes.
    Captured(Engine const& engine, std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs, Profile profile = {}, bool graph = true);
    ~Captured();
    Captured(Captured&&) noexcept;
    Captured& operator=(Captured&&) noexcept;

    // Copies arrays of the captured shapes in, runs, and waits. Throws feed-shape for another shape, or another value
    // of a shape; usage when the engine got new weights since.
    std::map<std::string, Array> run(std::map<std::string, Array> const& feeds);

    // Enqueues one run on what is in its memory, on `stream` or on its own; run() or finish() waits, for the latest of all
    // threads. Throws as run().
    void launch(Stream stream = nullptr);
    void finish();

    // Its memory by name, inputs and outputs; the next run overwrites outputs.
    std::map<std::string, View> const& memory() const;
    Stream stream() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

// Runs that hand states to one another on the GPU, such as a cache of keys and values: what td.State declares and the
// manifest names. States begin with zeros. TensorRT writes one in place where its output has that alias; another has two
// buffers, which take turns. Sessions of an engine are independent of each other; two runs of one at a time are refused.
class Session {
public:
    // `shapes` are those of the states with dynamic sizes, by the inputs' names.
    // Throws usage for an engine without states and for shapes that are missing, feed-name, feed-rank, feed-shape,
    // feed-profile for shapes that no profile holds, out-of-memory.
    explicit Session(Engine const& engine, std::map<std::string, Shape> const& shapes = {});
    ~Session();
    Session(Session&&) noexcept;
    Session& operator=(Session&&) noexcept;

    // As those of Context, with the inputs and outputs that are no states; a state that is given is feed-name. Where a run
    // cannot be enqueued, the states are those of the one before, but for what TensorRT has written in place.
    void enqueue(std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs = {}, Stream stream = nullptr, Profile profile = {});
    std::map<std::string, View> finish();
    bool ready() const;
    std::map<std::string, Array> run(std::map<std::string, Array> const& feeds, Profile profile = {});
    Stream stream() const;

    // Zeros in every state, after the runs that were enqueued.
    void reset();

    // Another session whose states have these rows of this one's along the first dimension: beams, or a batch without the
    // sequences that have ended. Waits. Throws feed-shape for other rows than there are, feed-profile for more than any
    // profile holds.
    Session fork(std::vector<std::size_t> const& rows) const;

    // The states on the GPU as the latest run leaves them, by the inputs' names: to read and to write, in the order of a
    // stream that comes after it. The next run moves or changes them.
    std::map<std::string, View> states() const;

private:
    struct State;
    explicit Session(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

using Tokens = std::vector<std::int64_t>;

// How tokens are taken of their logits.
struct Sampling {
    std::size_t max_tokens = 64;  // that follow each prompt, at most
    double temperature = 0;       // 0 takes the likeliest token; otherwise one is drawn
    std::size_t top_k = 0;        // of so many likeliest, 0 for all
    double top_p = 1;             // and of the fewest likeliest whose probabilities sum to this
    Tokens stop{};                // each ends its sequence, and is its last token
    std::uint64_t seed = 0;       // the same draws for the same seed, on every machine; others than Python's
    // Called with the next token of each prompt, -1 for one that has ended, as soon as they are known; false ends all.
    std::function<bool(Tokens const&)> each{};
};

// Generates tokens by an engine as networks/llama.py makes them, whose caches stay on the GPU: trtdsl.Generator without a
// tokenizer. For all threads; the caches are those of one call.
class Generator {
public:
    // Throws usage for an engine of another kind, or without its manifest.
    explicit Generator(Engine const& engine);

    // What follows each prompt, without the prompt. Prompts of several lengths are one batch, and one that is longer than a
    // step is fed in parts. Throws usage for no prompt, an empty one, one that the caches do not hold with max_tokens, a token
    // that there is not, and arguments out of their ranges; what a Session and its runs throw.
    std::vector<Tokens> generate(std::vector<Tokens> const& prompts, Sampling const& how = {}) const;

    std::int64_t capacity() const { return capacity_; }  // tokens that the caches hold

private:
    void check(std::vector<Tokens> const& prompts, Sampling const& how) const;

    Engine engine_;
    std::int64_t capacity_, words_;  // how many tokens there are
};

#endif

}  // namespace trtdsl

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
