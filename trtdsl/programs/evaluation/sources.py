"""The text of a generated kernel as C++ that a host's compiler takes: one variant of it, and what stands before it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ...core.errors import ProgramDamagedError, UnevaluatedProgramError
from ..plan import COMMENT, KERNEL
from ..touching import VARIANT, variant_of

BUILTINS_END = re.compile(
    r"/\*__MYELIN_NVRTC_KGEN_BUILTINS_END__\*/|"
    r"(?<=\n)      __device__ [^\n]* __myln_dequantize_blockwise\([^}]*\}\n(?![^\n]*/\*__MYELIN)"
)
"""The comment behind the last builtin; the last builtin itself, before 1.7, which began to write the comment."""
FMHA = "fmha_v2/fused_multihead_"
OWN_HEADERS = {
    **dict.fromkeys(("block_reduction.h", "warp_reduction.h", "tiled_reduction.h"), "reductions_of_kernel.inc"),
    **dict.fromkeys(("topk.h", "sort_topk.h", "warp_reduction_with_index.h"), "selections_of_kernel.inc"),
    **dict.fromkeys(("cumsum.h", "block_norm.h"), "rows_of_kernel.inc"),
    **dict.fromkeys(("reduction_ops.h", "gemv_utils.h"), "vectors.hpp"),
    f"{FMHA}attention_kernel_1xN_noloop.h": "attention.hpp",
    f"{FMHA}flash_attention_kernel.h": "attention.hpp",
    f"{FMHA}flash_attention_kernel_noloop.h": "attention.hpp",
    f"{FMHA}flash_attention_kernel_noloop_tiled.h": "attention.hpp",
}
"""NVIDIA's headers whose contract is known from the calls, and ours, which stand for them."""
TYPE_HEADERS = ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h")

INCLUDE = re.compile(r'^#include\s+["<]([\w./]+)[">]\s*\n', re.MULTILINE)
TYPE_SWITCH = re.compile(r"^#(?:undef|define) __HAS_(?:FP16|BF16|FP8)\b.*\n", re.MULTILINE)
BOUND = re.compile(r"__launch_bounds__\((\d{1,9})\b")
DYNAMIC_SHARED = re.compile(r"extern\s+(?:__align__\(\d+\)\s+)?__shared__\s+char\s+(\w+)\[\];")
ASSEMBLY = re.compile(r'\basm\s*(?:volatile\s*)?\((?P<inside>(?:"(?:[^"\\]|\\.)*"|[^";])*)\);')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
LEADING = re.compile(rf"\s*{STRING.pattern}")
OPERAND = re.compile(r'"[=+&]*\w"\s*\(')
INTEGER_CAST = re.compile(r"static_cast<(__myln_u?int(?:8|16|32|64))>\(")
DIRECTIVE = re.compile(
    r"^\s*#(?:if \d|ifn?def \w+|else|endif|undef \w+|define \w+|pragma unroll)[ \t]*(?://.*)?$", re.MULTILINE
)
FOREIGN = re.compile(
    r"#|%:|\?\?|\\\n|\[\[(?!(?:un)?likely\]\])|\b(?:asm|__asm\w*|extern|__attribute\w*|__declspec|_Pragma|__has_\w+|import|module)\b"
)
"""What could name a file, or have code run before the process that runs kernels gave up its rights."""
BARRIER = re.compile(r"__sync|block_reduction|warp_reduction|tiled_reduction|__shfl")


@dataclass(frozen=True)
class Kernel:
    """One variant of a generated kernel."""

    name: str
    builtins: str
    """The functions that every kernel of this version begins with."""
    body: str
    barrier: bool
    headers: tuple[str, ...]
    """Ours, for those that it includes."""
    most_threads: int | None = None
    """Of a block, which the device's compiler was told."""
    marks: bool = False
    """Whether each byte that it reads or writes is marked."""


def kernel_of(name: str, source: str) -> Kernel:
    """The variant of a source that has this name.

    Raises UnevaluatedProgramError for a header that is not known.
    """
    end = BUILTINS_END.search(source)
    if end is None:
        raise UnevaluatedProgramError(f"the kernel {name} does not begin as the kernels that are known")
    head, tail = source[: end.end()], source[end.end() :]
    included = INCLUDE.findall(source)
    for header in included:
        if header not in (*OWN_HEADERS, *TYPE_HEADERS, "climits"):
            raise UnevaluatedProgramError(
                f"the kernel {name} uses NVIDIA's header {header}, whose functions are not known"
            )
    variant = variant_of(tail, name)
    if variant is None:
        raise UnevaluatedProgramError(f"the plan has no source of the kernel {name}")
    head_of_variant = KERNEL.match(variant)
    assert head_of_variant is not None
    body = VARIANT.split(tail)[0] + variant.replace(head_of_variant[0], f"__global__ void {name}(", 1)
    bound = BOUND.search(head_of_variant[0])
    return Kernel(
        name,
        _builtins(head),
        _enclosed(name, _on_host(INCLUDE.sub("", body))),
        BARRIER.search(body) is not None,
        tuple(dict.fromkeys(OWN_HEADERS[header] for header in included if header in OWN_HEADERS)),
        int(bound[1]) if bound is not None else None,
    )


@lru_cache(maxsize=64)
def _builtins(head: str) -> str:
    """What stands before a kernel: the same for most of an engine, with the switches of a few types."""
    return _enclosed("of this engine", _on_host(_without_types(head)))


def _enclosed(name: str, text: str) -> str:
    """The text; ProgramDamagedError for one that leaves its namespace, or has what only programs of hosts have."""
    plain = COMMENT.sub(" ", STRING.sub('""', DIRECTIVE.sub("", text)))
    foreign = FOREIGN.search(plain)
    if foreign is not None:
        raise ProgramDamagedError(f"the kernel {name} has {foreign[0]!r} in its text, which no generated kernel has")
    depth = 0
    for brace in re.findall(r"[{}]", plain):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            break
    if depth:
        raise ProgramDamagedError(f"the kernel {name} has braces in its text that do not match")
    return text


def _without_types(head: str) -> str:
    """The builtins for all types at once, so that all kernels share them: each source switches on its own."""
    switches = re.compile(r"^#ifdef __HAS_\w+\n#include <\w+\.h>\n#endif\n", re.MULTILINE)
    return INCLUDE.sub("", TYPE_SWITCH.sub("", switches.sub("", head))).lstrip()


def _on_host(text: str) -> str:
    text = DYNAMIC_SHARED.sub(r"char* const \1 = shared_memory;", text)
    text = text.replace("__shared__", "static").replace('extern "C" __constant__', "static const")
    text = INTEGER_CAST.sub(r"convert<\1>(", text)
    return ASSEMBLY.sub(_call_of_assembly, text)


def _call_of_assembly(match: re.Match[str]) -> str:
    """A PTX instruction as a call of the function that does the same: ``ptx_div_approx_f32(result, a, b);``."""
    inside, instruction, position = match["inside"], "", 0
    while (part := LEADING.match(inside, position)) is not None:  # the compiler joins them
        instruction, position = instruction + part[1], part.end()
    words = instruction.replace("{", " ").replace("}", " ").split()
    name = "ptx_" + re.sub(r"\W", "_", words[0]) if words else "ptx_nothing"
    return f"{name}({', '.join(_operands(inside[position:]))});"


def _operands(text: str) -> list[str]:
    """The expressions in ``"=f"(x) : "f"(a), "f"(b)``."""
    found, position = [], 0
    while (match := OPERAND.search(text, position)) is not None:
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found.append(text[match.end() : end - 1])
        position = end
    return found
