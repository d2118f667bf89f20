"""Reading the texts of plans: other versions, other products, and texts that were damaged."""

import dataclasses
import random
from pathlib import Path

import pytest
import torch

import trtdsl as td
import trtdsl.functional as F
from trtdsl.core.errors import ProgramDamagedError, UnreadableProgramError
from trtdsl.engine.compiling.compiler import compile_engine
from trtdsl.programs.grammar import read_sections
from trtdsl.programs.plan import _texts, read_plan, read_texts
from trtdsl.programs.reader import Given, make_program

DATA = Path(__file__).parents[1] / "data" / "programs"  # of networks built by TensorRT-RTX 1.4 to 1.6
VERSIONS = sorted(folder.name for folder in DATA.iterdir())


def stored(version, name):
    return (DATA / version / f"{name}.txt").read_text().split("\f")


def program_of_texts(texts, **shapes):
    return make_program(read_texts(texts), Given(shapes))


# -- other versions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_product_of_another_version(version):
    program = program_of_texts(stored(version, "product"), x=(64, 128))
    (launch,) = program.launches
    assert (launch.kind, launch.flops, launch.lines) == ("product", 2 * 64 * 128 * 256, ("networks/probes.py:18",))
    assert launch.bytes == (64 * 128 + 128 * 256 + 64 * 256) * 4
    assert program.memory == 8_192_000
    assert program.tensors[launch.writes[0].tensor].order == (0, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_fusions_of_another_version(version):
    program = program_of_texts(stored(version, "mlp_half"))
    first, second = program.launches
    assert [launch.kind for launch in program.launches] == ["product", "product"]
    assert first.body[0] == "fully_connected"
    assert first.bytes == (64 * 256 + 256 * 512 + 512 + 64 * 512) * 2
    assert second.bytes == (64 * 512 + 512 * 256 + 256 + 2 * 64 * 256) * 2
    assert first.flops > 2 * 64 * 256 * 512


@pytest.mark.parametrize("version", VERSIONS)
def test_a_loop_of_another_version(version):
    program = program_of_texts(stored(version, "loop"))
    assert program.launch_count == 21
    assert program.bytes == (2 * 512 + 10 * (2 * 512 + 256) + 10 * 3 * 512) * 4


@pytest.mark.parametrize("version", VERSIONS)
def test_dynamic_sizes_of_another_version(version):
    texts = stored(version, "uneven")
    program = program_of_texts(texts, x=(3, 10, 16), y=(3, 20, 16))
    assert [launch.kind for launch in program.launches] == ["rearranging"]
    assert program.bytes == 2 * 3 * 30 * 16 * 4
    with pytest.raises(td.UsageError, match=r"the engine's y has the shape \(\?, \?, 16\), not \(2, 20, 16\)"):
        program_of_texts(texts, x=(3, 10, 16), y=(2, 20, 16))
    with pytest.raises(td.UsageError, match="not within 1 to 8"):
        program_of_texts(texts, x=(9, 10, 16), y=(9, 20, 16))
    with pytest.raises(td.UsageError, match="the shapes of the inputs x, y are needed"):
        program_of_texts(texts)


# -- other products ----------------------------------------------------------------------------------------------------


def test_other_products_and_versions_are_refused_by_name():
    for product, version, words in (
        ("tensorrt", "11.4.0.1", "it is of TensorRT 11.4.0.1, and the text of TensorRT-RTX 1.4 to 1.7 is known"),
        ("tensorrt-rtx", "1.3.0.1", "it is of TensorRT-RTX 1.3.0.1"),
        ("tensorrt-rtx", "2.0.0.1", "it is of TensorRT-RTX 2.0.0.1"),
    ):
        with pytest.raises(UnreadableProgramError, match="this plan holds no program that trtdsl can read: " + words):
            read_plan(b"anything", product, version)
    assert UnreadableProgramError.exit_code == 5
    assert ProgramDamagedError.exit_code == 7


@pytest.mark.parametrize(
    "text",
    [
        "",
        "main {\n}",
        "header {\n  version = 6\n}\ndescriptors {\n}\nmain {\n}",
        "header {\n  version = 4\n}\ndescriptors {\n}\nmain {\n}",
        "hello world",
        '{"layers": []}',
        "header {" * 10_000,
        "header {\n a = " + "{" * 100_000,
        'header {\n a = "' + "x" * 100_000,
        "digraph { a -> b }",
    ],
)
def test_foreign_texts_are_errors(text):
    with pytest.raises((UnreadableProgramError, ProgramDamagedError)):
        program_of_texts([text])


def test_a_plan_without_text_and_one_that_ends_in_it():
    with pytest.raises(UnreadableProgramError, match="there is no text in it"):
        read_plan(bytes(1000), "tensorrt-rtx", "1.7.1.116")
    text = stored("1.6.1.120", "product")[0].encode()
    marked = b"NLYM\0\0\0\0" + len(text).to_bytes(8, "little") + text
    assert len(read_plan(b"x" * 99 + marked, "tensorrt-rtx", "1.6.1.120").programs) == 1
    with pytest.raises(ProgramDamagedError, match="ends in the middle of its program"):
        read_plan(marked[:-1], "tensorrt-rtx", "1.6.1.120")


def test_names_may_hold_anything():
    net = td.Network()
    x = net.input('in "put} {a=b', (64, 128))
    y = F.exp(F.matmul(x, net.constant(torch.randn(128, 32))))
    for index in range(net.definition.num_layers):
        layer = net.definition.get_layer(index)
        layer.name, layer.metadata = f'la"yer {index} {{ x=1 }}', f'a"b\n}} {{c={index}\nmain {{ é\t\\'
    net.output(y, 'out"put header {')
    program = td.program(net)
    assert program.bytes == (64 * 128 + 128 * 32 + 64 * 32) * FLOAT
    assert program.inputs == {'in "put} {a=b': (64, 128)}
    assert program.outputs == ('out"put header {',)
    assert program.launches[0].lines == tuple(f'a"b\n}} {{c={index}\nmain {{ é\t\\' for index in (1, 2))


FLOAT = 4


# -- damaged texts -----------------------------------------------------------------------------------------------------


def mutated(text, rng):
    """The text with something cut, put in, doubled, changed or swapped."""
    at = rng.randrange(len(text))
    end = min(len(text), at + rng.randrange(1, 40))
    lines = text.split("\n")
    match rng.randrange(8):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:at] + rng.choice('{}="\\ \n0a-\x00') + text[at:]
        case 2:
            return text[:at] + rng.choice('{}="\\ \n09a-') + text[at + 1 :]
        case 3:
            return text[:at] + text[at:end] * 2 + text[end:]
        case 4:
            return text[:at]
        case 5:
            at = rng.choice([index for index, letter in enumerate(text) if letter.isdigit()])
            return text[:at] + rng.choice("0123456789") * rng.choice((1, 1, 20)) + text[at + 1 :]
        case 6:
            source = rng.randrange(len(text))
            return text[:at] + text[source : source + 30] + text[at:]
        case _:
            first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            return "\n".join(lines)


