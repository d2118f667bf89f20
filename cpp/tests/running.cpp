// What a service does with an engine, on the doubles of this folder: running ENGINE CASE [FILE].
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <iostream>
#include <mutex>
#include <thread>

#include "double/device.hpp"
#include "trtdsl/engine.hpp"

namespace {

using trtdsl::Array;
using trtdsl::Captured;
using trtdsl::Context;
using trtdsl::Engine;
using trtdsl::Generator;
using trtdsl::Sampling;
using trtdsl::Session;
using trtdsl::Tokens;
using trtdsl::View;

#define CHECK(what) \
    if (!(what)) throw std::runtime_error(std::string("line ") + std::to_string(__LINE__) + ": " #what)

Array floats(trtdsl::Shape const& shape, std::vector<float> const& values) {
    return {"float32", shape, std::string(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(float))};
}

std::vector<float> values(Array const& array) {
    std::vector<float> result(array.data.size() / sizeof(float));
    if (!result.empty()) std::memcpy(result.data(), array.data.data(), array.data.size());
    return result;
}

std::map<std::string, Array> feeds(float first) { return {{"x", floats({2, 2}, {first, -1, 3, -4})}}; }

void check(std::map<std::string, Array> const& results, float first) {
    CHECK((values(results.at("y")) == std::vector<float>{2 * first, -2, 6, -8}));
    CHECK((values(results.at("p")) == std::vector<float>{first, 3}));
    CHECK(results.at("p").shape == trtdsl::Shape{2});
    std::int64_t shape[2];
    CHECK(results.at("s").data.size() == sizeof(shape));
    std::memcpy(shape, results.at("s").data.data(), sizeof(shape));
    CHECK(shape[0] == 2 && shape[1] == 2);
}

// Whether something ends in the library's error of this code.
template <typename Work>
bool ends(char const* code, Work const& work) {
    try {
        work();
    } catch (trtdsl::Error const& error) {
        return error.code() == code;
    }
    return false;
}

// Memory of the simulated device that holds these numbers, and a stream of the caller's.
class Floats {
public:
    explicit Floats(std::vector<float> const& values, std::size_t offset = 0) : size_(values.size() * sizeof(float)), offset_(offset) {
        cudaMalloc(&start_, size_ + offset);
        std::memcpy(device::access(data(), size_), values.data(), size_);
    }
    Floats(Floats const&) = delete;
    ~Floats() { cudaFree(start_); }
    void* data() const { return static_cast<char*>(start_) + offset_; }
    std::vector<float> now() const {
        std::vector<float> result(size_ / sizeof(float));
        std::memcpy(result.data(), device::access(data(), size_), size_);
        return result;
    }

private:
    void* start_ = nullptr;
    std::size_t size_, offset_;
};

struct OwnStream {
    OwnStream() { cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking); }
    OwnStream(OwnStream const&) = delete;
    ~OwnStream() { cudaStreamSynchronize(handle), cudaStreamDestroy(handle); }
    cudaStream_t handle = nullptr;
};

View matrix(Floats const& floats, std::int64_t rows = 2) { return {"float32", {rows, 2}, floats.data()}; }

void threads(Engine const& engine) {
    std::vector<std::thread> all;
    std::vector<std::string> problems(4);
    for (int i = 0; i < 4; ++i)
        all.emplace_back([&, i] {
            try {
                for (int round = 0; round < 50; ++round) check(engine.run(feeds(static_cast<float>(100 * i + round + 1))), static_cast<float>(100 * i + round + 1));
            } catch (std::exception const& error) {
                problems[static_cast<std::size_t>(i)] = error.what();
            }
        });
    for (auto& each : all) each.join();
    for (auto const& problem : problems)
        if (!problem.empty()) throw std::runtime_error(problem);
}

// The caller's memory and stream: nothing is copied, and nothing happens before somebody waits.
void views(Engine const& engine) {
    Context context(engine);
    Floats const x({5, -1, 3, -4}), y({0, 0, 0, 0});
    {
        OwnStream const stream;
        context.enqueue({{"x", matrix(x)}}, {{"y", matrix(y)}}, stream.handle);
        auto const results = context.finish();
        CHECK(results.at("y").data == y.data());
        CHECK(results.at("p").shape == trtdsl::Shape{2} && device::owns(results.at("p").data));
        CHECK(!device::owns(results.at("s").data));
        CHECK((y.now() == std::vector<float>{10, -2, 6, -8}));
        auto const refused = [&](char const* code, std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs) {
            return ends(code, [&] { context.enqueue(inputs, outputs, stream.handle); });
        };
        float host[4]{};
        CHECK(refused("feed-name", {}, {}));
        CHECK(refused("feed-place", {{"x", {"float32", {2, 2}, nullptr}}}, {}));
        CHECK(refused("feed-place", {{"x", {"float32", {2, 2}, host}}}, {}));
        CHECK(refused("feed-place", {{"x", matrix(x)}}, {{"y", {"float32", {2, 2}, host}}}));
        CHECK(refused("feed-place", {{"x", matrix(x)}}, {{"s", {"int64", {2}, y.data()}}}));
        Floats const in_place({1, 2, 3, 4});
        for (int i = 0; i < 2; ++i) context.enqueue({{"x", matrix(in_place)}}, {{"y", matrix(in_place)}}, stream.handle);
        context.finish();
        CHECK((in_place.now() == std::vector<float>{4, 8, 12, 16}));
        CHECK(refused("feed-profile", {{"x", {"float32", {99, 2}, x.data()}}}, {}));
        CHECK(refused("feed-name", {{"x", matrix(x)}}, {{"z", matrix(y)}}));
        CHECK(refused("feed-dtype", {{"x", matrix(x)}}, {{"y", {"int32", {2, 2}, y.data()}}}));
        CHECK(refused("feed-shape", {{"x", matrix(x)}}, {{"y", {"float32", {2, 3}, y.data()}}}));
        CHECK(refused("feed-shape", {{"x", matrix(x)}}, {{"p", {"float32", {2}, y.data()}}}));
    }
    check(context.run(feeds(7)), 7);  // after another stream, which is gone
}

// Addresses that TensorRT does not take are copied on the GPU, on the stream; the default stream has its order.
void unaligned(Engine const& engine) {
    Context context(engine);
    OwnStream const stream;
    for (cudaStream_t on : {stream.handle, cudaStreamLegacy}) {
        Floats const x({5, -1, 3, -4}, 4), y({0, 0, 0, 0}, 12);
        context.enqueue({{"x", matrix(x)}}, {{"y", matrix(y)}}, on);
        CHECK(y.now()[0] == 0);
        CHECK(context.finish().at("y").data == y.data());
        CHECK((y.now() == std::vector<float>{10, -2, 6, -8}));
        cudaStreamSynchronize(on);
    }
}

// Memory that a run still uses is not freed when the next one needs more, and a steady state allocates nothing.
void steady(Engine const& engine) {
    Context context(engine);
    OwnStream const stream;
    Floats const x(std::vector<float>(32, 1));
    for (std::int64_t rows : {1, 2, 4, 8, 16, 3}) context.enqueue({{"x", matrix(x, rows)}}, {}, stream.handle);
    context.finish();
    auto const counted = [](char const* what) { return device::counted(what); };
    int const allocations = counted("cudaMalloc"), waits = counted("cudaStreamSynchronize"), copies = counted("cudaMemcpyAsync");
    for (int i = 0; i < 5; ++i) context.enqueue({{"x", matrix(x, 3)}}, {}, stream.handle);
    CHECK(counted("cudaMalloc") == allocations && counted("cudaStreamSynchronize") == waits && counted("cudaMemcpyAsync") == copies);
    context.finish();
}

// Two profiles, and shapes that grow and shrink.
void profiles(Engine const& engine) {
    Context context(engine);
    CHECK(ends("feed-profile", [&] { context.run(feeds(1), 1); }));
    CHECK(ends("feed-profile", [&] { context.run(feeds(1), 2); }));
    check(context.run(feeds(1), 0), 1);
    for (std::size_t profile : {1U, 0U}) CHECK(values(context.run({{"x", floats({8, 2}, std::vector<float>(16, 1))}}, profile).at("y"))[0] == 2);
    for (std::int64_t rows : {1, 9, 2, 12, 4, 8}) {
        std::vector<float> const ones(static_cast<std::size_t>(rows * 2), 1);
        auto const results = context.run({{"x", floats({rows, 2}, ones)}});
        CHECK(values(results.at("y")) == std::vector<float>(ones.size(), 2));
        CHECK(results.at("p").shape == trtdsl::Shape{rows * 2});
    }
}

// Of an engine without outputs that depend on data: enqueue() waits for nothing, a run waits for the one before on
// whatever stream that is, and finish() for the latest.
void late(Engine const& engine) {
    Context context(engine);
    cudaStream_t streams[2];
    void *x = nullptr, *y[2];
    cudaMalloc(&x, 16);
    auto const array = feeds(5).at("x");
    auto const first = [&](int i) {
        float value = 0;
        std::memcpy(&value, device::access(y[i], 16), sizeof(value));
        return value;
    };
    for (int i : {0, 1}) cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), cudaMalloc(&y[i], 16);
    cudaMemcpyAsync(x, array.data.data(), 16, cudaMemcpyHostToDevice, streams[0]);
    for (int i : {0, 1}) context.enqueue({{"x", {"float32", {2, 2}, x}}}, {{"y", {"float32", {2, 2}, y[i]}}}, streams[i]);
    CHECK(first(0) != 10 && first(1) != 10 && !context.ready());
    context.finish();
    CHECK(context.ready());
    CHECK(first(0) == 10 && first(1) == 10);
    for (int i : {0, 1}) cudaStreamDestroy(streams[i]), cudaFree(y[i]);
    cudaFree(x);
}

