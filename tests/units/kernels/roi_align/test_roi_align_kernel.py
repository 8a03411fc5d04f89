"""The RoIAlign kernels match the reference, on a GPU or in Triton's interpreter."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from patchword.kernels.roi_align import operation as module
from patchword.kernels.roi_align import roi_align, roi_align_masks, tuning
from patchword.kernels.roi_align.operation import has_roi_align_kernel, has_roi_align_masks_kernel
from patchword.kernels.roi_align.reference import roi_align_masks_reference, roi_align_reference
from patchword.kernels.roi_align.torch_op import roi_align_backward
from support.dense.operators import golden
from support.kernel_tests import DEVICE, assert_as_exact, assert_rounded, needs_triton

STRIDES = [2.0, 4.0, 8.0]
RULES = [(aligned, samples) for aligned in (False, True) for samples in (1, 2, "adaptive")]
LAYOUTS = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}


@pytest.fixture
def chosen(triton, monkeypatch):
    """The kernels run for every tensor, also on the CPU."""
    monkeypatch.setattr(module, "can_gather", lambda maps: False)
    monkeypatch.setattr(module, "has_roi_align_kernel", lambda maps: True)
    monkeypatch.setattr(module, "has_roi_align_masks_kernel", lambda masks: True)


def pyramid(channels=5, layout=torch.contiguous_format, dtype=torch.float32):
    """Maps of odd sizes for images of 22 x 18 pixels."""
    torch.manual_seed(0)
    sides = (11, 9), (6, 5), (3, 3)
    return [torch.randn(2, channels, *side).to(DEVICE, dtype).contiguous(memory_format=layout) for side in sides]


def some_boxes():
    """Inside, partly and fully outside, larger than the image, empty, with swapped corners; and their levels."""
    corners = [[1.3, 2.1, 9.7, 14.2], [-6.0, -3.0, 5.0, 4.5], [30.0, 3.0, 44.0, 9.0], [-20.0, -30.0, 60.0, 50.0]]
    corners += [[4.0, 5.0, 4.0, 5.0], [9.0, 12.0, 3.0, 2.0], [0.0, 0.0, 18.0, 22.0], [2.0, 2.0, 8.0, 8.0]]
    levels = torch.tensor([[0, 1, 0, 2, 1, 0, -1, 2], [2, 0, 1, 1, 0, 2, 0, 7]])
    return torch.tensor(corners).expand(2, -1, 4).to(DEVICE), levels.to(DEVICE)


def count(samples):
    return None if samples == "adaptive" else samples


def differentiated(run, maps):
    """Return the output and the gradients of all maps."""
    leaves = [part.detach().requires_grad_() for part in maps]
    output = run(leaves)
    slopes = (torch.arange(output.numel(), device=DEVICE) % 7 - 2).view(output.shape)  # exact in every dtype
    return [output.detach(), *torch.autograd.grad(output, leaves, slopes.to(output.dtype))]


def pooled(boxes, levels):
    """Return a function of the maps."""
    return lambda maps: roi_align(maps, boxes, levels, STRIDES, (2, 2), aligned=True, samples=1)


def check(maps, boxes, levels, strides, size, aligned, samples):
    def by_reference(leaves):
        return roi_align_reference(leaves, boxes, levels, strides, size, aligned, count(samples))

    def by_kernel(leaves):
        return roi_align(leaves, boxes, levels, strides, size, aligned=aligned, samples=samples)

    exact = differentiated(by_reference, [part.double() for part in maps])
    found = differentiated(by_kernel, maps)
    if maps[0].dtype == torch.float32:
        assert_as_exact(found, differentiated(by_reference, maps), exact)
    else:
        assert all(part.dtype == maps[0].dtype for part in found)
        assert_rounded(found, exact)
    return found


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(("aligned", "samples"), RULES)
def test_the_kernel_matches_the_reference(aligned, samples):
    check(pyramid(), *some_boxes(), STRIDES, (2, 3), aligned, samples)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_layouts_and_dtypes(layout, dtype):
    boxes, levels = some_boxes()
    found = check(pyramid(6, layout, dtype), boxes[:, :4], levels[:, :4], STRIDES, (3, 2), True, 2)
    assert found[1].is_contiguous(memory_format=layout)
    assert found[0].flatten(0, 1).is_contiguous(memory_format=layout)


@pytest.mark.usefixtures("chosen")
def test_maps_of_other_strides_and_of_two_layouts_are_read():
    boxes, levels = some_boxes()
    maps = pyramid()
    maps[0] = torch.randn(2, 11, 5, 12, device=DEVICE).transpose(1, 2)[..., 1:10]
    maps[1] = maps[1].contiguous(memory_format=torch.channels_last)
    check(maps, boxes[:, :2], levels[:, :2], STRIDES, (2, 2), True, 1)


@pytest.mark.usefixtures("chosen")
def test_more_channels_than_a_program_has(monkeypatch):
    monkeypatch.setattr(tuning, "NARROW_TILE", 8)
    assert tuning.blocks(3, 5, channels_last=False) == (4, 2)
    boxes, levels = some_boxes()
    check(pyramid(), boxes[:, :2], levels[:, :2], STRIDES, (2, 3), False, 1)


@pytest.mark.usefixtures("chosen")
def test_five_levels():
    """The largest number; each box reads another level, with another stride."""
    torch.manual_seed(0)
    maps = [torch.randn(1, 2, 9 - level, 8 - level, device=DEVICE) for level in range(5)]
    boxes = torch.tensor([[[1.0, 2.0, 14.0, 17.0]]], device=DEVICE).expand(1, 5, 4)
    check(maps, boxes, torch.arange(5, device=DEVICE)[None], [2.0, 3.0, 4.0, 5.0, 6.0], (2, 2), True, 1)


@pytest.mark.usefixtures("chosen")
def test_all_boxes_on_one_level_or_on_none():
    boxes, levels = some_boxes()
    found = check(pyramid(), boxes[:, :2], levels[:, :2] * 0, STRIDES, (2, 2), True, 2)
    assert found[0].any()
    assert not any(part.any() for part in found[2:])
    nothing = differentiated(pooled(boxes[:, :2], levels[:, :2] * 0 - 1), pyramid())
    assert not any(part.any() for part in nothing)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("images", [0, 2])
def test_no_boxes_and_no_images(images):
    boxes, levels = some_boxes()
    boxes, levels = (boxes[:, :0], levels[:, :0]) if images else (boxes[:0], levels[:0])
    maps = [part[:images] for part in pyramid()]
    output, *gradients = differentiated(pooled(boxes, levels), maps)
    assert output.shape == (*boxes.shape[:2], 5, 2, 2)
    assert [part.shape for part in gradients] == [part.shape for part in maps]
    assert not any(part.any() for part in gradients)


@pytest.mark.usefixtures("chosen")
def test_adaptive_samples_outside_the_map_are_not_visited():
    """A box of 65,536 pixels has 32,768 samples per bin and axis; the test would take hours if all were visited.

    Samples are one pixel apart, so that all their positions are exact in float32.
    """
    boxes = torch.tensor([[[-32768.0, -32768.0, 32768.0, 32768.0]], [[-3.0, 2.0, 65533.0, 9.0]]], device=DEVICE)
    levels = torch.zeros(2, 1, dtype=torch.long, device=DEVICE)
    found = roi_align(pyramid(1)[:1], boxes, levels, [1.0], (1, 2), aligned=True, samples="adaptive")
    exact = roi_align_reference([part.double() for part in pyramid(1)[:1]], boxes, levels, [1.0], (1, 2), True, None)
    reference = roi_align_reference(pyramid(1)[:1], boxes, levels, [1.0], (1, 2), True, None)
    assert_as_exact([found], [reference], [exact])


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(("aligned", "samples"), [(False, 2), (True, "adaptive")])
def test_the_kernel_equals_the_compiled_operator(aligned, samples):
    """The golden boxes of the first image; golden results are those of torchvision."""
    name = f"roi_align/aligned{int(aligned)}.ratio{0 if samples == 'adaptive' else samples}"
    rois, expected = golden("roi_align/rois"), golden(name)
    own = rois[:, 0] == 0
    boxes, levels = rois[own, 1:][None].to(DEVICE), torch.zeros(1, int(own.sum()), dtype=torch.long, device=DEVICE)
    features = golden("roi_align/map")[:1].to(DEVICE)
    found = roi_align([features], boxes, levels, [4], (7, 7), aligned=aligned, samples=samples)[0].cpu()
    assert torch.allclose(found, expected[own], rtol=0, atol=2e-5 * expected.abs().max().item())


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    ("samples", "dtype"), [(2, torch.bool), (2, torch.uint8), (2, torch.float32), ("adaptive", torch.bool)], ids=str
)
def test_masks(samples, dtype):
    boxes, _ = some_boxes()
    masks = (torch.rand(2, 3, 22, 18, device=DEVICE) * 2).to(dtype)
    index = torch.tensor([[0, 2, 1, 1], [2, 2, 0, 1]], device=DEVICE)
    given = masks, boxes[:, [0, 1, 5, 7]], index, (3, 2)
    found = roi_align_masks(*given, aligned=True, samples=samples)
    exact = roi_align_masks_reference(masks.double(), *given[1:], True, count(samples))
    assert found.dtype == torch.float32
    assert_as_exact([found], [roi_align_masks_reference(*given, True, count(samples))], [exact])


@pytest.mark.usefixtures("chosen")
def test_second_derivatives():
    boxes, levels = some_boxes()
    features = torch.randn(1, 1, 4, 3, dtype=torch.float64, device=DEVICE, requires_grad=True)

    def squared(leaf):
        output = roi_align([leaf.float()], boxes[:1, :2], levels[:1, :2] * 0, [4.0], (1, 2), aligned=True, samples=1)
        return (output**2).sum()

    (slope,) = torch.autograd.grad(squared(features), features, create_graph=True)
    (curve,) = torch.autograd.grad(slope.sum(), features)
    ones = torch.ones_like(features, requires_grad=True)
    (expected,) = torch.autograd.grad(squared(ones), ones)  # the function is a quadratic form
    assert torch.allclose(curve, expected)


@pytest.mark.usefixtures("chosen")
def test_a_compiled_graph_has_one_operation_forward_and_one_backward():
    """The compiler does not look into them."""
    boxes, levels = some_boxes()
    seen: list[str] = []

    def backend(graph, _):
        seen.extend(str(node.target) for node in graph.graph.nodes if "patchword" in str(node.target))
        return make_boxed_func(graph)

    run = pooled(boxes[:, :2], levels[:, :2])
    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend=aot_autograd(fw_compiler=backend, bw_compiler=backend))
    found, expected = differentiated(compiled, pyramid()), differentiated(run, pyramid())
    assert seen == ["patchword.roi_align_forward.default", "patchword.roi_align_back.default"]
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_compiling_for_a_gpu_traces_the_kernel(hopper, layout):
    made = {"device": hopper, "dtype": torch.bfloat16, "memory_format": layout}
    maps = [torch.empty(2, 4, side, side, **made) for side in (16, 8)]
    boxes, levels = torch.empty(2, 5, 4, device=hopper), torch.zeros(2, 5, dtype=torch.long, device=hopper)
    found = roi_align(maps, boxes, levels, [4, 8], (7, 7), aligned=True, samples=2)
    assert found.shape == (2, 5, 4, 7, 7)
    assert found.flatten(0, 1).is_contiguous(memory_format=layout)
    rule = [4.0, 8.0], [7, 7], True, 2, layout == torch.channels_last
    gradients = roi_align_backward(found, maps, boxes, levels, *rule)
    assert all(part.is_contiguous(memory_format=layout) and part.dtype == torch.bfloat16 for part in gradients)
    masks = torch.zeros(2, 3, 64, 64, dtype=torch.bool, device=hopper)
    assert roi_align_masks(masks, boxes, levels, (28, 28), aligned=True, samples=2).shape == (2, 5, 28, 28)


def test_when_it_is_chosen(hopper, monkeypatch):
    def empty(dtype=torch.float32, needs_grad=False):
        return torch.empty(1, 2, 4, 4, device=hopper, dtype=dtype, requires_grad=needs_grad)

    assert has_roi_align_kernel([empty(needs_grad=True)])
    assert has_roi_align_kernel([empty()] * tuning.MAX_LEVELS)
    assert not has_roi_align_kernel([empty()] * (tuning.MAX_LEVELS + 1))
    assert not has_roi_align_kernel([empty(), empty(torch.float16)])
    assert not has_roi_align_kernel([empty(torch.float64)])
    assert not has_roi_align_kernel([torch.empty(1, 2**10, 2**11, 2**10, device=hopper)])
    assert has_roi_align_masks_kernel(empty(torch.bool))
    assert not has_roi_align_masks_kernel(empty(needs_grad=True))
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert not has_roi_align_kernel([empty(needs_grad=True)])
    assert has_roi_align_kernel([empty()])


@pytest.mark.usefixtures("chosen")
def test_autocast_decides_the_dtype_of_the_output():
    boxes, levels = some_boxes()
    run = pooled(boxes[:, :1], levels[:, :1])
    with torch.autocast(DEVICE.type, torch.bfloat16):
        output, *gradients = differentiated(run, pyramid())
    assert output.dtype == torch.bfloat16
    assert_rounded([output], [run(pyramid())])
    assert all(part.dtype == torch.float32 for part in gradients)


@needs_triton
def test_the_self_test_passes_and_notices_a_wrong_kernel(monkeypatch):
    assert module.matches_reference(DEVICE)
    monkeypatch.setattr(
        module, "roi_align_masks_forward", lambda *given: roi_align_masks_reference(*given[:4], False, 2)
    )
    assert not module.matches_reference(DEVICE)
