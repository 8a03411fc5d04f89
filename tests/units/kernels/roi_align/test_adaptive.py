"""RoIAlign with adaptive samples on the CPU equals the reference and a loop over all samples."""

from math import ceil, floor

import pytest
import torch

from patchword.kernels.roi_align import adaptive, roi_align
from patchword.kernels.roi_align import operation as module
from patchword.kernels.roi_align.adaptive import roi_align_adaptive
from patchword.kernels.roi_align.reference import roi_align_reference

STRIDES = [2, 4.0]
SIDES = (11, 9), (6, 5)


def pyramid(images=2, dtype=torch.float64):
    torch.manual_seed(0)
    return [torch.randn(images, 3, *side).to(dtype) for side in SIDES]


def some_boxes(count=60):
    """Boxes of many sizes and shapes, some outside of the image or with swapped corners, on all levels and on none."""
    torch.manual_seed(1)
    center = torch.tensor([9.0, 11.0]) + 8 * torch.randn(2, count, 2)
    half = 4 * torch.randn(2, count, 2).exp()
    boxes = torch.cat([center - half, center + half], dim=-1)
    boxes[:, :5] = boxes[:, :5].flip(-1)
    return boxes, torch.arange(2 * count).view(2, count) % 4 - 1


def differentiated(run, maps, rule):
    leaves = [part.detach().requires_grad_() for part in maps]
    output = run(leaves, *rule)
    slopes = (torch.arange(output.numel()) % 7 - 2.0).view(output.shape)
    return [output.detach(), *torch.autograd.grad(output, leaves, slopes.to(output.dtype))]


def sample(cells, y, x):
    """Bilinear interpolation at one place of a map (channels, height, width)."""
    height, width = cells.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return torch.zeros_like(cells[:, 0, 0])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = floor(y), floor(x)
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = cells[:, top, left] * (1 - (x - left)) + cells[:, top, right] * (x - left)
    lower = cells[:, below, left] * (1 - (x - left)) + cells[:, below, right] * (x - left)
    return upper * (1 - (y - top)) + lower * (y - top)


def mean_of_bins(cells, box, size, aligned):
    """RoIAlign of one box on one map, sample by sample."""
    x1, y1, x2, y2 = (value - (0.5 if aligned else 0.0) for value in box)
    height, width = (y2 - y1, x2 - x1) if aligned else (max(y2 - y1, 1.0), max(x2 - x1, 1.0))
    height, width = height / size[0], width / size[1]
    rows, columns = max(ceil(height), 0), max(ceil(width), 0)
    bins = []
    for row in range(size[0]):
        for column in range(size[1]):
            total = torch.zeros_like(cells[:, 0, 0])
            for i in range(rows):
                for j in range(columns):
                    y = y1 + (row + (i + 0.5) / rows) * height
                    total = total + sample(cells, y, x1 + (column + (j + 0.5) / columns) * width)
            bins.append(total / max(rows * columns, 1))
    return torch.stack(bins, dim=1).view(-1, *size)


def loop(maps, boxes, levels, strides, size, aligned, samples):
    """RoIAlign, box by box."""
    assert samples is None
    empty = maps[0].new_zeros(maps[0].shape[1], *size)
    return torch.stack(
        [
            torch.stack(
                [
                    mean_of_bins(maps[level][image], [float(v) / strides[level] for v in box], size, aligned)
                    if level in range(len(maps))
                    else empty
                    for box, level in zip(boxes[image], levels[image].tolist(), strict=True)
                ]
            )
            for image in range(len(boxes))
        ]
    )


def exact_boxes():
    """Boxes whose samples float32 places without rounding: bins of 1/4 to 16 cells, inside and outside."""
    x1 = torch.tensor([1.5, -3.0, 7.25, 0.0, 2.0, -20.0, 4.5, 30.0])
    y1 = torch.tensor([2.0, 4.25, -2.5, 0.0, 9.0, -12.0, 3.0, 2.0])
    width = torch.tensor([8.0, 16.0, 32.0, 4.0, 0.0, 64.0, -4.0, 8.0])
    height = torch.tensor([16.0, 8.0, 4.0, 32.0, 8.0, 64.0, 8.0, 8.0])
    boxes = torch.stack([x1, y1, x1 + width, y1 + height], dim=-1)
    return torch.stack([boxes, boxes.flip(0)]), torch.tensor([[0, 1, 0, 0, 1, 1, 0, 1], [1, 0, -1, 1, 0, 0, 2, 0]])