def mutations(names, count, seed):
    """How many mutations of stored texts are an error, give the same program, or give another."""
    rng = random.Random(seed)
    shapes = {"uneven": {"x": (4, 64, 16), "y": (4, 128, 16)}}
    whole = {name: stored("1.6.1.120", name) for name in names}
    right = {name: program_of_texts(texts, **shapes.get(name, {})) for name, texts in whole.items()}
    tally = {"error": 0, "same": 0, "other": 0}
    for _ in range(count):
        name = rng.choice(names)
        texts = list(whole[name])
        index = rng.randrange(len(texts))
        texts[index] = mutated(texts[index], rng)
        try:
            program = program_of_texts(texts, **shapes.get(name, {}))
            td.find_hazards(program), td.floor_of(program), program.by("line"), program.to_json()
        except td.TrtdslError:
            tally["error"] += 1
        else:
            same = dataclasses.replace(program, regions=(), memory=0) == dataclasses.replace(
                right[name], regions=(), memory=0
            )
            tally["same" if same else "other"] += 1
    return tally


def test_damaged_texts_are_errors_or_programs():
    tally = mutations(["product", "mlp_half", "loop"], 1000, seed=0)
    # A text has no checksum: a digit that becomes another one in a place that nothing else speaks of goes unnoticed.
    assert tally["error"] > 0.5 * 1000
    assert tally["other"] < 0.08 * 1000


