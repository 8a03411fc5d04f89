"""The window attention kernel matches its reference, on a GPU or in Triton's interpreter.

Shapes are drawn at random from fixed seeds: odd sizes and padding, every kind of rectangle, one tile or several.
"""

from contextlib import nullcontext
from functools import partial

import pytest
import torch

from patchword.core.grid import Grid
from patchword.kernels.common.launch import PreparedLaunch
from patchword.kernels.window_attention import operation, tuning
from patchword.kernels.window_attention import torch_op as window_operation
from patchword.kernels.window_attention.autograd import attend_windows
from patchword.kernels.window_attention.reference import window_attention_reference
from patchword.layers import Interlaced, Windows, members
from support.kernel_tests import DEVICE, assert_as_exact
from support.window_kernel_tests import KINDS, drawn, exactly, given, learned, needs_triton, softmax_of_the_kernel


def by_kernel(qkv, tables, taps, cuts, heads, scale):
    groups = [operation.HeadGroup(*each) for each in zip(cuts, tables, taps[::2], taps[1::2], strict=True)]
    return operation.window_attention_kernel(qkv, groups, heads, scale)


def assert_matches_reference(lists, cuts, heads, head, softmax=nullcontext):
    """The output and all gradients of the kernel are about as exact as those of the reference."""
    found = learned(by_kernel, lists, cuts, heads, head)
    with softmax():
        reference = learned(window_attention_reference, lists, cuts, heads, head)
    exact = learned(window_attention_reference, exactly(lists), cuts, heads, head)
    assert_as_exact(found, reference, exact)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_describes_the_groups_and_mask_of_its_partition(kind, seed):
    partition, grid, _ = drawn(kind, seed, most=99)
    indices = partition.cut(grid).member_indices(torch.device("cpu"))
    assert torch.equal(torch.where(indices.valid, indices.token, -1), members(partition, grid.tokens, grid))
    allowed = (
        (indices.shift_region[:, :, None] == indices.shift_region[:, None])
        & indices.valid[:, None]
        & indices.valid[:, :, None]
    )
    mask = partition.mask(grid, torch.device("cpu"))
    both = indices.valid[:, None] & indices.valid[:, :, None]
    assert torch.equal(allowed, both if mask is None else mask[:, 0] & both)


@needs_triton
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_kernel_matches_reference(kind, seed):
    partition, grid, numbers = drawn(kind, seed)
    cuts, heads, head = [partition.cut(grid)], numbers.choice([1, 2]), numbers.choice([16, 20, 32])
    lists = given(cuts, heads, head, table=bool(seed % 2), joint=numbers.random() < 0.5, seed=seed)
    assert_matches_reference(lists, cuts, heads, head)


def small_tiles(monkeypatch, single_tile, wider=16, key_block=16):
    """Groups of more tokens than `single_tile` are computed in several tiles"""
    for work in ("forward", "backward"):
        monkeypatch.setitem(tuning.SINGLE_TILE, (work, False), single_tile)
    for rule, tile in ((tuning.TILE, 16), (tuning.WIDER_TILE, wider), (tuning.KEY_BLOCK, key_block)):
        monkeypatch.setitem(rule, False, tile)


@needs_triton
@pytest.mark.parametrize("table", [False, True], ids=["no table", "table"])
@pytest.mark.parametrize("partition", [Windows(4, 5, shift=1), Interlaced(4, None)], ids=str)
@pytest.mark.parametrize(("wider", "key_block"), [(16, 16), (32, 16), (16, 32)], ids=str)
def test_groups_of_several_tiles(partition, table, wider, key_block, monkeypatch):
    small_tiles(monkeypatch, 16, wider, key_block)
    cuts = [partition.cut(Grid(6, 5))]
    assert cuts[0].size > 16
    assert_matches_reference(given(cuts, 1, 16, table=table), cuts, 1, 16)


