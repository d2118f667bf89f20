// Contexts and captured runs: an engine in the caller's memory and streams.
#include "lane.hpp"

#include <cstring>
#include <shared_mutex>

namespace trtdsl {

struct Context::State {
    std::shared_ptr<Loaded> engine;
    std::unique_ptr<Lane> lane;

    State() = default;
    State(State const&) = delete;
    State& operator=(State const&) = delete;
    ~State() {
        on_device(engine->device, [this] { lane.reset(); });
    }
};

Context::Context(Engine const& engine) try : state_(std::make_unique<State>()) {
    state_->engine = engine.state_;
    std::shared_lock<Gate> const entered(engine.state_->gate);
    OnDevice const here(engine.state_->device);
    state_->lane = std::make_unique<Lane>(*engine.state_, false, false);
} catch (...) {
    rethrow();
}

Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

Stream Context::stream() const { return state_->lane->stream(); }

void Context::enqueue(std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs, Stream stream, Profile profile) try {
    std::shared_lock<Gate> const entered(state_->engine->gate);
    OnDevice const here(state_->engine->device);
    state_->lane->enqueue(inputs, outputs, static_cast<cudaStream_t>(stream), profile);
} catch (...) {
    rethrow();
}

std::map<std::string, View> Context::finish() try {
    OnDevice const here(state_->engine->device);
    return state_->lane->finish();
} catch (...) {
    rethrow();
}

bool Context::ready() const try {
    OnDevice const here(state_->engine->device);
    return state_->lane->ready();
} catch (...) {
    rethrow();
}

std::map<std::string, Array> Context::run(std::map<std::string, Array> const& feeds, Profile profile) try {
    auto const index = state_->engine->check(feeds, profile);
    std::shared_lock<Gate> const entered(state_->engine->gate);
    OnDevice const here(state_->engine->device);
    return state_->lane->run(feeds, index);
} catch (...) {
    rethrow();
}

struct Captured::State {
    std::shared_ptr<Loaded> engine;
    std::unique_ptr<Lane> lane;
    std::map<std::string, Memory> own;      // of inputs
    std::map<std::string, Array> values;    // captured, of inputs that are read on the CPU
    std::map<std::string, void*> watched;   // the caller's memory of those
    Views memory;
    std::size_t generation = 0;
    std::mutex mutex;
#ifndef TRT_MAJOR_RTX
    cudaGraphExec_t graph = nullptr;
    void capture();
#endif

    State() = default;
    State(State const&) = delete;
    State& operator=(State const&) = delete;
    ~State() {
        on_device(engine->device, [this] {
            if (lane) cudaStreamSynchronize(lane->stream());
#ifndef TRT_MAJOR_RTX
            if (graph) cudaGraphExecDestroy(graph);
#endif
            lane.reset(), own.clear();
        });
    }

