"""Binary mask paste: the kernel equals the reference, on a GPU or in Triton's interpreter, and both the libraries."""

import pytest
import torch

from patchword.core.errors import UserError
from patchword.kernels.mask_paste import operation as module
from patchword.kernels.mask_paste import paste_binary_masks, paste_masks
from patchword.kernels.mask_paste.operation import has_paste_binary_masks_kernel
from patchword.kernels.mask_paste.reference import paste_masks_reference
from support.dense.operators import assert_compiles, golden
from support.kernel_tests import DEVICE, needs_triton

SIZE = (60, 70)


@pytest.fixture(params=["reference", "kernel"])
def path(request, monkeypatch):
    """Both ways to compute it. The kernel runs for every tensor, also on the CPU."""
    if request.param == "kernel":
        request.getfixturevalue("triton")
        monkeypatch.setattr(module, "has_paste_binary_masks_kernel", lambda masks, boxes: True)
    else:
        monkeypatch.setattr(module, "has_paste_binary_masks_kernel", lambda masks, boxes: False)


@pytest.mark.usefixtures("path")
def test_it_equals_mmdet_and_torchvision():
    masks, boxes = golden("paste/masks")[:, 0].to(DEVICE), golden("paste/boxes").to(DEVICE)
    assert torch.equal(paste_binary_masks(masks, boxes, SIZE, 0.5, rounded=False).cpu(), golden("paste/mmdet.mask"))
    found = paste_binary_masks(masks, boxes, SIZE, 0.5, rounded=True)
    assert torch.equal(found.cpu(), golden("paste/torchvision.mask"))


def unusual_boxes():
    """Inside, partly outside, fully outside, larger than the image, empty, swapped corners, below one pixel."""
    corners = [[2.3, 4.1, 17.9, 20.6], [-8.0, -3.5, 6.2, 9.0], [40.0, 2.0, 50.0, 9.0], [-30.0, -20.0, 60.0, 70.0]]
    corners += [[5.0, 5.0, 5.0, 9.0], [12.0, 14.0, 4.0, 3.0], [7.2, 7.3, 7.6, 7.9], [0.0, 0.0, 22.0, 35.0]]
    return torch.tensor(corners, device=DEVICE)


def check(masks, rounded):
    """A pixel may differ from float64 only if its probability is within a few roundings of the threshold."""
    found = paste_binary_masks(masks, unusual_boxes(), (35, 22), 0.45, rounded=rounded)
    exact = paste_masks_reference(masks.double(), unusual_boxes(), (35, 22), rounded)
    assert found.dtype == torch.bool
    assert found.shape == exact.shape
    reference = paste_masks_reference(masks.float(), unusual_boxes(), (35, 22), rounded)
    distance = 4 * max(float((reference - exact).abs().max()), torch.finfo(torch.float32).eps)
    decided = (exact - 0.45).abs() > distance
    assert torch.equal(found[decided], (exact > 0.45)[decided])
    assert decided.double().mean() > 0.99
    assert found.any()


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("rounded", [False, True], ids=["centers", "rounded"])
@pytest.mark.parametrize("sides", [(7, 6), (1, 1), (28, 28)], ids=str)
def test_pixels_are_those_of_float64(rounded, sides):
    torch.manual_seed(0)
    check(torch.rand(8, *sides, device=DEVICE), rounded)


@pytest.mark.parametrize("path", ["kernel"], indirect=True)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_kernel_computes_16_bit_masks_in_float32(path, dtype):
    torch.manual_seed(0)
    check(torch.rand(8, 9, 5).to(DEVICE, dtype), rounded=False)


@pytest.mark.usefixtures("path")
def test_the_threshold_belongs_to_the_convention():
    """A pixel at the threshold is part of the mask for detectron2 and mmdet, and not for torchvision."""
    masks, boxes = torch.full((1, 2, 2), 0.5, device=DEVICE), torch.tensor([[2.0, 2.0, 10.0, 10.0]], device=DEVICE)
    assert paste_binary_masks(masks, boxes, (12, 12), 0.5, rounded=False).any()
    assert not paste_binary_masks(masks, boxes, (12, 12), 0.5, rounded=True).any()
    assert paste_binary_masks(masks, boxes, (12, 12), 0.49, rounded=True).any()


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("rounded", [False, True], ids=["centers", "rounded"])
def test_batches_views_and_no_masks(rounded):
    torch.manual_seed(0)
    masks, boxes = torch.rand(2, 4, 6, 7, device=DEVICE).transpose(2, 3), unusual_boxes().view(2, 4, 4)
    found = paste_binary_masks(masks, boxes, (20, 150), 0.5, rounded=rounded)
    alone = paste_binary_masks(masks[1, 3], boxes[1, 3], (20, 150), 0.5, rounded=rounded)
    assert found.shape == (2, 4, 20, 150)
    assert torch.equal(found[1, 3], alone)
    assert paste_binary_masks(masks[:, :0], boxes[:, :0], (20, 150), 0.5, rounded=rounded).shape == (2, 0, 20, 150)


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 1.0])
def test_other_thresholds_are_refused(threshold):
    with pytest.raises(UserError, match="above 0 and below 1"):
        paste_binary_masks(torch.ones(1, 2, 2), torch.ones(1, 4), SIZE, threshold, rounded=False)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("rounded", [False, True])
def test_it_compiles_as_one_graph(rounded):
    masks, boxes = torch.rand(2, 4, 4, requires_grad=True), unusual_boxes()[:2].cpu()
    if DEVICE.type == "cpu":
        assert_compiles(paste_binary_masks, masks, boxes, (9, 8), 0.5, rounded=rounded)


def test_one_box_for_all_masks_is_read_by_the_reference():
    masks, box = torch.rand(3, 4, 4), torch.tensor([1.0, 2.0, 8.0, 9.0])
    expected = paste_masks(masks, box, (10, 10), rounded=False) >= 0.5
    assert torch.equal(paste_binary_masks(masks, box, (10, 10), 0.5, rounded=False), expected)


def test_when_the_kernel_is_chosen(hopper):
    masks, boxes = torch.empty(2, 3, 28, 28, device=hopper), torch.empty(2, 3, 4, device=hopper)
    assert has_paste_binary_masks_kernel(masks, boxes)
    assert not has_paste_binary_masks_kernel(masks, torch.empty(4, device=hopper))
    assert not has_paste_binary_masks_kernel(torch.empty(2, 3, 8, 8, device=hopper, dtype=torch.float64), boxes)
    found = paste_binary_masks(masks, boxes, (800, 1333), 0.5, rounded=False)
    assert (found.shape, found.dtype, found.device.type) == ((2, 3, 800, 1333), torch.bool, "cuda")


@needs_triton
def test_the_self_test_passes_and_notices_a_wrong_kernel(monkeypatch):
    assert module.matches_reference(DEVICE)
    monkeypatch.setattr(module, "widened_boxes", lambda boxes, cells: boxes)
    assert not module.matches_reference(DEVICE)
