"""Tokenizers from outside: what their files may ask of the library that reads them."""

import base64
import copy
import itertools
import json
import os
import stat

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, normalizers

import trtdsl as td
import trtdsl.layers as L
from trtdsl.engine.running.tokenizer import LONGEST, open_tokenizer


@pytest.fixture(scope="module")
def facts():
    made = tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "c": 3}, [("a", "b")]))
    return json.loads(made.to_str())


@pytest.fixture
def opened(facts, tmp_path):
    """Opens the tokenizer with other entries."""

    def opened(**changed):
        text = json.dumps({**copy.deepcopy(facts), **changed})
        (tmp_path / "tokenizer.json").write_text(text)
        return open_tokenizer(tmp_path)

    return opened


def replacing(content, pattern="a"):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def charsmap(size, data):
    table = base64.b64encode(size.to_bytes(4, "little") + data).decode()
    return {"type": "Precompiled", "precompiled_charsmap": table}


def template(pieces, tokens):
    """A post-processor that puts ``pieces`` times ``tokens`` beside a text."""
    special = {"c": {"id": "c", "ids": [3] * tokens, "tokens": ["c"] * tokens}}
    single = [{"SpecialToken": {"id": "c", "type_id": 0}}] * pieces
    return {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": special}


def added(count, length):
    return [{"id": 4 + each, "content": f"{each:a>{length}}"} for each in range(count)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"normalizer": replacing("a" * (LONGEST + 1))}, "it makes more than 4,096 characters or tokens of one"),
        ({"normalizer": sequence(*[replacing("aa")] * 40)}, "it makes more than 4,096 characters or tokens of one"),
        ({"normalizer": sequence(*[{"type": "Prepend", "prepend": "a" * 1000}] * 3)}, "it makes more than"),
        ({"normalizer": sequence(*[{"type": "ByteLevel"}] * 20)}, "it makes more than"),
        ({"decoder": replacing("a" * 10_000)}, "it makes more than"),
        ({"normalizer": {**replacing("a" * 10_000), "normalizers": []}}, "it makes more than"),
        ({"normalizer": replacing("a" * 4000), "post_processor": template(2, 1)}, "it makes more than"),
        ({"normalizer": charsmap(4, bytes(4) + b"a" * 10_000)}, "it makes more than"),
        ({"post_processor": template(100, 50)}, "it makes more than"),
        ({"added_tokens": added(100_000, 50)}, "its pieces and added tokens have 5,000,000 characters"),
        ({"normalizer": replacing("b" * 4000), "added_tokens": added(10, 200)}, "its pieces and added tokens have"),
        ({"model": {"vocab": [["a" * 5_000_000, 0]]}}, "its pieces and added tokens have 5,000,000 characters"),
        ({"normalizer": charsmap(2**32 - 1, bytes(8))}, "the table of its normalizer is damaged"),
        ({"normalizer": charsmap(0, b"")}, "the table of its normalizer is damaged"),
        ({"model": {"type": "BPE"}}, "Missing vocab"),
    ],
)
def test_files_that_would_take_the_memory_are_refused(opened, tmp_path, changed, words):
    with pytest.raises(td.CorruptFileError, match=rf"{tmp_path}/tokenizer\.json is no tokenizer: .*{words}"):
        opened(**changed)


def test_steps_of_published_tokenizers_are_taken(opened):
    steps = [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Prepend("c"), normalizers.Replace("  ", " ")]
    made = json.loads(normalizers.Sequence(steps).__getstate__())
    assert opened(normalizer=made).encode("AB") == [3, 2]


def test_a_text_is_neither_cut_nor_filled_up(opened):
    """As transformers reads such files."""
    padding = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "a"}
    cutting = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    assert opened(padding=padding, truncation=cutting).encode("abab") == [2, 2]


def test_what_cannot_be_made_tokens_names_the_file(opened, tmp_path):
    unknown = {"SpecialToken": {"id": "[X]", "type_id": 0}}
    step = {"type": "TemplateProcessing", "single": [unknown], "pair": [], "special_tokens": {}}
    made = opened(post_processor=step)
    with pytest.raises(td.UsageError, match=rf"{tmp_path}/tokenizer\.json cannot make tokens of the text"):
        made.encode("ab")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_configuration_that_cannot_be_read(opened, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "config.json").chmod(stat.S_IWUSR)
    with pytest.raises(td.CorruptFileError, match="config.json cannot be read"):
        opened()


def test_a_configuration_that_is_too_large(opened, tmp_path):
    with open(tmp_path / "config.json", "wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(td.CorruptFileError, match=r"config\.json cannot be read: it is larger than the 16 MiB"):
        opened()


@pytest.mark.parametrize(
    "generated",
    [
        ["<0xE4>", "<0xB8>", "<0x96>", "<0xFF>"],
        ["<0xE4>", "<0xB8>", "<0x96>", "<0xFF>", "b"],
        ["<0xE4>", "<0xB8>", "<0x96>", "b", "<0xFF>"],
        ["<0x0A>", "<0xE4>", "b"],
    ],
    ids=" ".join,
)
def test_the_pieces_of_a_text_are_its_text(generated, tmp_path):
    """Of a run of bytes that are no characters the library makes replacements of each, also of those that were ones."""
    names = ["a", "b", "<0x0A>", "<0xE4>", "<0xB8>", "<0x96>", "<0xFF>"]
    made = tokenizers.Tokenizer(models.BPE({name: index for index, name in enumerate(names)}, [], byte_fallback=True))
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    made.save(str(tmp_path / "tokenizer.json"))
    text, following = [names.index(each) for each in ["a", *generated]], torch.eye(7)
    for token, after in itertools.pairwise(text):
        following[token] = torch.eye(7)[after] * 2

    @td.network(
        inputs={
            "tokens": td.Input((1, 1), "int64", sample=(0, 7)),
            **dict.fromkeys(("starts", "lengths"), td.Input((1,), "int32", sample=(0, 5))),
            "count": td.State((1, 1)),
        }
    )
    def spelling(tokens, starts, lengths, count):
        logits = L.gather(tokens.network.constant(following), tokens.squeeze(1), 0)
        return {"logits": logits, "next_count": count + (starts + lengths).to(torch.float32).reshape(1, 1)}

    generator = td.Generator(spelling.define(), tmp_path)
    pieces = list(generator.stream_text("a", max_tokens=len(generated)))
    assert ["".join(pieces)] == generator(["a"], max_tokens=len(generated)) and all(pieces)
