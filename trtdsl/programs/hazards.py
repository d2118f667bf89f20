"""Unnecessary work of a program, in plain words, with the line that causes it and what to write instead."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from .devices import DEFAULT, DEVICES, seconds
from .graph import Graph, Launch, described
from .launches import DENSE, REARRANGING, parts
from .program import Program, megabytes

REARRANGED = 0.05
"""The share of all bytes from which on what one line rearranges is told."""
WORTH_TELLING = 0.01
"""That of everything else."""
FEWEST = 8
"""Up to this size, one more may be another tensor's, as 3 and 4 channels are."""


@dataclass(frozen=True, repr=False)
class Hazard:
    """One unnecessary cost at one line."""

    name: str
    line: str
    callers: tuple[str, ...]
    """The lines that call the function around ``line``, where that is a helper's."""
    launches: tuple[int, ...]
    bytes: int
    """What those launches move; of a product without its epilogue, what lies between the two."""
    share: float
    """Of all bytes of the program."""
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text} ({megabytes(self.bytes)}, {self.share:.0%} of all). {self.advice}"

    def __repr__(self) -> str:
        return f"Hazard({self})"

    @property
    def place(self) -> str:
        """Its line, with the lines that call the helper function which that stands in."""
        if not self.callers:
            return self.line or "no line"
        more = len(self.callers) - SHOWN
        return f"{self.line} (from {', '.join(self.callers[:SHOWN])}{f' and {more} more' if more > 0 else ''})"


SCALED = "a convolution is multiplied by one number a channel when it is written"
ACROSS = frozenset({SCALED})
"""Told once for all lines: it costs little at each."""
FOLD = "Fold the batch norm into the weights: F.batch_norm does it where the convolution has no other use."
ATTENTION = (
    "In float16 or bfloat16 F.scaled_dot_product_attention is one launch (--precision fp16); in float32 TensorRT-RTX "
    "was not seen to fuse it."
)
GIVEN = (
    "F.scaled_dot_product_attention does not give the weights: where nobody needs them, leave that output out, and it "
    "is one launch in float16 or bfloat16."
)
PADDING = (
    "A product sums over an odd size, and TensorRT copies the operand to make it even. Give it an even size, best a "
    "multiple of 8, and the copy is gone."
)
PERHAPS_ODD = (
    "TensorRT copies the operand of a product whose size it does not know to be even. Make it provably even: a fixed "
    "even size, or a multiple of a dimension (td.Input((N, 2 * H)), or --input x=N,2*H with trtdsl port; 16 * H where "
    "it is halved three times on its way)."
)
EPILOGUE = (
    "Let what follows be one of bias, relu, gelu, tanh or sigmoid in the product's own order; TensorRT fuses it where "
    "no reshape or transpose stands between."
)
LOOPS = "a launch per loop step"
LOOP = (
    "Take out of the loop what does not depend on the step before: the products of all steps are one, as F.gru and "
    "F.lstm make them. A recurrence that is linear in its state can be a scan: chunked or parallel."
)

WROTE = "a product in {} writes float32"
ONE_SCALE = (
    "Give its weight one scalar scale, of float32, and multiply what it gives by the channels' own: a scale for each "
    "channel (axis=) makes the builder write float32. td.find_precision does so."
)
FEWER = (
    "In TensorRT-RTX 1.7 a product writes int8 only if it is linear and at most a ReLU stands before the next "
    "rounding, and none writes fp8: others pay another launch, which great ones alone win back."
)

DEQUANTIZED = "dequantized before its product"
UNCOMPUTED = (
    "TensorRT-RTX 1.7 computes in int8 and fp8 where one scale quantizes each of both operands: no transposed "
    "convolution, no convolution for compute capability 7.5, no blocks (MXFP8, NVFP4). In float16 they cost less."
)

