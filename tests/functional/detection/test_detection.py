"""Detection against torchvision's definitions, written out plainly: loops over boxes, cells and kernel positions."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_close, evaluate

import trtdsl as td
import trtdsl.functional as F
from trtdsl.engine.compiling.compiler import compile_engine


def boxes_of(number, generator, spread=20.0):
    corners = torch.rand(number, 2, generator=generator) * spread
    return torch.cat([corners, corners + 1 + torch.rand(number, 2, generator=generator) * 8], 1)


def overlap(a, b):
    width = max(min(a[2], b[2]) - max(a[0], b[0]), 0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    inter = width * height
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)


def greedy(boxes, scores, threshold, classes=None):
    """torchvision's meaning: the best first, each suppresses what overlaps it by more than the threshold."""
    order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
    kept = []
    for index in order:
        rivals = [other for other in kept if classes is None or classes[other] == classes[index]]
        if all(overlap(boxes[other], boxes[index]) <= threshold for other in rivals):
            kept.append(index)
    return kept


def padded(kept, size):
    return torch.tensor((kept + [-1] * size)[:size])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 24), st.integers(0, 2**16), st.sampled_from([0.0, 0.3, 0.5, 0.9]), st.booleans())
def test_nms_is_greedy(number, seed, threshold, ties):
    generator = torch.Generator().manual_seed(seed)
    boxes, scores = boxes_of(number, generator), torch.rand(number, generator=generator)
    if ties:
        scores = (scores * 4).round() / 4
    classes = torch.randint(0, 3, (number,), generator=generator)
    size = number + 2
    got = evaluate(lambda b, s: F.nms(b, s, threshold, max_outputs=size), boxes, scores)
    assert torch.equal(got, padded(greedy(boxes.tolist(), scores.tolist(), threshold), size))
    got = evaluate(lambda b, s, c: F.batched_nms(b, s, c, threshold, max_outputs=size), boxes, scores, classes)
    assert torch.equal(got, padded(greedy(boxes.tolist(), scores.tolist(), threshold, classes.tolist()), size))


def test_nms_without_a_limit_has_a_size_that_depends_on_data():
    generator = torch.Generator().manual_seed(1)
    boxes, scores = boxes_of(30, generator), torch.rand(30, generator=generator)
    got = evaluate(lambda b, s: F.nms(b, s, 0.4), boxes, scores)
    assert got.tolist() == greedy(boxes.tolist(), scores.tolist(), 0.4)


def test_a_long_chain_of_overlaps():
    """Each box overlaps the next: every second one is kept, which takes as many passes as there are boxes."""
    boxes = torch.tensor([[float(k), 0, k + 2.0, 1] for k in range(40)])
    scores = torch.linspace(1, 0.1, 40)
    got = evaluate(lambda b, s: F.nms(b, s, 0.3, max_outputs=40), boxes, scores)
    assert [index for index in got.tolist() if index >= 0] == list(range(0, 40, 2))


def test_batches_dynamic_sizes_and_an_engine():
    net = td.Network()
    number = td.Dim("B", min=1, opt=4, max=64)
    boxes, scores = net.input("boxes", ("N", number, 4)), net.input("scores", ("N", number))
    net.output(F.nms(boxes, scores, 0.5, max_outputs=1), "best")
    given = boxes_of(12, torch.Generator().manual_seed(2)).reshape(2, 6, 4)
    values = torch.rand(2, 6, generator=torch.Generator().manual_seed(3))
    got = td.interpret(net, {"boxes": given, "scores": values})["best"]
    assert torch.equal(got, values.argmax(1, keepdim=True))
    fixed = td.Network()
    boxes, scores = fixed.input("boxes", (1, 64, 4)), fixed.input("scores", (1, 64))
    fixed.output(F.nms(boxes, scores, 0.5, max_outputs=10), "kept")
    assert len(compile_engine(fixed).data) > 0


