#include <cmath>
#include <limits>

#include "internal.hpp"

namespace trtdsl {

namespace {

constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

}  // namespace

std::optional<std::int64_t> add(std::int64_t a, std::int64_t b) {
    if (b > 0 ? a > kMost - b : a < kLeast - b) return std::nullopt;
    return a + b;
}

std::optional<std::int64_t> multiply(std::int64_t a, std::int64_t b) {
    if (a == 0 || b == 0) return 0;
    if ((a == -1 && b == kLeast) || (b == -1 && a == kLeast)) return std::nullopt;
    if (b == -1 || a == -1) return a * b;
    if (a > 0 ? (b > 0 ? a > kMost / b : b < kLeast / a) : (b > 0 ? a < kLeast / b : b < kMost / a)) return std::nullopt;
    return a * b;
}

std::optional<std::int64_t> divide(std::int64_t a, std::int64_t b) {
    if (b == 0 || (a == kLeast && b == -1)) return std::nullopt;
    auto const quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t byte_count(Shape const& shape, std::string const& dtype) {
    std::optional<std::int64_t> bytes = static_cast<std::int64_t>(item_size(dtype));
    bool empty = false;
    for (auto size : shape) {
        if (size < 0) return -1;
        empty = empty || size == 0;
        if (bytes && size > 0) bytes = multiply(*bytes, size);
    }
    return empty ? 0 : bytes.value_or(-1);
}

float of_half(std::uint16_t bits) {
    int const exponent = bits >> 10 & 31;
    auto const digits = static_cast<float>(bits & 1023);
    float size = exponent ? std::ldexp(digits + 1024, exponent - 25) : std::ldexp(digits, -24);
    if (exponent == 31) size = digits > 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    return bits >> 15 ? -size : size;
}

std::string text_of(Shape const& shape) {
    std::string text;
    for (auto size : shape) text += (text.empty() ? "" : ", ") + (size < 0 ? std::string("?") : std::to_string(size));
    return "(" + text + ")";
}

}  // namespace trtdsl