// Of such an engine too: on the default stream a run comes after what the caller enqueued there before, and before what the
// caller enqueues there afterwards; it works on the context's own stream.
void by_default(Engine const& engine) {
    std::vector<float> const fed{5, -1, 3, -4}, later{0, 0, 0, 0}, expected{10, -2, 6, -8};
    Floats const x(later), y(later);
    Context context(engine);
    Captured captured(engine, {{"x", matrix(x)}}, {{"y", matrix(y)}});
    auto const write = [&](std::vector<float> const& values, cudaStream_t on) { cudaMemcpyAsync(x.data(), values.data(), 16, cudaMemcpyHostToDevice, on); };
    cudaEvent_t there = nullptr;
    cudaEventCreateWithFlags(&there, 0);
    for (cudaStream_t on : {cudaStreamLegacy, cudaStreamPerThread})
        for (bool graph : {false, true})
            for (bool waits_there : {false, true}) {
                std::memcpy(device::access(y.data(), 16), later.data(), 16);
                write(fed, on);
                if (graph) captured.launch(on);
                else context.enqueue({{"x", matrix(x)}}, {{"y", matrix(y)}}, on);
                cudaEventRecord(there, static_cast<cudaStream_t>(graph ? captured.stream() : context.stream()));
                CHECK(cudaEventQuery(there) == cudaErrorNotReady && y.now() == later);
                if (waits_there) write(later, on), cudaStreamSynchronize(on);  // which must not reach the run
                else if (graph) captured.finish();
                else context.finish();
                CHECK(y.now() == expected);
            }
    cudaEventDestroy(there);
}