@pytest.mark.parametrize("source", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("target", ["xyxy", "xywh", "cxcywh"])
def test_box_convert(source, target):
    corners = boxes_of(5, torch.Generator().manual_seed(0))
    low, high = corners[:, :2], corners[:, 2:]
    forms = {"xyxy": corners, "xywh": torch.cat([low, high - low], 1)}
    forms["cxcywh"] = torch.cat([(low + high) / 2, high - low], 1)
    assert_close(evaluate(lambda x: F.box_convert(x, source, target), forms[source], dims=[("N", 4)]), forms[target])


def test_areas_and_overlaps():
    a, b = (boxes_of(n, torch.Generator().manual_seed(n)) for n in (4, 6))
    expected = torch.tensor([[overlap(one, other) for other in b.tolist()] for one in a.tolist()])
    assert_close(evaluate(F.box_iou, a, b, dims=[("N", 4), ("M", 4)]), expected)
    assert_close(evaluate(F.box_area, a), (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]))


def sample(image, y, x):
    """One point of (C, H, W) as roi_align reads it."""
    height, width = image.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return torch.zeros(image.shape[0])
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    low_y, low_x = int(y), int(x)
    high_y, high_x = min(low_y + 1, height - 1), min(low_x + 1, width - 1)
    ly, lx = y - low_y, x - low_x
    top = image[:, low_y, low_x] * (1 - lx) + image[:, low_y, high_x] * lx
    bottom = image[:, high_y, low_x] * (1 - lx) + image[:, high_y, high_x] * lx
    return top * (1 - ly) + bottom * ly


def roi_align(features, rois, size, scale, ratio, aligned):
    result = torch.zeros(len(rois), features.shape[1], *size)
    for k, (item, *box) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (edge * scale - 0.5 * aligned for edge in box)
        height, width = y2 - y1, x2 - x1
        if not aligned:
            height, width = max(height, 1.0), max(width, 1.0)
        for i in range(size[0]):
            for j in range(size[1]):
                points = [
                    sample(
                        features[int(item)],
                        y1 + (i + (a + 0.5) / ratio) * height / size[0],
                        x1 + (j + (b + 0.5) / ratio) * width / size[1],
                    )
                    for a in range(ratio)
                    for b in range(ratio)
                ]
                result[k, :, i, j] = torch.stack(points).mean(0)
    return result


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(("size", "ratio"), [((2, 3), 2), ((1, 1), 1), ((3, 2), 3)])
def test_roi_align(aligned, size, ratio):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2, 3, 9, 7, generator=generator)
    boxes = boxes_of(6, generator, spread=30.0) - 4
    boxes[1, 2:] = boxes[1, :2] + 0.1  # less than a pixel
    rois = torch.cat([torch.tensor([[0.0], [1], [0], [1], [1], [0]]), boxes], 1)
    expected = roi_align(features, rois, size, 0.5, ratio, aligned)
    got = evaluate(
        lambda x, r: F.roi_align(x, r, size, 0.5, ratio, aligned), features, rois, dims=[("N", 3, "H", "W"), ("K", 5)]
    )
    assert_close(got, expected)


def test_roi_align_takes_the_boxes_of_each_item():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2, 3, 9, 7, generator=generator)
    first, second = boxes_of(2, generator, 5.0), boxes_of(3, generator, 5.0)
    rois = torch.cat([torch.cat([torch.full((len(b), 1), float(k)), b], 1) for k, b in enumerate((first, second))])
    got = evaluate(lambda x, a, b: F.roi_align(x, [a, b], 2, 1.0, 2), features, first, second)
    assert_close(got, roi_align(features, rois, (2, 2), 1.0, 2, False))


