// Products of one row with a matrix by the threads of a block, as kernels of attention with one query call them.
#pragma once

#include "reductions.hpp"

template <class From, class To>
struct TypeConvert {
    static void convert(From from, To& to) { to = static_cast<To>(from); }
};

// A register i of a thread holds vector ``thread + i * threads`` of a row.
template <class T, int THREADS, int COUNT>
static void load_to_regs(const T* row, T* registers, int one, int length) {
    if (one != 1 || blockDim.x != THREADS) refuse("load_to_regs of several rows");
    for (int i = 0; i < COUNT; ++i) {
        const int place = int(threadIdx.x) + i * THREADS;
        if (place < length) registers[i] = row[place];
    }
}

template <class T, int THREADS, int VECTOR, int COUNT>
static void store_from_regs(T* row, const T* registers, int one, int length) {
    if (one != 1 || blockDim.x != THREADS) refuse("store_from_regs of several rows");
    for (int i = 0; i < COUNT; ++i)
        for (int v = 0; v < VECTOR; ++v) {
            const int place = (int(threadIdx.x) + i * THREADS) * VECTOR + v;
            if (place < length) row[place] = registers[i * VECTOR + v];
        }
}

// Element i of a vector of N, which is a number where N is 1.
template <int N, class T>
static auto& of(T& vector, int i) {
    if constexpr (N == 1) return vector;
    else return vector.values[i];
}

template <class A, class B, class Sum, int N>
struct FMAReduce {
    static void fma(Sum& sum, const A& a, const B& b) {
        for (int i = 0; i < N; ++i) sum += static_cast<Sum>(of<N>(a, i)) * static_cast<Sum>(of<N>(b, i));
    }
};
template <class A, class Factor, class Sums, class Sum, int N>
struct FMA {
    static void fma(Sums& sums, const A& a, Factor factor) {
        for (int i = 0; i < N; ++i) of<N>(sums, i) += static_cast<Sum>(of<N>(a, i)) * static_cast<Sum>(factor);
    }
};

// Gives each thread its values, and waits until all have read those of the others.
template <class T, class Use>
static void exchanged(const T& own, Use use) {
    static_assert(sizeof(T) <= sizeof exchange[0]);
    std::memcpy(exchange[threadIdx.x], &own, sizeof own);
    __syncthreads();
    use([](int thread) {
        T value;
        std::memcpy(&value, exchange[thread], sizeof value);
        return value;
    });
    __syncthreads();
}

// Over the LANES threads that stand beside each other; each gets the result.
template <class T, class Op, int LANES>
static T warp_reduce(T own) {
    T result = Op::identity();
    exchanged(own, [&](auto of) {
        const int first = threadIdx.x / LANES * LANES;
        for (int lane = 0; lane < LANES; ++lane) result = Op::of(result, of(first + lane));
    });
    return result;
}

// Over a row in the registers of all threads; each gets the result.
template <class T, class Op, int WARPS, int LANES, int COUNT>
static void reduce(const T* registers, T* result, T*, int length) {
    if (blockDim.x != WARPS * LANES || length > WARPS * LANES * COUNT) refuse("reduce over more than a block holds");
    T own = Op::identity();
    for (int i = 0; i < COUNT; ++i)
        if (int(threadIdx.x) + i * WARPS * LANES < length) own = Op::of(own, registers[i]);
    *result = Op::identity();
    exchanged(own, [&](auto of) {
        for (int thread = 0; thread < WARPS * LANES; ++thread) *result = Op::of(*result, of(thread));
    });
}

// Over the threads of one place among COLUMNS; the first thread of warp c gets the result of place c.
template <class Vector, class Sum, class Op, int N, int COLUMNS, int LANES>
static void warp_reduce_column_major(Vector& own, Vector*) {
    const Vector before = own;
    exchanged(before, [&](auto from) {
        const int column = threadIdx.x / LANES;
        if (threadIdx.x % LANES || column >= COLUMNS) return;
        for (int i = 0; i < N; ++i) of<N>(own, i) = Op::identity();
        for (int thread = column; thread < int(blockDim.x); thread += COLUMNS) {
            const Vector other = from(thread);
            for (int i = 0; i < N; ++i) of<N>(own, i) = Op::of(of<N>(own, i), of<N>(other, i));
        }
    });
}