LOGITS = "logits of all positions"
LAST = (
    "A step that generates needs those of the last token: take its row before the product, "
    "L.gather(x, lengths - 1, 1, num_elementwise_dims=1)."
)
JOINED = (
    "Its launch writes straight into the concatenation, which so moves nothing itself; only this copy is left of it. "
    "No edit is known that moves less."
)
JOINS = frozenset({"cat", "concat", "concatenate", "concatenation", "hstack", "vstack", "dstack", "stack"})
"""Calls that put tensors together."""
TURNS = frozenset({"permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "mT", "T", "t", "contiguous"})
"""Calls that change the order of dimensions."""
DEQUANTIZING = REARRANGING | {"Cast", "Mul", "Dequ"}
NARROW = ("int8", "int4", "float8_e4m3fn", "float4")
SHOWN = 2
"""Lines of callers that are told."""
IN_PLACE = "Declare it as a td.State of all slots and write into it with L.kv_cache_update, which copies nothing."
SHARED = (
    "Give queries, keys and values of fewer heads to F.scaled_dot_product_attention(…, enable_gqa=True): the kernel "
    "reads each head once, for one query or where their range begins at two. For other ranges see networks/llama.py."
)
TWICE = (
    "A batch that is 1 in one profile alone is laid out otherwise there: declare it with a greater max, or build an "
    "engine for each profile."
)

Found = tuple[str, Launch, int, str, str]
"""A hazard of one launch: its name, the launch, the bytes, the text and the advice."""


def find_hazards(program: Program) -> tuple[Hazard, ...]:
    """The hazards of a program, those that move most bytes first. One kind at one line is one hazard."""
    graph = program.graph
    total = max(program.bytes, 1)
    merged: dict[tuple[str, str, str], tuple[list[Launch], int, str]] = {}
    for check in CHECKS:
        for name, launch, moved, text, advice in check(program, graph):
            line = "" if text in ACROSS else ", ".join(graph.lines(launch)[-1:])
            launches, before, _ = merged.setdefault((name, line, text), ([], 0, ""))
            launches.append(launch)
            merged[name, line, text] = (launches, before + moved, advice)
    hazards = []
    for (name, line, text), (launches, moved, advice) in merged.items():
        if moved / total < (REARRANGED if name == "rearranging" else LEAST.get(name, WORTH_TELLING)):
            continue
        if text in ACROSS:
            lines = list(dict.fromkeys(", ".join(graph.lines(launch)[-1:]) for launch in launches))
            line = lines[0] if len(lines) == 1 else f"{lines[0]} and {len(lines) - 1} more"
        times = len(launches) if name == LOOPS else sum(launch.times for launch in launches)
        words = text if times == 1 else f"{text}, {times} times"
        numbers, share = tuple(launch.index for launch in launches), moved / total
        hazards.append(Hazard(name, line, _callers(line, launches), numbers, moved, share, words, advice))
    return tuple(sorted(hazards, key=lambda hazard: (-hazard.bytes, hazard.line, hazard.name)))


def _callers(line: str, launches: Iterable[Launch]) -> tuple[str, ...]:
    places = (place for launch in launches for place in launch.places if place.line == line)
    return tuple(dict.fromkeys(place.caller for place in places if place.caller))


def _at(launch: Launch, calls: frozenset[str]) -> Launch:
    """The launch with the line of one of these calls alone, where it has one: it may hold lines of much else."""
    found = [place.line for place in launch.places if place.call in calls]
    return replace(launch, lines=(found[-1],)) if found else launch


def _rearranging(program: Program, graph: Graph) -> Iterable[Found]:
    for launch in program.launches:
        if launch.kind != "rearranging" or _of_cache(program, graph, launch):
            continue
        cause = graph.cause(launch)
        padded = _padded(program, launch)
        if padded:
            sizes = ", ".join(f"{before} to {after}" for before, after in padded)
            text = f"an operand is copied to pad its size {sizes}"
            odd = all(before.isdigit() for before, _ in padded)
            yield "padding", launch, launch.bytes * launch.times, text, PADDING if odd else PERHAPS_ODD
            continue
        if _is_part(program, launch):
            text = "what is a part of a concatenation, too, is copied before it is read here"
            yield "rearranging", launch, launch.bytes * launch.times, text, JOINED
            continue
        launch = _at(launch, JOINS if "Conc" in parts(launch.name) else TURNS)
        what = "a concatenation" if "Conc" in parts(launch.name) else "a transpose or copy"
        around = {other.kind for other in graph.neighbours(launch) if other is not None}
        if "Conc" in parts(launch.name):
            advice = "Keep the parts apart if what reads them can: the product of a concatenation is a sum of products."
        elif "product" in around:
            advice = (
                "Write the product in the order that its operand has in memory, channels last after a convolution: "
                "F.einsum plans it so, and permute(0, 2, 3, 1) before a matmul is free there."
            )
        elif "convolution" in around:
            advice = "Convolutions read and write channels last: keep what stands between two of them in that order."
        else:
            advice = "Give the tensor the order in which it is read."
        text = f"{what} computes nothing{f', {_kinds(cause)}' if cause else ''}"
        yield "rearranging", launch, launch.bytes * launch.times, text, advice


def _is_part(program: Program, launch: Launch) -> bool:
    """Whether a copy reads a part of a tensor whose parts several launches write in place."""
    wholes = {program.tensors[operand.tensor].view_of for operand in launch.reads} - {None}
    written = (operand for other in program.launches for operand in other.writes)
    return bool(wholes) and sum(program.tensors[operand.tensor].view_of in wholes for operand in written) > 1


def _padded(program: Program, launch: Launch) -> list[tuple[str, str]]:
    """The sizes that a kernel pads and what they become: it joins one operand with a constant, or a value it repeats.

    A dynamic size is padded to ``2*((size + 1)//2)``, which is another size at some of its values alone.
    """
    read = [program.tensors[operand.tensor] for operand in launch.reads]
    read = [tensor.dims for tensor in read if not tensor.constant]
    if "Conc" not in parts(launch.name):
        return []
    if len(read) != 1 or len(launch.writes) != 1:  # of a kernel that takes tensors apart, too
        written = dict.fromkeys(size for operand in launch.writes for size in program.tensors[operand.tensor].dims)
        return [(size, made) for size in written for made in written if _is_made_even(size, made)][:1]
    written = program.tensors[launch.writes[0].tensor].dims
    before, after = Counter(read[0]) - Counter(written), Counter(written) - Counter(read[0])
    pairs = [(size, made) for size in before for made in after if _is_padded(size, made)]
    return pairs if len(pairs) == len(before) == len(after) else []


def _is_made_even(before: str, after: str) -> bool:
    if before.isdigit() and after.isdigit():
        return int(before) % 2 == 1 and int(after) == int(before) + 1 > FEWEST
    return f"({before} + 1)//2" in after


def _is_padded(before: str, after: str) -> bool:
    """Whether one size is the other made even, or a larger number."""
    if before.isdigit() and after.isdigit():
        return int(before) < int(after)
    return f"({before} + 1)//2" in after


def _kinds(cause: str) -> str:
    """A cause without its lines, so that the same cause at several places is one."""
    return ", ".join(part.partition(" at ")[0] if " at " in part else part for part in cause.split(", "))


def _unfused_epilogue(program: Program, graph: Graph) -> Iterable[Found]:
    """One text for all products of a line, with each line that reads one back, so that they are one hazard."""
    pairs: dict[str, list[tuple[Launch, Launch]]] = {}
    for launch in program.launches:
        if launch.kind != "product" or not launch.writes or graph.is_callers(launch.writes[0]):
            continue
        readers = graph.consumers(launch)
        if len(readers) == 1 and readers[0].kind == "pointwise" and readers[0].loop == launch.loop:
            pairs.setdefault(", ".join(graph.lines(launch)[-1:]), []).append((launch, readers[0]))
    for found in pairs.values():
        places = ", ".join(dict.fromkeys(reader.lines[-1] for _, reader in found if reader.lines))
        text = f"the product is written, and another kernel reads it back{f' at {places}' if places else ''}"
        for launch, _ in found:
            between = 2 * launch.writes[0].bytes * launch.times
            yield "product without its epilogue", launch, between, text, EPILOGUE


def _is_softmax(launch: Launch) -> bool:
    made_of = parts(launch.name)
    return launch.kind == "reduction" and {"Maxr", "Exp", "Sum"}.issubset(made_of)


def _products(launch: Launch, step: Callable[[Launch], list[Launch]]) -> list[Launch]:
    """The products next to a launch, past at most one kernel that scales, masks or divides."""
    near = step(launch)
    further = [far for other in near if other.kind == "pointwise" for far in step(other)]
    return [other for other in (*near, *further) if other.kind == "product"]


def _at_its_product(softmax: Launch, product: Launch) -> Launch:
    """The softmax's launch with the line of the product behind it: the kernel holds lines of much else, in no order."""
    shared = [line for line in product.lines if line in softmax.lines] or list(product.lines[:1])
    return replace(softmax, lines=(shared[0],)) if shared else softmax


def _gives(graph: Graph, launch: Launch) -> bool:
    """Whether what a launch writes is an output of the network, as it is or moved or cast."""
    copies = [other for other in graph.consumers(launch) if other.rearranges or other.kind == "cast"]
    return any(graph.is_callers(operand) for each in (launch, *copies) for operand in each.writes)


def _attention(program: Program, graph: Graph) -> Iterable[Found]:
    for launch in program.launches:
        if not _is_softmax(launch):
            continue
        before, after = _products(launch, graph.before), _products(launch, graph.after)
        if before and after:
            moved = sum(each.bytes * each.times for each in (before[0], launch, after[0]))
            text, advice = "attention is a product, a softmax and a product", ATTENTION
            if _gives(graph, launch):
                text, advice = f"{text}, whose weights are an output, too", GIVEN
            yield "attention not fused", _at_its_product(launch, after[0]), moved, text, advice
        elif not after:
            yield (
                "softmax on its own", launch, launch.bytes * launch.times,
                "a softmax is a launch of its own",
                "Where only the greatest value is needed, leave it out; before a loss or a threshold, use the logits.",
            )  # fmt: skip


def _casts(program: Program, graph: Graph) -> Iterable[Found]:
    for launch in program.launches:
        if launch.kind != "cast" or not launch.reads or not launch.writes:
            continue
        source, made = (program.tensors[operands[0].tensor].dtype for operands in (launch.reads, launch.writes))
        back = [
            other
            for other in graph.consumers(launch)
            if other.kind == "cast" and other.writes and program.tensors[other.writes[0].tensor].dtype == source
        ]
        if back:
            yield (
                "cast back and forth", launch, (launch.bytes + back[0].bytes) * launch.times,
                f"{source} becomes {made} and {source} again",
                "Leave the tensor as it is, or keep all that lies between in one dtype.",
            )  # fmt: skip
        elif all(program.tensors[operand.tensor].constant for operand in launch.reads):
            yield (
                "constant cast at run time", launch, launch.bytes * launch.times,
                f"a constant of {source} becomes {made} at every run", "Store the weight in the dtype it is used in.",
            )  # fmt: skip


def _loops(program: Program, graph: Graph) -> Iterable[Found]:
    loops: dict[int, list[Launch]] = {}
    for launch in program.launches:
        if launch.loop is not None:
            loops.setdefault(launch.loop, []).append(launch)
    for body in loops.values():
        first = max(body, key=lambda launch: launch.times)
        moved = sum(launch.bytes * launch.times for launch in body)
        total = sum(launch.times for launch in body)
        if total > len(body):
            without = sum(not each.lines for each in body)  # the lines of a step are kept once
            unrolled = " of several steps, by which TensorRT unrolled it" * (2 * without > len(body))
            yield (
                LOOPS, first, moved,
                f"a loop makes {total:,} launches, {len(body)} a turn{unrolled}",
                LOOP,
            )  # fmt: skip


def _constants(program: Program, graph: Graph) -> Iterable[Found]:
    """A constant that is as large as the elementwise result of the launch: it was broadcast when it was folded."""
    for launch in program.launches:
        if launch.kind != "pointwise" or not launch.writes:
            continue
        written = max(math.prod(program.tensors[operand.tensor].shape) for operand in launch.writes)
        for operand in launch.reads:
            tensor = program.tensors[operand.tensor]
            elements = math.prod(tensor.shape)
            if tensor.constant and elements > 4096 and elements >= written:
                yield (
                    "a constant blown up", launch, operand.bytes * launch.times,
                    f"a constant of {'×'.join(map(str, tensor.shape))} is read elementwise",
                    "Give it sizes of 1 where it repeats, or compute it from what it was made of.",
                )  # fmt: skip


def _scale_not_folded(program: Program, graph: Graph) -> Iterable[Found]:
    """A multiplication by one number a channel, next after a convolution with constant weights."""
    for launch in program.launches:
        if (
            launch.kind != "convolution"
            or launch.dtype == "int8"
            or not any(program.tensors[operand.tensor].constant for operand in launch.reads)
        ):
            continue
        if launch.epilogue[:2] == ("Mul", "Add") and _scale_and_shift(program, launch):
            channels = program.tensors[launch.writes[0].tensor].shape[1]
            yield (
                "a scale not folded", launch, 2 * channels * 4 * launch.times,
                SCALED, FOLD,
            )  # fmt: skip
        for reader in graph.consumers(launch):
            made_of = parts(reader.name)[:2]
            if reader.kind == "pointwise" and made_of == ["Mul", "Add"] and _scale_and_shift(program, reader):
                yield (
                    "a scale not folded", reader, reader.bytes * reader.times,
                    f"the {described(launch).partition(' at ')[0]}'s result is multiplied by one number a channel",
                    FOLD,
                )  # fmt: skip


def _scale_and_shift(program: Program, launch: Launch) -> bool:
    """Whether it reads two constants with one number for each channel of its result."""
    written = program.tensors[launch.writes[0].tensor].shape if launch.writes else ()
    if len(written) < 3:
        return False
    channels = (1, written[1], *(1 for _ in written[2:]))
    read = [program.tensors[operand.tensor] for operand in launch.reads]
    return sum(tensor.constant and tensor.shape == channels for tensor in read) >= 2


def _quantized(program: Program, graph: Graph) -> Iterable[Found]:
    """What a product in int8 or fp8 costs besides, since builders have none that writes what it reads; and one that is
    not computed so."""
    device = DEVICES[DEFAULT]
    for launch in program.launches:
        for before in graph.before(launch) if launch.kind in DENSE else ():
            narrow = _dequantizes(program, before)
            if narrow:
                text = f"{narrow} is dequantized in a launch of its own for a {launch.kind} in {launch.dtype}"
                yield (
                    DEQUANTIZED,
                    replace(before, lines=launch.lines[:1], places=launch.places),
                    before.bytes * before.times,
                    text,
                    UNCOMPUTED,
                )
        narrow = launch.dtype.partition("_")[0]
        if launch.kind not in ("product", "convolution") or narrow not in ("int8", "float8") or not launch.writes:
            continue
        made = program.tensors[launch.writes[0].tensor]
        if made.dtype == "float32":
            yield "wrote float32", launch, launch.writes[0].bytes // 2 * launch.times, WROTE.format(narrow), ONE_SCALE
        behind = [each for each in graph.consumers(launch) if each.kind == "pointwise"]
        for reader in behind:
            if any(program.tensors[operand.tensor].dtype.startswith(narrow) for operand in reader.writes):
                text = f"what a product in {narrow} gives is requantized in a launch of its own"
                yield "requantized in a launch of its own", reader, reader.bytes * reader.times, text, FEWER
        moved = 2 * sum(operand.bytes for operand in launch.reads[:2]) + 2 * math.prod(made.shape)
        flops = launch.flops or 0
        half = max(moved / device.bandwidth, flops / device.half, device.overhead)
        now = sum(seconds(each, device, tf32=program.tf32) / each.times for each in (launch, *behind[:1]))
        if now > half:
            text = f"{narrow} costs more than fp16 here: {now * 1e6:.1f} µs for {half * 1e6:.1f} on the {device.name}"
            yield f"{narrow} costs more than fp16 here", launch, launch.bytes * launch.times, text, FEWER


def _dequantizes(program: Program, launch: Launch) -> str:
    """The dtype below float16 that a launch reads to do nothing but multiply it by scales; empty for any other one."""
    read = [program.tensors[operand.tensor] for operand in launch.reads]
    codes = (x.dtype for x in read if x.dtype.startswith(NARROW) and (x.constant or x.place != "caller"))
    return next(codes, "") if DEQUANTIZING.issuperset(parts(launch.name)) else ""


def _decoding(program: Program, graph: Graph) -> Iterable[Found]:
    """What decoders do besides: the whole cache copied, its heads repeated, logits that nobody takes."""
    attends = any(launch.kind == "attention" for launch in program.launches)
    for launch in program.launches if attends else ():
        if launch.kind == "product" and any(graph.is_callers(operand) for operand in launch.writes):
            *rows, words = program.tensors[launch.writes[0].tensor].shape
            weights = (x for x in (program.tensors[each.tensor] for each in launch.reads) if x.constant)
            inner = min((min(x.shape[-2:]) for x in weights if len(x.shape) > 1), default=words)
            if math.prod(rows) > FEWEST and words > 2 * inner:
                text = f"logits of {math.prod(rows)} positions are computed and written"
                yield LOGITS, launch, launch.bytes * launch.times, text, LAST
        found = _of_cache(program, graph, launch)
        if found is not None:
            yield found


def _of_cache(program: Program, graph: Graph, launch: Launch) -> Found | None:
    """A launch that copies a cache, or repeats its heads."""
    made_of, moved = parts(launch.name), launch.bytes * launch.times
    if launch.kind not in ("rearranging", "transfer", "other", "pointwise"):
        return None
    if "Repl" in made_of and any(each.kind == "attention" for each in graph.consumers(launch)):
        return "heads repeated", launch, moved, "heads of keys or values are repeated for attention", SHARED
    read, written = (
        [x for x in (program.tensors[each.tensor] for each in operands) if x.place == "caller" and len(x.shape) == 4]
        for operands in (launch.reads, launch.writes)
    )
    copied = any(x.name != y.name and x.bytes <= y.bytes for x in read for y in written)
    if copied and ("Scat" in made_of or REARRANGING.issuperset(made_of)):
        return "cache copied", launch, moved, "a cache is read and written as a whole", IN_PLACE
    return None


def _stored_twice(program: Program, graph: Graph) -> Iterable[Found]:
    """Weights in another form than for the engine's other profiles: it holds both."""
    unshared = set(program.unshared)
    for launch in program.launches:
        moved = sum(operand.bytes for operand in launch.reads if operand.tensor in unshared)
        if moved:
            yield "weights stored twice", launch, moved * launch.times, "no other profile reads these weights", TWICE


CHECKS: tuple[Callable[[Program, Graph], Iterable[Found]], ...] = (
    _rearranging, _unfused_epilogue, _attention, _casts, _loops, _constants, _scale_not_folded,
    _quantized, _decoding, _stored_twice,
)  # fmt: skip
LEAST: dict[str, float] = dict.fromkeys((LOOPS, "attention not fused", "a scale not folded", DEQUANTIZED), 0.0)
LEAST |= {f"{narrow} costs more than fp16 here": 0.0 for narrow in ("int8", "float8")}
"""Told whatever it moves: it costs launches."""
