"""What is as long as values say, without a bound: the values that differ, and elements as often as others say."""

import pytest
import torch
from torch import nn

import trtdsl as td
from trtdsl.porting import ported


class Calls(nn.Module):
    """A module whose forward is given."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, c):
        return self.function(x, c)


def voxels(x, c):
    cells, which, counts = torch.unique(c, dim=0, return_inverse=True, return_counts=True)
    sums = torch.zeros(cells.shape[0], 4).index_add(0, which, x)
    return sums / counts[:, None], cells, x - sums[which]


FUNCTIONS = {
    "of a whole tensor": lambda x, c: torch.unique(c, return_inverse=True, return_counts=True),
    "a method, of floats": lambda x, c: (x * 2).round().unique() * c.sum(),
    "of rows": voxels,
    "of columns": lambda x, c: (c.t().unique(dim=1), x),
    "how many": lambda x, c: x * len(torch.unique(c)),
    "of neighbours": lambda x, c: (*c[:, 0].unique_consecutive(True, return_counts=True), x),
    "rows as often": lambda x, c: x.repeat_interleave(c[:, 0], dim=0),
    "columns as often": lambda x, c: torch.repeat_interleave(x.t(), c[:, 1] + 1, dim=-1),
    "elements as often": lambda x, c: torch.repeat_interleave(x[:, 0], c[:, 0], output_size=int(c[:, 0].sum())),
    "places as often": lambda x, c: torch.repeat_interleave(c[:, 2]) + x.long().sum(),
    "as often as a constant says": lambda x, c: x.repeat_interleave(torch.tensor([1, 0, 3, 1]), dim=1) * c.sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_as_long_as_values_say_is_that_of_torch(name):
    module = Calls(FUNCTIONS[name])
    result = ported(module, {"x": "T,4", "c": "T,3:int64:0:3"}, dims={"T": (2, 5, 9)}, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict


def test_columns_of_a_dynamic_length_are_refused():
    with pytest.raises(td.TrtdslError, match="the size became a number"):
        ported(Calls(lambda x, c: torch.unique(c, dim=1)), {"x": "T,4", "c": "T,3:int64:0:3"}, dims={"T": (2, 5, 9)})


torch.library.define("trtdsl_tests::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@torch.library.impl("trtdsl_tests::nms", "CPU")
def kept(boxes, scores, threshold):
    """torchvision's nms, by its documentation."""
    found, area = [], (boxes[:, 2:] - boxes[:, :2]).prod(1)
    for place in scores.argsort(descending=True, stable=True).tolist():
        low, high = boxes[found, :2].maximum(boxes[place, :2]), boxes[found, 2:].minimum(boxes[place, 2:])
        overlap = (high - low).clamp(min=0).prod(1)
        if not bool((overlap / (area[found] + area[place] - overlap) > threshold).any()):
            found.append(place)
    return torch.tensor(found, dtype=torch.int64)


@torch.library.register_fake("trtdsl_tests::nms")
def _(boxes, scores, threshold):
    return boxes.new_empty((torch.library.get_ctx().new_dynamic_size(),), dtype=torch.int64)


class Detector(nn.Module):
    """A head of boxes with what detectors of torchvision do behind it."""

    def __init__(self):
        super().__init__()
        self.boxes, self.scores = nn.Linear(16, 4), nn.Linear(16, 3)

    def forward(self, x):
        boxes = self.boxes(x)
        boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs() + 0.1], 1)
        scores, labels = self.scores(x).softmax(1).max(1)
        (places,) = torch.where(scores > 0.4)
        boxes, scores, labels = boxes[places], scores[places], labels[places]
        if boxes.numel() == 0:
            return boxes, scores, labels
        apart = boxes + (labels.to(boxes) * (boxes.max() + 1))[:, None]
        keep = torch.ops.trtdsl_tests.nms(apart, scores, 0.3)[:20]
        return boxes[keep], scores[keep], labels[keep]


def test_boxes_that_suppress_others_are_those_of_torch():
    result = ported(Detector(), {"x": "B,16"}, dims={"B": (20, 30, 60)}, check=True)
    assert result.verdict is not None and result.verdict.passed, result.verdict
    assert "F.nms(" in result.text
