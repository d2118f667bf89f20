// What a service does with an engine, on the doubles of this folder: running ENGINE CASE.
#include <cstring>
#include <iostream>
#include <thread>

#include "double/device.hpp"
#include "trtdsl_engine.hpp"

namespace {

using trtdsl::Array;
using trtdsl::Context;
using trtdsl::Engine;
using trtdsl::View;

#define CHECK(what) \
    if (!(what)) throw std::runtime_error(std::string("line ") + std::to_string(__LINE__) + ": " #what)

Array floats(trtdsl::Shape const& shape, std::vector<float> const& values) {
    return {"float32", shape, std::string(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(float))};
}

std::vector<float> values(Array const& array) {
    std::vector<float> result(array.data.size() / sizeof(float));
    std::memcpy(result.data(), array.data.data(), array.data.size());
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
    cudaStream_t stream = nullptr;
    void *x = nullptr, *y = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(&x, 16), cudaMalloc(&y, 16);
    auto const array = feeds(5).at("x");
    cudaMemcpyAsync(x, array.data.data(), 16, cudaMemcpyHostToDevice, stream);
    context.enqueue({{"x", {"float32", {2, 2}, x}}}, {{"y", {"float32", {2, 2}, y}}}, stream);
    auto const results = context.finish();
    CHECK(results.at("y").data == y);
    CHECK(results.at("p").shape == trtdsl::Shape{2} && device::owns(results.at("p").data));
    CHECK(!device::owns(results.at("s").data));
    float got[4];
    std::memcpy(got, device::access(y, 16), 16);
    CHECK(got[0] == 10 && got[3] == -8);
    auto const refused = [&](char const* code, std::map<std::string, View> const& inputs, std::map<std::string, View> const& outputs) {
        try {
            context.enqueue(inputs, outputs, stream);
        } catch (trtdsl::Error const& error) {
            return error.code() == code;
        }
        return false;
    };
    View const good{"float32", {2, 2}, x};
    CHECK(refused("feed-name", {}, {}));
    CHECK(refused("feed-place", {{"x", {"float32", {2, 2}, nullptr}}}, {}));
    CHECK(refused("feed-place", {{"x", {"float32", {2, 2}, static_cast<char*>(x) + 4}}}, {}));
    CHECK(refused("feed-profile", {{"x", {"float32", {99, 2}, x}}}, {}));
    CHECK(refused("feed-name", {{"x", good}}, {{"z", good}}));
    CHECK(refused("feed-dtype", {{"x", good}}, {{"y", {"int32", {2, 2}, y}}}));
    CHECK(refused("feed-shape", {{"x", good}}, {{"y", {"float32", {2, 3}, y}}}));
    CHECK(refused("feed-shape", {{"x", good}}, {{"p", {"float32", {2}, y}}}));
    cudaStreamSynchronize(stream), cudaStreamDestroy(stream);
    check(context.run(feeds(7)), 7);  // after another stream, which is gone
    cudaFree(x), cudaFree(y);
}

// Two profiles, and shapes that grow and shrink.
void profiles(Engine const& engine) {
    Context context(engine);
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
    CHECK(first(0) != 10 && first(1) != 10);
    context.finish();
    CHECK(first(0) == 10 && first(1) == 10);
    for (int i : {0, 1}) cudaStreamDestroy(streams[i]), cudaFree(y[i]);
    cudaFree(x);
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
}

void run(std::filesystem::path const& path, std::string const& what) {
    if (what == "lifetimes") return lifetimes(path);
    Engine const engine(path);
    if (what == "run") check(engine.run(feeds(1)), 1);
    else if (what == "threads") threads(engine);
    else if (what == "views") views(engine);
    else if (what == "profiles") profiles(engine);
    else if (what == "late") late(engine);
    else if (what == "again") {  // an error leaves the engine as it was
        try {
            engine.run(feeds(1));
        } catch (trtdsl::Error const& error) {
            std::cout << error.code() << "\n";
        }
        check(engine.run(feeds(3)), 3);
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return 2;
    int code = 0;
    try {
        run(arguments[1], arguments[2]);
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
