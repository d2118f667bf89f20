// The number types of a generated kernel on the host: half, bfloat16 and fp8, and conversions as the device does them.
//
// Arithmetic of a narrow type is one float operation and one rounding, which is exact for +, -, * and /.
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

template <class To, class From>
inline To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}

// Half: the compiler's own type holds the bits and rounds to nearest even.
struct __half {
    _Float16 value;
    __half() = default;
    __half(float x) : value(static_cast<_Float16>(x)) {}
    __half(double x) : value(static_cast<_Float16>(x)) {}
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0>
    __half(I x) : value(static_cast<_Float16>(static_cast<double>(x))) {}
    operator float() const { return static_cast<float>(value); }
};
using half = __half;

struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) {
        const uint32_t all = bits_as<uint32_t>(x);
        bits = std::isnan(x) ? 0x7fff : static_cast<uint16_t>((all + 0x7fff + ((all >> 16) & 1)) >> 16);
    }
    __nv_bfloat16(double x) : __nv_bfloat16(static_cast<float>(x)) {}
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0>
    __nv_bfloat16(I x) : __nv_bfloat16(static_cast<float>(x)) {}
    operator float() const { return bits_as<float>(static_cast<uint32_t>(bits) << 16); }
};

// 1 sign, 4 exponent and 3 mantissa bits; no infinity, 0x7f is NaN, and what is too large becomes 448.
struct __nv_fp8_e4m3 {
    uint8_t __x;
    __nv_fp8_e4m3() = default;
    __nv_fp8_e4m3(float x) {
        const uint8_t sign = std::signbit(x) ? 0x80 : 0;
        const float size = std::fabs(x);
        if (std::isnan(x)) {
            __x = sign | 0x7f;
        } else if (size >= 448.0f) {
            __x = sign | 0x7e;
        } else {
            int exponent;
            std::frexp(size, &exponent);  // size = f * 2**exponent, f in [0.5, 1); 0 for 0
            exponent = size > 0 ? std::max(exponent - 1, -6) : -6;
            const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, 3 - exponent)));  // of 2**(exponent - 3)
            __x = static_cast<uint8_t>(sign | (steps + ((exponent + 6) << 3)));  // a carry runs into the exponent
        }
    }
    operator float() const {
        const int exponent = (__x >> 3) & 15, mantissa = __x & 7;
        const float size = (__x & 0x7f) == 0x7f ? std::numeric_limits<float>::quiet_NaN()
                           : exponent           ? std::ldexp(1.0f + mantissa / 8.0f, exponent - 7)
                                                : std::ldexp(mantissa / 8.0f, -6);
        return __x & 0x80 ? -size : size;
    }
};

#define NARROW_OPERATORS(T)                                                                    \
    inline T operator+(T a, T b) { return T(float(a) + float(b)); }                            \
    inline T operator-(T a, T b) { return T(float(a) - float(b)); }                            \
    inline T operator*(T a, T b) { return T(float(a) * float(b)); }                            \
    inline T operator/(T a, T b) { return T(float(a) / float(b)); }                            \
    inline T operator-(T a) { return T(-float(a)); }                                           \
    inline bool operator<(T a, T b) { return float(a) < float(b); }                            \
    inline bool operator>(T a, T b) { return float(a) > float(b); }                            \
    inline bool operator<=(T a, T b) { return float(a) <= float(b); }                          \
    inline bool operator>=(T a, T b) { return float(a) >= float(b); }                          \
    inline bool operator==(T a, T b) { return float(a) == float(b); }                          \
    inline bool operator!=(T a, T b) { return float(a) != float(b); }                          \
    inline T __hadd(T a, T b) { return a + b; }                                                \
    inline T __hsub(T a, T b) { return a - b; }                                                \
    inline T __hmul(T a, T b) { return a * b; }                                                \
    inline T __hdiv(T a, T b) { return a / b; }                                                \
    inline T __hfma(T a, T b, T c) { return T(float(double(float(a)) * float(b) + float(c))); } \
    inline T __hneg(T a) { return -a; }                                                        \
    inline T __habs(T a) { return T(std::fabs(float(a))); }                                    \
    inline bool __hlt(T a, T b) { return a < b; }                                              \
    inline bool __hgt(T a, T b) { return a > b; }                                              \
    inline bool __hle(T a, T b) { return a <= b; }                                             \
    inline bool __hge(T a, T b) { return a >= b; }                                             \
    inline bool __heq(T a, T b) { return a == b; }                                             \
    inline bool __hne(T a, T b) { return a != b; }                                             \
    inline bool __hisnan(T a) { return std::isnan(float(a)); }                                 \
    inline int __hisinf(T a) { return std::isinf(float(a)) ? (float(a) < 0 ? -1 : 1) : 0; }    \
    inline T hsqrt(T a) { return T(std::sqrt(float(a))); }                                     \
    inline T hrsqrt(T a) { return T(1.0f / std::sqrt(float(a))); }                             \
    inline T hexp(T a) { return T(std::exp(float(a))); }                                       \
    inline T hlog(T a) { return T(std::log(float(a))); }                                       \
    inline T hsin(T a) { return T(std::sin(float(a))); }                                       \
    inline T hcos(T a) { return T(std::cos(float(a))); }                                       \
    inline T htanh(T a) { return T(std::tanh(float(a))); }                                     \
    inline T hfloor(T a) { return T(std::floor(float(a))); }                                   \
    inline T hceil(T a) { return T(std::ceil(float(a))); }                                     \
    inline T hrint(T a) { return T(std::nearbyint(float(a))); }                                \
    inline T htrunc(T a) { return T(std::trunc(float(a))); }

