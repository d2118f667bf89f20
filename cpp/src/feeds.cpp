#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "internal.hpp"

namespace trtdsl {

namespace {

using Feeds = std::map<std::string, View>;

// Adds what a profile does not hold of these feeds to a text; whether it holds all.
bool holds(Signature const& signature, std::size_t index, Feeds const& feeds, std::string& problems) {
    auto const before = problems.size();
    for (auto const& [name, range] : signature.profiles[index]) {
        auto const feed = feeds.find(name);
        if (feed == feeds.end()) continue;
        auto const& shape = feed->second.shape;
        for (std::size_t axis = 0; axis < std::min({shape.size(), range.min.size(), range.max.size()}); ++axis)
            if (shape[axis] < range.min[axis] || shape[axis] > range.max[axis])
                problems += (problems.empty() ? "dimension " : "; dimension ") + std::to_string(axis) + " of input '" + name + "' is " +
                            std::to_string(shape[axis]) + ", and the engine serves " + std::to_string(range.min[axis]) + " to " + std::to_string(range.max[axis]) +
                            (signature.profiles.size() > 1 ? " in profile " + std::to_string(index) : "");
    }
    return problems.size() == before;
}

using Sizes = std::map<std::string, std::int64_t>;

// Nothing for a division by zero, and for what does not fit 64 bits.
std::optional<std::int64_t> value(Expression const& expression, Sizes const& sizes) {
    if (expression.word.empty()) return expression.number;
    if (expression.parts.empty()) {
        auto const found = sizes.find(expression.word);
        return found == sizes.end() ? std::nullopt : std::optional(found->second);
    }
    std::optional<std::int64_t> result;
    for (auto const& part : expression.parts) {
        auto const next = value(part, sizes);
        if (!next) return std::nullopt;
        if (&part == &expression.parts.front()) result = next;
        else if (expression.word == "+") result = add(*result, *next);
        else if (expression.word == "*") result = multiply(*result, *next);
        else if (expression.word == "//") result = divide(*result, *next);
        else if (expression.word == "max") result = std::max(*result, *next);
        else if (expression.word == "min") result = std::min(*result, *next);
        else return std::nullopt;
        if (!result) return std::nullopt;
    }
    return result;
}

bool holds(Requirement const& requirement, Sizes const& sizes) {
    auto const left = value(requirement.left, sizes), right = value(requirement.right, sizes);
    if (!left || !right) return false;
    auto const& sign = requirement.comparison;
    return sign == "==" ? *left == *right : sign == "!=" ? *left != *right : sign == "<" ? *left < *right
         : sign == "<=" ? *left <= *right : sign == ">" ? *left > *right : sign == ">=" && *left >= *right;
}

void check_requirement(Requirement const& requirement, Feeds const& feeds) {
    Sizes sizes;
    std::string found;
    std::set<std::pair<std::string, std::size_t>> told;
    for (auto const& [name, place] : requirement.dims) {
        auto const feed = feeds.find(place.input);
        if (feed == feeds.end() || place.axis >= feed->second.shape.size()) continue;
        auto const size = feed->second.shape[place.axis];
        auto const shifted = place.offset < -INT64_MAX ? std::nullopt : add(size, -place.offset);
        if (auto const dim = shifted ? divide(*shifted, place.factor) : std::nullopt) sizes[name] = *dim;
        if (told.emplace(place.input, place.axis).second)
            found += (found.empty() ? "" : ", ") + std::string("dimension ") + std::to_string(place.axis) + " of input '" +
                     place.input + "' is " + std::to_string(size);
    }
    if (!holds(requirement, sizes))
        throw Error("feed-profile", found + ", and the engine serves only sizes where " + requirement.condition +
                                        (requirement.why.empty() ? "" : ": " + requirement.why));
}

std::size_t check(Signature const& signature, Feeds const& feeds, std::optional<std::size_t> profile) {
    for (auto const& info : signature.inputs)
        if (!feeds.count(info.name)) throw Error("feed-name", "input '" + info.name + "' is missing");
    for (auto const& [name, array] : feeds) {
        auto const info = std::find_if(signature.inputs.begin(), signature.inputs.end(),
                                       [&, &wanted = name](auto const& each) { return each.name == wanted; });
        if (info == signature.inputs.end()) throw Error("feed-name", "there is no input '" + name + "'");
        check_feed(*info, array);
    }
    auto const index = check_sizes(signature, feeds, profile);
    for (auto const& requirement : signature.requirements) check_requirement(requirement, feeds);
    return index;
}

}  // namespace

std::size_t check_sizes(Signature const& signature, Feeds const& feeds, std::optional<std::size_t> profile) {
    auto const count = signature.profiles.size();
    if (profile && *profile >= count)
        throw Error("feed-profile", "there is no profile " + std::to_string(*profile) + ": the engine has " + std::to_string(count));
    std::string problems;
    for (std::size_t index = profile.value_or(0); index < (profile ? *profile + 1 : count); ++index)
        if (holds(signature, index, feeds, problems)) return index;
    if (!profile && count != 1) problems += (count ? ": no one of the " : "no one of the ") + std::to_string(count) + " profiles holds these shapes";
    throw Error("feed-profile", problems);
}

void check_feed(TensorInfo const& info, View const& given) {
    auto const input = "input '" + info.name + "'";
    if (given.dtype != info.dtype)
        throw Error("feed-dtype", input + " must be " + info.dtype + ", and " + given.dtype + " was fed");
    if (given.shape.size() != info.shape.size())
        throw Error("feed-rank", input + " " + text_of(info.shape) + " has " + std::to_string(info.shape.size()) +
                                     " dimensions, and " + text_of(given.shape) + " was fed");
    for (std::size_t axis = 0; axis < given.shape.size(); ++axis) {
        auto const wanted = info.shape[axis], got = given.shape[axis];
        if (got < 0 || (wanted >= 0 && wanted != got))
            throw Error("feed-shape", "dimension " + std::to_string(axis) + " of " + input + " must be " +
                                          (wanted < 0 ? "0 or more" : std::to_string(wanted)) + ", and " +
                                          std::to_string(got) + " was fed");
    }
}

std::size_t check_feeds(Signature const& signature, std::map<std::string, Array> const& feeds, std::optional<std::size_t> profile) try {
    Feeds views;
    for (auto const& [name, array] : feeds) views[name] = {array.dtype, array.shape, nullptr};
    return check(signature, views, profile);
} catch (...) {
    rethrow();
}

std::size_t check_feeds(Signature const& signature, std::map<std::string, View> const& feeds, std::optional<std::size_t> profile) try {
    return check(signature, feeds, profile);
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
