#include "json.hpp"

#include <charconv>
#include <cstring>
#include <locale>
#include <sstream>

namespace trtdsl {

namespace {

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string const& text) {
    auto const* at = reinterpret_cast<unsigned char const*>(text.data());
    auto const* const end = at + text.size();
    while (at < end) {
        int const more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : *at >= 0xe0 && *at < 0xf0 ? 2 : *at >= 0xf0 && *at < 0xf5 ? 3 : -1;
        if (more < 0 || end - at <= more) return false;
        unsigned const low = *at == 0xe0 ? 0xa0 : *at == 0xf0 ? 0x90 : 0x80, high = *at == 0xed ? 0x9f : *at == 0xf4 ? 0x8f : 0xbf;
        if (more > 0 && (at[1] < low || at[1] > high)) return false;
        for (int i = 2; i <= more; ++i)
            if (at[i] < 0x80 || at[i] > 0xbf) return false;
        at += more + 1;
    }
    return true;
}

constexpr int kMostNested = 100;  // levels, as trtdsl/core/files/reading.py has it
constexpr std::size_t kMostValues = 5'000'000;  // values: some 300 MB, more than any manifest or header has

class Parser {
public:
    Parser(std::string const& text, std::string const& label, char const* kind, bool strict) : text_(text), label_(label), kind_(kind), strict_(strict) {}

    Json parse() {
        if (!is_utf8(text_)) fail();
        Json value = any(0);
        space();
        if (at_ != text_.size()) fail();
        return value;
    }

private:
    [[noreturn]] void fail() const {
        throw Error("manifest-damaged", label_ + " is not JSON: it is damaged, or not a " + kind_);
    }

    [[noreturn]] void refuse(std::string const& why) const { throw Error("manifest-damaged", label_ + " is not a " + kind_ + ": " + why); }

    void space() {
        while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) && text_[at_]) ++at_;
    }

    char peek() {
        space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }

    void expect(char const* word) {
        for (; *word; ++word, ++at_)
            if (at_ >= text_.size() || text_[at_] != *word) fail();
    }

    Json any(int depth) {
        if (depth >= kMostNested) refuse("it is nested more than " + std::to_string(kMostNested) + " times");
        if (++values_ > kMostValues) refuse("it has more than " + std::to_string(kMostValues) + " values");
        switch (peek()) {
            case '{': return object(depth);
            case '[': return list(depth);
            case '"': return {string()};
            case 't': return expect("true"), Json{true};
            case 'f': return expect("false"), Json{false};
            case 'n': return expect("null"), Json{nullptr};
            default: return number();
        }
    }

    Json object(int depth) {
        Object result;
        ++at_;
        if (peek() == '}') return ++at_, Json{std::move(result)};
        while (true) {
            if (peek() != '"') fail();
            std::string key = string();
            if (peek() != ':') fail();
            ++at_;
            if (strict_ && result.count(key)) refuse(key + " repeats");
            result[std::move(key)] = any(depth + 1);
            char const next = peek();
            ++at_;
            if (next == '}') return {std::move(result)};
            if (next != ',') fail();
        }
    }

    Json list(int depth) {
        List result;
        ++at_;
        if (peek() == ']') return ++at_, Json{std::move(result)};
        while (true) {
            result.push_back(any(depth + 1));
            char const next = peek();
            ++at_;
            if (next == ']') return {std::move(result)};
            if (next != ',') fail();
        }
    }

    unsigned hex() {
        unsigned code = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            char const* digits = "0123456789abcdefABCDEF";
            char const* found = at_ < text_.size() && text_[at_] ? std::strchr(digits, text_[at_]) : nullptr;
            if (!found) fail();
            auto const digit = static_cast<unsigned>(found - digits);
            code = code * 16 + (digit < 16 ? digit : digit - 6);
        }
        return code;
    }

    std::string string() {
        std::string result;
        ++at_;
        while (true) {
            if (at_ >= text_.size()) fail();
            char const letter = text_[at_++];
            if (letter == '"') return result;
            if (static_cast<unsigned char>(letter) < 0x20) fail();
            if (letter != '\\') {
                result += letter;
                continue;
            }
            if (at_ >= text_.size()) fail();
            char const escape = text_[at_++];
            char const* const plain = "\"\\/bfnrt";
            char const* const meaning = "\"\\/\b\f\n\r\t";
            if (char const* found = escape ? std::strchr(plain, escape) : nullptr) {
                result += meaning[found - plain];
            } else if (escape == 'u') {
                utf8(result);
            } else {
                fail();
            }
        }
    }

    void utf8(std::string& result) {
        unsigned code = hex();
        if (code >= 0xd800 && code < 0xe000) {
            expect("\\u");
            unsigned const low = hex();
            if (code > 0xdbff || low < 0xdc00 || low > 0xdfff) fail();
            code = 0x10000 + (code - 0xd800) * 0x400 + (low - 0xdc00);
        }
        if (code < 0x80) {
            result += static_cast<char>(code);
            return;
        }
        int const more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        unsigned const lead[] = {0, 0xc0, 0xe0, 0xf0};
        result += static_cast<char>(lead[more] | code >> 6 * more);
        for (int i = more - 1; i >= 0; --i) result += static_cast<char>(0x80 | (code >> 6 * i & 0x3f));
    }

    std::size_t digits() {
        std::size_t const start = at_;
        while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
        if (at_ == start) fail();
        return at_ - start;
    }

    bool next_is(char const* letters) const { return at_ < text_.size() && text_[at_] && std::strchr(letters, text_[at_]); }

    // No locale has a part in it. What is no integer of 64 bits is a double, which a manifest's reader takes for no size.
    Json number() {
        std::size_t const start = at_;
        if (next_is("-")) ++at_;
        bool const zero = next_is("0");
        std::size_t const count = digits();
        if (zero && count > 1) fail();
        bool whole = true;
        if (next_is(".")) whole = false, ++at_, digits();
        if (next_is("eE")) {
            whole = false, ++at_;
            if (next_is("+-")) ++at_;
            digits();
        }
        std::string const text = text_.substr(start, at_ - start);
        std::int64_t integer = 0;
        bool const no_size = strict_ && text == "-0";
        if (whole && !no_size && std::from_chars(text.data(), text.data() + text.size(), integer).ec == std::errc()) return {integer};
        std::istringstream stream(text);
        stream.imbue(std::locale::classic());
        double value = 0;
        stream >> value;
        return {value};
    }

    std::string const& text_;
    std::string const& label_;
    char const* const kind_;
    bool const strict_;
    std::size_t at_ = 0, values_ = 0;
};

}  // namespace

Json parse_json(std::string const& text, std::string const& label, char const* kind, bool strict) { return Parser(text, label, kind, strict).parse(); }

}  // namespace trtdsl
