"""Sizes and ends of slices that values say: a network has these sizes, up to what the inputs' ranges say."""

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.porting import ported
from trtdsl.porting.tracing.recording.by_values import first_rows

pytestmark = pytest.mark.long

GRAPH = {"x": "V,4", "edges": "2,M:int64:0:4"}
DIMS = {"V": (4, 6, 9), "M": (3, 6, 12)}


class Of(nn.Module):
    """What a function gives of nodes and of edges, or of a graph's number for each."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, x, edges):
        return self.of(x, edges)


def number_of_nodes(edges, count=None):
    """PyG's maybe_num_nodes."""
    return int(edges.max()) + 1 if count is None else count


def attended(x, edges):
    """PyG's softmax over the edges of a node."""
    source, target = edges
    scores = (x[source] * x[target]).sum(-1)
    count = number_of_nodes(target)
    most = torch.full((count,), -1e9).scatter_reduce(0, target, scores, "amax")
    weights = (scores - most[target]).exp()
    weights = weights / torch.zeros(count).scatter_add_(0, target, weights)[target]
    return x.new_zeros(x.shape).index_add_(0, target, weights[:, None] * x[source])


def degrees(x, edges):
    return torch.zeros(number_of_nodes(edges)).scatter_add_(0, edges[1], torch.ones(edges.size(1)))


def pooled(x, edges):
    """PyG's global_mean_pool without a size."""
    size = int(edges[0].max().item() + 1)
    sums = x.new_zeros([size, 4]).index_add(0, edges[0], x[edges[1]])
    return sums / torch.bincount(edges[0]).clamp(min=1)[:, None], torch.arange(size) * 2


def scattered(x, edges):
    """PyG's scatter without a size, which joins it to sizes of a tensor."""
    count = number_of_nodes(edges[1])
    size = x.size()[:0] + (count,) + x.size()[1:]
    return x.new_zeros(size).scatter_add_(0, edges[1].view(-1, 1).expand(-1, 4), x[edges[0]])


def counted(x, edges):
    weights = x[edges[0], 0]
    return torch.bincount(edges[1], weights, minlength=3), torch.nn.functional.one_hot(edges[0]).float()


def chosen(x, edges):
    """A number that is a size and chooses a way, too."""
    count = int(edges.max()) + 1
    if count > 2:
        x = x * 2
    return torch.zeros(count).scatter_add_(0, edges[1], x[edges[0], 0])


