"""The warp-specialised linear_gelu kernel matches its reference, simulated on a CPU (gluon_by_hand)."""

import pytest
import torch

from patchword.kernels.mlp.reference import FORMS, linear_gelu_reference
from support.gluon_by_hand import Described, act, changed, is_seen
from support.kernel_tests import assert_as_exact, error

pytest.importorskip("triton.experimental.gluon.nvidia.hopper")
from patchword.kernels.mlp import linear_gelu_warp_specialized as kernel


def given(rows, width, hidden):
    generator = torch.Generator().manual_seed(rows)

    def normal(*shape, by=1.0):
        return torch.randn(*shape, generator=generator) * by

    return normal(rows, width), normal(hidden, width, by=width**-0.5), normal(hidden)


def warp_specialized(tokens, up, bias, form="gelu", slots=2, programs=1, run=kernel.warp_specialized_kernel):
    (hidden, width), count = up.shape, len(tokens)
    answer = torch.full((count, hidden), torch.nan)
    act(
        run, programs, Described(tokens, 64, 64), Described(up, 128, 64), bias, Described(answer, 64, 64), count,
        hidden // 128, width // 64, form, slots,
    )  # fmt: skip
    return answer


def exactly(tokens, up, bias, form="gelu"):
    return linear_gelu_reference(tokens.double(), up.double(), bias.double(), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("rows", "width", "hidden", "slots", "programs"),
    [(1, 64, 128, 2, 1), (500, 192, 256, 3, 2), (300, 512, 256, 5, 1), (700, 128, 384, 2, 2)],
)
def test_kernel_matches_reference(rows, width, hidden, slots, programs, form):
    parts = given(rows, width, hidden)
    found = warp_specialized(*parts, form, slots, programs)
    assert_as_exact([found], [linear_gelu_reference(*parts, form)], [exactly(*parts, form)])


@pytest.mark.parametrize("wrong", range(3))
def test_a_changed_input_changes_the_output(wrong):
    parts = given(70, 256, 128)
    others = [part.flip(0) if number == wrong else part for number, part in enumerate(parts)]
    assert error(warp_specialized(*others), exactly(*parts)) > 1e-3


ORDERS = {
    "the next tiles are loaded too early": ("warpgroup_mma_wait(1,", "warpgroup_mma_wait(2,"),
    "the next rows are loaded too early": ("rows_tile.index(width_tile - 1))", "rows_tile.index(width_tile))"),
    "the stored half is overwritten": ("                tma.store_wait(0)  # the previous half is stored\n", ""),
    "all warps wait": ("step // slots % 2 ^ 1", "step // slots % 2"),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_wrong_order_is_detected(monkeypatch, order):
    parts = given(300, 256, 256)
    run = changed(kernel.warp_specialized_kernel, *ORDERS[order])
    assert is_seen(monkeypatch, lambda: warp_specialized(*parts, run=run))


def test_the_right_order_is_accepted(monkeypatch):
    parts = given(300, 256, 256)
    assert not is_seen(monkeypatch, lambda: warp_specialized(*parts))
