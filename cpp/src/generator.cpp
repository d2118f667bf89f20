// Generators: tokens by an engine with caches, by the rules of trtdsl/engine/running/generate.py.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "internal.hpp"

namespace trtdsl {

namespace {

Array integers(std::string const& dtype, Shape const& shape, Tokens const& values) {
    Array array{dtype, shape, {}};
    auto const size = item_size(dtype);
    for (auto value : values) array.data.append(reinterpret_cast<char const*>(&value), size);  // little end first, as every GPU
    return array;
}

// The numbers of an array of a dtype that is_float() knows.
std::vector<float> floats(Array const& array) {
    auto const size = item_size(array.dtype);
    std::vector<float> result;
    resize(result, array.data.size() / size);
    for (std::size_t i = 0; i < result.size(); ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, array.data.data() + i * size, size);
        if (array.dtype == "float16") result[i] = of_half(static_cast<std::uint16_t>(bits));
        else bits <<= 8 * (sizeof(float) - size), std::memcpy(&result[i], &bits, sizeof(float));  // bfloat16 is its first half
    }
    return result;
}

bool is_float(TensorInfo const& info) { return info.dtype == "float32" || info.dtype == "float16" || info.dtype == "bfloat16"; }
bool is_integer(TensorInfo const& info) { return info.dtype == "int32" || info.dtype == "int64"; }

// The token of one sequence, whose logits these are.
std::int64_t chosen(float const* logits, std::size_t count, Sampling const& how, std::mt19937_64& random) {
    auto const most = std::max_element(logits, logits + count);
    if (count == 0 || std::any_of(logits, logits + count, [](float logit) { return std::isnan(logit); }) || (how.temperature > 0 && !std::isfinite(*most)))
        throw Error("execution-failed", "the logits are no finite numbers: nothing can be generated from them");
    if (how.temperature == 0) return most - logits;
    std::vector<std::int64_t> places(count);
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(), [&](std::int64_t a, std::int64_t b) { return logits[a] > logits[b]; });
    if (how.top_k && how.top_k < count) places.resize(how.top_k);
    std::vector<double> weights(places.size());
    std::transform(places.begin(), places.end(), weights.begin(), [&](std::int64_t place) { return std::exp((static_cast<double>(logits[place]) - *most) / how.temperature); });
    double const total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double kept = 0;
    std::size_t rows = 0;
    while (rows < weights.size() && kept / total < how.top_p) kept += weights[rows++];  // what is before it does not suffice
    double left = std::ldexp(static_cast<double>(random() >> 11), -53) * kept;  // the standard library's distributions differ
    std::size_t row = 0;
    while (row + 1 < rows && left >= weights[row]) left -= weights[row++];
    return places[row];
}

std::int64_t size_of(Tokens const& prompt) { return static_cast<std::int64_t>(prompt.size()); }

std::int64_t longest_of(std::vector<Tokens> const& prompts) {
    std::int64_t longest = 0;
    for (auto const& prompt : prompts) longest = std::max(longest, size_of(prompt));
    return longest;
}

// Steps of a number of sequences, from empty caches on.
class Batch {
public:
    Batch(Engine const& engine, std::size_t count) : count_(static_cast<std::int64_t>(count)), profiles_(engine.signature().profiles), session_(engine, states_of(engine)) {
        for (auto const& info : engine.signature().inputs) dtypes_[info.name] = info.dtype;
    }

    // The logits, one sequence after the other; `tokens` are those of a sequence after those of the one before.
    std::vector<float> step(Tokens const& tokens, Tokens const& starts, Tokens const& lengths) {
        auto const array = [&](char const* name, Shape const& shape, Tokens const& values) { return std::pair<std::string const, Array>(name, integers(dtypes_.at(name), shape, values)); };
        auto const results = session_.run({array("tokens", {count_, size_of(tokens) / count_}, tokens), array("starts", {count_}, starts), array("lengths", {count_}, lengths)});
        return floats(results.at("logits"));
    }

    // Those after whole prompts, which are fed in parts, padded at their ends.
    std::vector<float> feed(std::vector<Tokens> const& prompts) {
        std::vector<float> logits;
        for (std::int64_t start = 0, longest = longest_of(prompts), most; start < longest; start += most) {
            most = width(longest - start);
            Tokens tokens, lengths;
            for (auto const& prompt : prompts) {
                for (auto i = start; i < start + most; ++i) tokens.push_back(i < size_of(prompt) ? prompt[static_cast<std::size_t>(i)] : 0);
                lengths.push_back(std::clamp<std::int64_t>(size_of(prompt) - start, 0, most));
            }
            auto const found = step(tokens, Tokens(prompts.size(), start), lengths);
            logits.resize(found.size());
            auto const row = found.size() / prompts.size();
            for (std::size_t i = 0; i < prompts.size(); ++i)  // a prompt that has ended had its logits before
                if (start < size_of(prompts[i])) std::copy_n(found.data() + i * row, row, logits.data() + i * row);
        }
        return logits;
    }

private:
    // The most tokens that a step takes of those that are left: profiles may have gaps.
    std::int64_t width(std::int64_t left) const {
        std::int64_t most = 1;
        for (auto const& profile : profiles_) {
            auto const& range = profile.at("tokens");
            if (range.min[0] <= count_ && count_ <= range.max[0] && range.min[1] <= left) most = std::max(most, std::min(range.max[1], left));
        }
        return most;
    }

