// An engine's parts that Engine, Context and Captured share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>

#include "device.hpp"
#include "workers.hpp"

namespace trtdsl {

using Views = std::map<std::string, View>;
using Arrays = std::map<std::string, Array>;

std::size_t bytes_of(Shape const& shape, std::string const& dtype);

// Runs, and what makes a context, enter it shared and once; refitting enters it alone, and lets nobody in while it waits.
class Gate {
public:
    void lock_shared() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return waiting_ == 0; });
        ++running_;
    }
    void unlock_shared() {
        std::lock_guard<std::mutex> const lock(mutex_);
        --running_;
        changed_.notify_all();
    }
    void lock() {
        std::unique_lock<std::mutex> lock(mutex_);
        ++waiting_;
        changed_.wait(lock, [&] { return running_ == 0; });
        running_ = 1;
    }
    void unlock() {
        std::lock_guard<std::mutex> const lock(mutex_);
        --waiting_, running_ = 0;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int running_ = 0, waiting_ = 0;
};

// TensorRT's execution context, and the memory, stream and event of its runs, of which there is one at a time.
class Lane {
public:
    Lane(Loaded& state, bool graphs, bool eager);
    Lane(Lane const&) = delete;
    Lane& operator=(Lane const&) = delete;
    ~Lane();

    // Enqueues a run in the order of the stream `asked`, or on its own for nullptr.
    void enqueue(Views const& inputs, Views const& outputs, cudaStream_t asked, Profile profile);
    Views finish();
    bool ready();  // whether finish() would not wait
    // With states, which are inputs, and the memory of their outputs, which are none of the results. After Loaded::check.
    Arrays run(Arrays const& feeds, std::size_t profile, Views const& states = {}, Views const& after = {});

    // The steps of a run. begin() gives the stream that it works on: never the default stream, from which no graph can
    // be captured.
    cudaStream_t begin(cudaStream_t asked);
    void bind(Views const& inputs, Views const& outputs, cudaStream_t stream, std::size_t profile);
    void execute(cudaStream_t stream);
    void end(cudaStream_t stream, cudaStream_t asked);
    void done(cudaStream_t stream);  // the latest work is what is on this stream so far

    void copy_in(TensorInfo const& info, View const& target, Array const& source, cudaStream_t stream);
    Arrays copy_out(Views const& views, cudaStream_t stream);

    cudaStream_t stream() const { return own_; }
    Views const& results() const { return results_; }
    bool depends_on_data() const { return !running_allocators_.empty(); }
    Retired& retired() { return retired_; }

private:
    void make_context();  // also anew, after a refit or a warm-up
    void release();
    void* address_of(TensorInfo const& info, View const& given, cudaStream_t stream);
    View bind_output(TensorInfo const& info, View const* given, Views const& inputs, cudaStream_t stream);
    void set_address(TensorInfo const& info, void* address);

    Loaded& state_;
    std::size_t generation_ = 0;
    [[maybe_unused]] bool graphs_;  // of TensorRT-RTX
    bool eager_;
#ifdef TRT_MAJOR_RTX
    std::unique_ptr<nvinfer1::IRuntimeConfig> config_;
#endif
    std::unique_ptr<nvinfer1::IExecutionContext> context_;
    cudaStream_t own_ = nullptr;
    cudaEvent_t done_ = nullptr, order_ = nullptr;  // the end of the latest run, on whatever stream; another's place
    std::size_t profile_ = 0;
    Retired retired_;
    std::map<std::string, Memory> inputs_, outputs_;
    std::map<std::string, std::unique_ptr<Allocator>> allocators_;  // TensorRT keeps each that it was given
    std::vector<std::string> running_allocators_;                   // of this run
    std::vector<std::pair<View, void*>> copies_;                    // outputs, and the memory that TensorRT writes to
    Views results_;
};

struct Loaded {
    Log log;
    std::unique_ptr<nvinfer1::IRuntime> runtime;
    std::unique_ptr<nvinfer1::ICudaEngine> engine;
    int device = 0;
    LoadOptions options;
    std::string version, capability;
    Signature signature;
    std::optional<Manifest> manifest;
    Gate gate;
    std::mutex mutex;                         // of the pool and the cache
    std::condition_variable returned;         // to the pool
    std::vector<std::unique_ptr<Lane>> idle;  // the pool
    std::size_t lanes = 0;                    // of the pool, also those that run
    std::string saved;                        // of the cache
    std::atomic<std::size_t> generation{0};   // how often it got new weights
    std::atomic<bool> eager{false};           // whether new contexts compile for a shape before they run it
#ifdef TRT_MAJOR_RTX
    std::unique_ptr<nvinfer1::IRuntimeCache> cache;  // one for all contexts
    std::unique_ptr<nvinfer1::IRuntimeConfig> make_config(bool graphs, bool eager);
    std::string serialized_cache();
#endif

    explicit Loaded(LoadOptions const& given) : options(given), workers(given.contexts) {}
    Loaded(Loaded const&) = delete;
    Loaded& operator=(Loaded const&) = delete;
    ~Loaded();
    Error failed(std::string const& what);
    void warn(std::string const& code, std::string const& message) const;
    void read_signature();
    void apply(WeightsFile const& weights);
    std::unique_ptr<Lane> take();  // waits where there are as many as there may be
    void give(std::unique_ptr<Lane> lane);
    void lost();       // instead of give()
    void free_idle();  // with the mutex
    // The index of the profile. Throws the errors of feeds.
    std::size_t check(Arrays const& feeds, Profile profile, Views const& states = {}) const;
    Arrays run(Arrays const& feeds, Profile profile);

    Workers<Arrays> workers;
};

}  // namespace trtdsl