NARROW_OPERATORS(__half)
NARROW_OPERATORS(__nv_bfloat16)

inline __half __float2half(float x) { return __half(x); }
inline __half __float2half_rn(float x) { return __half(x); }
inline float __half2float(__half x) { return x; }
inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }

// Pairs of narrow numbers.
template <class T>
struct alignas(2 * sizeof(T)) Pair {
    T x, y;
};
using __half2 = Pair<__half>;
using half2 = __half2;
using __nv_bfloat162 = Pair<__nv_bfloat16>;

#define EACH_OF_PAIR(NAME, SINGLE) \
    template <class T>             \
    inline Pair<T> NAME(Pair<T> a) { return {SINGLE(a.x), SINGLE(a.y)}; }
#define BOTH_OF_PAIR(NAME, SINGLE) \
    template <class T>             \
    inline Pair<T> NAME(Pair<T> a, Pair<T> b) { return {SINGLE(a.x, b.x), SINGLE(a.y, b.y)}; }
EACH_OF_PAIR(h2sqrt, hsqrt) EACH_OF_PAIR(h2rsqrt, hrsqrt) EACH_OF_PAIR(h2exp, hexp) EACH_OF_PAIR(h2log, hlog)
EACH_OF_PAIR(h2sin, hsin) EACH_OF_PAIR(h2cos, hcos) EACH_OF_PAIR(h2floor, hfloor) EACH_OF_PAIR(h2ceil, hceil)
EACH_OF_PAIR(h2rint, hrint) EACH_OF_PAIR(h2trunc, htrunc) EACH_OF_PAIR(__hneg2, __hneg) EACH_OF_PAIR(__habs2, __habs)
BOTH_OF_PAIR(__hadd2, __hadd) BOTH_OF_PAIR(__hsub2, __hsub) BOTH_OF_PAIR(__hmul2, __hmul) BOTH_OF_PAIR(__h2div, __hdiv)
template <class T>
inline Pair<T> operator+(Pair<T> a, Pair<T> b) { return __hadd2(a, b); }
template <class T>
inline Pair<T> operator-(Pair<T> a, Pair<T> b) { return __hsub2(a, b); }
template <class T>
inline Pair<T> operator*(Pair<T> a, Pair<T> b) { return __hmul2(a, b); }
template <class T>
inline Pair<T>& operator-=(Pair<T>& a, Pair<T> b) { return a = a - b; }
template <class T>
inline Pair<T>& operator+=(Pair<T>& a, Pair<T> b) { return a = a + b; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }

// Conversions to integers: towards zero, to the nearest end of the range, NaN to 0. Narrow integers keep the low bits
// of a conversion to 32 bits.
template <class To>
inline To saturated(double x) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(x)) return 0;
    if (x <= static_cast<double>(Limits::min())) return Limits::min();
    if (x >= static_cast<double>(Limits::max())) return Limits::max();
    return static_cast<To>(x);
}

template <class To, class From>
inline To convert(From x) {
    if constexpr (std::is_integral_v<From>) {
        return static_cast<To>(x);
    } else if constexpr (sizeof(To) >= 4 || (sizeof(From) == 2 && sizeof(To) == 2)) {
        return saturated<To>(static_cast<double>(static_cast<float>(x)));
    } else {
        using Wide = std::conditional_t<std::is_signed_v<To>, int32_t, uint32_t>;
        return static_cast<To>(saturated<Wide>(static_cast<double>(static_cast<float>(x))));
    }
}

inline int __float2int_rz(float x) { return saturated<int>(x); }
inline long long __float2ll_rz(float x) { return saturated<long long>(x); }

inline float __int_as_float(int x) { return bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
inline int __float_as_int(float x) { return bits_as<int>(x); }
inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }

// An integer as a float, rounded down.
inline float rounded_down(long long x) {
    const float near = static_cast<float>(x);
    return static_cast<long double>(near) > static_cast<long double>(x) ? std::nextafterf(near, -INFINITY) : near;
}
inline float __int2float_rd(int x) { return rounded_down(x); }
inline float __ll2float_rd(long long x) { return rounded_down(x); }

// Approximations of the device: the host's functions, which differ in the last bits.
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanhf(float x) { return std::tanh(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __fmaf_ieee_rn(float a, float b, float c) { return std::fma(a, b, c); }

// PTX in a kernel's text: an instruction's name with its operands, the results first.
inline void ptx_div_approx_f32(float& result, float a, float b) { result = a / b; }
template <class R>
inline void ptx_cvt_rni_sat_s32_f32(R& result, float a) {
    result = saturated<int32_t>(std::nearbyint(a));
}
template <class R>
inline void ptx_cvt_rni_sat_s8_f32(R& result, float a) {
    result = saturated<int8_t>(std::nearbyint(a));
}
template <class R>
inline void ptx_dp4a_s32_s32(R& result, int a, int b, int sum) {
    for (int shift = 0; shift < 32; shift += 8)
        sum += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
    result = sum;
}

using std::isinf;
using std::isnan;
using std::max;
using std::min;
using std::size_t;