// A context keeps its engine alive.
void lifetimes(std::filesystem::path const& path) {
    auto engine = std::make_unique<Engine>(path);
    Engine const copy = *engine;
    Context context(*engine);
    engine.reset();
    check(copy.run(feeds(1)), 1);
    Context moved(std::move(context));
    check(moved.run(feeds(2)), 2);
    Context other(copy);
    other.run(feeds(3));
    other = std::move(moved);  // and what it was is freed
    check(other.run(feeds(4)), 4);
    auto& itself = other;
    other = std::move(itself);
    check(other.run(feeds(5)), 5);
}

// The sizes of an output come from an input that is read on the CPU, and a captured run has their value.
// Arrays are in C order, whatever the order of memory: y is what lies where x lies, in the order of x's memory.
void channels_last(Engine const& engine) {
    auto const& info = engine.signature().inputs.at(0);
    CHECK(info.channels_last && engine.manifest()->signature.inputs.at(0).channels_last);
    std::map<std::string, Array> const feeds{{"x", floats({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6})}};
    auto const right = [](std::map<std::string, Array> const& results) {
        return values(results.at("y")) == std::vector<float>{2, 8, 4, 10, 6, 12} && values(results.at("z")) == std::vector<float>{2, 4, 6, 8, 10, 12};
    };
    CHECK(right(engine.run(feeds)));
    CHECK(right(Context(engine).run(feeds)));
    CHECK(right(Captured(engine, feeds).run(feeds)));
    std::map<std::string, Array> const none{{"x", floats({0, 2, 1, 3}, {})}};
    CHECK(values(engine.run(none).at("z")).empty());
    Floats x({1, 4, 2, 5, 3, 6}), z(std::vector<float>(6));
    Context context(engine);
    context.enqueue({{"x", {"float32", {1, 2, 1, 3}, x.data()}}}, {{"z", {"float32", {1, 2, 1, 3}, z.data()}}});
    context.finish();
    CHECK((z.now() == std::vector<float>{2, 8, 4, 10, 6, 12}));
}

void shapes(Engine const& engine) {
    auto const sizes = [](std::int64_t rows, std::int64_t columns) {
        std::int64_t const both[]{rows, columns};
        return std::map<std::string, Array>{{"k", {"int64", {2}, std::string(reinterpret_cast<char const*>(both), sizeof(both))}}};
    };
    for (std::int64_t rows : {1, 3, 2}) {
        auto const results = engine.run(sizes(rows, 4));
        CHECK((results.at("z").shape == trtdsl::Shape{rows, 4}));
        CHECK(values(results.at("z")) == std::vector<float>(static_cast<std::size_t>(rows) * 4, 1));
    }
    CHECK(ends("execution-failed", [&] { engine.run(sizes(99, 4)); }));  // TensorRT's own: outside of the profile
    Floats const device_memory({1, 2, 3, 4});
    Context context(engine);
    CHECK(ends("feed-place", [&] { context.enqueue({{"k", {"int64", {2}, device_memory.data()}}}); }));
    std::int64_t both[]{3, 4};
    context.enqueue({{"k", {"int64", {2}, both}}});
    CHECK((context.finish().at("z").shape == trtdsl::Shape{3, 4}));
    engine.warm_up();

    Captured captured(engine, sizes(2, 3));
    CHECK((captured.run(sizes(2, 3)).at("z").shape == trtdsl::Shape{2, 3}));
    CHECK(ends("feed-shape", [&] { captured.run(sizes(3, 2)); }));
    Captured bound(engine, {{"k", {"int64", {2}, both}}}, {});
    bound.launch(), bound.finish();
    both[0] = 2;
    CHECK(ends("feed-shape", [&] { bound.launch(); }));
}

