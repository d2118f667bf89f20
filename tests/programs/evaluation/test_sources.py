"""The text of a kernel as the host's compiler gets it."""

import pytest

from trtdsl.core.errors import ProgramDamagedError, UnevaluatedProgramError
from trtdsl.programs.evaluation.sources import kernel_of

HEAD = "#undef __HAS_FP8\n#ifdef __HAS_FP16\n#include <cuda_fp16.h>\n#endif\n#include <climits>\nusing number = int;\n"
LAST = """
      template <typename T1, typename T2, typename T3>
      __device__ __forceinline__ void __myln_dequantize_blockwise(T1& output,
                                                                  T2 input, T3 scale) {
        output = static_cast<T1>(input) * static_cast<T1>(scale);
      }
    """
END = "/*__MYELIN_NVRTC_KGEN_BUILTINS_END__*/"
BODY = """
extern "C" __global__ void __launch_bounds__(288) first_com(float* a)
{
  extern __align__(64) __shared__ char smem[];
  asm volatile("cvt.rni.sat.s32.f32 %0, %1;" : "=r"(b[i + 0]) : "f"(f(a[0])));
}

extern "C" __global__ void first(float* a)
{
  __shared__ char tile[16];
  a[0] = static_cast<__myln_int32>(a[1]);
  __syncthreads();
}
"""


def test_a_variant_stands_alone_with_its_instructions_as_calls():
    kernel = kernel_of("first_com", HEAD + LAST + END + BODY)
    assert kernel.builtins.startswith("using number = int;\n")
    assert "__global__ void first_com(float* a)" in kernel.body
    assert "first(float" not in kernel.body
    assert "char* const smem = shared_memory;" in kernel.body
    assert "ptx_cvt_rni_sat_s32_f32(b[i + 0], f(a[0]));" in kernel.body
    assert not kernel.barrier


def test_the_other_variant_has_a_barrier_and_the_devices_conversion():
    kernel = kernel_of("first", HEAD + LAST + END + BODY)
    assert "static char tile[16];" in kernel.body
    assert "a[0] = convert<__myln_int32>(a[1]);" in kernel.body
    assert kernel.barrier


def test_before_1_7_the_builtins_end_with_the_last_of_them():
    old, new = kernel_of("first", HEAD + LAST + BODY), kernel_of("first", HEAD + LAST + END + BODY)
    assert old.body.strip() == new.body.strip()
    assert "dequantize_blockwise" in old.builtins
    assert "dequantize_blockwise" in new.builtins
    with pytest.raises(UnevaluatedProgramError, match="does not begin as the kernels that are known"):
        kernel_of("first", HEAD + BODY)


@pytest.mark.parametrize("header", ["dynq.h", "../../etc/passwd"])
def test_an_unknown_header_is_refused_by_name(header):
    with pytest.raises(UnevaluatedProgramError, match=f"header {header}"):
        kernel_of("first", f'#include "{header}"\n{HEAD}{LAST}{END}{BODY}')


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('#include_next "/etc/passwd"\n', "#"),
        ('# include "/etc/passwd"\n', "#"),
        ('/**/#include "/etc/passwd"\n', "#"),
        ('%:include "/etc/passwd"\n', "%:"),
        ('??=include "/etc/passwd"\n', "[?][?]"),
        ('#inc\\\nlude "/etc/passwd"\n', "#"),
        ('#define A "/etc/passwd"\n#include A\n', "#"),
        ('#if __has_include("/etc/passwd")\n#endif\n', "#"),
        ('_Pragma("GCC dependency \\"/etc/passwd\\"")\n', "_Pragma"),
        ('__asm__(".incbin \\"/etc/passwd\\"");\n', "__asm__"),
        ('extern "C" int system(const char*);\n', "extern"),
        ("__attribute__((constructor)) void first() {}\n", "__attribute__"),
        ("[[gnu::constructor]] void first() {}\n", r"\[\["),
    ],
)
def test_what_would_name_a_file_or_run_early_is_refused(text, found):
    for source in (HEAD + LAST + END + text + BODY, text + HEAD + LAST + END + BODY):
        with pytest.raises((ProgramDamagedError, UnevaluatedProgramError), match=f"has '{found}|NVIDIA's header"):
            kernel_of("first", source)


def test_a_text_stays_in_its_namespace():
    with pytest.raises(ProgramDamagedError, match="braces in its text that do not match"):
        kernel_of("first", HEAD + LAST + END + "} int write(int, const void*, int) { return 0; } namespace a {" + BODY)