    void bind(Views const& inputs, Views outputs, std::size_t profile, bool with_graph);
    void keep_value(View& view, std::string const& name);
    void check_current() const;
    void launch(cudaStream_t asked);
};

// Binds an input that is read on the CPU to a copy, so that the graph holds what was captured.
void Captured::State::keep_value(View& view, std::string const& name) {
    auto& array = values[name] = {view.dtype, view.shape, {}};
    auto const size = bytes_of(view.shape, view.dtype);
    resize(array.data, size);
    if (size) std::memcpy(array.data.data(), view.data, size);
    view.data = array.data.data();
}

void Captured::State::bind(Views const& inputs, Views outputs, std::size_t profile, [[maybe_unused]] bool with_graph) {
    auto const stream = lane->begin(nullptr);
    std::map<std::string, Memory> before;  // of inputs that the first run changes
    auto const copy = [&](void* target, void const* source, View const& view) {
        auto const size = bytes_of(view.shape, view.dtype);
        if (size) cuda(cudaMemcpyAsync(target, source, size, cudaMemcpyDefault, stream), "copying an input");
    };
    generation = engine->generation;
    memory = inputs;
    for (auto const& info : engine->signature.inputs)
        if (info.on_host) keep_value(memory.at(info.name), info.name);
    try {
        for (auto const& info : engine->signature.outputs) {
            if (info.alias.empty()) continue;
            auto const& input = inputs.at(info.alias);
            if (outputs.emplace(info.name, input).first->second.data != input.data)
                throw Error("feed-place", "output '" + info.name + "' is written in the memory of input '" + info.alias + "': it cannot be captured elsewhere");
            copy(before[info.alias].reserve(bytes_of(input.shape, input.dtype), false, lane->retired()), input.data, input);
        }
        lane->bind(memory, outputs, stream, profile);
        if (lane->depends_on_data()) throw Error("unsupported", "the shape of an output depends on values: no graph holds it");
        lane->execute(stream);  // work that is done once for a shape is not part of the graph
        for (auto& [name, held] : before) copy(inputs.at(name).data, held.held().first, inputs.at(name));
        cuda(cudaStreamSynchronize(stream), "the run");
#ifndef TRT_MAJOR_RTX
        if (with_graph) capture();
#endif
    } catch (...) {
        cudaStreamSynchronize(stream);
        throw;
    }
    for (auto const& [name, view] : lane->results()) memory[name] = view;
}

#ifndef TRT_MAJOR_RTX
void Captured::State::capture() {
    auto const stream = lane->stream();
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph");
    cudaGraph_t captured = nullptr;
    try {
        lane->execute(stream);
    } catch (...) {
        cudaStreamEndCapture(stream, &captured);
        if (captured) cudaGraphDestroy(captured);
        throw;
    }
    cuda(cudaStreamEndCapture(stream, &captured), "capturing a graph");
    auto const status = cudaGraphInstantiateWithFlags(&graph, captured, 0);
    cudaGraphDestroy(captured);
    cuda(status, "making a graph");
}
#endif

void Captured::State::check_current() const {
    if (engine->generation != generation) throw Error("usage", "the engine got new weights since this was captured: capture it again");
    for (auto const& [name, pointer] : watched) {
        auto const& captured = values.at(name).data;
        if (!captured.empty() && std::memcmp(pointer, captured.data(), captured.size()) != 0)
            throw Error("feed-shape", "input '" + name + "' is the value of a shape, and it is not the one that was captured");
    }
}

void Captured::State::launch(cudaStream_t asked) {
    auto const stream = lane->begin(asked);
#ifndef TRT_MAJOR_RTX
    if (graph) cuda(cudaGraphLaunch(graph, stream), "launching a graph");
    else lane->execute(stream);
#else
    lane->execute(stream);
#endif
    lane->end(stream, asked);
}

Captured::Captured(Engine const& engine, std::map<std::string, Array> const& feeds, Profile profile, bool graph) try : state_(std::make_unique<State>()) {
    auto& state = *state_;
    state.engine = engine.state_;
    std::shared_lock<Gate> const entered(state.engine->gate);
    OnDevice const here(state.engine->device);
    auto const index = state.engine->check(feeds, profile);
    state.lane = std::make_unique<Lane>(*state.engine, graph, true);
    auto const stream = state.lane->begin(nullptr);
    Views views;
    try {
        for (auto const& info : state.engine->signature.inputs) {
            auto const& array = feeds.at(info.name);
            View view{array.dtype, array.shape, const_cast<char*>(array.data.data())};
            if (!info.on_host) {
                view.data = state.own[info.name].reserve(array.data.size(), false, state.lane->retired());
                state.lane->copy_in(info, view, array, stream);
            }
            views[info.name] = view;
        }
        state.bind(views, {}, index, graph);
    } catch (...) {
        cudaStreamSynchronize(stream);  // the feeds may go
        throw;
    }
} catch (...) {
    rethrow();
}

Captured::Captured(Engine const& engine, std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs, Profile profile, bool graph)
    try : state_(std::make_unique<State>()) {
    auto& state = *state_;
    state.engine = engine.state_;
    auto const& signature = state.engine->signature;
    std::shared_lock<Gate> const entered(state.engine->gate);
    OnDevice const here(state.engine->device);
    auto const index = check_feeds(signature, inputs, profile);
    auto const check = [](TensorInfo const& info, Views const& given) {
        auto const found = given.find(info.name);
        if (found != given.end() && (!found->second.data || (!info.on_host && !is_aligned(found->second.data))))
            throw Error("feed-place", "the address of '" + info.name + "' is part of what is captured: it must be a multiple of 256");
    };
    for (auto const& info : signature.inputs) {
        check(info, inputs);
        if (info.on_host) state.watched[info.name] = inputs.at(info.name).data;
    }
    for (auto const& info : signature.outputs) check(info, outputs);
    state.lane = std::make_unique<Lane>(*state.engine, graph, true);
    state.bind(inputs, outputs, index, graph);
} catch (...) {
    rethrow();
}

Captured::~Captured() = default;
Captured::Captured(Captured&&) noexcept = default;
Captured& Captured::operator=(Captured&&) noexcept = default;

std::map<std::string, Array> Captured::run(std::map<std::string, Array> const& feeds) try {
    auto& state = *state_;
    std::shared_lock<Gate> const entered(state.engine->gate);
    OnDevice const here(state.engine->device);
    std::lock_guard<std::mutex> const turn(state.mutex);
    state.check_current();
    auto const& signature = state.engine->signature;
    state.engine->check(feeds, {});
    for (auto const& info : signature.inputs) {
        auto const& array = feeds.at(info.name);
        auto const& captured = state.memory.at(info.name);
        if (array.shape != captured.shape)
            throw Error("feed-shape", "input '" + info.name + "' was captured with shape " + text_of(captured.shape) + ", and " + text_of(array.shape) + " was fed");
        if (info.on_host && array.data != state.values.at(info.name).data)
            throw Error("feed-shape", "input '" + info.name + "' is the value of a shape, and it is not the one that was captured");
    }
    auto const stream = state.lane->begin(nullptr);
    try {
        for (auto const& info : signature.inputs)
            if (!info.on_host) state.lane->copy_in(info, state.memory.at(info.name), feeds.at(info.name), stream);
        state.launch(nullptr);
        return state.lane->copy_out(state.memory, stream);
    } catch (...) {
        cudaStreamSynchronize(stream);  // the feeds may go
        throw;
    }
} catch (...) {
    rethrow();
}

void Captured::launch(Stream stream) try {
    auto& state = *state_;
    std::shared_lock<Gate> const entered(state.engine->gate);
    OnDevice const here(state.engine->device);
    std::lock_guard<std::mutex> const turn(state.mutex);
    state.check_current();
    state.launch(static_cast<cudaStream_t>(stream));
} catch (...) {
    rethrow();
}

void Captured::finish() try {
    auto& state = *state_;
    std::shared_lock<Gate> const entered(state.engine->gate);
    OnDevice const here(state.engine->device);
    std::lock_guard<std::mutex> const turn(state.mutex);
    state.lane->finish();
} catch (...) {
    rethrow();
}

std::map<std::string, View> const& Captured::memory() const { return state_->memory; }
Stream Captured::stream() const { return state_->lane->stream(); }

}  // namespace trtdsl