// A graph at one set of shapes, in memory of its own and in the caller's; of an engine without outputs that depend on data.
void captured(Engine const& engine) {
    auto const y = [](std::map<std::string, Array> const& results) { return values(results.at("y")); };
    Captured own(engine, feeds(1));
    CHECK((y(own.run(feeds(5))) == std::vector<float>{10, -2, 6, -8}));
    CHECK((y(own.run(feeds(6))) == std::vector<float>{12, -2, 6, -8}));
    CHECK(ends("feed-shape", [&] { own.run({{"x", floats({1, 2}, {1, 2})}}); }));
    CHECK(ends("feed-dtype", [&] { own.run({{"x", {"int32", {2, 2}, std::string(16, '\0')}}}); }));
    CHECK(ends("feed-shape", [&] { own.run({{"x", {"float32", {2, 2}, "short"}}}); }));
    CHECK(own.memory().at("x").shape == own.memory().at("y").shape);

    Floats const in({1, -1, 3, -4}), out({0, 0, 0, 0}), odd({1, 1, 1, 1}, 4);
    OwnStream const stream;
    Captured bound(engine, {{"x", matrix(in)}}, {{"y", matrix(out)}});
    int const allocations = device::counted("cudaMalloc");
    for (cudaStream_t on : {stream.handle, cudaStreamLegacy, stream.handle}) {
        std::vector<float> const next{7, -1, 3, -4};
        cudaMemcpyAsync(in.data(), next.data(), 16, cudaMemcpyHostToDevice, on);
        bound.launch(on);
    }
    CHECK(out.now()[0] != 14);
    bound.finish();
    CHECK((out.now() == std::vector<float>{14, -2, 6, -8}));
    CHECK(device::counted("cudaMalloc") == allocations);
    CHECK(ends("feed-place", [&] { Captured(engine, {{"x", matrix(odd)}}, {}); }));
    CHECK(ends("feed-place", [&] { Captured(engine, {{"x", matrix(in)}}, {{"y", matrix(odd)}}); }));
    CHECK(ends("feed-name", [&] { Captured(engine, {{"x", matrix(in)}}, {{"z", matrix(out)}}); }));
    Captured plain(engine, feeds(1), {}, false);
    CHECK((y(plain.run(feeds(5))) == std::vector<float>{10, -2, 6, -8}));

    std::vector<std::thread> all;  // they take turns
    std::vector<int> good(4);
    for (int i = 0; i < 4; ++i)
        all.emplace_back([&, i] {
            for (int round = 0; round < 20; ++round) good[static_cast<std::size_t>(i)] += y(own.run(feeds(static_cast<float>(i)))) == std::vector<float>{2 * static_cast<float>(i), -2, 6, -8};
        });
    for (auto& each : all) each.join();
    CHECK((good == std::vector<int>{20, 20, 20, 20}));
    Captured const moved(std::move(own));
    CHECK(moved.stream());
    plain = Captured(engine, feeds(1));
    CHECK((y(plain.run(feeds(5))) == std::vector<float>{10, -2, 6, -8}));
}

// Threads that enqueue runs of one graph, and others that wait for them, while new weights come.
void turns(std::filesystem::path const& path, std::filesystem::path const& weights) {
    Engine const engine(path);
    Captured captured(engine, feeds(1));
    std::vector<std::thread> all;
    std::vector<std::string> problems(4);
    for (std::size_t i = 0; i < 4; ++i)
        all.emplace_back([&, i] {
            try {
                for (int round = 0; round < 100; ++round)
                    if (i % 2) captured.finish();
                    else captured.launch();
            } catch (trtdsl::Error const& error) {
                if (error.code() != "usage") problems[i] = error.what();
            }
        });
    engine.refit(weights);
    for (auto& each : all) each.join();
    for (auto const& problem : problems)
        if (!problem.empty()) throw std::runtime_error(problem);
}

// `next` is `cache` + x, in cache's own memory where TensorRT says so (`in_place`), and y is 2 x.
void replaced(Engine const& engine, bool in_place) {
    std::vector<float> const fed{1, 2, 3, 4}, once{11, 22, 33, 44}, twice{12, 24, 36, 48};
    CHECK(engine.signature().outputs[0].alias == (in_place ? "cache" : ""));
    CHECK(values(engine.run({{"x", floats({2, 2}, fed)}, {"cache", floats({2, 2}, {10, 20, 30, 40})}}).at("next")) == once);
    Floats const x(fed), cache({10, 20, 30, 40}), other({0, 0, 0, 0}), odd({10, 20, 30, 40}, 4);
    Context context(engine);
    context.enqueue({{"x", matrix(x)}, {"cache", matrix(cache)}});
    auto const own = context.finish().at("next");
    CHECK(own.data != cache.data() && cache.now()[0] == 10);  // an input stays as it is
    context.enqueue({{"x", matrix(x)}, {"cache", matrix(cache)}}, {{"next", matrix(other)}});
    context.finish();
    CHECK(other.now() == once && cache.now()[0] == 10);
    context.enqueue({{"x", matrix(x)}, {"cache", matrix(odd)}}, {{"next", matrix(odd)}});
    context.finish();
    CHECK(odd.now() == once);
    int const copies = device::counted("cudaMemcpyAsync");
    context.enqueue({{"x", matrix(x)}, {"cache", matrix(other)}}, {{"next", matrix(other)}});
    context.finish();
    CHECK(other.now() == twice && device::counted("cudaMemcpyAsync") == copies + !in_place);
    // What a run left in the context's own memory is no input of the next one, unless the engine replaces it.
    if (in_place) context.enqueue({{"x", matrix(x)}, {"cache", own}}), context.finish();
    else CHECK(ends("feed-place", [&] { context.enqueue({{"x", matrix(x)}, {"cache", own}}); }));
    CHECK(ends("feed-place", [&] { context.enqueue({{"x", own}, {"cache", matrix(cache)}}); }));

    Captured fixed(engine, {{"x", floats({2, 2}, fed)}, {"cache", floats({2, 2}, {10, 20, 30, 40})}});
    for (int i = 0; i < 2; ++i) CHECK(values(fixed.run({{"x", floats({2, 2}, fed)}, {"cache", floats({2, 2}, {10, 20, 30, 40})}}).at("next")) == once);
    if (in_place) {
        CHECK(ends("feed-place", [&] { Captured(engine, {{"x", matrix(x)}, {"cache", matrix(cache)}}, {{"next", matrix(other)}}); }));
        Captured bound(engine, {{"x", matrix(x)}, {"cache", matrix(cache)}}, {});
        CHECK(cache.now()[0] == 10);  // capturing runs the engine, and leaves no trace
        for (int i = 0; i < 2; ++i) bound.launch();
        bound.finish();
        CHECK(cache.now() == twice && bound.memory().at("next").data == cache.data());
    }
}