def deformed(x, offset, weight, bias, stride, padding, dilation, mask):
    """The definition: for every output and kernel position, one bilinear read with zeros outside."""
    n, c, h, w = x.shape
    out, part, kh, kw = weight.shape
    rows, columns = offset.shape[2:]
    groups = offset.shape[1] // (2 * kh * kw)
    result = bias.reshape(1, out, 1, 1).repeat(n, 1, rows, columns)

    def pixel(item, channel, y, x_):
        return x[item, channel, y, x_].item() if 0 <= y < h and 0 <= x_ < w else 0.0

    for item, o, i, j in itertools.product(range(n), range(out), range(rows), range(columns)):
        total = 0.0
        for inner in range(part):
            channel = (o // (out // (c // part))) * part + inner
            group = channel // (c // groups)
            for tap in range(kh * kw):
                ky, kx = divmod(tap, kw)
                shift = offset[item, 2 * (group * kh * kw + tap) :, i, j]
                y = i * stride - padding + ky * dilation + shift[0].item()
                x_ = j * stride - padding + kx * dilation + shift[1].item()
                y0, x0 = math.floor(y), math.floor(x_)
                value = sum(
                    pixel(item, channel, y0 + a, x0 + b) * (1 - abs(y - y0 - a)) * (1 - abs(x_ - x0 - b))
                    for a in (0, 1)
                    for b in (0, 1)
                )
                factor = 1.0 if mask is None else mask[item, group * kh * kw + tap, i, j].item()
                total += weight[o, inner, ky, kx].item() * value * factor
        result[item, o, i, j] += total
    return result


@pytest.mark.parametrize(
    ("groups", "parts", "stride", "padding", "dilation", "masked"),
    [(1, 1, 1, 0, 1, False), (2, 1, 2, 1, 1, True), (1, 2, 1, 1, 2, True)],
)
def test_deform_conv2d(groups, parts, stride, padding, dilation, masked):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 4, 6, 5, generator=generator)
    weight, bias = torch.randn(4, 4 // parts, 2, 3, generator=generator), torch.randn(4, generator=generator)
    rows = (6 + 2 * padding - dilation - 1) // stride + 1
    columns = (5 + 2 * padding - 2 * dilation - 1) // stride + 1
    offset = torch.randn(2, 2 * groups * 6, rows, columns, generator=generator) * 2
    mask = torch.rand(2, groups * 6, rows, columns, generator=generator) if masked else None
    tensors = [x, offset, *([mask] if masked else [])]

    def network(x, offset, mask=None):
        return F.deform_conv2d(x, offset, weight, bias, stride, padding, dilation, mask)

    got = evaluate(network, *tensors, dims=[("N", 4, 6, 5), *(("N", *t.shape[1:]) for t in tensors[1:])])
    assert_close(got, deformed(x, offset, weight, bias, stride, padding, dilation, mask))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, s: F.nms(b, b, 0.5), r"boxes are \(…, n, 4\) and scores"),
        (lambda b, s: F.nms(b, s, 0.5, max_outputs=0), "max_outputs must be positive"),
        (lambda b, s: F.box_convert(b, "xyxy", "ltrb"), "one of 'xyxy', 'xywh', 'cxcywh'"),
        (lambda b, s: F.roi_align(s.reshape(1, 1, 2, 3), b, 2), "give a number"),
    ],
)
def test_bad_calls(call, message):
    net = td.Network()
    boxes, scores = net.input("boxes", (6, 4)), net.input("scores", (6,))
    with pytest.raises(td.TrtdslError, match=message):
        call(boxes, scores)


def test_a_deformable_convolution_is_read_as_a_sample_is():
    """With a gather of its own it moved 73,036,376 bytes in 5 launches."""
    net = td.Network()
    weight = net.constant(torch.ones(64, 64, 3, 3))
    x = F.conv2d(net.input("x", (2, 64, 56, 60)), weight, padding=1)
    net.output(F.relu(F.deform_conv2d(x, net.input("o", (2, 18, 56, 60)), weight, padding=1)), "y")
    program = td.program(net)
    assert (program.launch_count, program.bytes) <= (4, 42_070_608)
