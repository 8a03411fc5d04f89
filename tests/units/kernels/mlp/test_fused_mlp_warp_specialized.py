"""The warp-specialised fused_mlp kernel matches its reference, simulated on a CPU (gluon_by_hand)."""

import pytest
import torch

from patchword.kernels.mlp.reference import FORMS, OutProjection, Weights, fused_mlp_reference, out_proj_mlp_reference
from support.gluon_by_hand import Described, act, changed, is_seen
from support.kernel_tests import assert_as_exact, error

pytest.importorskip("triton.experimental.gluon.nvidia.hopper")
from patchword.kernels.mlp import fused_mlp_warp_specialized as kernel


def given(rows, width, hidden, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape, by=1.0):
        return torch.randn(*shape, generator=generator) * by

    up, down = normal(hidden, width, by=width**-0.5), normal(width, hidden, by=hidden**-0.5)
    weights = Weights(1 + normal(width, by=0.2), normal(width), up, normal(hidden), down, normal(width))
    return 3 + normal(rows, width, by=2.0), weights


def warp_specialized(
    tokens, weights, joined=None, eps=1e-5, form="gelu", slots=2, groups=2, programs=1, run=kernel.warp_specialized
):
    (count, width), hidden, chunk = tokens.shape, len(weights.up), 32
    wide, answer = 1 << (width - 1).bit_length(), torch.full_like(tokens, torch.nan)
    branch, last, last_bias = joined or (answer, weights.down, weights.down_bias)
    act(
        run, programs, tokens, Described(branch, 64, wide), Described(last, wide, chunk), last_bias,
        weights.scale, weights.shift, Described(weights.up, chunk, wide), weights.up_bias,
        Described(weights.down, wide, chunk), weights.down_bias, Described(answer, 64, wide), count,
        eps, hidden // chunk, width, form, slots, groups, -(-width // chunk) if joined else 0,
    )  # fmt: skip
    return answer


def branch_of(tokens, seed=1):
    """Returns the branch that is added to the tokens, and the matrix and the bias of its output projection."""
    generator, width = torch.Generator().manual_seed(seed), tokens.shape[1]
    matrix = torch.randn(width, width, generator=generator) * width**-0.5
    return torch.randn(tokens.shape, generator=generator), matrix, torch.randn(width, generator=generator)


def reference(tokens, weights, joined=None, eps=1e-5, form="gelu"):
    if joined:
        return out_proj_mlp_reference(tokens, OutProjection(*joined), weights, eps, form)
    return fused_mlp_reference(tokens, weights, eps, form)


def exactly(tokens, weights, joined=None, eps=1e-5, form="gelu"):
    wide = [part.double() for part in joined] if joined else None
    return reference(tokens.double(), Weights(*(part.double() for part in weights)), wide, eps, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("rows", "width", "hidden", "slots", "groups", "programs"),
    [
        (128, 64, 64, 2, 2, 1),
        (700, 96, 192, 2, 2, 2),
        (1, 128, 32, 3, 3, 1),
        (500, 64, 160, 4, 3, 2),
    ],
)
@pytest.mark.parametrize("joins", [False, True], ids=["alone", "joined"])
def test_kernel_matches_reference(rows, width, hidden, slots, groups, programs, form, joins):
    tokens, weights = given(rows, width, hidden)
    joined = branch_of(tokens) if joins else None
    found = warp_specialized(tokens, weights, joined, form=form, slots=slots, groups=groups, programs=programs)
    rest = tokens, weights, joined, 1e-5, form
    assert_as_exact([found], [reference(*rest)], [exactly(*rest)])


@pytest.mark.parametrize("wrong", [*Weights._fields, *OutProjection._fields, "tokens", "eps", "form"])
def test_a_changed_input_changes_the_output(wrong):
    tokens, weights = given(5, 96, 64)
    joined = OutProjection(*branch_of(tokens))
    choices, others, other = {"eps": 0.1}, weights, joined
    if wrong in OutProjection._fields:
        other = joined._replace(**{wrong: getattr(joined, wrong).flip(0)})
    elif wrong in Weights._fields:
        others = weights._replace(**{wrong: getattr(weights, wrong).flip(0)})
    elif wrong in ("eps", "form"):
        choices |= {"eps": 0.2} if wrong == "eps" else {"form": "quick-gelu"}
    found = warp_specialized(tokens.flip(1) if wrong == "tokens" else tokens, others, other, **choices)
    assert error(found, exactly(tokens, weights, joined, 0.1)) > 1e-3


ORDERS = {
    "a slot is released too early": (
        """            total, hidden, hidden_sums = warpgroup_mma_wait(1, deps=(total, hidden, hidden_sums))
            mbarrier.arrive(down_free.index(slot), count=1)
            down_step += 1
""",
        """            mbarrier.arrive(down_free.index(slot), count=1)
            down_step += 1
            total, hidden, hidden_sums = warpgroup_mma_wait(1, deps=(total, hidden, hidden_sums))
""",
    ),
    "a slot is read before it is filled": (
        "            mbarrier.wait(up_ready.index(following), up_step // slots % 2)\n",
        "",
    ),
    "the previous output is overwritten": ("        tma.store_wait(0)  # the previous output is stored\n", ""),
    "a product is used before it is complete": (
        "            hidden_sums = warpgroup_mma_wait(0, deps=(hidden_sums,))\n            mbarrier.arrive(up_free",
        "            mbarrier.arrive(up_free",
    ),
    "all warps wait": ("up_step // slots % 2 ^ 1", "up_step // slots % 2"),
    "a branch is read before it is loaded": ("            mbarrier.wait(rows_ready, phase)\n", ""),
    "a tile of the output projection is released too early": (
        """                total = warpgroup_mma_wait(0, deps=(total,))
                mbarrier.arrive(down_free.index(slot), count=1)
""",
        """                mbarrier.arrive(down_free.index(slot), count=1)
                total = warpgroup_mma_wait(0, deps=(total,))
""",
    ),
    "no slot is released": ("            mbarrier.arrive(up_free.index(following), count=1)\n", ""),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_wrong_order_is_detected(monkeypatch, order):
    tokens, weights = given(300, 64, 128)
    run = changed(kernel.warp_specialized, *ORDERS[order])
    assert is_seen(monkeypatch, lambda: warp_specialized(tokens, weights, branch_of(tokens), run=run))


def test_the_right_order_is_accepted(monkeypatch):
    tokens, weights = given(300, 64, 128)
    assert not is_seen(monkeypatch, lambda: warp_specialized(tokens, weights, branch_of(tokens)))