// The states of an engine: `cache`, replaced in place where TensorRT does that, and `total`, of two buffers; both grow by x.
void states(Engine const& engine, bool in_place) {
    auto const step = [](Session& session, std::vector<float> const& x) {
        auto results = session.run({{"x", floats({static_cast<std::int64_t>(x.size()) / 2, 2}, x)}});
        CHECK(results.size() == 1);
        return values(results.at("y"));
    };
    auto const now = [](Session const& session, char const* name) {
        auto const view = session.states().at(name);
        auto const size = static_cast<std::size_t>(view.shape[0]) * 2;
        std::vector<float> result(size);
        std::memcpy(result.data(), device::access(view.data, size * sizeof(float)), size * sizeof(float));
        return result;
    };
    using Floating = std::vector<float>;
    CHECK(engine.manifest()->states.at("total") == "next_total");
    CHECK(ends("usage", [&] { Session session(engine); }));
    CHECK(ends("feed-name", [&] { Session session(engine, {{"total", {2, 2}}, {"cache", {2, 2}}, {"x", {2, 2}}}); }));
    CHECK(ends("feed-rank", [&] { Session session(engine, {{"total", {2}}, {"cache", {2, 2}}}); }));
    CHECK(ends("feed-shape", [&] { Session session(engine, {{"total", {2, 3}}, {"cache", {2, 2}}}); }));
    CHECK(ends("feed-shape", [&] { Session session(engine, {{"total", {2, 2}}, {"cache", {-1, 2}}}); }));
    Session session(engine, {{"total", {2, 2}}, {"cache", {2, 2}}});
    CHECK((step(session, {1, 2, 3, 4}) == Floating{2, 4, 6, 8}));
    CHECK((step(session, {10, 20, 30, 40}) == Floating{20, 40, 60, 80}));
    for (auto const* name : {"cache", "total"}) CHECK((now(session, name) == Floating{11, 22, 33, 44}));
    int const copies = device::counted("cudaMemcpyAsync"), allocations = device::counted("cudaMalloc");
    step(session, {0, 0, 0, 0});
    CHECK(device::counted("cudaMemcpyAsync") == copies + 2 && device::counted("cudaMalloc") == allocations);  // x and y

    CHECK(ends("feed-name", [&] { session.run({}); }));
    CHECK(ends("feed-name", [&] { session.run({{"x", floats({2, 2}, {1, 1, 1, 1})}, {"total", floats({2, 2}, {1, 1, 1, 1})}}); }));
    CHECK(ends("feed-profile", [&] { step(session, Floating(80, 1)); }));
    CHECK(ends("feed-shape", [&] { session.run({{"x", {"float32", {2, 2}, "short"}}}); }));
    Floats const x({1, 1, 1, 1}), y({0, 0, 0, 0});
    CHECK(ends("feed-name", [&] { session.enqueue({{"x", matrix(x)}, {"cache", matrix(y)}}); }));
    CHECK(ends("feed-name", [&] { session.enqueue({{"x", matrix(x)}}, {{"next_total", matrix(y)}}); }));
    for (auto const* name : {"cache", "total"}) CHECK((now(session, name) == Floating{11, 22, 33, 44}));
    {
        OwnStream const stream;
        for (int i = 0; i < 3; ++i) session.enqueue({{"x", matrix(x)}}, {{"y", matrix(y)}}, i == 1 ? nullptr : stream.handle);
        CHECK(!session.ready() && y.now()[0] == 0);
        CHECK(session.finish().size() == 1);
        CHECK(session.ready() && y.now()[0] == 2);
        for (auto const* name : {"cache", "total"}) CHECK((now(session, name) == Floating{14, 25, 36, 47}));
    }

    auto beams = session.fork({1, 1, 0});
    step(beams, {1, 1, 1, 1, 1, 1});
    for (auto const* name : {"cache", "total"}) {
        CHECK((now(beams, name) == Floating{37, 48, 37, 48, 15, 26}));
        CHECK((now(session, name) == Floating{14, 25, 36, 47}));
    }
    for (auto const& rows : std::vector<std::vector<std::size_t>>{{}, {2}, {0, 9}}) CHECK(ends("feed-shape", [&] { session.fork(rows); }));
    CHECK(ends("feed-profile", [&] { session.fork(std::vector<std::size_t>(17)); }));  // before there is memory for them
    CHECK(ends("feed-profile", [&] { Session(engine, {{"cache", {17, 2}}, {"total", {17, 2}}}); }));
    session.reset();
    session.finish();
    for (auto const* name : {"cache", "total"}) CHECK((now(session, name) == Floating(4)));
    auto const before = session.states().at("cache").data;
    step(session, {1, 2, 3, 4});
    CHECK((session.states().at("cache").data == before) == in_place);
    Session const moved = std::move(beams);
    CHECK((now(moved, "total")[0] == 37));
    beams = Session(engine, {{"total", {1, 2}}, {"cache", {1, 2}}});
    CHECK((step(beams, {1, 2}) == Floating{2, 4}));

    std::vector<std::thread> all;  // a session for each thread, and one that they quarrel about
    std::vector<std::string> problems(4);
    std::atomic<int> taken{0}, refused{0};
    session.reset();
    for (std::size_t i = 0; i < 4; ++i)
        all.emplace_back([&, i] {
            try {
                Session own(engine, {{"total", {2, 2}}, {"cache", {2, 2}}});
                for (int round = 0; round < 30; ++round) {
                    step(own, {static_cast<float>(i), 1, 1, 1});
                    try {
                        step(session, {1, 1, 1, 1});
                        ++taken;
                    } catch (trtdsl::Error const& error) {
                        if (error.code() != "usage") throw;
                        ++refused;
                    }
                }
                for (auto const* name : {"cache", "total"}) CHECK((now(own, name) == Floating{30 * static_cast<float>(i), 30, 30, 30}));
            } catch (std::exception const& error) {
                problems[i] = error.what();
            }
        });
    for (auto& each : all) each.join();
    for (auto const& problem : problems)
        if (!problem.empty()) throw std::runtime_error(problem);
    CHECK(taken + refused == 120 && (now(session, "total") == Floating(4, static_cast<float>(taken))));
}

