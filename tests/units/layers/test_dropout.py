"""Dropout in compiled models: as many zeros as asked for, none where another has them, the mean kept."""

import itertools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from patchword.kernels import dropout as module
from patchword.kernels.common.counter_rng import random_bits
from patchword.kernels.dropout import hashed_dropout
from patchword.layers.dropout import Dropout, is_inactive

SHAPE = torch.Size((64, 32, 48))
COUNT = SHAPE.numel()


def seeds(one, two):
    return torch.tensor([one, two], dtype=torch.int32)


def bits(numbers):
    """(count,) -> (count, 32)"""
    return (numbers.flatten()[:, None] >> torch.arange(32)) & 1


def test_every_bit_is_set_half_of_the_time():
    found = bits(random_bits(SHAPE, seeds(3, -7))).float().mean(0)
    assert (found - 0.5).abs().max() < 5 * 0.5 * COUNT**-0.5


@pytest.mark.parametrize("other", [seeds(2, -7), seeds(3, -8), seeds(3 ^ 1, -7), seeds(3 - 2**31, -7)])
def test_other_seeds_give_other_numbers(other):
    """Two masks agree as often as chance has it."""
    one, two = (random_bits(SHAPE, pair) >= 0 for pair in (seeds(3, -7), other))
    assert abs((one == two).float().mean() - 0.5) < 5 * 0.5 * COUNT**-0.5


@pytest.mark.parametrize("away", [1, 2, 48, 32 * 48, 2 * 32 * 48])
def test_neighbours_do_not_tell_of_each_other(away):
    kept = (random_bits(SHAPE, seeds(-5, 11)) >= -(2**31) + round(0.1 * 2**32)).flatten().double()
    one, two = kept[away:] - kept.mean(), kept[:-away] - kept.mean()
    assert abs((one * two).mean() / kept.var()) < 5 * COUNT**-0.5


def test_no_two_places_have_one_number():
    """Each step can be undone, so that no number comes twice."""
    assert random_bits(SHAPE, seeds(123, 456)).unique().numel() == COUNT


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_rate_mean_and_gradient(rate):
    torch.manual_seed(0)
    tokens = torch.ones(SHAPE, requires_grad=True)
    answer = hashed_dropout(tokens, rate)
    zeros = (answer == 0).float().mean()
    assert abs(zeros - rate) < 5 * (rate * (1 - rate) / COUNT) ** 0.5
    assert torch.equal(answer.unique(), torch.tensor([0.0, 1 / (1 - rate)]))
    answer.sum().backward()
    assert torch.equal(tokens.grad, answer)


def test_each_call_draws_anew_and_a_seed_brings_it_back():
    tokens = torch.ones(SHAPE)
    torch.manual_seed(5)
    one, two = hashed_dropout(tokens, 0.3), hashed_dropout(tokens, 0.3)
    torch.manual_seed(5)
    assert not torch.equal(one, two)
    assert torch.equal(hashed_dropout(tokens, 0.3), one)


def test_compiled_with_its_gradient():
    """Twice in one graph, which are not one and the same; the gradient has the zeros of the answer."""
    run = torch.compile(lambda x: (hashed_dropout(x, 0.3), hashed_dropout(x, 0.3)), backend="aot_eager", fullgraph=True)
    tokens = torch.ones(SHAPE, requires_grad=True)
    one, two = run(tokens)
    assert not torch.equal(one, two)
    (one + 2 * two).sum().backward()
    assert torch.equal(tokens.grad, (one + 2 * two).detach())


def test_what_is_not_a_number_stays_out():
    """A dropped value is zero, whatever it was."""
    assert hashed_dropout(torch.full((1000,), float("inf")), 0.5).isfinite().any()


def test_torchs_own_runs_where_nothing_is_compiled_and_on_a_cpu(monkeypatch):
    monkeypatch.setattr(module, "hashed_dropout", lambda *given: pytest.fail("not here"))
    tokens, part = torch.ones(8, 8), Dropout(0.5)
    torch.manual_seed(0)
    found = part(tokens)
    torch.manual_seed(0)
    assert torch.equal(found, nn.Dropout(0.5)(tokens))
    assert torch.equal(part.eval()(tokens), tokens)
    torch.compile(part.train(), backend="aot_eager", fullgraph=True)(tokens)
    assert torch.equal(Dropout(0.0)(tokens), tokens)
    assert not Dropout(1.0)(tokens).any()


def test_a_compiled_step_that_is_recomputed_drops_the_same():
    """The mask of the gradient is that of the answer, though all is computed twice."""

    def run(tokens):
        return checkpoint(lambda x: hashed_dropout(x.sin(), 0.3).sin(), tokens, use_reentrant=False)

    tokens = torch.ones(64, 64, requires_grad=True)
    answer = torch.compile(run, backend="aot_eager", fullgraph=True)(tokens)
    (gradient,) = torch.autograd.grad(answer.sum(), tokens)
    assert torch.equal(gradient == 0, answer == 0)
    assert (answer == 0).any()


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(module, "_is_on_gpu", lambda tokens: True)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_what_is_exported_knows_nothing_of_it(training, strict):
    """and may have any number of rows"""
    rows = {0: torch.export.Dim("rows", max=2**40)}
    model = nn.Sequential(nn.Linear(4, 4), Dropout(0.1)).train(training)
    found = torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=(rows,), strict=strict)
    assert "patchword" not in str(found.graph)


@pytest.mark.parametrize(
    ("part", "idle"),
    [
        (Dropout(0.0), True),
        (Dropout(0.1), False),
        (Dropout(0.1).eval(), True),
        (nn.Dropout(0.1), False),
        (nn.Identity(), True),
        (nn.Tanh(), False),
    ],
)
def test_which_modules_pass_everything_through(part, idle):
    assert is_inactive(part) == idle


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_a_compiled_model_drops_by_it():
    tokens = torch.ones(SHAPE, device="cuda", requires_grad=True)
    run = torch.compile(Dropout(0.1), mode="reduce-overhead", fullgraph=True)
    seen = []
    for _ in range(5):
        answer = run(tokens)
        (gradient,) = torch.autograd.grad(answer.sum(), tokens)
        assert torch.equal(gradient, answer)
        assert abs((answer == 0).float().mean() - 0.1) < 0.01
        seen.append((answer == 0).cpu())
    assert all(not torch.equal(one, two) for one, two in itertools.pairwise(seen))
