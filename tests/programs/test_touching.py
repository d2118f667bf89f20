"""What a kernel can touch of its operands, by texts that are worked by hand."""

import math

from trtdsl.programs.touching import most_touched

THREAD = "__myln_int32(blockIdx.x) * __myln_int32(blockDim.x)"


def touched(body, **numbers):
    """The elements that a kernel reads of a table and of indices, and writes of a result; it takes a number, too."""
    source = f"""
extern "C" __global__ void kernel(
    __myln_float* __restrict__ __v1,
    __myln_int64* __restrict__ __v2,
    __myln_float* __restrict__ __v3,
    __myln_int64 __v4)
{{
  __myln_int32 __v5 = 1 * ({THREAD}) + 0 * __myln_int32(blockDim.x) + __myln_int32(threadIdx.x);
{body}
}}
"""
    found = most_touched(source, "kernel", ["table", "rows", "result", "n"], numbers)
    return found["table"][0], found["rows"][0], found["result"][1]


GATHER = """
  __myln_int32 __v6 = (__v5 / 64) % {size};
  __myln_int32 __v7 = (__v5 / 1) % 64;
  __myln_int64 __v8;
  if (true) {{
    __v8 = ((__myln_int64*)__v2)[(0 + ((__v6) * 1))];
  }}
  if (__v8 < 0) {{
    __v8 = __v8 + 1000;
  }}
  ((__myln_float*)__v3)[__v5 * 1] = ((__myln_float*)__v1)[(0 + ((__v7) * 1) + ((__v8) * 64))];
"""


def test_a_gather_reads_a_row_for_each_index():
    assert touched(GATHER.format(size=5)) == (5 * 64, 5, math.inf)
    cast = "  __myln_int32 __v9 = (__myln_int32)__v4;"
    assert touched(cast + GATHER.format(size="__v9"), n=7) == (7 * 64, 7, math.inf)
    assert touched(cast + GATHER.format(size="__v9")) == (math.inf, math.inf, math.inf)


def test_of_two_elements_in_a_byte_each_counts_once():
    """As the builder writes a weight in 4 bits, one at a time and eight at a time, and its place among them."""
    for bytes_, elements, place in ((1, 2, "((__v6) * 64 + (__v7)) / 2"), (4, 8, "((__v6) * 64 + (__v7))")):
        kind = f"__myln_vtype_packed<__myln_int8, reinterpret_int4, {bytes_}, {elements}, 1, 4>"
        source = f"""
extern "C" __global__ void kernel(
    {kind}* __restrict__ __v1,
    __myln_float* __restrict__ __v3)
{{
  __myln_int32 __v5 = 1 * ({THREAD}) + 0 * __myln_int32(blockDim.x) + __myln_int32(threadIdx.x);
  __myln_int32 __v6 = (__v5 / 64) % 5;
  __myln_int32 __v7 = (__v5 / 1) % 64;
  {kind} __v8 = (({kind}*)__v1)[{place}];
  __v3[__v5 * 1] = __v8.values(({place.partition(" / ")[0]}) % 2);
}}
"""
        found = most_touched(source, "kernel", ["weight", "result"], {})
        assert found["weight"] == (5 * 64 * (1 if elements == 2 else 8), 0)


def test_of_remainders_in_one_another_the_outer_one_counts():
    body = """
  __myln_int32 __v6 = (((__v5 / 4) % 1200) + 1) % 3;
  __v3[__v5 * 1] = __v1[(__v6 * 1)];
"""
    assert touched(body) == (3, 0, math.inf)


def test_conditions_narrow_the_parts_of_a_concatenation():
    body = """
  __myln_int32 __v6 = (__v5 / 1) % 10;
  if (__v6 < 3) {
    __v3[__v6 * 1] = __v1[(__v6 * 1)];
  } else {
    __myln_int32 __v7 = __v6 - 3;
    if (__v7 < 2) {
      __v3[__v6 * 1] = __v1[(__v7 * 1) + 50];
    }
  }
"""
    assert touched(body) == (3 + 2, 0, 3 + 2)


def test_places_that_are_read_again_or_by_another_of_a_thread_s_indices_count_once():
    body = f"""
  __myln_int32 __v6 = 1 * ({THREAD}) + 1 * __myln_int32(blockDim.x) + __myln_int32(threadIdx.x);
  __myln_int32 __v7 = (__v5 / 1) % 12;
  __myln_int32 __v8 = (__v6 / 1) % 12;
  __myln_vtype<__myln_float,4,16> __v9 = ((__myln_vtype<__myln_float,4,16>*)__v1)[(__v7 * 1)];
  __myln_vtype<__myln_float,4,16> __v10 = ((__myln_vtype<__myln_float,4,16>*)__v1)[(__v8 * 1)];
  __myln_vtype<__myln_float,4,16> __v11 = ((__myln_vtype<__myln_float,4,16>*)__v1)[(__v8 * 1)];
"""
    assert touched(body) == (4 * 12, 0, 0)


def test_a_place_by_the_number_of_the_thread_is_below_what_the_threads_are():
    number = f"1 * ({THREAD}) + 0 * __myln_int32(blockDim.x) + __myln_int32(threadIdx.x)"
    body = f"""
  if ({number} < 192 / 2) {{
    __v3[__v5 * 1] = __v1[(__v5 * 1) + 7];
  }}
"""
    assert touched(body) == (96, 0, 96)


def test_the_place_of_a_tile_and_that_within_it_are_two_indices():
    body = """
  __myln_int32 __v6 = (8 + 3 - 1) / 3;
  __myln_int32 __v7 = (__v5 / 1) % __v6;
  __myln_int32 __v8 = __v7*3 + ((0 + threadIdx.x)/1)%3;
  __v3[__v8 * 1] = __v1[(__v8 * 1)];
"""
    assert touched(body) == (9, 0, 9)


def test_what_a_function_is_given_it_may_touch_as_a_whole():
    assert touched("  attention(__v1, __v5);") == (math.inf, 0, 0)
    assert touched("  __myln_float __v6 = __v1[(threadIdx.x)];") == (math.inf, 0, 0)