// Each execution context is given the communicator of an engine of several ranks.
void communicates(std::filesystem::path const& path) {
    trtdsl::LoadOptions options;
    options.communicator = &options;
    Engine const engine(path, options);
    check(engine.run(feeds(1)), 1);
    check(Context(engine).run(feeds(2)), 2);
    CHECK(device::counted("setCommunicator") == 2 && device::counted("createExecutionContext") == 2);
}

// The next token is the sum of all that were before, modulo 11; a cache has 7 slots, and a step 3 tokens at most. The same
// prompts and tokens as in tests/device/test_generating.py.
void generates(Engine const& engine) {
    using Texts = std::vector<Tokens>;
    Generator const generator(engine);
    CHECK(generator.capacity() == 7);
    auto const with = [](auto const& change) {
        Sampling how;
        change(how);
        return how;
    };
    auto const three = with([](Sampling& how) { how.max_tokens = 3; });
    Texts const prompts{{1, 2}, {3, 1, 4, 1, 5}, {10}};
    CHECK((generator.generate(prompts, three) == Texts{{3, 6, 1}, {3, 6, 1}, {10, 9, 7}}));
    Texts steps;
    auto how = three;
    how.stop = {6}, how.each = [&](Tokens const& step) { return steps.push_back(step), true; };
    CHECK((generator.generate(prompts, how) == Texts{{3, 6}, {3, 6}, {10, 9, 7}}));
    CHECK((steps == Texts{{3, 3, 10}, {6, 6, 9}, {-1, -1, 7}}));
    how.each = [&](Tokens const&) { return false; };
    CHECK((generator.generate({{1, 2}}, how) == Texts{{3}}));
    how.max_tokens = 6, how.each = nullptr;
    CHECK((generator.generate({{1, 2}}, how) == Texts{{3, 6}}));  // and runs no further

    auto const drawn = [&](auto const& change) {  // of 1000 draws how often which token follows
        std::vector<int> found(11);
        for (std::uint64_t seed = 0; seed < 1000; ++seed) {
            auto const one = with([&](Sampling& each) { each.max_tokens = 1, each.temperature = 1, each.seed = seed, change(each); });
            auto const text = generator.generate({{1, 2}}, one);
            CHECK(text == generator.generate({{1, 2}}, one));
            ++found[static_cast<std::size_t>(text[0][0])];
        }
        return found;
    };
    auto const is_near = [](int count, double share) { return std::abs(count - 1000 * share) < 4 * std::sqrt(1000 * share * (1 - share)); };
    double const e = std::exp(1.0);
    auto const all = drawn([](Sampling&) {});
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(is_near(all[i], (i == 3 ? e : 1) / (e + 10)));
    auto const hot = drawn([](Sampling& each) { each.temperature = 0.5; });
    CHECK(is_near(hot[3], e * e / (e * e + 10)));
    for (auto const& two : {drawn([](Sampling& each) { each.top_k = 2; }), drawn([](Sampling& each) { each.top_p = 0.22; })})
        CHECK(is_near(two[3], e / (e + 1)) && two[0] + two[3] == 1000);
    for (auto const& one : {drawn([](Sampling& each) { each.top_k = 1; }), drawn([](Sampling& each) { each.top_p = 0.2; })}) CHECK(one[3] == 1000);

    auto const refused = [&](Texts const& given, auto const& change) { return ends("usage", [&] { generator.generate(given, with(change)); }); };
    auto const nothing = [](Sampling& each) { each.max_tokens = 1; };
    for (auto const& given : {Texts{}, Texts{{}}, Texts{{1}, {}}, Texts{{11}}, Texts{{-1}}, Texts{Tokens(8, 1)}}) CHECK(refused(given, nothing));
    CHECK(refused({{1, 2}}, [](Sampling& each) { each.max_tokens = 7; }) && refused({{1}}, [](Sampling& each) { each.max_tokens = ~std::size_t{0}; }));
    CHECK(refused({{1}}, [](Sampling& each) { each.max_tokens = 0; }));
    for (double temperature : {-1.0, double{NAN}, double{INFINITY}}) CHECK(refused({{1}}, [&](Sampling& each) { each.max_tokens = 1, each.temperature = temperature; }));
    for (double top_p : {0.0, 1.5, double{NAN}}) CHECK(refused({{1}}, [&](Sampling& each) { each.max_tokens = 1, each.top_p = top_p; }));
    CHECK(ends("feed-profile", [&] { generator.generate(Texts(4, {1}), three); }));

    std::vector<std::thread> threads;  // each call has caches of its own
    std::vector<int> good(4);
    for (std::size_t i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            for (int round = 0; round < 10; ++round) good[i] += generator.generate({{static_cast<std::int64_t>(i)}}, with([](Sampling& each) { each.max_tokens = 2; }))[0][1] == static_cast<std::int64_t>(2 * i);
        });
    for (auto& each : threads) each.join();
    CHECK((good == std::vector<int>(4, 10)));
}

