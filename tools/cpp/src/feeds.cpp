#include <algorithm>

#include "internal.hpp"

namespace trtdsl {

namespace {

std::string text_of(Shape const& shape) {
    std::string text;
    for (auto size : shape) text += (text.empty() ? "" : ", ") + (size < 0 ? std::string("?") : std::to_string(size));
    return "(" + text + ")";
}

}  // namespace

std::size_t check_feeds(Signature const& signature, std::map<std::string, Array> const& feeds) {
    for (auto const& info : signature.inputs)
        if (!feeds.count(info.name)) throw Error("feed-name", "input '" + info.name + "' is missing");
    for (auto const& [name, array] : feeds) {
        auto const info = std::find_if(signature.inputs.begin(), signature.inputs.end(), [&, &n = name](auto const& each) { return each.name == n; });
        if (info == signature.inputs.end()) throw Error("feed-name", "there is no input '" + name + "'");
        if (array.dtype != info->dtype)
            throw Error("feed-dtype", "input '" + name + "' must be " + info->dtype + ", and " + array.dtype + " was fed");
        if (array.shape.size() != info->shape.size())
            throw Error("feed-rank", "input " + name + " " + text_of(info->shape) + " has " + std::to_string(info->shape.size()) + " dimensions, and " + text_of(array.shape) + " was fed");
        for (std::size_t axis = 0; axis < array.shape.size(); ++axis)
            if (info->shape[axis] >= 0 && info->shape[axis] != array.shape[axis])
                throw Error("feed-shape", "dimension " + std::to_string(axis) + " of input '" + name + "' must be " + std::to_string(info->shape[axis]) + ", and " + std::to_string(array.shape[axis]) + " was fed");
    }
    std::string problem;
    for (std::size_t index = 0; index < signature.profiles.size(); ++index) {
        std::string outside;
        for (auto const& [name, range] : signature.profiles[index])
            for (std::size_t axis = 0; axis < range.min.size(); ++axis) {
                auto const got = feeds.at(name).shape[axis];
                if (got < range.min[axis] || got > range.max[axis])
                    outside = "dimension " + std::to_string(axis) + " of input '" + name + "' is " + std::to_string(got) + ", and the engine serves " + std::to_string(range.min[axis]) + " to " + std::to_string(range.max[axis]);
            }
        if (outside.empty()) return index;
        problem = outside;
    }
    throw Error("feed-profile", problem);
}

}  // namespace trtdsl