@pytest.mark.parametrize("aligned", [False, True])
def test_it_equals_a_loop_over_samples(aligned):
    rule = *exact_boxes(), STRIDES, (2, 4), aligned, None
    found, expected = (differentiated(run, pyramid(), rule) for run in (roi_align_adaptive, loop))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("size", [(7, 7), (2, 3)])
def test_it_equals_the_reference(size, aligned):
    rule = *some_boxes(), STRIDES, size, aligned, None
    found, expected = (differentiated(run, pyramid(), rule) for run in (roi_align_adaptive, roi_align_reference))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("most", [1, 200])
def test_chunks_change_nothing(monkeypatch, most):
    rule = *some_boxes(), STRIDES, (2, 3), True, None
    whole = differentiated(roi_align_adaptive, pyramid(), rule)
    monkeypatch.setattr(adaptive, "_MOST_CELLS", most)
    sizes = []
    joined = adaptive._joined
    monkeypatch.setattr(adaptive, "_joined", lambda parts: sizes.append(joined(parts)) or sizes[-1])
    for one, other in zip(differentiated(roi_align_adaptive, pyramid(), rule), whole, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-10)
    assert len(sizes) > 10
    assert all(len(chunk.cells) <= most or len(chunk.boxes) == 1 for chunk in sizes)


def test_second_derivatives_equal_those_of_the_reference():
    rule = *some_boxes(8), STRIDES, (2, 2), True, None

    def curvature(run):
        leaves = [part.requires_grad_() for part in pyramid()]
        slopes = torch.autograd.grad((run(leaves, *rule) ** 3).sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves)

    for one, other in zip(curvature(roi_align_adaptive), curvature(roi_align_reference), strict=True):
        assert torch.allclose(one, other)


def test_undefined_and_infinite_boxes_are_no_error():
    boxes = torch.tensor([[[float("nan"), 1.0, 5.0, 6.0], [1.0, 1.0, float("inf"), 6.0], [1.0, 2.0, 5.0, 6.0]]])
    levels = torch.tensor([[-1, 0, 0]])
    found = roi_align_adaptive(pyramid(1), boxes, levels, STRIDES, (2, 2), True, None)
    assert found[0, :2].isnan().all()
    assert found[0, 2].isfinite().all()


@pytest.mark.parametrize("shape", [(2, 0), (0, 3)])
def test_no_boxes_and_no_images(shape):
    rule = torch.zeros(*shape, 4), torch.zeros(shape, dtype=torch.long), STRIDES, (2, 3), True, None
    output, *gradients = differentiated(roi_align_adaptive, pyramid(shape[0]), rule)
    assert output.shape == (*shape, 3, 2, 3)
    assert [part.shape for part in gradients] == [part.shape for part in pyramid(shape[0])]
    assert not any(part.any() for part in gradients)


def test_when_it_is_chosen(monkeypatch):
    boxes, levels = some_boxes(4)
    seen = []

    def run(maps, samples):
        return roi_align(maps, boxes, levels, STRIDES, (2, 2), aligned=True, samples=samples)

    def spy(*given):
        seen.append(given[-1])
        return roi_align_reference(*given)

    monkeypatch.setattr(module, "roi_align_adaptive", spy)
    for samples in (2, "adaptive"):
        run(pyramid(), samples)
    assert seen == [None]
    with torch.autocast("cpu", torch.bfloat16):
        run(pyramid(dtype=torch.float32), "adaptive")
    torch.func.vmap(lambda part: run([part, part], "adaptive"))(pyramid()[0][None])
    assert seen == [None]