@needs_triton
@pytest.mark.parametrize("table", [False, True], ids=["no table", "table"])
@pytest.mark.parametrize("partition", [Windows(4, 5), Windows(4, 5, shift=2), Windows(8, 5), Windows(8, 2)], ids=str)
def test_groups_of_several_tiles_that_fill_the_map(partition, table, monkeypatch):
    """With and without a last partial block, with a shift, and with scores that need the maximum subtracted."""
    small_tiles(monkeypatch, 8)
    cuts = [partition.cut(Grid(8, 10))]
    qkv, tables, taps = given(cuts, 1, 16, table=table)
    with torch.no_grad():
        qkv[0][..., :16] *= 60
    assert_matches_reference((qkv, tables, taps), cuts, 1, 16, partial(softmax_of_the_kernel, tiled=True))


@needs_triton
@pytest.mark.parametrize(
    ("partition", "single_tile"),
    [(Windows(None, 3), 64), (Windows(4, 3, shift=1), 64), (Interlaced(5, 4), 16)],
    ids=str,
)
def test_the_convolution_of_the_values(partition, single_tile, monkeypatch):
    small_tiles(monkeypatch, single_tile)
    cuts = [partition.cut(Grid(5, 4))]
    assert_matches_reference(given(cuts, 1, 16, taps=True), cuts, 1, 16)