// No more contexts than there may be, however many threads run; feeds that do not fit cost none.
void pool(std::filesystem::path const& path) {
    trtdsl::LoadOptions options;
    options.contexts = 2;
    Engine const engine(path, options);
    std::mutex mutex;
    int now = 0, most = 0;
    device::before_run = [&] {
        {
            std::lock_guard<std::mutex> const lock(mutex);
            most = std::max(most, ++now);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::lock_guard<std::mutex> const lock(mutex);
        --now;
    };
    threads(engine);
    device::before_run = nullptr;
    for (int i = 0; i < 3; ++i) CHECK(ends("feed-dtype", [&] { engine.run({{"x", {"int32", {2, 2}, std::string(16, '\0')}}}); }));
    check(engine.run(feeds(1)), 1);
    CHECK(most == 2 && device::counted("createExecutionContext") == 2);
}

// Runs that nobody waits for yet: they begin in their order, and an engine that goes waits for them.
void asynchronous(std::filesystem::path const& path) {
    using Result = std::future<std::map<std::string, Array>>;
    auto const is_done = [](Result const& result) { return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
    std::vector<Result> results;
    {
        trtdsl::LoadOptions options;
        options.contexts = 2;
        Engine const engine(path, options);
        CHECK(ends("feed-shape", [&] { engine.run_async({{"x", {"float32", {2, 2}, "short"}}}); }));
        std::promise<void> go;
        device::before_run = [wait = go.get_future().share()] { wait.wait(); };
        for (int i = 0; i < 20; ++i) results.push_back(engine.run_async(feeds(static_cast<float>(i + 1))));
        for (auto const& result : results) CHECK(!is_done(result));
        go.set_value();
        check(results[0].get(), 1);
    }
    device::before_run = nullptr;
    for (std::size_t i = 1; i < results.size(); ++i) {
        CHECK(is_done(results[i]));
        check(results[i].get(), static_cast<float>(i + 1));
    }
    CHECK(device::counted("createExecutionContext") <= 2);
}

// What TensorRT-RTX compiles, and the cache of it on disk: a second process compiles nothing.
void warm(std::filesystem::path const& path, std::filesystem::path const& file) {
    trtdsl::LoadOptions options;
    std::vector<std::string> warnings;
    options.runtime_cache = file;
    options.warn = [&](std::string const& code, std::string const& message) { warnings.push_back(code + ": " + message); };
    auto const compiled = [] { return device::counted("compile eager") + device::counted("compile lazy"); };
    {
        Engine const engine(path, options);
        engine.warm_up();
        CHECK(device::counted("compile lazy") == 0);
        std::cout << compiled() << " compiled\n";
        int const before = compiled();
        check(engine.run(feeds(1)), 1);  // a shape that was not warmed up
        CHECK(compiled() == before + 1 && device::counted("compile lazy") == 0);
        engine.close();
        check(engine.run(feeds(2)), 2);
        CHECK(compiled() == before + 1);
    }
    int const before = compiled();
    Engine const again(path, options);
    again.warm_up();
    check(again.run(feeds(1)), 1);
    CHECK(compiled() == before);
    options.specialization = "none";
    Engine const never(path, options);
    never.warm_up();
    CHECK(compiled() == before);
    for (auto const& warning : warnings) std::cout << warning << "\n";
}

void with_graphs(std::filesystem::path const& path) {
    trtdsl::LoadOptions options;
    options.cuda_graphs = true;
    Engine const engine(path, options);
    for (float i : {1.F, 2.F, 3.F}) check(engine.run(feeds(i)), i);
    CHECK(device::counted("capture") == 1 && device::counted("replay") == 2);
    options.specialization = "sometimes";
    CHECK(ends("usage", [&] { Engine(path, options); }));
}

// New weights while threads run: each result is of the old or of the new ones, and none begins with the old afterwards.
void refit(std::filesystem::path const& path, std::filesystem::path const& weights) {
    trtdsl::LoadOptions options;
    options.contexts = 2;
    Engine const engine(path, options);
    auto const factor = [](std::map<std::string, Array> const& results) { return values(results.at("y"))[2] / 3; };
    Context context(engine);
    Captured fixed(engine, feeds(1));
    CHECK(factor(engine.run(feeds(1))) == 2 && factor(context.run(feeds(1))) == 2 && factor(fixed.run(feeds(1))) == 2);
    std::vector<std::thread> all;
    std::vector<std::string> problems(4);
    for (std::size_t i = 0; i < 4; ++i)
        all.emplace_back([&, i] {
            bool changed = false;
            for (int round = 0; round < 200; ++round) {
                auto const got = factor(engine.run(feeds(1)));
                if (got != 2 && got != 5) problems[i] = "neither old nor new";
                if (changed && got == 2) problems[i] = "old after new";
                changed = got == 5;
            }
        });
    auto const stream = context.stream();
    engine.refit(weights);
    CHECK(factor(engine.run(feeds(1))) == 5);
    CHECK(factor(context.run(feeds(1))) == 5 && context.stream() == stream);
    CHECK(ends("usage", [&] { fixed.run(feeds(1)); }));
    CHECK(ends("usage", [&] { fixed.launch(); }));
    for (auto& each : all) each.join();
    for (auto const& problem : problems)
        if (!problem.empty()) throw std::runtime_error(problem);
}

// Contexts and sessions are made while new weights are put in: neither waits for the other for ever, and no thread reads
// what another writes.
void made(std::filesystem::path const& path, std::filesystem::path const& weights) {
    Engine const engine(path);
    std::atomic<int> making{2};
    auto const repeated = [&](auto const& make) {  // an error ends the program
        for (int i = 0; i < 1000; ++i) make();
        --making;
    };
    std::thread contexts([&] { repeated([&] { Context context(engine); }); });
    std::thread sessions([&] { repeated([&] { Session session(engine, {{"total", {2, 2}}, {"cache", {2, 2}}}); }); });
    do engine.refit(weights);
    while (making);
    contexts.join(), sessions.join();
}

// Runs of which one always begins before the one before has ended: a refit gets its turn all the same. A run waits for the
// next one, which does not come once the refit waits; only then the clock ends it.
void overlapping(std::filesystem::path const& path, std::filesystem::path const& weights) {
    constexpr int kMost = 20'000;
    Engine const engine(path);
    std::mutex mutex;
    std::condition_variable changed;
    int begun = 0, begun_at_refit = kMost;
    bool refitted = false;
    device::before_run = [&] {
        std::unique_lock<std::mutex> lock(mutex);
        int const own = ++begun;
        changed.notify_all();
        changed.wait_for(lock, std::chrono::milliseconds(300), [&] { return begun > own || refitted || begun >= kMost; });
    };
    auto const goes_on = [&] {
        std::lock_guard<std::mutex> const lock(mutex);
        return !refitted && begun < kMost;
    };
    std::vector<std::thread> all;
    for (int i = 0; i < 3; ++i)
        all.emplace_back([&] {
            while (goes_on()) engine.run(feeds(1));
        });
    all.emplace_back([&] {
        {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [&] { return begun > 2; });
        }
        engine.refit(weights);
        std::lock_guard<std::mutex> const lock(mutex);
        begun_at_refit = begun, refitted = true;
        changed.notify_all();
    });
    for (auto& each : all) each.join();
    device::before_run = nullptr;
    CHECK(begun_at_refit < kMost);
    CHECK(values(engine.run(feeds(1)).at("y"))[0] == 5);
}

void run(std::filesystem::path const& path, std::string const& what, std::filesystem::path const& file) {
    if (what == "lifetimes") return lifetimes(path);
    if (what == "warm") return warm(path, file);
    if (what == "graphs") return with_graphs(path);
    if (what == "refit") return refit(path, file);
    if (what == "made") return made(path, file);
    if (what == "overlapping") return overlapping(path, file);
    if (what == "turns") return turns(path, file);
    if (what == "pool") return pool(path);
    if (what == "communicates") return communicates(path);
    if (what == "async") return asynchronous(path);
    trtdsl::LoadOptions options;
    if (what == "weights") options.weights = file;
    if (what == "again") options.contexts = 1;
    Engine const engine(path, options);
    if (what == "run") check(engine.run(feeds(1)), 1);
    else if (what == "threads") threads(engine);
    else if (what == "views") views(engine);
    else if (what == "unaligned") unaligned(engine);
    else if (what == "steady") steady(engine);
    else if (what == "profiles") profiles(engine);
    else if (what == "late") late(engine);
    else if (what == "default") by_default(engine);
    else if (what == "channels_last") channels_last(engine);
    else if (what == "shapes") shapes(engine);
    else if (what == "captured") captured(engine);
    else if (what == "replaced") replaced(engine, file == "in place");
    else if (what == "states") states(engine, file == "in place");
    else if (what == "generates") generates(engine);
    else if (what == "capacity") std::cout << Generator(engine).capacity() << "\n";
    else if (what == "generator") {
        auto const texts = Generator(engine).generate({{1, 2}}, file.empty() ? Sampling{3} : Sampling{3, 0.01});
        for (auto token : texts[0]) std::cout << token << " ";
    }
    else if (what == "session") Session(engine, {{"total", {2, 2}}, {"cache", {2, 2}}}).fork({1, 0}).run(feeds(1));
    else if (what == "weights") std::cout << values(engine.run(feeds(1)).at("y"))[0] << "\n";
    else if (what == "unsupported") Captured(engine, feeds(1));
    else if (what == "capture") Captured(engine, feeds(1)).run(feeds(2));
    else if (what == "again") {  // an error leaves the engine as it was
        auto result = engine.run_async(feeds(1));
        try {
            result.get();
        } catch (trtdsl::Error const& error) {
            std::cout << error.code() << "\n";
        }
        check(engine.run(feeds(3)), 3);
    } else throw std::runtime_error("there is no case " + what);
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 3) return 2;
    int code = 0;
    try {
        run(arguments[1], arguments[2], count > 3 ? arguments[3] : "");
    } catch (trtdsl::Error const& error) {
        std::cerr << error.code() << ": " << error.what() << "\n";
        code = error.exit_code();
    } catch (std::exception const& error) {
        std::cerr << error.what() << "\n";
        return 99;
    }
    if (device::living()) {
        std::cerr << device::living() << " things of the device are left\n";
        return 98;
    }
    return code;
}