    std::map<std::string, Shape> states_of(Engine const& engine) const {
        std::map<std::string, Shape> states;
        for (auto const& info : engine.signature().inputs) {
            if (info.name == "tokens" && info.shape[0] >= 0 && info.shape[0] != count_)
                throw Error("usage", "the network '" + engine.manifest()->network + "' takes " + std::to_string(info.shape[0]) + " prompts at a time, not " + std::to_string(count_));
            if (!engine.manifest()->states.count(info.name)) continue;
            auto& shape = states[info.name] = info.shape;
            if (!shape.empty() && shape[0] < 0) shape[0] = count_;
        }
        return states;
    }

    std::int64_t count_;
    std::vector<std::map<std::string, Range>> profiles_;
    Session session_;
    std::map<std::string, std::string> dtypes_;
};

}  // namespace

Generator::Generator(Engine const& engine) try : engine_(engine) {
    if (!engine.manifest()) throw Error("usage", "an engine generates with its manifest, which says what its states are");
    auto const& manifest = *engine.manifest();
    auto const& signature = engine.signature();
    auto const wrong = [&](std::string const& what) { return Error("usage", "the network '" + manifest.network + "' generates nothing: " + what + ". See networks/llama.py"); };
    std::string lacking;
    auto const find = [&](std::vector<TensorInfo> const& all, char const* name) {
        auto const found = std::find_if(all.begin(), all.end(), [&](auto const& info) { return info.name == name; });
        if (found == all.end()) lacking += (lacking.empty() ? "" : ", ") + std::string(name);
        return found == all.end() ? TensorInfo() : *found;
    };
    auto const tokens = find(signature.inputs, "tokens"), starts = find(signature.inputs, "starts"), lengths = find(signature.inputs, "lengths");
    auto const logits = find(signature.outputs, "logits");
    if (manifest.states.empty()) lacking += (lacking.empty() ? "" : ", ") + std::string("a td.State");
    if (!lacking.empty()) throw wrong("it lacks " + lacking);
    capacity_ = std::numeric_limits<std::int64_t>::max();
    for (auto const& info : signature.inputs) {
        auto const& shape = info.shape;
        if (!manifest.states.count(info.name)) {
            if (info.name != tokens.name && info.name != starts.name && info.name != lengths.name) throw wrong("it has an input " + info.name + " that is no td.State");
            continue;
        }
        if (std::count(shape.begin() + !shape.empty(), shape.end(), -1)) throw Error("usage", "the state " + info.name + " has dynamic sizes besides its batch, " + text_of(shape) + ": fix them");
        if (auto const slots = manifest.slots.find(info.name); slots != manifest.slots.end()) capacity_ = std::min(capacity_, shape.at(static_cast<std::size_t>(slots->second)));
    }
    if (!is_integer(tokens) || !is_integer(starts) || !is_integer(lengths) || !is_float(logits) || tokens.shape.size() != 2 || logits.shape.size() != 2)
        throw wrong("its tokens (N, S), starts and lengths (N) are no whole numbers, or its logits (N, V) no floats");
    words_ = logits.shape[1];
    auto least = std::numeric_limits<std::int64_t>::max();
    for (auto const& profile : signature.profiles) least = std::min(least, profile.at("tokens").min[1]);
    if (least > 1) throw Error("usage", "the network '" + manifest.network + "' takes " + std::to_string(least) + " tokens a step or more, and what it generates is fed one by one");
} catch (...) {
    rethrow();
}

void Generator::check(std::vector<Tokens> const& prompts, Sampling const& how) const {
    auto const longest = longest_of(prompts);
    if (prompts.empty() || std::any_of(prompts.begin(), prompts.end(), [](Tokens const& prompt) { return prompt.empty(); })) throw Error("usage", "prompts are lists of one token or more");
    if (how.max_tokens < 1 || !(how.temperature >= 0) || !std::isfinite(how.temperature) || !(how.top_p > 0 && how.top_p <= 1))
        throw Error("usage", "max_tokens is 1 or more, temperature 0 or more, top_p above 0 and at most 1");
    if (longest > capacity_ || how.max_tokens - 1 > static_cast<std::uint64_t>(capacity_ - longest))
        throw Error("usage", "a prompt of " + std::to_string(longest) + " tokens and max_tokens=" + std::to_string(how.max_tokens) + " do not fit into a cache of " + std::to_string(capacity_));
    for (auto const& prompt : prompts)
        for (auto token : prompt)
            if (token < 0 || (words_ >= 0 && token >= words_)) throw Error("usage", "there is no token " + std::to_string(token) + ": the network knows " + std::to_string(words_));
}

std::vector<Tokens> Generator::generate(std::vector<Tokens> const& prompts, Sampling const& how) const try {
    check(prompts, how);
    auto const count = prompts.size();
    Batch batch(engine_, count);
    auto logits = batch.feed(prompts);
    std::mt19937_64 random(how.seed);
    std::vector<Tokens> results(count);
    std::vector<bool> ended(count);
    Tokens starts, lengths(count, 1);
    for (auto const& prompt : prompts) starts.push_back(size_of(prompt));
    for (std::size_t made = 1;; ++made) {
        auto const row = logits.size() / count;
        Tokens next, shown;
        for (std::size_t i = 0; i < count; ++i) {
            next.push_back(chosen(logits.data() + i * row, row, how, random));
            shown.push_back(ended[i] ? -1 : next[i]);
            if (!ended[i]) results[i].push_back(next[i]);
            ended[i] = ended[i] || std::count(how.stop.begin(), how.stop.end(), next[i]);
        }
        bool const goes_on = !how.each || how.each(shown);
        if (!goes_on || made == how.max_tokens || std::count(ended.begin(), ended.end(), false) == 0) return results;
        logits = batch.step(next, starts, lengths);
        for (auto& start : starts) ++start;
    }
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