@needs_triton
@pytest.mark.parametrize("single_tile", [64, 16], ids=["one tile", "several"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_convolution_in_every_kind_of_rectangle(kind, single_tile, monkeypatch):
    for work in ("forward", "backward"):
        monkeypatch.setitem(tuning.SINGLE_TILE, (work, False), single_tile)
    monkeypatch.setitem(tuning.TILE, False, 16)
    partition, grid, numbers = drawn(kind, f"filter {single_tile}", most=4)
    cuts, heads, head = [partition.cut(grid)], numbers.choice([1, 2]), numbers.choice([16, 20])
    lists = given(cuts, heads, head, taps=True, joint=numbers.random() < 0.5)
    assert_matches_reference(lists, cuts, heads, head)


@needs_triton
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_a_moved_tap_changes_the_result(way):
    cuts = [Windows(3, 2).cut(Grid(3, 4))]
    lists = given(cuts, 1, 16, taps=True)
    found = learned(by_kernel, lists, cuts, 1, 16)
    reference = learned(window_attention_reference, lists, cuts, 1, 16)
    exact = learned(window_attention_reference, exactly(lists), cuts, 1, 16)
    lists[2][0] = lists[2][0].detach().roll(1, -1).requires_grad_()
    moved = learned(by_kernel, lists, cuts, 1, 16)
    part = slice(0, 1) if way == "forward" else slice(1, 2)
    assert_as_exact(found[part], reference[part], exact[part])
    with pytest.raises(AssertionError, match="from float64"):
        assert_as_exact(moved[part], reference[part], exact[part])


@needs_triton
@pytest.mark.parametrize("joint", [True, False], ids=["side by side", "apart"])
def test_two_head_groups_have_their_own_channels(joint):
    cuts = [Windows(None, 3).cut(Grid(4, 5)), Interlaced(2, None).cut(Grid(4, 5))]
    assert_matches_reference(given(cuts, 1, 16, table=True, joint=joint), cuts, 1, 16)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_16_bit_tensors(dtype):
    if DEVICE.type == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter cannot multiply bfloat16")
    cuts = [Windows(4, 4, shift=2).cut(Grid(7, 6))]
    lists = given(cuts, 1, 32, table=True)
    lists[0][0] = lists[0][0].detach().to(dtype).requires_grad_()
    assert_matches_reference(lists, cuts, 1, 32)


@needs_triton
def test_tokens_may_have_any_strides():
    cuts = [Windows(3, 3).cut(Grid(3, 4))]
    full = torch.randn(1, 12, 100, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    parted, turned = full[..., 2:98], full[..., :96].transpose(1, 2).contiguous().transpose(1, 2)
    apart = [full[..., :32], full[..., 32:64].contiguous(), turned[..., 64:96]]
    for qkv in ([parted], [turned], apart):
        none = torch.empty(0, device=DEVICE)
        lists, rest = (qkv, [none], [none, none]), (cuts, 2, 0.25)
        exact = window_attention_reference(*exactly(lists), *rest)
        assert_as_exact([by_kernel(*lists, *rest)], [window_attention_reference(*lists, *rest)], [exact])


@needs_triton
def test_tokens_may_have_any_alignment():
    """The same call again with unaligned tokens, for which Triton needs another kernel."""
    cuts, none = [Windows(3, 3).cut(Grid(3, 4))], torch.empty(0, device=DEVICE)
    numbers = torch.randn(12 * 96 + 1, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    for begin in (0, 1, 0):
        qkv = [numbers[begin : begin + 12 * 96].view(1, 12, 96)]
        lists, rest = (qkv, [none], [none, none]), (cuts, 2, 0.25)
        exact = window_attention_reference(*exactly(lists), *rest)
        assert_as_exact([by_kernel(*lists, *rest)], [window_attention_reference(*lists, *rest)], [exact])


class Counted:
    """A fake Triton kernel: counts how often it is looked up, and how often the compiled kernel runs."""

    def __init__(self):
        self.looked_up = self.ran = 0

    def __getitem__(self, grid):
        def run(*given, **options):
            self.looked_up += 1
            return {grid: self.again}

        return run

    def again(self, *given):
        self.ran += 1


def test_a_kernel_is_looked_up_once_for_aligned_tensors():
    kernel = Counted()
    ready, numbers = PreparedLaunch(kernel, (1, 1, 1), (), warps=4, stages=3), torch.zeros(9)
    for tensor in (numbers[1:], numbers, numbers, numbers[1:], numbers):
        ready(numbers, tensor)
    assert (kernel.looked_up, kernel.ran) == (3, 2)


GUARD = 50


@needs_triton
@pytest.mark.parametrize("single_tile", [64, 16], ids=["one tile", "several"])
def test_nothing_is_written_outside_the_outputs(single_tile, monkeypatch):
    """Guards surround all memory that kernels write, and every element of it is written."""
    buffers = []

    def guarded(like, shape, dtype=None):
        count = torch.Size(shape).numel()
        buffers.append(like.new_full((count + 2 * GUARD,), float("nan"), dtype=dtype))
        return buffers[-1][GUARD : GUARD + count].view(shape)

    for work in ("forward", "backward"):
        monkeypatch.setitem(tuning.SINGLE_TILE, (work, False), single_tile)
    monkeypatch.setitem(tuning.TILE, False, 16)
    monkeypatch.setattr(window_operation, "allocate", guarded)
    cuts = [Windows(4, 5, shift=1).cut(Grid(6, 7)), Windows(6, 3).cut(Grid(6, 7))]
    assert_matches_reference(given(cuts, 1, 12, table=True, taps=True), cuts, 1, 12)
    assert len(buffers) > 7
    for buffer in buffers:
        assert buffer[:GUARD].isnan().all()
        assert buffer[-GUARD:].isnan().all()
        assert not buffer[GUARD:-GUARD].isnan().any()


@needs_triton
@pytest.mark.parametrize("wrong", ["shift", "length", "step", "table"])
def test_a_changed_rectangle_or_table_changes_the_output(wrong):
    """The kernel computes something else if one number of the rectangles is changed."""
    cut = Interlaced(2, 3).cut(Grid(4, 6)) if wrong == "step" else Windows(3, 3, shift=1).cut(Grid(4, 6))
    lists = given([cut], 1, 16, table=True)
    expected = [window_attention_reference(*every, [cut], 1, 0.25)[:, :18] for every in (lists, exactly(lists))]
    assert_as_exact([by_kernel(*lists, [cut], 1, 0.25)[:, :18]], expected[:1], expected[1:])
    if wrong == "table":
        lists[1][0] = lists[1][0].flip(0)
    else:
        change = {"shift": {"shift": 2}, "length": {"length": 3}, "step": {"step": 1, "jump": 2}}[wrong]
        cut = cut._replace(rows=cut.rows._replace(**change))
    with pytest.raises(AssertionError, match="from float64"):
        assert_as_exact([by_kernel(*lists, [cut], 1, 0.25)[:, :18]], expected[:1], expected[1:])


@needs_triton
def test_opcheck_accepts_the_registration():
    cut = Windows(2, 2).cut(Grid(2, 2))
    qkv, tables, taps = given([cut], 1, 16, table=True)
    torch.library.opcheck(attend_windows, (qkv, tables, taps, cut.numbers(), 1, 0.25))


@needs_triton
def test_self_test_rejects_a_wrong_kernel(monkeypatch):
    short = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16  # the interpreter cannot multiply bfloat16
    assert operation.matches_reference(DEVICE, short)
    original = operation.attend_windows
    monkeypatch.setattr(operation, "attend_windows", lambda *given: original(*given[:5], 0.26, *given[6:]))
    assert not operation.matches_reference(DEVICE, short)
    monkeypatch.setattr(operation, "attend_windows", lambda *given: original(*given[:6]))
    assert operation._matches_reference_at(DEVICE, torch.float32, 1e-4)
    assert not operation.matches_reference(DEVICE, short)  # without dropout


@pytest.mark.parametrize("size", [1, 16, 17, 49, 64, 98, 129, 400, 1024])
@pytest.mark.parametrize("head", [16, 24, 32, 48, 96, 128])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_tile_is_large_enough(size, head, dtype):
    for work in ("forward", "backward"):
        plan = tuning.launch(work, size, head, dtype)
        assert plan.width >= head
        assert plan.tile >= size or not plan.single_tile


@pytest.mark.parametrize(("groups", "heads", "programs"), [(1, 1, 8), (16384, 3, 1056), (100, 24, 8), (7, 2, 1000)])
def test_every_group_has_one_program(groups, heads, programs):
    walkers = tuning.walkers(groups, heads, programs)
    turns = [len(range(walker, groups, walkers)) for walker in range(walkers)]
    assert sum(turns) == groups
    assert max(1, max(turns) - 1) <= min(turns)


@pytest.mark.parametrize(
    ("groups", "heads", "batch", "programs"),
    [(64, 3, 256, 528), (4, 12, 256, 528), (1, 24, 256, 528), (1, 1, 1, 4), (5000, 3, 2, 528), (7, 5, 3, 16)],
)
def test_every_image_of_every_group_has_one_program(groups, heads, batch, programs):
    places, parts = tuning.walk(groups, heads, batch, programs)
    assert 1 <= places <= groups
    assert 1 <= parts <= batch
    assert heads * places * parts <= 4 * max(programs, heads)
    rounds = -(-heads * places * parts // programs)
    turns = rounds * -(-groups // places) * -(-batch // parts)
    assert turns <= 1.3 * max(1, groups * heads * batch / programs) + 1  # nearly as fast as an even split


@pytest.mark.parametrize("work", ["forward", "backward"])
def test_programs_of_one_warp_copy_nothing_ahead(work):
    plans = [tuning.launch(work, size, 32, dtype) for size in (4, 16, 49) for dtype in (torch.float32, torch.bfloat16)]
    assert [plan.stages for plan in plans if plan.warps == 1] == [1] * 4
    assert all(plan.stages > 1 for plan in plans if plan.warps > 1)


def test_fewer_stages_where_there_is_less_memory():
    plans = [tuning.launch("backward", 98, 32, torch.bfloat16, kib * 1024) for kib in (227, 99, 48)]
    assert [plan.stages for plan in plans] == [3, 2, 1]
