// JSON, as far as a manifest needs it (RFC 8259), and what reads it strictly.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trtdsl/engine.hpp"

namespace trtdsl {

struct Json;
using Object = std::map<std::string, Json>;
using List = std::vector<Json>;

struct Json {
    std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, List, Object> value;

    bool operator==(Json const& other) const { return value == other.value; }
};

// Bytes of the largest JSON that is read, as trtdsl/core/files/reading.py has it.
constexpr std::uint64_t kLargestJson = 16 << 20;

// Throws manifest-damaged for what is not JSON; `kind` is what it should be. Keys may repeat, and the last one holds, and -0
// is a whole number: unless `strict`, for what the library of safetensors refuses.
Json parse_json(std::string const& text, std::string const& label, char const* kind, bool strict = false);

// An object of the manifest and the path to it, for messages.
class Reader {
public:
    Reader(Json const* json, std::string label, std::string path) : label_(std::move(label)), path_(std::move(path)) {
        object_ = json ? std::get_if<Object>(&json->value) : nullptr;
        if (!object_) throw Error("manifest-damaged", label_ + ": " + (path_.empty() ? "the whole" : path_) + " must be an object");
    }

    Error wrong(std::string const& key, std::string const& expected) const {
        return Error("manifest-damaged", label_ + ": " + dotted(key) + " must be " + expected);
    }

    Json const* find(std::string const& key) const {
        auto const found = object_->find(key);
        return found == object_->end() ? nullptr : &found->second;
    }

    // Whether there is one, and it is not null.
    bool has(std::string const& key) const { return find(key) && !std::holds_alternative<std::nullptr_t>(find(key)->value); }

    template <class T>
    T const& get(std::string const& key, char const* expected) const {
        auto const* json = find(key);
        auto const* value = json ? std::get_if<T>(&json->value) : nullptr;
        if (!value) throw wrong(key, expected);
        return *value;
    }

    std::string text(std::string const& key) const { return get<std::string>(key, "a string"); }

    std::int64_t count(std::string const& key) const {
        auto const value = get<std::int64_t>(key, "a number of 0 or more");
        if (value < 0) throw wrong(key, "a number of 0 or more");
        return value;
    }

    std::uint64_t size(std::string const& key) const { return static_cast<std::uint64_t>(count(key)); }

    bool flag(std::string const& key) const { return find(key) ? get<bool>(key, "true or false") : false; }

    Reader at(std::string const& key) const { return Reader(find(key), label_, dotted(key)); }

    List const& list(std::string const& key) const { return get<List>(key, "a list"); }

    std::vector<std::string> strings(std::string const& key) const {
        std::vector<std::string> result;
        for (auto const& item : list(key)) {
            auto const* value = std::get_if<std::string>(&item.value);
            if (!value) throw wrong(key, "a list of strings");
            result.push_back(*value);
        }
        return result;
    }

    Shape sizes(std::string const& key, std::size_t rank) const {
        Shape result;
        for (auto const& item : list(key)) {
            auto const* value = std::get_if<std::int64_t>(&item.value);
            if (!value || *value < 0) throw wrong(key, "sizes of 0 or more");
            result.push_back(*value);
        }
        if (result.size() != rank) throw wrong(key, std::to_string(rank) + " sizes of 0 or more");
        return result;
    }

    Object const& object() const { return *object_; }
    std::string const& path() const { return path_; }
    std::string const& label() const { return label_; }

private:
    std::string dotted(std::string const& key) const { return path_.empty() ? key : path_ + "." + key; }

    Object const* object_;
    std::string label_, path_;
};

}  // namespace trtdsl
