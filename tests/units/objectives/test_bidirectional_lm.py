"""ELMo as a language model in both directions: its loss is the formula, padding asks nothing, a text is learned."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import nn

from patchword.core.text import Packed, Text
from patchword.data.text.tokenizers.characters import CharacterReader, SpelledBatch, WordList
from patchword.models.text import elmo
from patchword.models.text.elmo import ElmoConfig
from patchword.objectives.bidirectional_lm import BidirectionalLM, Candidates, FullSoftmax, SampledSoftmax, sampled
from patchword.training.step import PlainStep

SENTENCES = [
    ["the", "cat", "sat", "on", "the", "mat"],
    ["a", "dog", "ran"],
    ["the", "dog", "sat"],
    ["cats", "ran", "off"],
]
WORDS = WordList.of(SENTENCES)
READER = CharacterReader(limit=8, spare=2)
CONFIG = ElmoConfig(
    character_width=6,
    characters=8,
    filters=((1, 8), (2, 16)),
    highways=1,
    width=16,
    cell=24,
    head="words",
    vocabulary=len(WORDS),
    dropout=0.0,
)


def batch() -> SpelledBatch:
    return SpelledBatch.of(SENTENCES, READER, WORDS)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return elmo.build(CONFIG)


@pytest.fixture
def strong(model):
    """Weights that make every place's scores its own; at the start all are nearly alike."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape))
    return model


@torch.no_grad()
def test_the_loss_is_its_formula(strong):
    """Text by text, word by word, from the head's own answers."""
    losses, right = [], 0
    for sentence in SENTENCES:
        alone = SpelledBatch.of([sentence], READER, WORDS)
        after, before = (scores[0].log_softmax(-1) for scores in strong(alone.text))
        numbers = alone.words[0].tolist()
        for place in range(len(numbers)):
            if place + 1 < len(numbers):
                losses.append(-float(after[place, numbers[place + 1]]))
                right += int(after[place].argmax()) == numbers[place + 1]
            if place:
                losses.append(-float(before[place, numbers[place - 1]]))
                right += int(before[place].argmax()) == numbers[place - 1]
    outcome = BidirectionalLM(strong)(batch(), batch())
    assert len(losses) == batch().weight == 2 * sum(len(sentence) + 1 for sentence in SENTENCES)
    assert float(outcome.loss) == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert int(outcome.right) == right


@torch.no_grad()
def test_pieces_add_up_and_rows_are_the_same(strong):
    whole = batch()
    objective = BidirectionalLM(strong)
    loss = float(objective(whole, whole).loss)
    assert sum(float(objective(piece, whole).loss) for piece in whole.split(3)) == pytest.approx(loss, rel=1e-5)
    mask = whole.text.mask
    row = SpelledBatch(Text(whole.text.ids[mask][None], packed=Packed.of(mask.sum(1))), whole.words[mask][None])
    assert float(objective(row, whole).loss) == pytest.approx(loss, rel=1e-5)


def test_a_small_text_is_learned(model):
    whole, objective = batch(), BidirectionalLM(model)
    step = PlainStep(objective, torch.optim.Adam(model.parameters()), clip_norm=10.0)
    first, _ = step(whole, 0.02)
    assert float(first) / whole.weight == pytest.approx(math.log(len(WORDS)), rel=0.2)
    for _ in range(50):
        step(whole, 0.02)
    last, right = step(whole, 0.02)
    # "the" and the two ends leave open what follows them and what was before; nothing else does.
    assert float(last) / whole.weight < 0.35
    assert int(right) > 0.8 * whole.weight
    assert not model.embedding.characters.weight[0].any()


def test_each_direction_learns_by_itself(model):
    """What the backward words tell moves no weight of the forward layers."""
    after, _ = model(batch().text)
    after.sum().backward()
    for layer in model.encoder.layers:
        assert layer.recurrent.grad[0].any()
        assert not layer.recurrent.grad[1].any()


# Words that are drawn


def vectors_and_words() -> tuple[torch.Tensor, torch.Tensor, nn.Linear]:
    torch.manual_seed(1)
    return torch.randn(9, 6), torch.randint(0, 20, (9,)), nn.Linear(6, 20)


@torch.no_grad()
def test_with_every_word_drawn_once_it_is_the_whole_softmax():
    vectors, targets, words = vectors_and_words()
    full = FullSoftmax()(vectors, targets, words)
    every = sampled(vectors, targets, words, Candidates(torch.arange(20), torch.ones(20)))
    assert float(every.loss) == pytest.approx(float(full.loss), rel=1e-5)
    assert int(every.right) == int(full.right)
    again = sampled(vectors, targets, words, Candidates(torch.arange(20).repeat(2), torch.ones(20)))
    assert float(again.loss) == pytest.approx(float(full.loss), rel=1e-5)


@torch.no_grad()
def test_the_drawn_softmax_is_its_formula():
    vectors, targets, words = vectors_and_words()
    drawn = Candidates(torch.tensor([3, 0, 7, 3]), torch.linspace(0.9, 0.1, 20))
    scores = words(vectors) - drawn.chances.log()
    expected = 0.0
    for row, target in zip(scores.tolist(), targets.tolist(), strict=True):
        expected -= row[target] - math.log(sum(math.exp(row[number]) for number in {target, 0, 3, 7}))
    assert float(sampled(vectors, targets, words, drawn).loss) == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
def test_words_have_the_chances_that_are_said():
    torch.manual_seed(0)
    draws = [SampledSoftmax(5).draw(20, torch.device("cpu")) for _ in range(4000)]
    seen = Counter(number for drawn in draws for number in set(drawn.words.tolist()))
    for number, chance in enumerate(draws[0].chances.tolist()):
        assert seen[number] / 4000 == pytest.approx(chance, abs=5 * (chance * (1 - chance) / 4000) ** 0.5)
    assert draws[0].chances[0] > 4 * draws[0].chances[19]


@torch.no_grad()
def test_many_draws_are_the_whole_softmax():
    vectors, targets, words = vectors_and_words()
    full = float(FullSoftmax()(vectors, targets, words).loss)
    assert float(SampledSoftmax(50_000)(vectors, targets, words).loss) == pytest.approx(full, rel=1e-3)


def test_a_small_text_is_learned_from_drawn_words(model):
    whole = batch()
    before = float(BidirectionalLM(model)(whole, whole).loss.detach())
    step = PlainStep(BidirectionalLM(model, SampledSoftmax(8)), torch.optim.Adam(model.parameters()), clip_norm=10.0)
    for _ in range(40):
        step(whole, 0.02)
    assert float(BidirectionalLM(model)(whole, whole).loss.detach()) < 0.5 * before


@torch.no_grad()
def test_places_that_are_asked_for():
    model = elmo.build(replace(CONFIG, vocabulary=7)).eval()
    text = batch().text
    places = torch.tensor([2, 9])
    for some, every in zip(model(text._replace(predict_at=places)), model(text), strict=True):
        assert torch.allclose(some, every.flatten(0, 1)[places], atol=1e-6)