@pytest.mark.parametrize("of", [attended, degrees, pooled, scattered, counted, chosen])
def test_as_many_as_the_greatest_index_says(of):
    result = ported(Of(of), GRAPH, dims=DIMS, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert 'td.Input((2, M), "int64", sample=(0, 4), below=4)' in result.text
    assert any("as great as values of inputs say: the network is for edges below 4" in note for note in result.notes)
    spec = td.from_module(Of(of), GRAPH, dims=DIMS)
    for edges in (torch.tensor([[0, 1, 2, 1], [1, 2, 0, 0]]), torch.tensor([[0, 0, 3], [3, 1, 3]])):
        feeds = {"x": torch.randn(5, 4), "edges": edges}
        expected = of(**feeds)
        for own, its in zip(
            td.interpret(spec, feeds).values(), expected if isinstance(expected, tuple) else (expected,), strict=True
        ):
            torch.testing.assert_close(own, its)
    with pytest.raises(
        td.FeedError, match="the greatest of input 'edges' is 4, and the network is for numbers from 0 on below 4"
    ):
        td.interpret(spec, {"x": feeds["x"], "edges": torch.tensor([[0, 1, 2], [4, 1, 3]])})


class Cut(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, x, ends):
        return self.of(x, ends)


def least(x, ends):
    return x[:, : ends.min()] * x.sum(-1)[:, : ends.min()][..., None]


def both(x, ends):
    return x[..., ends[0] : ends[0] + 2, 1:]


def from_behind(x, ends):
    last = -ends.min()
    return x[:, last:, 0], x[:, :last]


def written_to(x, ends):
    """A number that grows between slices."""
    count = ends.min()
    first = x[:, :count].sum(1)
    count += 1
    return first, x[:, :count]


def marked(x, ends):
    """Masks that are filled row by row."""
    mask, weights = torch.zeros(x.shape[:2], dtype=torch.bool), torch.ones_like(x)
    weights[..., ends[0] :] = 3
    weights[1, : ends[1], ...] = 4
    for place in range(3):
        mask[place, : ends[place]] = True
        weights[place, ends[place] :, 1] = 0.5
    return (x * mask[..., None]) * weights


def pieces(x, ends):
    first, second, third = x.split([ends[0].item(), 1, x.shape[1] - 1 - ends[0].item()], dim=1)
    return first.sum(1), second, third


def pieces_of_what_is_chosen(x, ends):
    """As batches of images, each of which has as many as a mask says, are taken apart and joined again."""
    mask = x[..., 0] > ends[0] - 2
    parts = x[mask].split(mask.sum(1).tolist())
    return torch.stack([part.sum(0) for part in parts]), torch.cat([part * place for place, part in enumerate(parts)])


def sorted_experts(x, ends):
    """A mixture of experts that sorts tokens by their expert: what joins the experts' rows is as long as these were."""
    tokens = torch.cat([torch.tensor([]), x.flatten(0, 1)], dim=-2)  # as caches begin
    chosen = (tokens[:, :3] * ends).topk(2, dim=1).indices
    counts = torch.zeros(len(tokens), 3, dtype=torch.int64).scatter(1, chosen, 1).sum(0).tolist()
    order = chosen.flatten().argsort(stable=True)
    parts = tokens[order // 2].split(counts)
    experts = torch.cat([(part + place) * ends[place] for place, part in enumerate(parts)])
    scaled = torch.cat([part.T * place for place, part in enumerate(experts.split(counts), 1)], dim=1).T
    return torch.zeros_like(tokens).index_add(0, order // 2, scaled * order[:, None])


SLICED = [least, both, from_behind, written_to, marked, pieces, pieces_of_what_is_chosen, sorted_experts]


@pytest.mark.parametrize("of", SLICED)
def test_a_slice_ends_where_a_value_says(of):
    inputs = {"x": "3,T,4", "ends": "3:int64:1:4"}
    spec = td.from_module(Cut(of), inputs, dims={"T": (4, 6, 9)})
    td.check(spec).raise_for_mismatch()
    for ends in (torch.tensor([2, 1, 3]), torch.tensor([4, 5, 9]), torch.tensor([1, 0, 2])):
        feeds = {"x": torch.randn(3, 6, 4), "ends": ends}
        expected = of(**feeds)
        for own, its in zip(
            td.interpret(spec, feeds).values(), expected if isinstance(expected, tuple) else (expected,), strict=True
        ):
            torch.testing.assert_close(own, its)


class Deepstack(nn.Module):
    """Adds features of images in two steps where a text has places for them, as Qwen3-VL does."""

    def forward(self, ids, x, features):
        begin = torch.tensor([[9, 9]]).expand(ids.shape[0], -1)
        mask = torch.cat([begin, ids], dim=1) == 9
        x = torch.cat([features.view(-1, 2, 4), x], dim=1)
        for step in range(1, 3):
            x = x.clone()
            x[mask, :] = x[mask, :] + features * step
        return x, features - x[mask]


def test_a_mask_chooses_as_many_rows_as_what_is_added_to_them():
    inputs = {"ids": "N,T:int64:0:9", "x": "N,T,4", "features": "2*N,4"}
    result = ported(Deepstack(), inputs, dims={"N": (1, 2, 4), "T": 3}, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert "[mask]" not in result.text and any("taken for granted" in note for note in result.notes)
    base, mask = torch.arange(12).view(2, 3, 2), torch.tensor([[False, True, True], [False, False, True]])
    assert torch.equal(first_rows(base, mask, 3), base[mask])
    mask[0] = False
    assert torch.equal(first_rows(base, mask, 3), base[mask].expand(3, -1))


@pytest.mark.parametrize(
    ("of", "inputs", "said"),
    [
        (lambda x, edges: [x * 2 for _ in range(int(edges.max()))], GRAPH, "a number of rounds"),
        (lambda x, edges: x[:: int(edges.max())], GRAPH, "an end of a slice"),
        (lambda x, edges: torch.zeros(int(edges.max())), {**GRAPH, "edges": "2,M:int64"}, "asks for the greatest of"),
    ],
)
def test_what_no_range_says_is_refused(of, inputs, said):
    with pytest.raises(td.UnsupportedError, match=said) as raised:
        td.port(Of(of), inputs, dims=DIMS)
    assert raised.value.location.file == __file__


def zeroed(x, ends):
    x = x * 1.0
    x[:, : ends[0]].zero_()
    return x


def moved(x, ends):
    x = x * 1.0
    _, second = x.split([ends[0].item(), x.shape[1] - ends[0].item()], 1)
    second += 1
    return x


def seen(x, ends):
    x = x * 1.0
    first = x[:, : ends[0]]
    x.add_(1)
    return first * 2


@pytest.mark.parametrize("of", [zeroed, moved, seen])
def test_a_cut_is_no_view_that_is_written_through(of):
    with pytest.raises(
        td.UnsupportedError, match="writes to a slice whose end a value says, or to a tensor that has one"
    ):
        td.from_module(Cut(of), {"x": "3,4,4", "ends": "3:int64:1:4"})


class Empty(torch.nn.Module):
    def forward(self, x):
        chosen = x[x[:, 0] > 0]
        if len(chosen) == 0:
            return x.new_ones(3)
        return chosen.sum(0)


class Many(torch.nn.Module):
    def forward(self, x):
        chosen = x[x[:, 0] > 0]
        if chosen.shape[0] > 8:
            chosen = chosen * 2
        return chosen.sum(0)


class Counted(torch.nn.Module):
    def forward(self, x):
        chosen = x[x[:, 0] > 0]
        return (chosen - chosen.mean(0)).pow(2).sum() * chosen.shape[0]


@pytest.mark.parametrize(("kind", "told"), [(Empty, ["no element"]), (Many, ["9 elements"]), (Counted, [])])
def test_what_is_asked_of_how_many_values_choose_is_told(kind, told):
    notes = ported(kind(), {"x": "16,3"}).notes
    assert len(notes) == len(told) and all(f"choose {each}:" in note for each, note in zip(told, notes))


def test_a_check_says_what_the_network_does_not_ask_of_how_many_values_choose():
    class AtMost(torch.nn.Module):
        def forward(self, x):
            scores = x[x > -1.5]
            return scores if scores.shape[0] <= 6 else scores.topk(6)[0]

    verdict = ported(AtMost(), {"x": "16"}, check=True).verdict
    assert verdict is not None and not verdict.passed and verdict.exit_code == 1
    assert "the reference has (6,)" in verdict.text
    assert (
        f"forward asks at {__file__}" in verdict.text and "choose 7 elements: the network does not ask" in verdict.text
    )


class Speech(nn.Module):
    """What repeats each place as often as a layer says, as models of speech do that predict durations."""

    def __init__(self, of):
        super().__init__()
        self.of, self.durations, self.frames = of, nn.Linear(8, 1), nn.Linear(8, 4)
        with torch.no_grad():
            self.durations.bias.fill_(1.0)

    def forward(self, x):
        repeats = torch.round(torch.exp(self.durations(x).squeeze(-1)) - 1).clamp(min=0)
        return self.frames(self.of(x, repeats))


def by_a_path(x, repeats):
    """As Glow-TTS and VITS do: a matrix says which place each frame is of."""
    lengths = torch.clamp_min(repeats.sum(1), 1).long()
    steps = torch.arange(lengths.max())
    mask = (steps < lengths[:, None]).float()
    path = (steps[None, :, None] < repeats.cumsum(1)[:, None]).float()
    path = path - torch.nn.functional.pad(path, (1, 0))[..., :-1]
    return (path @ x) * mask[..., None]


def padded_rows(x, repeats):
    rows = [torch.repeat_interleave(each, many, dim=0) for each, many in zip(x, repeats.long())]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def filled_rows(x, repeats):
    """As FastSpeech2Conformer of transformers does."""
    repeats = repeats.long()
    if repeats.sum() == 0:
        repeats[repeats.sum(dim=1).eq(0)] = 1
    found = torch.zeros(x.size(0), repeats.sum(dim=1).max(), x.size(2))
    for place, (each, many) in enumerate(zip(x, repeats)):
        repeated = torch.repeat_interleave(each, many, dim=0)
        found[place, : repeated.size(0)] = repeated
    return found


def expanded_rows(x, repeats):
    """As the first of FastSpeech's length regulators does: place by place."""
    rows = []
    for each, many in zip(x, repeats):
        rows.append(torch.cat([row.expand(max(int(many[place].item()), 0), -1) for place, row in enumerate(each)], 0))
    longest = max(row.size(0) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (0, 0, 0, longest - row.size(0))) for row in rows])


@pytest.mark.parametrize(
    ("of", "shape", "dims"),
    [
        (by_a_path, "N,T,8", {"N": (1, 2, 3), "T": (3, 5, 9)}),
        (padded_rows, "2,T,8", {"T": (3, 5, 9)}),
        (filled_rows, "2,T,8", {"T": (3, 5, 9)}),
        (expanded_rows, "2,5,8", {}),
    ],
)
def test_as_many_frames_as_forward_computes(of, shape, dims):
    with torch.random.fork_rng():
        torch.manual_seed(0)  # with other weights some place may last longer than the 4,096 frames that are served
        module = Speech(of)
    spec = td.from_module(module, {"x": shape}, dims=dims)
    report = td.check(spec)
    assert report.passed, report
    if of is by_a_path:
        assert any("large values, of which sizes are made" in str(each) for each in report.unproven)
    for scale in (0.5, 1.0, 2.0):
        x = torch.randn(2, 5, 8) * scale
        (found,) = td.interpret(spec, {"x": x}).values()
        torch.testing.assert_close(torch.as_tensor(found), module(x))


def test_a_remark_says_how_many_there_may_be():
    result = ported(Speech(by_a_path), {"x": "2,5,8"}, dims={}, check=True)
    assert "F.arange(4096)" in result.text
    (note,) = [note for note in result.notes if "as great as forward computes" in note]
    assert "test_by_values.py" in note and "the network has at most 4096 there" in note


def test_more_repeats_than_memory_has_room_for_end_no_process():
    """torch ends the process where the numbers of repeats together are more than an int has."""
    module = Speech(padded_rows)
    with torch.no_grad():
        module.durations.weight.fill_(0.125)
    spec = td.from_module(module, {"x": td.Input((2, 5, 8), sample=(17.0, 18.0))})  # e**18 of each
    with pytest.raises(td.DefinitionError, match="repeat_interleave makes .* of its elements"):
        td.check(spec)
