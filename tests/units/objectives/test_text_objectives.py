"""What text models learn: each loss is its formula, pieces add up to the whole, padding changes nothing."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from patchword.core.text import Text
from patchword.data.text.batching.batches import IGNORE, BatchFormat, TextBatch
from patchword.data.text.batching.ragged import Ragged
from patchword.layers import TextModel
from patchword.objectives.text import (
    AnswerSpan,
    MaskedWords,
    TextClasses,
    TextLabels,
    TextNumbers,
    TokenTags,
    padded_scores,
)
from patchword.training.step import PlainStep
from support.helpers import tiny_text

PADDED, IN_ROW = BatchFormat(0, False, torch.device("cpu")), BatchFormat(0, True, torch.device("cpu"))
LENGTHS = [7, 3, 12, 5, 2, 9, 4]
VOCABULARY = 61
WEIGHTS = torch.tensor([0.5, 2.0, 1.25])


def drawn(*shape: int, below: int, seed: int = 0) -> Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


def batch_of(task: str, form: BatchFormat) -> TextBatch:
    """Texts of very different length, with labels or targets of the task."""
    count, tokens = len(LENGTHS), sum(LENGTHS)
    ids = Ragged.of([[0] * length for length in LENGTHS])
    ids = replace(ids, values=(1 + drawn(tokens, below=VOCABULARY - 1)).int())
    segments = Ragged.of([[int(2 * place > length) for place in range(length)] for length in LENGTHS], torch.uint8)
    plain = TextBatch(ids, segments, torch.arange(count), form)
    asked = torch.where(drawn(tokens, below=3, seed=1) == 0, drawn(tokens, below=VOCABULARY, seed=2), IGNORE).int()
    match task:
        case "classes":
            return replace(plain, labels=drawn(count, below=3))
        case "labels":
            return replace(plain, labels=drawn(count, 4, below=2).bool())
        case "number":
            return replace(plain, labels=drawn(count, below=50).double() / 10)
        case "tags":
            tags = torch.where(asked == IGNORE, asked, asked % 5)
            return replace(plain, targets=Ragged(tags, ids.offsets))
        case "span":
            first = drawn(count, below=99) % torch.tensor(LENGTHS)
            last = torch.minimum(first + drawn(count, below=4, seed=3), torch.tensor(LENGTHS) - 1)
            return replace(plain, labels=torch.stack([first, last], -1))
        case "words":
            return replace(plain, targets=Ragged(asked, ids.offsets), targets_only=True)
    labels = drawn(count, below=2)
    return replace(plain, labels=labels, targets=Ragged(asked, ids.offsets), targets_only=True)


HEADS = {
    "classes": {"head": "classes", "classes": 3},
    "labels": {"head": "classes", "classes": 4},
    "number": {"head": "classes", "classes": 1},
    "tags": {"head": "tags", "classes": 5},
    "span": {"head": "span"},
    "words": {"head": "words"},
    "pretraining": {"head": "pretraining"},
}
OBJECTIVES = {
    "classes": lambda model: TextClasses(model, WEIGHTS, smoothing=0.1),
    "labels": TextLabels,
    "number": TextNumbers,
    "tags": TokenTags,
    "span": AnswerSpan,
    "words": MaskedWords,
    "pretraining": MaskedWords,
}


def model_of(task: str) -> TextModel:
    """Its matrices are not so large that the tokens of a text become one, which would hide a mistake."""
    model = tiny_text(vocabulary=VOCABULARY, **HEADS[task])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and name.startswith("encoder."):
                parameter.mul_(0.3)
    return model


def gradients(task: str, form: BatchFormat, parts: int) -> tuple[float, float, dict[str, Tensor]]:
    """The loss, the right answers and the gradient of a batch taken in so many pieces."""
    model, batch = model_of(task), batch_of(task, form)
    objective, loss, right = OBJECTIVES[task](model), 0.0, 0.0
    for piece in batch.split(parts):
        outcome = objective(piece, batch)
        outcome.loss.backward()
        loss, right = loss + float(outcome.loss.detach()), right + float(outcome.right)
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return loss, right, found


def assert_alike(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert len(one) > 20
    for name, gradient in one.items():
        assert (gradient - other[name]).abs().max() < 1e-5 * max(1, float(gradient.abs().max())), name


@pytest.mark.parametrize("form", [PADDED, IN_ROW], ids=["padded", "in a row"])
@pytest.mark.parametrize("task", HEADS)
def test_pieces_add_up_to_the_whole(task, form):
    loss, right, whole = gradients(task, form, 1)
    assert math.isfinite(loss)
    assert any(float(gradient.abs().max()) > 0.01 for gradient in whole.values())
    for parts in (3, 7):
        again, answers, pieces = gradients(task, form, parts)
        assert again == pytest.approx(loss, abs=1e-5 * max(1, abs(loss)))
        assert answers == pytest.approx(right, nan_ok=True)
        assert_alike(whole, pieces)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("task", HEADS)
def test_without_padding_loss_and_gradients_are_the_same(task, parts):
    loss, right, padded = gradients(task, PADDED, parts)
    again, answers, packed = gradients(task, IN_ROW, parts)
    assert again == pytest.approx(loss, abs=1e-5 * max(1, abs(loss)))
    assert answers == pytest.approx(right, nan_ok=True)
    assert_alike(padded, packed)


@pytest.mark.parametrize("task", HEADS)
def test_a_step_tells_the_mean_loss_times_the_weight(task):
    """What a run adds up over an epoch and divides by what it has seen."""
    model, batch = model_of(task), batch_of(task, PADDED)
    loss, right, _ = gradients(task, PADDED, 1)
    step = PlainStep(OBJECTIVES[task](model), torch.optim.SGD(model.parameters(), 0.1), micro_batches=3)
    summed, answers = step(batch, 0.0)
    assert float(summed) / batch.weight == pytest.approx(loss, rel=1e-5)
    assert float(answers) == pytest.approx(right, nan_ok=True)


# The formulas, on scores that are given


class Given(nn.Module):
    """Answers what it was given, whatever it reads."""

    def __init__(self, *scores: Tensor) -> None:
        super().__init__()
        self.scores = scores

    def forward(self, text: Text) -> Tensor | tuple[Tensor, ...]:
        return self.scores[0] if len(self.scores) == 1 else self.scores


def scores_of(*shape: int, seed: int = 4) -> Tensor:
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def log_shares(row: Tensor) -> list[float]:
    exponents = [math.exp(value) for value in row.tolist()]
    return [math.log(value / sum(exponents)) for value in exponents]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_classes_are_weighted_smoothed_cross_entropy(weights, smoothing):
    batch, scores = batch_of("classes", PADDED), scores_of(len(LENGTHS), 3)
    counted = [1.0] * 3 if weights is None else weights.tolist()
    total = summed = 0.0
    for row, label in zip(scores, batch.labels.tolist(), strict=True):
        terms = [-weight * share for weight, share in zip(counted, log_shares(row), strict=True)]
        summed += (1 - smoothing) * terms[label] + smoothing * sum(terms) / 3
        total += counted[label]
    outcome = TextClasses(Given(scores), weights, smoothing)(batch, batch)
    assert float(outcome.loss) == pytest.approx(summed / total, rel=1e-5)
    assert int(outcome.right) == sum(
        int(row.argmax()) == label for row, label in zip(scores, batch.labels.tolist(), strict=True)
    )


@pytest.mark.parametrize("task", ["classes", "labels", "number"])
def test_a_text_counts_as_much_as_its_share(task):
    whole, model = batch_of(task, PADDED), model_of(task)
    objective = {"classes": TextClasses, "labels": TextLabels, "number": TextNumbers}[task](model)
    alone = [float(objective(piece, piece).loss.detach()) for piece in whole.split(len(whole))]
    loss_weights = torch.tensor([2.0, 0.5, 0.5, 0.5, 0.5, 2.0, 1.0])
    weighed = replace(whole, loss_weights=loss_weights)
    parts = [float(objective(piece, weighed).loss.detach()) for piece in weighed.split(3)]
    expected = sum(share * loss for share, loss in zip(loss_weights.tolist(), alone, strict=True)) / len(whole)
    assert sum(parts) == pytest.approx(expected, rel=1e-4)


def test_labels_are_binary_cross_entropy_each():
    batch, scores = batch_of("labels", PADDED), scores_of(len(LENGTHS), 4)
    terms = [
        -math.log(1 / (1 + math.exp(-value if there else value)))
        for row, labels in zip(scores.tolist(), batch.labels.tolist(), strict=True)
        for value, there in zip(row, labels, strict=True)
    ]
    outcome = TextLabels(Given(scores))(batch, batch)
    assert float(outcome.loss) == pytest.approx(sum(terms) / len(terms), rel=1e-5)
    assert int(outcome.right) == sum(
        [value > 0 for value in row] == labels
        for row, labels in zip(scores.tolist(), batch.labels.tolist(), strict=True)
    )
    perfect = TextLabels(Given(20.0 * batch.labels - 10.0))(batch, batch)
    assert int(perfect.right) == len(batch)
    assert float(perfect.loss) < 1e-3


def test_numbers_are_the_mean_squared_error():
    batch, scores = batch_of("number", PADDED), scores_of(len(LENGTHS), 1)
    squares = [(a - b) ** 2 for a, b in zip(scores[:, 0].tolist(), batch.labels.tolist(), strict=True)]
    outcome = TextNumbers(Given(scores))(batch, batch)
    assert float(outcome.loss) == pytest.approx(sum(squares) / len(squares), rel=1e-5)
    assert math.isnan(float(outcome.right))  # nothing is right or wrong


@pytest.mark.parametrize("form", [PADDED, IN_ROW], ids=["padded", "in a row"])
def test_tags_are_cross_entropy_where_a_word_begins(form):
    batch = batch_of("tags", form)
    scores = scores_of(*batch.text.ids.shape, 5)
    pairs = zip(scores.flatten(0, 1), batch.flat_targets.tolist(), strict=True)
    asked = [(row, target) for row, target in pairs if target != IGNORE]
    assert 0 < len(asked) < sum(LENGTHS)
    outcome = TokenTags(Given(scores))(batch, batch)
    assert float(outcome.loss) == pytest.approx(-sum(log_shares(row)[tag] for row, tag in asked) / len(asked), rel=1e-5)
    assert int(outcome.right) == sum(int(row.argmax()) == tag for row, tag in asked)


@pytest.mark.parametrize("form", [PADDED, IN_ROW], ids=["padded", "in a row"])
def test_spans_are_two_cross_entropies_over_the_tokens_of_the_text(form):
    batch = batch_of("span", form)
    rows = [scores_of(length, 2, seed=length) for length in LENGTHS]
    scores = torch.cat(rows)[None]
    if form is PADDED:
        scores = torch.full((len(rows), max(LENGTHS), 2), 50.0)  # padding must not count, however high it is scored
        for number, row in enumerate(rows):
            scores[number, : len(row)] = row
    summed = 0.0
    for row, (first, last) in zip(rows, batch.labels.tolist(), strict=True):
        summed -= log_shares(row[:, 0])[first] + log_shares(row[:, 1])[last]
    outcome = AnswerSpan(Given(scores))(batch, batch)
    assert float(outcome.loss) == pytest.approx(summed / (2 * len(rows)), rel=1e-5)
    best = [row.argmax(0).tolist() for row in rows]
    assert int(outcome.right) == sum(a == b for a, b in zip(best, batch.labels.tolist(), strict=True))
    for padded, row in zip(padded_scores(scores, batch.text), rows, strict=True):
        assert padded[: len(row)].equal(row)
        assert (padded[len(row) :] < -1e30).all()


@pytest.mark.parametrize("form", [PADDED, IN_ROW], ids=["padded", "in a row"])
def test_pretraining_adds_the_words_and_the_next_sentence(form):
    batch = batch_of("pretraining", form)
    words, following = scores_of(batch.weight, VOCABULARY), scores_of(len(batch), 2, seed=5)
    targets = [target for target in batch.flat_targets.tolist() if target != IGNORE]
    assert len(targets) == batch.weight
    of_words = -sum(log_shares(row)[target] for row, target in zip(words, targets, strict=True)) / len(targets)
    labels = batch.labels.tolist()
    of_pairs = -sum(log_shares(row)[label] for row, label in zip(following, labels, strict=True)) / len(labels)
    both = MaskedWords(Given(words, following))(batch, batch)
    assert float(both.loss) == pytest.approx(of_words + of_pairs, rel=1e-5)
    assert float(MaskedWords(Given(words))(batch, batch).loss) == pytest.approx(of_words, rel=1e-5)
    assert int(both.right) == sum(int(row.argmax()) == target for row, target in zip(words, targets, strict=True))


def test_only_masked_words_go_through_the_vocabulary():
    model, batch = tiny_text(vocabulary=VOCABULARY, head="words"), batch_of("words", IN_ROW)
    assert model(batch.text).shape == (batch.weight, VOCABULARY)


def test_losses_are_in_single_precision_whatever_the_model_answers():
    batch, scores = batch_of("classes", PADDED), scores_of(len(LENGTHS), 3).bfloat16()
    assert TextClasses(Given(scores))(batch, batch).loss.dtype == torch.float32


@pytest.mark.parametrize("form", [PADDED, IN_ROW], ids=["padded", "in a row"])
@pytest.mark.parametrize("task", ["words", "pretraining"])
def test_a_model_that_is_told_the_targets_is_as_far_off(task, form):
    """As one whose scores are compared with them afterwards; so for gradients."""
    batch, found = batch_of(task, form), []
    for output in (True, False):
        model = model_of(task)
        asked = model if output else lambda text, model=model: model(text._replace(targets=None))
        outcome = MaskedWords(asked)(batch, batch)
        outcome.loss.backward()
        found.append((outcome, {name: part.grad for name, part in model.named_parameters() if part.grad is not None}))
    (one, gradients_one), (other, gradients_other) = found
    torch.testing.assert_close(one.loss, other.loss)
    assert int(one.right) == int(other.right)
    assert_alike(gradients_one, gradients_other)
