// Fused attention as generated kernels call it: softmax(scale * q kT, changed by the kernel's own epilogue) v.
//
// The kernel's text fills the parameters, says which keys a query sees (mask_pred) and what becomes of each score
// (epilogue_impl), of which one at a time is computed here, in float32. The queries, keys and values of a head lie as
// the kernel's strides say. What becomes of a query that sees no key, or of NaN, is not in the text, and is refused.
#pragma once

#include "device.hpp"

struct ushort2 {
    uint16_t x, y;
};
struct uint2 {
    uint32_t x, y;
};

namespace fmha {
struct cudaTmaDesc;
using bf16_t = __nv_bfloat16;
using fp16_t = __half;

struct One_element {
    template <class>
    struct Mma_tile {
        static constexpr int MMAS_M = 1, MMAS_N = 1;
    };
};

// A type of operands, and that of the scale behind the first product.
template <class T, class Scale>
struct Traits_of : One_element {
    using Element = T;
    static float scale(uint32_t bits) {
        if constexpr (std::is_same_v<Scale, float>) return bits_as<float>(bits);
        else return bits_as<Scale>(static_cast<uint16_t>(bits));
    }
};
using Ampere_hmma_fp32_traits = Traits_of<__half, float>;
using Ampere_hmma_fp16_traits = Traits_of<__half, __half>;
using Ampere_hmma_bf16_traits = Traits_of<__nv_bfloat16, float>;
using Ada_qmma_e4m3_fp32_traits = Traits_of<__nv_fp8_e4m3, float>;

template <class First, class Second, bool CONTIGUOUS_HEADS, int WIDTH, int GROUP, class Out, bool CONVERTS, class Function>
struct Attention {
    static_assert(!CONVERTS || std::is_same_v<typename First::Element, __nv_fp8_e4m3>, "attention with a quantized result");
    using Traits_p = First;
    using Traits_o = Second;
    using Cta_tile_p = void;
    using Element = typename First::Element;
    using Result = Out;
    using Callback = Function;
    static constexpr int BYTES_PER_SMEM = 0, THREADS = 0;
};
template <class First, class Second, bool HEADS, int, int, int WIDTH, int GROUP, int, int, int, int, class Out,
          bool CONVERTS, unsigned, class Mask, bool, class Callback, bool, bool>
using Kernel_traits_v2 = Attention<First, Second, HEADS, WIDTH, GROUP, Out, CONVERTS, Callback>;
template <class First, class Second, bool HEADS, int, int, int WIDTH, int GROUP, int, int, int, int, class Out,
          bool CONVERTS, int, unsigned, int, class Mask, bool, class Callback, bool, bool>
using Kernel_traits_v2_flash_attention = Attention<First, Second, HEADS, WIDTH, GROUP, Out, CONVERTS, Callback>;

// The score that is computed: its query and its key.
static int query, key;

// What a kernel's epilogue reads for a score: from a matrix (0), of which one row or one column may serve all, or the
// number of the query (1) or of the key (2).
template <class, class, class T, class, class, int KIND>
struct Load_epilogue {
    static_assert(KIND >= 0 && KIND <= 2, "an epilogue of attention that reads otherwise");
    template <class Registers>
    static void load(Registers& to, const char* from, int, int, int, int, int rows, int columns) {
        if constexpr (KIND == 1) to[0][0] = query;
        else if constexpr (KIND == 2) to[0][0] = key;
        else to[0][0] = reinterpret_cast<const T*>(from)[(rows > 1 ? query : 0) * columns + (columns > 1 ? key : 0)];
    }
};

static constexpr int LANES = 16, MOST_KEYS = 1 << 18, MOST_WIDTH = 4096;
static float scores[MOST_KEYS], one_query[MOST_WIDTH], one_result[MOST_WIDTH];

template <class T>
static float dot(const float* a, const T* b, int size) {
    float parts[LANES] = {}, sum = 0;
    int i = 0;
    for (; i + LANES <= size; i += LANES)
        for (int lane = 0; lane < LANES; ++lane) parts[lane] += a[i + lane] * float(b[i + lane]);
    for (; i < size; ++i) sum += a[i] * float(b[i]);
    for (const float part : parts) sum += part;
    return sum;
}

template <class Kernel, class Parameters>
static void attend(const Parameters& given) {
    using T = typename Kernel::Element;
    using Out = typename Kernel::Result;
    if (blockIdx.x || blockIdx.y || blockIdx.z || threadIdx.x) return;  // the first thread computes all
    if (given.skv > MOST_KEYS || given.d > MOST_WIDTH) refuse("attention over so many keys");
    constexpr bool NARROW = std::is_same_v<T, __nv_fp8_e4m3>;  // then weights are rounded, by a scale that follows
    const float scaled = Kernel::Traits_p::scale(given.scale_softmax);
    if (!NARROW && scaled != 1) refuse("attention with a scale behind the softmax");
    const float scale = Kernel::Traits_p::scale(given.scale_bmm1), behind = Kernel::Traits_o::scale(given.scale_bmm2);
    const Index3 grid = gridDim;
    gridDim.x = 1;
    const auto row = [&](auto of, const void* base, int64_t stride, int head, int index, int length) {
        using E = decltype(of);
        const size_t first = Parameters::USES_BNSH_LAYOUT ? size_t(head) * length * given.d : size_t(head) * given.d;
        return const_cast<E*>(reinterpret_cast<const E*>(static_cast<const char*>(base) + index * stride)) + first;
    };
    for (int head = 0; head < given.b * given.h; ++head) {
        const int shared = head / given.h * given.h_kv + head % given.h / int(Parameters::HEAD_GROUP_SIZE);
        blockIdx.y = head;
        for (query = 0; query < given.sq; ++query) {
            const T* const q = row(T(), given.q_ptr, given.q_stride_in_bytes, head, query, given.sq);
            for (int i = 0; i < given.d; ++i) one_query[i] = float(q[i]);
            float most = -INFINITY, total = 0;
            for (key = 0; key < given.skv; ++key) {
                float& score = scores[key];
                score = scale * dot(one_query, row(T(), given.k_ptr, given.k_stride_in_bytes, shared, key, given.skv), given.d);
                if constexpr (Kernel::Callback::HAS_EPILOGUE) {
                    typename Kernel::Callback own;
                    own.load_inputs(given, 0, 0);
                    score = own.epilogue_impl(score, 0, 0);
                }
                if (!given.mask_pred(query, key)) score -= INFINITY;  // NaN where it is infinite, as a mask that is added
                if (score != score) refuse("what attention makes of NaN is not known");
                most = std::max(most, score);
            }
            if (most == -INFINITY) refuse("what attention gives a query that sees no key is not known");
            std::fill_n(one_result, given.d, 0.0f);
            for (key = 0; key < given.skv; ++key) {
                float weight = std::exp(scores[key] - most);
                total += weight;
                if constexpr (NARROW) weight = float(T(weight * scaled));
                const T* const v = row(T(), given.v_ptr, given.v_stride_in_bytes, shared, key, given.skv);
                for (int i = 0; i < given.d; ++i) one_result[i] += weight * float(v[i]);
            }
            Out* const to = row(Out(), given.o_ptr, given.o_stride_in_bytes, head, query, given.sq);
            for (int i = 0; i < given.d; ++i) to[i] = Out(one_result[i] / total * behind);
        }
    }
    gridDim = grid, blockIdx.y = 0;
}
}  // namespace fmha

namespace bert {
struct Fused_multihead_attention_params_v2 {
    void *qkv_ptr, *o_ptr, *cu_seqlens;
    int64_t qkv_stride_in_bytes, o_stride_in_bytes;
    int b, h, h_kv, d;
    uint32_t scale_bmm1, scale_softmax, scale_bmm2;
    bool interleaved, ignore_b1opt, force_unroll, use_int8_scale_max, use_tma, enable_i2f_trick;
    const fmha::cudaTmaDesc *tma_desc_q, *tma_desc_k, *tma_desc_v;
    int heads_per_wave;
    void *counters, *max_barriers, *sum_barriers, *locks, *max_scratch_ptr, *sum_scratch_ptr, *o_scratch_ptr;
};
}  // namespace bert

namespace fused_multihead_attention {
template <class Kernel, class Parameters>
static void device_1xN_nl(const Parameters& given) { fmha::attend<Kernel>(given); }
template <class Kernel, class Parameters>
static void device_flash_attention_nl(const Parameters& given) { fmha::attend<Kernel>(given); }
template <class Kernel, class Parameters>
static void device_flash_attention_nl_tiled(const Parameters& given) { fmha::attend<Kernel>(given); }
}  // namespace fused_multihead_attention
