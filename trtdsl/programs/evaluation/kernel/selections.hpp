// The elements of a row that come first in an order, kept sorted while the row is read.
#pragma once

#include "device.hpp"

struct RunTimeErrorInformation;

template <class A, class B>
struct pair_t {
    A first;
    B second;
};

template <class T, class Index>
struct MaxIndexOp {
    using Value = T;
    using Element = pair_t<T, Index>;
    static bool before(const Element& a, const Element& b) { return a.first > b.first; }
};
template <class T, class Index>
struct MinIndexOp {
    using Value = T;
    using Element = pair_t<T, Index>;
    static bool before(const Element& a, const Element& b) { return a.first < b.first; }
};

// Of equal elements the one that is read first comes first, as TensorRT documents it; NaN has no place in the order.
template <class Op>
struct Selection {
    using Element = typename Op::Element;
    static constexpr int MOST = 4096;
    static inline Element kept[MOST];
    const int limit;
    int size = 0;

    explicit Selection(int count) : limit(count) {
        if (count > MOST) refuse("the greatest of so many elements");
    }
    void add(const Element& element) {
        if (element.first != element.first) refuse("the place of NaN among the greatest or least elements is not known");
        if (size == limit && (!limit || !Op::before(element, kept[size - 1]))) return;
        Element* const place = std::upper_bound(kept, kept + size, element, Op::before);
        size = std::min(size + 1, limit);
        std::move_backward(place, kept + size - 1, kept + size);
        *place = element;
    }
};
