#include <algorithm>

#include "internal.hpp"

namespace trtdsl {

namespace {

constexpr std::array<std::uint32_t, 64> kRound{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t rotate(std::uint32_t x, int n) { return x >> n | x << (32 - n); }

void compress(std::array<std::uint32_t, 8>& state, char const* data) {
    auto const* const block = reinterpret_cast<unsigned char const*>(data);
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i)
        w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
               std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
    for (std::size_t i = 16; i < 64; ++i) {
        auto const s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        auto const s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; ++i) {
        auto const t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
        auto const t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    std::array<std::uint32_t, 8> const next{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state.size(); ++i) state[i] += next[i];
}

}  // namespace

void Sha256::add(std::string_view data) {
    size_ += data.size();
    if (filled_) {
        auto const taken = std::min(data.size(), block_.size() - filled_);
        std::copy_n(data.data(), taken, block_.data() + filled_);
        data.remove_prefix(taken), filled_ += taken;
        if (filled_ < block_.size()) return;
        compress(state_, block_.data()), filled_ = 0;
    }
    for (; data.size() >= block_.size(); data.remove_prefix(block_.size())) compress(state_, data.data());
    filled_ = data.size();
    std::copy(data.begin(), data.end(), block_.begin());
}

std::string Sha256::hex() {
    std::uint64_t const bits = size_ * 8;
    std::string tail(1, '\x80');
    tail.resize(1 + (2 * block_.size() - 9 - filled_) % block_.size(), '\0');
    for (int shift = 56; shift >= 0; shift -= 8) tail += static_cast<char>(bits >> shift);
    add(tail);
    std::string text;
    for (auto word : state_)
        for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
    return text;
}

std::string sha256(std::string const& data) try {
    Sha256 hash;
    hash.add(data);
    return hash.hex();
} catch (...) {
    rethrow();
}

}  // namespace trtdsl
