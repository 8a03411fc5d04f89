"""The kernels for non-maximum suppression keep the same boxes as the reference, on a GPU or in the interpreter."""

import pytest
import torch

from patchword.kernels.nms import nms, tuning
from patchword.kernels.nms import operation as module
from patchword.kernels.nms.operation import has_nms_kernel
from patchword.kernels.nms.reference import nms_reference
from support.dense.operators import assert_compiles, golden
from support.kernel_tests import DEVICE, needs_triton


@pytest.fixture
def chosen(triton, monkeypatch):
    """The kernels run for every tensor, also on the CPU."""
    monkeypatch.setattr(module, "has_nms_kernel", lambda boxes: True)


def crowd(images=2, count=150, seed=0):
    """Boxes with long chains of overlaps, many equal scores and equal boxes; a tenth is padding; three groups."""
    generator = torch.Generator().manual_seed(seed)
    corner = (torch.rand(images, count, 2, generator=generator) * 40).round()
    scores = (torch.rand(images, count, generator=generator) * 9).round() / 9
    valid = torch.rand(images, count, generator=generator) > 0.1
    groups = torch.randint(0, 3, (images, count), generator=generator)
    boxes = torch.cat([corner, corner + 15], dim=-1)
    return [part.to(DEVICE) for part in (boxes, scores, valid, groups)]


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("count", [1, 63, 64, 65, 150])
@pytest.mark.parametrize("grouped", [False, True], ids=["one group", "groups"])
def test_the_kernel_equals_the_reference(count, grouped):
    boxes, scores, valid, groups = crowd(2, count)
    given = boxes, scores, valid, 0.3, groups if grouped else None
    assert torch.equal(nms(*given), nms_reference(*given, None))


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.5, 0.7, 1.0])
def test_thresholds_and_fractions(threshold):
    """Boxes of any size, so that IoUs are rounded."""
    torch.manual_seed(0)
    corner, sides = torch.rand(1, 90, 2) * 30, torch.rand(1, 90, 2) * 30
    boxes, scores = torch.cat([corner, corner + sides], dim=-1).to(DEVICE), torch.rand(1, 90).to(DEVICE)
    given = boxes, scores, torch.ones_like(scores, dtype=torch.bool), threshold, None
    assert torch.equal(nms(*given), nms_reference(*given, None))


@pytest.mark.usefixtures("chosen")
def test_a_chain_of_suppressions_through_all_words():
    """Each box overlaps the next one only: every second box is kept."""
    start = torch.arange(130.0) * 4
    boxes = torch.stack([start, start * 0, start + 10, start * 0 + 10], dim=-1)[None].to(DEVICE)
    scores = torch.linspace(1, 0, 130)[None].to(DEVICE)
    keep = nms(boxes, scores, torch.ones_like(scores, dtype=torch.bool), 0.3)
    assert torch.equal(keep[0], torch.arange(130, device=DEVICE) % 2 == 0)


@pytest.mark.usefixtures("chosen")
def test_unusual_boxes():
    """Empty boxes, swapped corners, infinite and undefined numbers suppress as in the reference."""
    odd = [[5.0, 5.0, 5.0, 5.0], [9.0, 9.0, 3.0, 3.0], [float("nan"), 0.0, 9.0, 9.0], [0.0, 0.0, float("inf"), 9.0]]
    boxes = torch.tensor([odd * 2 + [[0.0, 0.0, 9.0, 9.0]] * 2], device=DEVICE)
    scores = torch.linspace(1, 0, 10, device=DEVICE)[None]
    given = boxes, scores, torch.ones_like(scores, dtype=torch.bool), 0.5, None
    assert torch.equal(nms(*given), nms_reference(*given, None))


@pytest.mark.usefixtures("chosen")
def test_views_are_read():
    boxes, scores, valid, groups = crowd(4, 40)
    given = [part[::2, 1::2] for part in (boxes.transpose(1, 2).contiguous().transpose(1, 2), scores, valid, groups)]
    expected = nms_reference(*given[:3], 0.3, given[3], None)
    assert torch.equal(nms(*given[:3], 0.3, given[3]), expected)
    everywhere = torch.ones(1, 1, dtype=torch.bool, device=DEVICE).expand(4, 40)
    found = nms(boxes, scores, everywhere, 0.3, groups.int())
    assert torch.equal(found, nms_reference(boxes, scores, everywhere, 0.3, groups, None))


@pytest.mark.usefixtures("chosen")
def test_rows_of_words_are_read_in_parts(monkeypatch):
    monkeypatch.setattr(tuning, "TILE", 64)
    assert tuning.sweep_blocks(3) == (4, 16, 4)
    boxes, scores, valid, _ = crowd()
    assert torch.equal(nms(boxes, scores, valid, 0.3), nms_reference(boxes, scores, valid, 0.3, None, None))


@pytest.mark.usefixtures("chosen")
def test_rounds_do_not_limit_the_kernel():
    boxes, scores, valid, _ = crowd()
    assert torch.equal(nms(boxes, scores, valid, 0.3, rounds=1), nms_reference(boxes, scores, valid, 0.3, None, None))
    assert not torch.equal(nms(boxes, scores, valid, 0.3), nms_reference(boxes, scores, valid, 0.3, None, 1))


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_no_boxes_and_no_images(shape):
    empty = torch.zeros(shape, device=DEVICE)
    assert nms(torch.zeros(*shape, 4, device=DEVICE), empty, empty > 0, 0.5).shape == shape


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("threshold", [0.5, 0.7])
def test_the_kernel_equals_the_compiled_operator(threshold):
    boxes, scores = golden("nms/boxes")[None].to(DEVICE), golden("nms/scores")[None].to(DEVICE)
    keep = nms(boxes, scores, torch.ones_like(scores, dtype=torch.bool), threshold)
    assert keep[0].nonzero().flatten().tolist() == sorted(golden(f"nms/keep{threshold}").tolist())


@pytest.mark.usefixtures("chosen")
def test_it_compiles_as_one_graph():
    boxes, scores, valid, groups = crowd(1, 70)
    assert_compiles(nms, boxes.requires_grad_(), scores, valid, 0.3, groups)


def test_when_it_is_chosen(hopper, monkeypatch):
    def empty(count=5, dtype=torch.float32):
        return torch.empty(2, count, 4, device=hopper, dtype=dtype)

    assert has_nms_kernel(empty())
    assert not has_nms_kernel(empty(dtype=torch.float16))
    assert not has_nms_kernel(empty(tuning.MAX_BOXES + 1))
    made = {dtype: torch.empty(2, 5, dtype=dtype, device=hopper) for dtype in (torch.float32, torch.bool, torch.int64)}
    monkeypatch.setattr(module, "visiting_order", lambda *_: made[torch.int64])  # no torch here sorts on a GPU
    keep = nms(empty(), made[torch.float32], made[torch.bool], 0.5)
    assert (keep.shape, keep.dtype, keep.device.type) == ((2, 5), torch.bool, "cuda")


@needs_triton
def test_the_self_test_passes_and_notices_a_wrong_kernel(monkeypatch):
    assert module.matches_reference(DEVICE)
    monkeypatch.setattr(module, "visiting_order", lambda scores, valid: scores.argsort(dim=1, stable=True))
    assert not module.matches_reference(DEVICE)
