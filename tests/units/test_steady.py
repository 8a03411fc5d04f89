"""Texts in a row brought to few sizes: what a model says of its own texts stays the same, and sizes become few."""

import random

import pytest
import torch

from helpers import difference
from patchword.core.text import Rows, Text
from patchword.data.text.packing import filled
from patchword.kernels.cross_entropy import Guesses
from patchword.layers import steady as module
from patchword.layers.compiled import compiled
from patchword.layers.steady import Steady, cut, sizes_of, steady
from patchword.models import REGISTRY
from patchword.objectives.texts import MaskedWords
from patchword.recipes.bench.text_inputs import natural_lengths

TINY = {"width": 16, "depth": 2, "heads": 2, "hidden": 32, "vocabulary": 50, "positions": 40, "dropout": 0.0}


def texts(lengths, seed=0, told=True):
    generator, total = torch.Generator().manual_seed(seed), sum(lengths)
    ids = torch.randint(5, 50, (1, total), generator=generator)
    places = torch.randperm(total, generator=generator)[: max(1, total // 7)].sort().values
    targets = torch.randint(5, 50, places.shape, generator=generator) if told else None
    segments = torch.arange(total)[None] % 2
    return Text(ids, segments, rows=Rows.of(torch.tensor(lengths)), places=places, targets=targets)


def bert(head="words", **fields):
    torch.manual_seed(0)
    model = REGISTRY.create("bert-tiny", **{**TINY, "attention_dropout": 0.0, "head": head, **fields})
    for part in model.parameters():
        torch.nn.init.normal_(part, std=0.3)
    return model


def natural(seed, texts_=40):
    draw = random.Random(seed)
    return [min(40, max(2, round(draw.lognormvariate(2.2, 0.7)))) for _ in range(draw.randint(texts_ - 5, texts_))]


@pytest.mark.parametrize("seed", range(5))
def test_texts_behind_its_own_are_texts(seed):
    """as Rows counts them: each has a token, none is too long, and its own stay where they were"""
    given = texts(natural(seed))
    found = steady(given, 40)
    lengths = found.rows.offsets.diff().long()
    expected = Rows.of(lengths)
    assert torch.equal(found.rows.offsets, expected.offsets)
    assert torch.equal(found.rows.text, expected.text)
    assert torch.equal(found.rows.place, expected.place)
    assert found.rows.offsets.dtype == given.rows.offsets.dtype
    assert 1 <= int(lengths.min()) <= int(lengths.max()) <= 40
    assert torch.equal(lengths[: given.texts], given.rows.offsets.diff().long())
    assert found.ids.shape == found.segments.shape == (1, int(lengths.sum()))
    assert torch.equal(found.ids[:, : given.ids.shape[1]], given.ids)
    assert torch.equal(found.segments[:, : given.ids.shape[1]], given.segments)
    assert torch.equal(found.places[: len(given.places)], given.places)


def test_many_tokens_that_are_missing_are_dealt_out_to_texts_that_are_not_too_long():
    given = texts([3] * 170)
    lengths = steady(given, 3).rows.offsets.diff()
    assert int(lengths.max()) <= 3
    assert int(lengths.min()) >= 1


def test_sizes_that_are_steady_stay():
    given = texts([32] * 32)
    found = steady(given, 32)
    assert torch.equal(found.ids, given.ids)
    assert torch.equal(found.rows.offsets, given.rows.offsets)
    assert torch.equal(found.rows.place, given.rows.place)


def test_sizes_become_few():
    """of batches of natural texts, as a run fills them"""
    lengths = natural_lengths(80 * 128, 512)
    met = [texts(lengths[index].tolist()) for index in filled(torch.arange(len(lengths)), lengths, 10_368)]
    grown = [steady(text, 512) for text in met]
    assert len({sizes_of(text) for text in met}) == len(met) > 70
    assert len({sizes_of(text) for text in grown}) < 16
    assert sum(text.ids.shape[1] for text in grown) < 1.03 * sum(text.ids.shape[1] for text in met)


@pytest.mark.parametrize("fields", [{}, {"head": "pretraining"}], ids=["words", "words and sentences"])
@pytest.mark.parametrize("told", [True, False], ids=["targets", "no targets"])
def test_what_is_said_of_its_own_texts_stays(fields, told):
    model, given = bert(**fields).eval(), texts(natural(3), told=told)
    with torch.no_grad():
        expected, found = model(given), cut(model(steady(given, 40)), given)
    pairs = zip(expected, found, strict=True) if "head" in fields else [(expected, found)]
    for one, other in pairs:
        parts = (one, other) if isinstance(one, Guesses) else ((one,), (other,))
        assert type(one) is type(other)
        for right, part in zip(*parts, strict=True):
            assert right.shape == part.shape
            assert difference(part, right) < 1e-5


class Asked:
    """A piece of texts that asks for words."""

    def __init__(self, text):
        self.text, self.asked_targets, self.weight = text._replace(targets=None), text.targets, len(text.places)


def slopes(run, model, text):
    model.zero_grad()
    MaskedWords(run)(Asked(text), Asked(text)).loss.backward()
    return torch.cat([part.grad.flatten() for part in model.parameters() if part.grad is not None])


def by_sizes(model):
    """recorded: tells which sizes it met. Of numbers of 32 bits, which are not taken by themselves."""
    met = []

    def recorded(text):
        met.append(sizes_of(text))
        return model(text)

    found = Steady(model, recorded, model)
    found._is_short = lambda device: True
    return found, met


def test_gradients_stay():
    model, given = bert(), texts(natural(4))
    run, met = by_sizes(model)
    assert difference(slopes(run, model, given), slopes(model, model, given)) < 1e-5
    assert met == [sizes_of(steady(given, max(natural(4))))]


def test_a_text_that_reads_what_lies_behind_is_seen(monkeypatch):
    model, given = bert(), texts(natural(4))

    def wrong(text, longest):
        found = steady(text, longest)
        found.rows.offsets[text.texts] += 1
        return found

    monkeypatch.setattr(module, "steady", wrong)
    run, _ = by_sizes(model)
    assert difference(slopes(run, model, given), slopes(model, model, given)) > 1e-3


def test_the_longest_is_a_power_of_two_or_the_longest_there_was():
    model = bert()
    run, met = by_sizes(model)
    for longest in (20, 30, 33, 20, 40):
        run(texts([longest, 5, 6]))
    assert [sizes[2] for sizes in met] == [20, 30, 33, 32, 40]


def test_many_sizes_are_not_recorded(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 2)
    model = bert()
    run, met = by_sizes(model)
    for lengths in ([20, 9], [20] * 9, [20] * 30, [20, 9], [20] * 40):
        assert run(texts(lengths)).losses.shape == texts(lengths).places.shape
    assert [sizes[1] for sizes in met] == [2, 9, 2]


def test_others_go_their_own_way():
    """padded texts, texts that ask for no words, numbers of 32 bits, models whose attention is not plain, pairs"""
    gone = []
    model = bert()
    run = Steady(model, lambda text: pytest.fail("recorded"), gone.append)
    given = texts([4, 5])
    run(given)
    run._is_short = lambda device: True
    padded, silent = Text(given.ids.view(1, 9), places=given.places), given._replace(places=None, targets=None)
    for other in (padded, silent, (given, given)):
        run(other)
    odd = REGISTRY.create("bigbird-base", **TINY, head="words")
    beyond = Steady(odd, lambda text: pytest.fail("recorded"), gone.append)
    beyond._is_short = lambda device: True
    beyond(given)
    assert gone == [given, padded, silent, (given, given), given]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are recorded on a GPU")
def test_on_a_gpu_recorded_graphs_learn_the_same():
    device = torch.device("cuda")
    model = bert(width=64, hidden=128).to(device)
    run = compiled(model, device, learns=True, changing=True)
    assert isinstance(run, Steady)
    batches = [texts(natural(seed), seed).to(device) for seed in (1, 2, 1, 2, 1, 2, 1, 2)]
    with torch.autocast("cuda", torch.bfloat16):
        for given in batches:
            assert difference(slopes(run, model, given), slopes(model, model, given)) < 5e-2
    assert 1 <= len(run.sizes) <= 2
