"""RoIAlign by gathering cells, on the CPU, equals the reference."""

import pytest
import torch

from patchword.kernels.roi_align import operation as module
from patchword.kernels.roi_align import roi_align
from patchword.kernels.roi_align.gather import can_gather, roi_align_gather
from patchword.kernels.roi_align.reference import roi_align_reference
from support.kernel_tests import assert_as_exact

STRIDES = [2, 4.0]


def pyramid(dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.randn(2, 5, *side).to(dtype) for side in ((11, 9), (6, 5))]


def some_boxes():
    """Inside, partly and fully outside, larger than the image, empty, with swapped corners; and their levels."""
    corners = [[1.3, 2.1, 9.7, 14.2], [-6.0, -3.0, 5.0, 4.5], [30.0, 3.0, 44.0, 9.0], [-20.0, -30.0, 60.0, 50.0]]
    corners += [[4.0, 5.0, 4.0, 5.0], [9.0, 12.0, 3.0, 2.0], [0.0, 0.0, 18.0, 22.0], [2.0, 2.0, 8.0, 8.0]]
    levels = torch.tensor([[0, 1, 0, 1, 1, 0, -1, 0], [1, 0, 1, 1, 0, 1, 0, 7]])
    return torch.tensor(corners).expand(2, -1, 4), levels


def differentiated(run, maps, rule):
    leaves = [part.detach().requires_grad_() for part in maps]
    output = run(leaves, *rule)
    slopes = (torch.arange(output.numel()) % 7 - 2.0).view(output.shape)
    return [output.detach(), *torch.autograd.grad(output, leaves, slopes.to(output.dtype))]


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [1, 2, 3])
def test_it_is_as_exact_as_the_reference(aligned, samples):
    rule = *some_boxes(), STRIDES, (2, 3), aligned, samples
    found, reference = (differentiated(run, pyramid(), rule) for run in (roi_align_gather, roi_align_reference))
    assert_as_exact(found, reference, differentiated(roi_align_reference, pyramid(torch.float64), rule))


def test_second_derivatives_equal_those_of_the_reference():
    boxes, levels = some_boxes()

    def curvature(run):
        leaves = [part.requires_grad_() for part in pyramid(torch.float64)]
        output = run(leaves, boxes, levels, STRIDES, (2, 2), True, 2)
        slopes = torch.autograd.grad((output**3).sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves)

    for one, other in zip(curvature(roi_align_gather), curvature(roi_align_reference), strict=True):
        assert torch.allclose(one, other)


def test_undefined_and_infinite_boxes_are_no_error():
    boxes = torch.tensor([[[float("nan"), 1.0, 5.0, 6.0], [1.0, 1.0, float("inf"), 6.0], [1.0, 2.0, 5.0, 6.0]]])
    found = roi_align_gather(
        [part[:1] for part in pyramid()], boxes, torch.zeros(1, 3).long(), STRIDES, (2, 2), True, 2
    )
    assert found[0, 0].isnan().all()
    assert found[0, 2].isfinite().all()


@pytest.mark.parametrize("shape", [(2, 0), (0, 3)])
def test_no_boxes_and_no_images(shape):
    maps = [part[: shape[0]] for part in pyramid()]
    rule = torch.zeros(*shape, 4), torch.zeros(shape, dtype=torch.long), STRIDES, (2, 3), True, 2
    output, *gradients = differentiated(roi_align_gather, maps, rule)
    assert output.shape == (*shape, 5, 2, 3)
    assert [part.shape for part in gradients] == [part.shape for part in maps]
    assert not any(part.any() for part in gradients)


@pytest.mark.parametrize("samples", [2, "adaptive"])
def test_gradients_in_a_compiled_graph(samples):
    def run(*given):
        return roi_align(*given[:5], aligned=given[5], samples=given[6])

    rule = *some_boxes(), STRIDES, (2, 2), True, samples
    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for one, other in zip(differentiated(compiled, pyramid(), rule), differentiated(run, pyramid(), rule), strict=True):
        assert torch.equal(one, other)


def test_when_it_is_chosen(monkeypatch):
    assert can_gather(pyramid())
    assert not can_gather([*pyramid(), *pyramid(torch.float64)])
    assert not can_gather(pyramid(torch.bfloat16))
    with torch.autocast("cpu", torch.bfloat16):
        assert not can_gather(pyramid())
    seen = []
    monkeypatch.setattr(module, "roi_align_gather", lambda *given: seen.append(given[-1]))
    boxes, levels = some_boxes()
    for samples in (2, "adaptive"):
        roi_align(pyramid(), boxes, levels, STRIDES, (2, 2), aligned=True, samples=samples)
    assert seen == [2]
    torch.func.vmap(lambda part: roi_align([part], boxes, levels, [2], (2, 2), aligned=True, samples=2))(
        pyramid()[0][None]
    )
    assert seen == [2]