@pytest.mark.heavy
def test_ten_thousand_damaged_texts():
    tally = mutations(["product", "mlp_half", "loop", "uneven"], 10_000, seed=1)
    assert tally["error"] > 5000


def test_every_damage_of_an_engine_with_a_manifest_is_an_error(tmp_path):
    @td.network(inputs={"x": td.Input((2, 256))})
    def doubled(x):
        return {"y": x * 2.0}

    path = tmp_path / "doubled.engine"
    td.build(doubled, path)
    right = td.program(path)
    assert right.bytes == 2 * 2 * 256 * FLOAT
    data, rng = bytearray(path.read_bytes()), random.Random(0)
    for _ in range(100):
        at = rng.randrange(len(data))
        before, data[at] = data[at], data[at] ^ (1 << rng.randrange(8))
        path.write_bytes(data)
        with pytest.raises(td.TrtdslError):
            td.program(path)
        data[at] = before


def test_a_statement_that_is_not_there_is_an_error():
    text = stored("1.6.1.120", "loop")[0]
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if line.startswith("  fully_connected="):
            with pytest.raises(ProgramDamagedError, match="which nothing has written"):
                program_of_texts(["\n".join(lines[:index] + lines[index + 1 :])])


def test_an_endless_loop_is_an_error():
    text = stored("1.6.1.120", "loop")[0]
    assert '"__d^10i64" }  src="10i64"' in text
    with pytest.raises(ProgramDamagedError, match="runs for more than 400,000 steps"):
        program_of_texts([text.replace('"__d^10i64" }  src="10i64"', '"__d^10i64" }  src="9999999999i64"')])


def test_a_jump_to_a_label_that_no_block_can_have_is_an_error():
    """That of a loop's first block does not follow a jump to it."""
    text = stored("1.6.1.120", "loop")[0]
    (target,) = {
        name for line in text.split("\n") if "cjmp=" in line for name in line.partition("target={")[2].split()[:1]
    }
    with pytest.raises(ProgramDamagedError, match="a cjmp that leads nowhere"):
        program_of_texts([text.replace(f"label {target}:", "label other:")])


def test_the_grammar():
    sections = read_sections('a {\n k = 3\n l={ x=1 "y" { z } } label b1: \n m={ n="o\\"\\\\p\nq" } }\n')
    (k, record, label, m) = sections["a"]
    assert k == ("k", "3")
    assert (record[1].fields, record[1].items[0], record[1].items[1].items) == ({"x": "1"}, "y", ["z"])
    assert label == ("label", "b1")
    assert m[1].text("n") == 'o"\\p\nq'


def test_a_real_plan_is_found_by_its_marks():
    net = td.Network()
    net.output(F.exp(net.input("x", (4, 4))), "y")
    plan = compile_engine(net)
    assert [text[:8] for text in _texts(plan.data)] == ["header {"]
    assert _texts(plan.data[: len(plan.data) // 200]) == []


def test_an_input_without_dimensions_is_one_number():
    net = td.Network()
    net.output(F.relu(net.input("x", (4, 16))) * net.input("scale", ()), "y")
    assert td.program(net).bytes == 4 * (64 + 1 + 64)
