// Sessions: states that stay on the GPU between runs.
#include "lane.hpp"

#include <algorithm>
#include <shared_mutex>

namespace trtdsl {

struct Session::State {
    struct Held {
        View now, next;  // what the next run reads, and where it writes; the same where TensorRT writes in place
        Memory memory[2];
    };

    std::shared_ptr<Loaded> engine;
    std::map<std::string, Held> held;
    std::unique_ptr<Lane> lane;
    std::mutex mutex;

    explicit State(std::shared_ptr<Loaded> loaded) : engine(std::move(loaded)) {}
    State(State const&) = delete;
    State& operator=(State const&) = delete;
    ~State() {
        on_device(engine->device, [this] { lane.reset(), held.clear(); });
    }

    std::map<std::string, std::string> const& outputs() const { return engine->manifest->states; }
    std::unique_lock<std::mutex> turn();
    void make(std::map<std::string, Shape> const& shapes);  // inside the engine's gate
    void reset();
    Views before() const;  // by the inputs' names
    Views after() const;   // by the outputs' names
    void add(Views& inputs, Views& given) const;
    void advance();
};

std::unique_lock<std::mutex> Session::State::turn() {
    std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
    if (!lock) throw Error("usage", "two calls of one session at a time: make a session for each thread");
    return lock;
}

// Memory of these shapes, with zeros.
void Session::State::make(std::map<std::string, Shape> const& shapes) {
    if (!engine->manifest || engine->manifest->states.empty())
        throw Error("usage", "this engine has no states: declare them as td.State, and load it with its manifest");
    for (auto const& [name, shape] : shapes)
        if (!outputs().count(name)) throw Error("feed-name", "there is no state '" + name + "'");
    OnDevice const here(engine->device);
    lane = std::make_unique<Lane>(*engine, false, false);
    for (auto const& [name, output] : outputs()) {
        auto const named = [](std::vector<TensorInfo> const& all, std::string const& wanted) {
            auto const found = std::find_if(all.begin(), all.end(), [&](auto const& each) { return each.name == wanted; });
            if (found == all.end() || found->on_host) throw Error("manifest-damaged", "the state '" + wanted + "' of the manifest is none that the engine has on the GPU");
            return *found;
        };
        auto const info = named(engine->signature.inputs, name), result = named(engine->signature.outputs, output);
        auto const given = shapes.find(name);
        auto const& shape = given == shapes.end() ? info.shape : given->second;
        if (given == shapes.end() && std::count(shape.begin(), shape.end(), -1)) throw Error("usage", "the state '" + name + "' has dynamic sizes, " + text_of(shape) + ": give its shape");
        View const view{info.dtype, shape, nullptr};
        check_feed(info, view);
        check_sizes(engine->signature, {{name, view}});
        if (byte_count(shape, info.dtype) < 0) throw Error("feed-shape", "the state '" + name + "' is too large: " + text_of(shape));
        auto& each = held[name];
        each.now = each.next = {info.dtype, shape, each.memory[0].reserve(bytes_of(shape, info.dtype), false, lane->retired())};
        if (result.alias != name) each.next.data = each.memory[1].reserve(bytes_of(shape, info.dtype), false, lane->retired());
    }
    reset();
}

void Session::State::reset() {
    auto const stream = lane->begin(nullptr);
    for (auto const& [name, each] : held) cuda(cudaMemsetAsync(each.now.data, 0, bytes_of(each.now.shape, each.now.dtype), stream), "resetting a state");
    lane->done(stream);
}

Views Session::State::before() const {
    Views result;
    for (auto const& [name, each] : held) result[name] = each.now;
    return result;
}

Views Session::State::after() const {
    Views result;
    for (auto const& [name, output] : outputs()) result[output] = held.at(name).next;
    return result;
}

void Session::State::add(Views& inputs, Views& given) const {
    auto const merged = [](Views const& states, Views& others) {
        for (auto const& [name, view] : states)
            if (!others.emplace(name, view).second) throw Error("feed-name", "'" + name + "' is of a state, which the session holds: reset() begins anew");
    };
    merged(before(), inputs), merged(after(), given);
}

void Session::State::advance() {
    for (auto& [name, each] : held) std::swap(each.now, each.next);
}

Session::Session(Engine const& engine, std::map<std::string, Shape> const& shapes) try : state_(std::make_unique<State>(engine.state_)) {
    std::shared_lock<Gate> const entered(engine.state_->gate);
    state_->make(shapes);
} catch (...) {
    rethrow();
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Stream Session::stream() const { return state_->lane->stream(); }

void Session::enqueue(std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs, Stream stream, Profile profile) try {
    auto& state = *state_;
    auto const turn = state.turn();
    std::shared_lock<Gate> const entered(state.engine->gate);
    OnDevice const here(state.engine->device);
    Views all = inputs, given = outputs;
    state.add(all, given);
    state.lane->enqueue(all, given, static_cast<cudaStream_t>(stream), profile);
    state.advance();
} catch (...) {
    rethrow();
}

std::map<std::string, View> Session::finish() try {
    auto& state = *state_;
    auto const turn = state.turn();
    OnDevice const here(state.engine->device);
    auto results = state.lane->finish();
    for (auto const& [name, output] : state.outputs()) results.erase(output);
    return results;
} catch (...) {
    rethrow();
}

bool Session::ready() const try {
    auto& state = *state_;
    auto const turn = state.turn();
    OnDevice const here(state.engine->device);
    return state.lane->ready();
} catch (...) {
    rethrow();
}

std::map<std::string, Array> Session::run(std::map<std::string, Array> const& feeds, Profile profile) try {
    auto& state = *state_;
    auto const turn = state.turn();
    for (auto const& [name, each] : state.held)
        if (feeds.count(name)) throw Error("feed-name", "'" + name + "' is a state, which the session holds: reset() begins anew");
    auto const before = state.before();
    auto const index = state.engine->check(feeds, profile, before);
    std::shared_lock<Gate> const entered(state.engine->gate);
    OnDevice const here(state.engine->device);
    auto results = state.lane->run(feeds, index, before, state.after());
    state.advance();
    return results;
} catch (...) {
    rethrow();
}

void Session::reset() try {
    auto& state = *state_;
    auto const turn = state.turn();
    std::shared_lock<Gate> const entered(state.engine->gate);
    OnDevice const here(state.engine->device);
    state.reset();
} catch (...) {
    rethrow();
}

Session Session::fork(std::vector<std::size_t> const& rows) const try {
    auto& state = *state_;
    auto const turn = state.turn();
    std::map<std::string, Shape> shapes;
    std::optional<std::int64_t> count;
    for (auto const& [name, each] : state.held) {
        auto& shape = shapes[name] = each.now.shape;
        if (shape.empty() || (count && shape[0] != *count)) throw Error("feed-shape", "these states have no first dimension in common: there are no rows to choose from");
        count = std::exchange(shape[0], static_cast<std::int64_t>(rows.size()));
    }
    if (rows.empty() || std::any_of(rows.begin(), rows.end(), [&](std::size_t row) { return row >= static_cast<std::size_t>(*count); }))
        throw Error("feed-shape", "the states have rows 0 to " + std::to_string(*count - 1) + ", and others were asked for");
    std::shared_lock<Gate> const entered(state.engine->gate);
    OnDevice const here(state.engine->device);
    auto made = std::make_unique<State>(state.engine);
    made->make(shapes);
    made->lane->finish();
    auto const stream = state.lane->begin(nullptr);
    try {
        for (auto const& [name, each] : state.held) {
            auto const size = bytes_of(each.now.shape, each.now.dtype) / static_cast<std::size_t>(*count);
            auto* target = static_cast<char*>(made->held.at(name).now.data);
            for (auto row : rows) {
                auto const* const source = static_cast<char const*>(each.now.data) + row * size;
                if (size) cuda(cudaMemcpyAsync(target, source, size, cudaMemcpyDefault, stream), "copying a state");
                target += size;
            }
        }
        cuda(cudaStreamSynchronize(stream), "copying a state");
    } catch (...) {
        cudaStreamSynchronize(stream);  // the copies may go when this returns
        throw;
    }
    return Session(std::move(made));
} catch (...) {
    rethrow();
}

std::map<std::string, View> Session::states() const try {
    auto const turn = state_->turn();
    return state_->before();
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
