"""Sizes that the greatest of a batch's lengths gives: what is taken for them, and what is refused."""

import importlib
import re
from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import trtdsl as td
from trtdsl.porting import ported

pytestmark = pytest.mark.long

INPUTS, DIMS = {"x": "N,T,4", "lengths": "N:int64"}, {"N": (1, 3, 4), "T": (3, 5, 9)}


class Of(nn.Module):
    """What a function gives of a sequence and its lengths."""

    def __init__(self, of):
        super().__init__()
        self.of, self.rnn = of, nn.GRU(4, 3, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        return self.of(self, x, lengths)


def masked(self, x, lengths):
    """torchaudio's Conformer, wenet."""
    greatest = int(torch.max(lengths).item())
    mask = torch.arange(greatest, device=x.device).expand(len(lengths), greatest) >= lengths.unsqueeze(1)
    return x.masked_fill(mask.unsqueeze(-1), 0.0)


def padded_again(self, x, lengths):
    """Taggers."""
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(self.rnn(packed)[0], batch_first=True, padding_value=-1.5)


def by_numpy(self, x, lengths):
    """Tacotron 2."""
    packed = pack_padded_sequence(x, lengths.cpu().numpy(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


def listed(self, x, lengths):
    """ESPnet."""
    lengths = lengths.long().tolist()
    mask = torch.arange(max(lengths))[None].expand(len(lengths), max(lengths))
    return x * (mask < mask.new(lengths).unsqueeze(-1)).unsqueeze(-1)


def in_order(self, x, lengths):
    """Old taggers: the longest first."""
    lengths, order = lengths.sort(0, descending=True)
    packed = pack_padded_sequence(x[order], lengths.tolist(), batch_first=True)
    y, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
    return y[order.sort()[1]] + torch.zeros(int(lengths[0]), 6)


def strided(self, x, lengths):
    """wav2vec 2, NeMo, ESPnet's subsampling: what keeps the order of lengths gives the greatest of the greatest."""
    y = nn.functional.avg_pool1d(x.transpose(1, 2), 3, 2)
    lengths = torch.floor((lengths - 3) / 2 + 1).long()
    mask = torch.arange(lengths.max(), device=x.device) < lengths.clamp(min=1)[:, None]
    more = ((lengths - 1) // 2 + 1).amax().item()
    return y * mask[:, None], torch.ones(more, 2)


def cut(self, x, lengths):
    """Trimmed batches: the size as a tensor, an end of a slice, and of what is written to."""
    longest = lengths.max()
    y = x.new_zeros(x.shape[0], longest, 4)
    y[:, :longest] = x[:, :longest] * 2
    return y / lengths.float().max(), longest - lengths


def by_an_order_of_lengths(self, x, lengths):
    order = (-lengths).argsort()
    packed = pack_padded_sequence(x[order], lengths[order].cpu(), batch_first=True)
    return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0][order.argsort()]


@pytest.mark.parametrize("of", [masked, padded_again, by_numpy, listed, in_order, strided, cut, by_an_order_of_lengths])
def test_the_greatest_length_is_the_size_that_a_batch_is_padded_to(of):
    torch.manual_seed(0)
    module = Of(of).eval()
    result = ported(module, INPUTS, dims=DIMS, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert '"lengths": td.Input((N,), "int64", longest=T)' in result.text
    assert any("it is taken for T" in note for note in result.notes)
    spec = td.from_module(module, INPUTS, dims=DIMS)
    x, lengths = torch.randn(4, 6, 4), torch.tensor([3, 6, 4, 5])
    with torch.no_grad():
        expected = module(x, lengths)
    for own, its in zip(
        td.interpret(spec, {"x": x, "lengths": lengths}).values(),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        torch.testing.assert_close(own, its)
    with pytest.raises(td.FeedError, match="the greatest of input 'lengths' is 5, and .* whose greatest is T = 6"):
        td.interpret(spec, {"x": x, "lengths": lengths.clamp(max=5)})


class Both(nn.Module):
    """VITS: two sequences, each with lengths of its own."""

    def forward(self, x, x_lengths, y, y_lengths):
        masks = [torch.arange(each.max()) < each[:, None] for each in (x_lengths, y_lengths)]
        return torch.einsum("ntc,nsc->nts", x * masks[0][..., None], y * masks[1][..., None])


def test_each_input_of_lengths_has_the_size_with_which_forward_runs():
    inputs = {"x": "N,T,4", "x_lengths": "N:int64:1:5", "y": "N,S,4", "y_lengths": "N:int32"}
    text = td.port(Both(), inputs, dims={"T": (3, 5, 9), "S": (3, 5, 9)})
    assert '"x_lengths": td.Input((N,), "int64", sample=(1, 5), longest=T)' in text
    assert '"y_lengths": td.Input((N,), "int32", longest=S)' in text


def test_a_fixed_size_is_the_one_that_the_lengths_reach():
    text = td.port(Of(padded_again), {"x": "2,5,4", "lengths": "2:int64:1:6"})
    assert "sample=(1, 6), longest=5" in text


def longest(x, lengths):
    return x.sum(1) * torch.arange(lengths.max()).sum()


@pytest.mark.parametrize(
    ("of", "inputs", "said"),
    [
        (lambda x, lengths, y: longest(x, lengths) + y.sum(1), {"y": "N,S,4"}, "it may be T or S"),
        (longest, {"lengths": "3,N:int64"}, "it asks for the greatest of lengths: where a batch is padded"),
        (lambda x, lengths: longest(x, lengths * -1), {}, "say what a check feeds it"),
        (lambda x, lengths: longest(x, lengths[:1]), {}, "say what a check feeds it"),
        (lambda x, lengths: longest(x, lengths.where(lengths > 1, 7)), {}, "say what a check feeds it"),
        (lambda x, lengths: longest(x, lengths * 0.1), {}, "arange takes a number that depends on"),
        (lambda x, lengths: torch.zeros(lengths.min()), {}, "say what a check feeds it"),
    ],
)
def test_what_is_not_the_one_size_is_refused(of, inputs, said):
    class Other(nn.Module):
        def forward(self, x, lengths, y=None):
            return of(x, lengths) if y is None else of(x, lengths, y)

    with pytest.raises((td.UnsupportedError, td.UsageError), match=re.escape(said)):
        td.port(Other(), {**INPUTS, **inputs}, dims={**DIMS, **({"S": (3, 5, 9)} if "y" in inputs else {})})


class Written(nn.Module):
    def forward(self, x, lengths):
        again = lengths.view(-1)
        lengths[0] = 1
        return x.sum(1) * torch.arange(again.max()).sum()


def test_the_greatest_of_what_is_written_to_is_that_of_its_values():
    spec = td.from_module(Written(), {"x": "N,T,4", "lengths": "N:int64:longest=T"}, dims=DIMS)
    x, lengths = torch.randn(2, 5, 4), torch.tensor([5, 3])
    (found,) = td.interpret(spec, {"x": x, "lengths": lengths}).values()
    torch.testing.assert_close(torch.as_tensor(found), x.sum(1) * torch.arange(3).sum())


def test_a_size_is_declared_as_text_and_kept_for_other_ranges():
    inputs = {"x": "N,2*T+1,4", "lengths": "N:int64:longest=T"}

    class Halved(nn.Module):
        def forward(self, x, lengths):
            assert lengths.max() <= x.shape[1]
            return x[:, : lengths.max()]

    text = td.port(Halved(), inputs, dims=DIMS)
    assert "longest=T" in text and "x[:, : (x.shape[1] - 1) // 2]" in text
    with pytest.raises(td.UsageError, match="the longest of input 'lengths' is S, of which no input has the dimension"):
        td.port(Halved(), {**inputs, "lengths": "N:int64:longest=S"}, dims=DIMS)


def test_a_helper_in_another_package_may_make_a_number_of_it(tmp_path, monkeypatch):
    (tmp_path / "masks_of_lengths.py").write_text(
        "import torch\n\n\ndef mask_of(lengths):\n    return torch.arange(int(lengths.max())) < lengths[:, None]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mask_of = importlib.import_module("masks_of_lengths").mask_of

    class Helped(nn.Module):
        def forward(self, x, lengths):
            return x * mask_of(lengths)[..., None]

    assert "longest=T" in td.port(Helped(), INPUTS, dims=DIMS)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [({"x": "1,4", "steps": "1:int64:1:10"}, "depends on a tensor's values"), ({"x": "2,4"}, "depends on a tensor's")],
)
def test_one_number_is_no_batch_of_lengths(inputs, said):
    class Repeated(nn.Module):
        def forward(self, x, steps=None):
            for _ in range(int(x[0, 0]) if steps is None else int(steps)):
                x = x * 2
            return x

    with pytest.raises(td.UnsupportedError, match=said):
        td.port(Repeated(), inputs)


def test_a_branch_on_the_greatest_length_is_one_on_a_value_where_nothing_says_it():
    class Branching(nn.Module):
        def forward(self, x, lengths):
            return x * 2 if lengths.max() > 3 else x

    assert "longest" not in td.port(Branching(), {**INPUTS, "lengths": "N:int64:1:7"}, dims=DIMS)


# -- lengths that forward counts in sequences that are padded ---------------------------------------------------------


def of_a_mask(self, x, mask):
    """PyHealth, taggers."""
    lengths = mask.sum(1)
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)


def of_padding(self, x, mask):
    """Masks of what is padding: T - its count."""
    lengths = mask.size(1) - mask.long().sum(-1)
    return x * (torch.arange(int(lengths.max()))[None] < lengths[:, None])[..., None]


def of_zeros(self, x, mask):
    """Frames that are zero are padding."""
    lengths = (x.abs().sum(-1) > 0).float().sum(1).long()
    packed = pack_padded_sequence(x, lengths.tolist(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0] + mask[..., None]


def by_place(self, x, mask):
    """The last place that counts."""
    lengths = (mask.int() * torch.arange(1, mask.shape[1] + 1)).amax(1, keepdim=True)
    return x[:, : lengths.max()] / lengths[..., None]


def sorted_before(self, x, mask):
    """GRU4Rec of RecPack: the longest comes first."""
    if mask.all():
        return self.rnn(x)[0]
    packed = pack_padded_sequence(x, mask.sum(1), batch_first=True)
    return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


class OfMask(Of):
    def forward(self, x, mask):
        return self.of(self, x, mask)


def by_an_order(self, x, mask):
    """PyABSA, taggers: sorted by an index, and back by another."""
    lengths = (mask != 0).sum(-1)
    order = torch.sort(-lengths)[1].long()
    packed = pack_padded_sequence(x[order], lengths[order].cpu(), batch_first=True)
    return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0][order.argsort()]


COUNTED = {
    by_an_order: '"mask": td.Input((N, T), "bool", longest=T, padding=0)',
    of_a_mask: '"mask": td.Input((N, T), "bool", longest=T, padding=0)',
    of_padding: '"mask": td.Input((N, T), "bool", longest=T, padding=1)',
    of_zeros: '"x": td.Input((N, T, 4), longest=T, padding=0)',
    by_place: '"mask": td.Input((N, T), "bool", longest=T, padding=0)',
    sorted_before: '"mask": td.Input((N, T), "bool", longest=T, padding=0, descending=True)',
}


@pytest.mark.parametrize("of", COUNTED)
def test_the_longest_sequence_of_an_input_is_the_size_that_a_batch_is_padded_to(of):
    torch.manual_seed(0)
    module = OfMask(of).eval()
    inputs = {"x": "N,T,4", "mask": "N,T:bool"}
    result = ported(module, inputs, dims=DIMS, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert COUNTED[of] in result.text
    assert any("it is taken for T" in note for note in result.notes)
    spec = td.from_module(module, inputs, dims=DIMS)
    own = torch.arange(6) < torch.tensor([6, 5, 3, 1])[:, None]
    feeds = {"x": torch.randn(4, 6, 4) * (own[..., None] if of is of_zeros else 1), "mask": own ^ (of is of_padding)}
    with torch.no_grad():
        expected = module(*feeds.values())
    for given, its in zip(
        td.interpret(spec, feeds).values(), expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        torch.testing.assert_close(given, its)
    short = {"x": feeds["x"][1:], "mask": feeds["mask"][1:]}
    with pytest.raises(td.FeedError, match=r"has 5 steps that are not \d, and .* whose longest is T = 6"):
        td.interpret(spec, short)


def test_padding_is_the_number_that_forward_compares_with():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.rnn = nn.Embedding(20, 4, padding_idx=7), nn.GRU(4, 3, batch_first=True)

        def forward(self, ids):
            lengths = ids.ne(self.words.padding_idx).sum(-1)
            packed = pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=False)
            return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]

    result = ported(Words().eval(), {"ids": "N,T:int64:0:20"}, dims=DIMS, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert '"ids": td.Input((N, T), "int64", sample=(0, 20), longest=T, padding=7)' in result.text


@pytest.mark.parametrize(
    ("of", "inputs"),
    [
        (lambda x, mask: x[:, : mask.sum(1)[:1].max()], {}),
        (lambda x, mask: x[:, : (mask.sum(1) * 2).max() // 3], {"mask": "N,T:int64:0:3"}),
        (lambda x, mask: x[:, : mask.sum(1).max()], {"x": "1,T,4", "mask": "1,T:bool"}),
        (lambda x, mask: x[:, : (mask & (x[..., 0] > 0)).sum(1).max()], {}),
    ],
)
def test_what_is_counted_otherwise_is_no_size_of_the_input(of, inputs):
    class Other(nn.Module):
        def forward(self, x, mask):
            return of(x, mask)

    given = {"x": "N,T,4", "mask": "N,T:bool", **inputs}
    result = ported(Other(), given, dims={"T": (3, 5, 9)}, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert "longest" not in result.text


def test_lengths_of_sizes_alone_are_what_they_are():
    class Full(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(4, 3, batch_first=True)

        def forward(self, x):
            lengths = torch.full((x.size(0),), fill_value=x.size(1))
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]

    td.check(td.from_module(Full().eval(), {"x": "N,T,4"}, dims=DIMS)).raise_for_mismatch()


def test_lengths_that_are_packed_as_they_are_come_with_the_longest_first():
    class InOrder(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(4, 3, batch_first=True)

        def forward(self, x, lengths):
            return self.rnn(pack_padded_sequence(x, lengths, batch_first=True))[1]

    result = ported(InOrder().eval(), {**INPUTS, "lengths": "N:int64:1:4"}, dims=DIMS, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert '"lengths": td.Input((N,), "int64", sample=(1, 4), descending=True)' in result.text
    assert any("lengths is to have its longest first" in note for note in result.notes)


class Decoded(nn.Module):
    """A tagger that counts its lengths in what pads, and looks for its tags by values."""

    def __init__(self):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(50, 4), nn.GRU(4, 3, batch_first=True)

    def forward(self, ids):
        lengths = (ids > 0).sum(1)
        packed = pack_padded_sequence(self.embedding(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        scores, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return torch.tensor([max(row.tolist(), key=int) for row in scores.argmax(-1).numpy()])


def test_what_fails_with_each_length_is_refused_once():
    """A search for the length that is one ends, where forward cannot be ported with any."""
    with pytest.raises(td.UnsupportedError, match="asks for the greatest of ids"):
        td.port(Decoded(), {"ids": "N,T:int64:1:50"}, dims={"N": (1, 2, 3), "T": (4, 6, 8)})


class PooledBesideGraphs(torch.nn.Module):
    """A row of each graph beside what its nodes come to, as many as the greatest index says."""

    def forward(self, graphs, nodes, which):
        count = int(which.max()) + 1
        pooled = nodes.new_zeros(count, nodes.shape[1]).index_add(0, which, nodes)
        return torch.cat([graphs, pooled], dim=1)


@pytest.mark.parametrize(
    ("inputs", "last"),
    [
        ({"graphs": "N,3", "nodes": "M,2", "which": "M:int64:0:9"}, "N - 1"),
        ({"graphs": "4,3", "nodes": "7,2", "which": "7:int64:0:4"}, "3"),
        ({"graphs": "1,3", "nodes": "7,2", "which": "7:int64:0:1"}, "0"),
    ],
)
def test_the_greatest_of_an_index_is_the_last_place_of_what_it_indexes(inputs, last):
    dims = {"N": (2, 3, 9), "M": (10, 12, 20)} if "N" in last else {}
    made = ported(PooledBesideGraphs(), inputs, dims=dims, check=True)
    assert made.verdict.passed, made.verdict.text
    assert f"longest={last}" in made.text


def below(lengths, x):
    return x * (torch.arange(lengths.max()) < lengths[:, None])


FULL = {
    "full": lambda x: torch.full((x.shape[0],), x.shape[1]),
    "full_like": lambda x: torch.full_like(x[:, 0], x.shape[1], dtype=torch.long),
    "new_full": lambda x: x.new_full((x.shape[0],), x.size(-1), dtype=torch.int64),
    "ones": lambda x: torch.ones(len(x), dtype=torch.long) * x.shape[1],
    "zeros": lambda x: torch.zeros_like(x[:, 0], dtype=torch.int64) + x.shape[1],
    "of a half": lambda x: torch.full((x.shape[0],), 2 * x.shape[1]) // 2,
}


@pytest.mark.parametrize("name", FULL)
def test_the_greatest_of_what_is_one_size_everywhere_is_that_size(name):
    class Full(nn.Module):
        def forward(self, x):
            return below(FULL[name](x), x)

    result = ported(Full(), ["N,T"], dims=DIMS, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert "part_of" not in result.text


def test_what_was_one_size_everywhere_and_is_written_to_is_so_no_more():
    class Written(nn.Module):
        def forward(self, x):
            lengths = torch.full((x.shape[0],), x.shape[1])
            lengths[0] = 2
            other = torch.zeros(x.shape[0], dtype=torch.long)
            other[:] = 3
            return x[:, : lengths.min()] + x[:, : other.max() - 1], lengths, x.sum(1) * (lengths.max() - other.max())

    for dims in ({"N": (1, 2, 3), "T": 5}, {"N": 2, "T": (4, 5, 6)}):
        with suppress(td.UnsupportedError):
            result = ported(Written(), ["N,T"], dims=dims, check=True)
            assert result.verdict is not None and result.verdict.passed, result.verdict


class SortedList(nn.Module):
    """A reader of texts that sorts a batch and packs it by a list of numbers, as DrQA does."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.LSTM(4, 3, bidirectional=True)

    def forward(self, x, mask):
        lengths = mask.eq(0).long().sum(1)
        order = lengths.sort(dim=0, descending=True)[1]
        packed = nn.utils.rnn.pack_padded_sequence(x[order].transpose(0, 1), list(lengths[order]))
        y = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0])[0]
        return y.transpose(0, 1).index_select(0, order.sort(dim=0)[1])


def test_a_list_of_numbers_has_the_lengths_of_a_batch():
    result = ported(SortedList(), {"x": "3,T,4", "mask": "3,T:bool"}, dims={"T": (2, 4, 7)}, check=True)
    assert result.verdict.passed and "longest=T, padding=1" in result.text
