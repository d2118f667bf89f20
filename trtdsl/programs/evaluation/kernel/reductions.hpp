// Reductions over a block and over a warp, as generated kernels call them.
//
// A kernel specializes read_input<ID> (one element or vector of its row) and write_output<ID> (one result) and calls
// block_reduce or warp_reduce, whose lengths are template arguments, or a form _ds (dynamic sizes), where they are
// arguments. What the calls leave open is refused: a form with another number of arguments does not compile.
#pragma once

#include "device.hpp"

struct RunTimeErrorInformation;

template <class T, int N>
struct array_t {
    T values[N];
};

template <class T>
struct AddOp {
    static T identity() { return T(0); }
    static T of(T a, T b) { return a + b; }
};
template <class T>
struct MulOp {
    static T identity() { return T(1); }
    static T of(T a, T b) { return a * b; }
};
template <class T>
struct Extreme {
    using Limits = std::numeric_limits<std::conditional_t<std::is_arithmetic_v<T>, T, float>>;
    static constexpr auto low() { return Limits::has_infinity ? -Limits::infinity() : Limits::lowest(); }
    static constexpr auto high() { return Limits::has_infinity ? Limits::infinity() : Limits::max(); }
};
template <class T>
struct MaxOp {
    static T identity() { return T(Extreme<T>::low()); }
    static T of(T a, T b) { return a > b || a != a ? a : b; }
};
template <class T>
struct MinOp {
    static T identity() { return T(Extreme<T>::high()); }
    static T of(T a, T b) { return a < b || a != a ? a : b; }
};

template <class T, class Vector, int N>
struct VectorInit {
    static Vector init(T value) {
        if constexpr (N == 1) {
            return value;
        } else {
            Vector result;
            for (int i = 0; i < N; ++i) result.values[i] = value;
            return result;
        }
    }
};
template <class Vector, class Tuple, int N>
struct TupleInit {
    static Tuple init(Vector value) { return VectorInit<Vector, Tuple, N>::init(value); }
};

// Element ``lane`` of member ``member`` of what read_input gives: a number, a vector, or a tuple of either.
template <int TUPLE, int VECTOR, class In>
static auto element(const In& in, int member, int lane) {
    if constexpr (TUPLE > 1 && VECTOR > 1) return in.values[member].values[lane];
    else if constexpr (TUPLE > 1) return in.values[member];
    else if constexpr (VECTOR > 1) return in.values[lane];
    else return in;
}

static const char* const FEWER = "rows of fewer elements than results: what the other threads keep is not known";
alignas(16) static char exchange[MOST_THREADS][128], result[MOST_THREADS][128];

// The threads of a group, of which this one is number ``lane``, reduce one row and write its results.
template <class Op, class Accumulator, class In, class Out, int VECTOR, int TUPLE, bool MEAN, class Read, class Write>
static void reduce_row(Read read, Write write, int lane, int lanes, int first, bool present, int length, int outputs) {
    using Partial = array_t<Accumulator, TUPLE>;
    static_assert(sizeof(Partial) <= sizeof exchange[0]);
    auto slot = [&](int i) -> Partial& { return *reinterpret_cast<Partial*>(exchange[first + i]); };
    Partial own;
    for (auto& value : own.values) value = Op::identity();
    for (int i = lane; present && i < (length + VECTOR - 1) / VECTOR; i += lanes) {
        const In in = read(i);
        for (int member = 0; member < TUPLE; ++member)
            for (int v = 0; v < VECTOR; ++v)
                own.values[member] =
                    Op::of(own.values[member], static_cast<Accumulator>(element<TUPLE, VECTOR>(in, member, v)));
    }
    slot(lane) = own;
    __syncthreads();
    Partial& all = *reinterpret_cast<Partial*>(result[first]);  // the next reduction writes it behind a barrier
    if (lane == 0) {
        all = own;
        for (int i = 1; i < lanes; ++i)
            for (int member = 0; member < TUPLE; ++member)
                all.values[member] = Op::of(all.values[member], slot(i).values[member]);
    }
    __syncthreads();
    Out out;
    for (int member = 0; member < TUPLE; ++member) {
        Accumulator value = all.values[member];
        if constexpr (MEAN) value = value / static_cast<Accumulator>(length);
        if constexpr (TUPLE > 1) out.values[member] = value;
        else out = static_cast<Out>(value);
    }
    for (int i = lane; present && i < outputs; i += lanes) write(i, out);
}
