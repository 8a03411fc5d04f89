"""The window kernel drops the same weights as its reference, in the forward and in the backward pass."""

from functools import partial

import pytest
import torch

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.kernels.common.counter_rng import lowest_kept
from patchword.kernels.window_attention import operation
from patchword.kernels.window_attention.autograd import attend_windows
from patchword.kernels.window_attention.reference import window_attention_reference
from patchword.layers import Attention, Pattern, Windows
from support.kernel_tests import DEVICE, assert_as_exact
from support.window_kernel_tests import KINDS, drawn, exactly, given, learned, needs_triton

SEEDS = torch.tensor([77, -3], dtype=torch.int32, device=DEVICE)


def by_kernel(qkv, tables, taps, cuts, heads, scale, seeds, rate):
    numbers = [number for cut in cuts for number in cut.numbers()]
    return attend_windows(qkv, tables, taps, numbers, heads, scale, seeds, rate)[0]


def dropping(way, rate=0.3, seeds=SEEDS):
    return lambda *lists: way(*lists, seeds, rate)


@needs_triton
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_drops_the_same_weights_as_the_reference(kind):
    partition, grid, _ = drawn(kind, 0)
    cuts, heads, head = [partition.cut(grid)], 2, 16
    lists = given(cuts, heads, head, table=kind == next(iter(KINDS)), taps=kind == "interlaced")
    run = partial(learned, lists=lists, cuts=cuts, heads=heads, head=head)
    exact = partial(learned, lists=exactly(lists), cuts=cuts, heads=heads, head=head)
    found, dropped = run(dropping(by_kernel)), dropping(window_attention_reference)
    assert_as_exact(found, run(dropped), exact(dropped))
    if cuts[0].size > 3:  # with few weights, two seeds may drop the same ones
        for other in (window_attention_reference, dropping(window_attention_reference, 0.3, SEEDS + 1)):
            with pytest.raises(AssertionError, match="from float64"):
                assert_as_exact(found, run(other), exact(other))
    whole = run(dropping(by_kernel, 0.0))
    assert_as_exact(whole, run(window_attention_reference), exact(window_attention_reference))


@needs_triton
def test_images_and_heads_of_all_groups_drop_independently():
    """With queries of zero all weights are equal; with values of one the output counts the weights that are kept."""
    cuts, heads, head, tokens = [Windows(None, None).cut(Grid(1, 24))] * 2, 3, 16, 24
    qkv = [torch.zeros(4, tokens, 3 * 2 * heads * head, device=DEVICE)]
    qkv[0][..., 2 * 2 * heads * head :] = 1
    none = torch.empty(0, device=DEVICE)
    rest = [none] * 2, [none] * 4, cuts, heads, 0.1, SEEDS, 0.5
    answer = by_kernel(qkv, *rest).unflatten(-1, (2 * heads, head))
    expected, exact = (window_attention_reference([part], *rest).view_as(answer) for part in (qkv[0], qkv[0].double()))
    assert_as_exact([answer], [expected], [exact])
    assert_as_exact([answer[..., :1].expand_as(answer)], [expected], [exact])  # a weight is dropped for all channels
    kept = answer[..., 0].transpose(1, 2).flatten(0, 1)  # (images and heads, tokens)
    assert abs(kept.mean() - 1) < 0.1
    assert len({tuple(row.tolist()) for row in kept.round(decimals=4)}) == 4 * 2 * heads


@needs_triton
def test_gradients_of_several_images():
    cut, heads, head = Windows(None, None).cut(Grid(1, 7)), 2, 16
    none, results = torch.empty(0, device=DEVICE), []
    joint = torch.randn(3, 7, 3 * heads * head, device=DEVICE)
    for way, dtype in (
        (by_kernel, torch.float32),
        (window_attention_reference, torch.float32),
        (window_attention_reference, torch.float64),
    ):
        qkv = joint.detach().to(dtype).requires_grad_()
        answer = way([qkv], [none], [none, none], [cut], heads, 0.25, SEEDS, 0.3)
        results.append([answer.detach(), *torch.autograd.grad(answer.sin().sum(), qkv)])
    assert_as_exact(*results)


@needs_triton
def test_groups_of_several_tiles_have_no_dropout():
    """Groups of several tiles have no dropout; the core never requests it."""
    cut = Windows(None, None).cut(Grid(1, 130))
    lists = given([cut], 1, 16)
    with pytest.raises(AssertionError, match="one tile"):
        by_kernel(*lists, [cut], 1, 0.25, SEEDS, 0.1)


@needs_triton
def test_second_derivatives_drop_the_same_weights():
    cut = Windows(None, None).cut(Grid(1, 5))
    lists = given([cut], 1, 16)
    twice = []
    for way, every in (
        (by_kernel, lists),
        (window_attention_reference, lists),
        (window_attention_reference, exactly(lists)),
    ):
        answer = way(*every, [cut], 1, 0.25, SEEDS, 0.3)
        (first,) = torch.autograd.grad(answer.sin().sum(), every[0], create_graph=True)
        twice.append(torch.autograd.grad(first.square().sum(), every[0]))
    assert_as_exact(*twice)


@needs_triton
def test_a_compiled_call_draws_new_seeds_each_time():
    none, cut = torch.empty(0, device=DEVICE), Windows(None, None).cut(Grid(1, 9))
    qkv = torch.randn(2, 9, 48, device=DEVICE, requires_grad=True)
    run = torch.compile(
        lambda x: operation.window_attention_kernel([x], [operation.HeadGroup(cut, none, none, none)], 1, 0.25, 0.4),
        backend="aot_eager",
    )
    one, two = run(qkv), run(qkv)
    assert not torch.equal(one, two)
    (gradient,) = torch.autograd.grad(one.sum(), qkv)
    values = qkv.detach()[..., 32:]
    assert abs((gradient[..., 32:] * values).sum() - one.detach().sum()) < 1e-3 * one.detach().abs().sum()


@pytest.mark.parametrize(
    ("partition", "training", "asked"), [(None, True, 0.2), (None, False, 0.0), (Windows(2, 2), True, None)]
)
def test_the_core_requests_dropout_for_dense_attention_only(monkeypatch, partition, training, asked):
    rates = []
    monkeypatch.setattr(operation, "has_window_kernel", lambda *given: True)
    monkeypatch.setattr(operation, "is_faster_than_sdpa", lambda *given: True)
    monkeypatch.setattr(
        operation, "window_attention_kernel", lambda qkv, *rest: rates.append(rest[-1]) or qkv[0][..., :16]
    )
    patterns = [Pattern(partition)]
    attention = Attention(16, 2, patterns=patterns, dropout=0.2).train(training)
    attention(torch.randn(2, 4, 16), Scope(grid=Grid(2, 2)))
    assert rates == ([] if asked is None else [asked])


def test_the_threshold_of_dropout():
    assert [lowest_kept(rate) for rate in (0.25, 0.5, 0.75)] == [-(2**30), 0, 2**30]
