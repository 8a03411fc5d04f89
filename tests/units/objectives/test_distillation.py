"""What a student learns from a teacher: each lesson is its formula, pieces add up, padding changes nothing."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.data.text.batching.batches import IGNORE, BatchFormat, TextBatch
from patchword.data.text.batching.ragged import Ragged
from patchword.layers import Attended, TextModel, follow_attention, reference_attention
from patchword.objectives.classification import Outcome
from patchword.objectives.distillation import answers as distillation_answers
from patchword.objectives.distillation import layers as distillation_layers
from patchword.objectives.distillation.answers import (
    HardTargets,
    SameNumbers,
    SoftCrossEntropy,
    SoftLabels,
    SoftTargets,
    of_spans,
    of_tags,
)
from patchword.objectives.distillation.distillation import (
    Distillation,
    Recorded,
    Weighted,
    frozen,
    output_recorder,
    reads,
    text_recorder,
)
from patchword.objectives.distillation.initialization import chosen_layers, copy_layers
from patchword.objectives.distillation.layers import (
    SameAttention,
    SameDirection,
    SameFeatures,
    SameScores,
    SameStates,
    check_pairs,
    even_layers,
)
from patchword.objectives.text import AnswerSpan, MaskedWords, TextClasses, TextLabels, TextNumbers, TokenTags
from support.helpers import randomise, texts, tiny_text

PADDED, IN_ROW = BatchFormat(0, False, torch.device("cpu")), BatchFormat(0, True, torch.device("cpu"))
LENGTHS = [7, 3, 12, 5, 2, 9]
NOTHING = SimpleNamespace()  # a piece that no lesson here looks at


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def answers(student: object, teacher: object) -> tuple[Recorded, Recorded]:
    return Recorded(student), Recorded(teacher)


def test_soft_targets_are_the_divergence_at_a_temperature_times_its_square():
    student, teacher = [1.0, 3.0], [2.0, -2.0]
    # at T = 2 the differences of scores are -1 and 2
    output, said = 1 / (1 + math.exp(-2)), 1 / (1 + math.exp(1))
    by_hand = 4 * (output * math.log(output / said) + (1 - output) * math.log((1 - output) / (1 - said)))
    seen = answers(torch.tensor([student]), torch.tensor([teacher]))
    assert float(SoftTargets(2.0)(*seen, NOTHING)) == pytest.approx(by_hand, rel=1e-6)
    assert float(SoftTargets(1.0)(*seen, NOTHING)) != pytest.approx(by_hand, rel=1e-2)


def test_soft_targets_teach_as_much_at_any_high_temperature():
    slopes = []
    for temperature in (20.0, 40.0):
        scores = drawn(4, 5).requires_grad_()
        SoftTargets(temperature)(Recorded(scores), Recorded(drawn(4, 5, seed=1)), NOTHING).backward()
        slopes.append(float(scores.grad.norm()))
    assert slopes[0] == pytest.approx(slopes[1], rel=0.05)


def test_tinybert_averages_its_cross_entropy_over_the_classes_too():
    student, teacher = drawn(6, 3), drawn(6, 3, seed=1)
    probability = [[math.exp(score) for score in row] for row in teacher.tolist()]
    probability = [[value / sum(row) for value in row] for row in probability]
    logs = [[score - math.log(sum(map(math.exp, row))) for score in row] for row in student.tolist()]
    summed = -sum(p * q for own, other in zip(probability, logs, strict=True) for p, q in zip(own, other, strict=True))
    found = SoftCrossEntropy()(*answers(student, teacher), NOTHING)
    assert float(found) == pytest.approx(summed / 18, rel=1e-5)


def test_hard_targets_labels_and_numbers():
    student, teacher = drawn(4, 3), drawn(4, 3, seed=1)
    seen = answers(student, teacher)
    best = [max(range(3), key=row.__getitem__) for row in teacher.tolist()]
    by_hand = -sum(student.log_softmax(-1)[row, label] for row, label in enumerate(best)) / 4
    assert torch.isclose(HardTargets()(*seen, NOTHING), by_hand)
    output, said = (teacher / 3).sigmoid(), (student / 3).sigmoid()
    by_hand = -9 * (output * said.log() + (1 - output) * (1 - said).log()).mean()
    assert torch.isclose(SoftLabels(3.0)(*seen, NOTHING), by_hand)
    assert torch.isclose(SameNumbers()(*seen, NOTHING), ((student - teacher) ** 2).mean())


def states(*shapes: tuple[int, ...], seed: int) -> list[Tensor]:
    return [drawn(*shape, seed=seed + number) for number, shape in enumerate(shapes)]


THERE = torch.tensor([[True, True, True], [True, False, False]])


def test_tinybert_compares_states_through_one_map_and_the_embeddings_too():
    student = Recorded(None, states(*[(2, 3, 4)] * 3, seed=1), there=THERE)
    teacher = Recorded(None, states(*[(2, 3, 6)] * 5, seed=10), there=THERE)
    fit = nn.Linear(4, 6)
    by_hand = torch.zeros(())
    for own, other in ((0, 0), (1, 2), (2, 4)):
        for text, place in ((0, 0), (0, 1), (0, 2), (1, 0)):
            error = fit(student.states[own][text, place]) - teacher.states[other][text, place]
            by_hand = by_hand + (error**2).sum() / 6 / 4
    found = SameStates(even_layers(2, 4), fit)(student, teacher, NOTHING)
    assert torch.isclose(found, by_hand)
    found.backward()
    assert fit.weight.grad.abs().sum() > 0
    assert not torch.isclose(SameStates((1, 4), fit)(student, teacher, NOTHING), by_hand)


def attention(seed: int, layers: int = 2, texts: int = 2) -> list[Attended]:
    found = []
    for number in range(layers):
        scores = 3 * drawn(texts, 2, 3, 3, seed=seed + number)
        scores = scores.masked_fill(~THERE[:, None, None], -1e38)
        found.append(Attended(scores, scores.softmax(-1)))
    return found


def test_tinybert_compares_scores_and_takes_very_low_ones_for_nothing():
    student = Recorded(None, attention=attention(1), queries=THERE)
    teacher = Recorded(None, attention=attention(20, 4), queries=THERE)
    student.attention[0].scores[0, 1, 2, 0] = -100.0
    teacher.attention[3].scores[0, 0, 1, 1] = -2000.0
    by_hand = 0.0
    for own, other in ((0, 1), (1, 3)):
        for text, place, keys in ((0, 0, 3), (0, 1, 3), (0, 2, 3), (1, 0, 1)):
            for head in range(2):
                pairs = zip(
                    student.attention[own].scores[text, head, place, :keys].tolist(),
                    teacher.attention[other].scores[text, head, place, :keys].tolist(),
                    strict=True,
                )
                clean = [(0 if a <= -100 else a) - (0 if b <= -100 else b) for a, b in pairs]
                by_hand += sum(value**2 for value in clean) / keys / 2 / 4
    found = SameScores(even_layers(2, 4))(student, teacher, NOTHING)
    assert float(found) == pytest.approx(by_hand, rel=1e-5)


def test_scores_that_are_not_cleared_would_be_seen(monkeypatch):
    monkeypatch.setattr(distillation_layers, "NOTHING_READ", -1e30)
    with pytest.raises(AssertionError):
        test_tinybert_compares_scores_and_takes_very_low_ones_for_nothing()


def test_mobilebert_compares_normed_states():
    student = Recorded(None, states(*[(2, 3, 8)] * 3, seed=1), there=THERE)
    teacher = Recorded(None, [5 + 3 * state for state in states(*[(2, 3, 8)] * 3, seed=7)], there=THERE)
    by_hand = torch.zeros(())
    for layer in (1, 2):
        for text, place in ((0, 0), (0, 1), (0, 2), (1, 0)):
            pair = (student.states[layer][text, place], teacher.states[layer][text, place])
            own, other = ((row - row.mean()) / (row.var(correction=0) + 1e-5).sqrt() for row in pair)
            by_hand = by_hand + ((own - other) ** 2).mean() / 4 / 2
    assert torch.isclose(SameFeatures((1, 2))(student, teacher, NOTHING), by_hand)
    shifted = student._replace(states=[2 * state - 1 for state in teacher.states])
    assert SameFeatures((1, 2))(shifted, teacher, NOTHING) < 1e-5  # shift and scale are not compared


def test_mobilebert_compares_where_heads_look():
    student = Recorded(None, attention=attention(1), queries=THERE)
    teacher = Recorded(None, attention=attention(20), queries=THERE)
    by_hand = 0.0
    for layer in range(2):
        for text, place, keys in ((0, 0, 3), (0, 1, 3), (0, 2, 3), (1, 0, 1)):
            for head in range(2):
                output = teacher.attention[layer].weights[text, head, place, :keys].tolist()
                said = student.attention[layer].weights[text, head, place, :keys].tolist()
                divergences = (p * math.log(p / q) for p, q in zip(output, said, strict=True))
                by_hand += sum(divergences) / 2 / 4 / 2
    assert float(SameAttention((1, 2))(student, teacher, NOTHING)) == pytest.approx(by_hand, rel=1e-4)
    assert float(SameAttention((2, 1))(student, teacher, NOTHING)) != pytest.approx(by_hand, rel=1e-2)


def test_distilbert_compares_directions():
    last = torch.tensor([[[1.0, 0.0], [3.0, 4.0], [0.0, 2.0]], [[1.0, 1.0], [9.0, 9.0], [9.0, -9.0]]])
    other = torch.tensor([[[2.0, 0.0], [4.0, 3.0], [0.0, -1.0]], [[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]])
    found = SameDirection()(Recorded(None, [last], there=THERE), Recorded(None, [other], there=THERE), NOTHING)
    assert float(found) == pytest.approx((0 + (1 - 24 / 25) + 2 + (1 - 0.5**0.5)) / 4, rel=1e-5)


def test_pairs_of_layers():
    assert even_layers(4, 12) == (3, 6, 9, 12)
    assert even_layers(6, 6) == (1, 2, 3, 4, 5, 6)
    with pytest.raises(UserError, match=r"1, 2, 3, 4, 6, 12 layers"):
        even_layers(5, 12)
    check_pairs([4, 4], [2, 4, 4], (2, 3))
    with pytest.raises(UserError, match="2 heads, as the teacher has"):
        check_pairs([4, 4], [2, 4, 4], (1, 3))
    with pytest.raises(UserError, match="2 numbers from 1 to 3"):
        check_pairs([4, 4], [2, 4, 4], (1, 4))


HEADS = {
    "classes": {"head": "classes", "classes": 3},
    "labels": {"head": "classes", "classes": 3},
    "number": {"head": "classes", "classes": 1},
    "tags": {"head": "tags", "classes": 5},
    "span": {"head": "span"},
    "words": {"head": "words"},
    "pretraining": {"head": "pretraining"},
}
OBJECTIVES = {
    "classes": TextClasses,
    "labels": TextLabels,
    "number": TextNumbers,
    "tags": TokenTags,
    "span": AnswerSpan,
    "words": MaskedWords,
    "pretraining": MaskedWords,
}
SOFT = {
    "labels": SoftLabels(2.0),
    "number": SameNumbers(),
    "tags": SoftTargets(2.0, of_tags),
    "span": SoftTargets(2.0, of_spans),
}


def batch_of(task: str, form: BatchFormat) -> TextBatch:
    generator = torch.Generator().manual_seed(5)

    def below(limit: int, *shape: int) -> Tensor:
        return torch.randint(0, limit, shape, generator=generator)

    count, tokens = len(LENGTHS), sum(LENGTHS)
    ids = replace(Ragged.of([[0] * length for length in LENGTHS]), values=(1 + below(60, tokens)).int())
    segments = Ragged.of([[int(2 * place > length) for place in range(length)] for length in LENGTHS], torch.uint8)
    plain = TextBatch(ids, segments, torch.arange(count), form)
    asked = torch.where(below(3, tokens) == 0, below(61, tokens), IGNORE).int()
    match task:
        case "classes":
            return replace(plain, labels=below(3, count))
        case "labels":
            return replace(plain, labels=below(2, count, 3).bool())
        case "number":
            return replace(plain, labels=below(50, count).double())
        case "tags":
            return replace(plain, targets=Ragged(torch.where(asked == IGNORE, asked, asked % 5), ids.offsets))
        case "span":
            return replace(plain, labels=torch.stack([below(99, count) % torch.tensor(LENGTHS)] * 2, -1))
    labels = None if task == "words" else below(2, count)
    return replace(plain, labels=labels, targets=Ragged(asked, ids.offsets), targets_only=True)


def pair_of(task: str) -> tuple[TextModel, TextModel, nn.Linear]:
    student = tiny_text(width=16, depth=2, hidden=24, dropout=0, attention_dropout=0, **HEADS[task])
    teacher = tiny_text(seed=1, depth=4, **HEADS[task])
    for model in (student, teacher):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim > 1 and name.startswith("encoder."):
                    parameter.mul_(0.3)
    return student, teacher, randomise(nn.Linear(16, 32))


def distilled(task: str, form: BatchFormat, parts: int) -> tuple[float, float, Tensor]:
    """The loss, the right answers and the gradient of every lesson there is at once."""
    student, teacher, fit = pair_of(task)
    layers = even_layers(2, 4)
    lessons = [
        Weighted(0.5, SOFT.get(task, SoftTargets(2.0))),
        Weighted(0.01, SameStates(layers, fit)),
        Weighted(0.02, SameScores(layers)),
        Weighted(3.0, SameAttention(layers)),
    ]
    parts_read = reads(lessons)
    assert parts_read == {"answer", "states", "attention"}
    objective = Distillation(
        OBJECTIVES[task],
        text_recorder(student.train(), parts_read),
        text_recorder(frozen(teacher), parts_read),
        lessons,
        own=0.3,
    )
    batch, loss, right = batch_of(task, form), 0.0, 0.0
    for piece in batch.split(parts):
        outcome = objective(piece, batch)
        outcome.loss.backward()
        loss, right = loss + float(outcome.loss.detach()), right + float(outcome.right)
    assert all(parameter.grad is None for parameter in teacher.parameters())
    gradient = torch.cat([p.grad.flatten() for p in [*student.parameters(), *fit.parameters()] if p.grad is not None])
    return loss, right, gradient


@pytest.mark.parametrize("task", HEADS)
def test_pieces_and_rows_give_the_loss_and_the_gradient_of_the_padded_batch(task):
    loss, right, gradient = distilled(task, PADDED, 1)
    for form, parts in ((PADDED, 3), (IN_ROW, 1), (IN_ROW, 3)):
        other = distilled(task, form, parts)
        assert other[0] == pytest.approx(loss, rel=1e-4)
        assert other[1] == right or math.isnan(right)
        assert float((other[2] - gradient).abs().max()) < 1e-4 * float(gradient.abs().max())


def test_the_whole_is_the_sum_of_its_parts_by_their_weights():
    student, teacher, _ = pair_of("classes")
    batch = batch_of("classes", PADDED)
    own = TextClasses(student)(batch, batch).loss
    soft = SoftTargets(2.0)(Recorded(student(batch.text)), Recorded(teacher(batch.text)), batch)
    hard = HardTargets()(Recorded(student(batch.text)), Recorded(teacher(batch.text)), batch)
    lessons = [Weighted(5.0, SoftTargets(2.0)), Weighted(0.5, HardTargets())]
    whole = Distillation(TextClasses, output_recorder(student), output_recorder(teacher), lessons, own=2.0)
    outcome = whole(batch, batch)
    assert torch.isclose(outcome.loss, 2 * own + 5 * soft + 0.5 * hard)
    assert outcome.right == TextClasses(student)(batch, batch).right


def test_the_student_is_asked_once_and_the_teacher_without_gradient():
    calls = []

    def ask(name: str, weight: Tensor) -> object:
        def look(inputs: Tensor) -> Recorded:
            calls.append((name, torch.is_grad_enabled()))
            return Recorded(inputs * weight)

        return look

    def objective(model: object) -> object:
        return lambda piece, batch: Outcome(model(piece.inputs).sum(), torch.zeros(()))

    batch = SimpleNamespace(inputs=drawn(3, 2), weight=3)  # images serve as well as texts
    whole = Distillation(
        objective, ask("student", torch.ones(2)), ask("teacher", torch.ones(2)), [Weighted(1, SoftTargets())]
    )
    assert torch.isclose(whole(batch, batch).loss, batch.inputs.sum())
    assert calls == [("student", True), ("teacher", False)]


def test_a_student_who_is_its_teacher_has_nothing_to_learn():
    teacher = frozen(tiny_text(head="classes", classes=3))
    parts = frozenset({"answer", "states", "attention"})
    look = text_recorder(teacher, parts)
    text = texts(5, 9, 3)
    lessons = [
        SoftTargets(2.0),
        SameStates((1, 2), nn.Identity()),
        SameDirection(),
        SameScores((1, 2)),
        SameFeatures((1, 2)),
        SameAttention((1, 2)),
    ]
    assert all(abs(float(lesson(look(text), look(text), NOTHING))) < 1e-5 for lesson in lessons)
    other = text_recorder(frozen(tiny_text(seed=1, head="classes", classes=3)), parts)
    assert all(float(lesson(other(text), look(text), NOTHING)) > 1e-2 for lesson in lessons)


def test_looking_changes_no_answer():
    model, text = tiny_text(head="classes", classes=3), texts(5, 9, 3)
    for parts in ({"answer"}, {"states"}, {"attention"}):
        assert torch.allclose(text_recorder(model, frozenset(parts))(text).answer, model(text), atol=1e-5)


def test_scores_are_what_weights_are_the_softmax_of_and_open_to_gradients():
    model, text = tiny_text(), texts(5, 9)
    with follow_attention(model) as calls:
        model(text)
    assert len(calls) == 2
    attention = model.encoder.blocks[0].attention.sublayer
    with reference_attention(model):
        query, key, _ = attention.projection.joint(model.embedding(text)).chunk(3, -1)
    query, key = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in (query, key))
    scores = query @ key.transpose(-2, -1) / 8**0.5
    there = text.mask[:, None, None].expand_as(scores)
    assert torch.allclose(calls[0].scores[there], scores[there], rtol=1e-4, atol=1e-5)
    assert (calls[0].scores[~there] < -1e30).all()
    assert torch.allclose(calls[0].weights, calls[0].scores.softmax(-1))
    calls[1].scores[there].sum().backward()
    assert attention.projection.joint.weight.grad.abs().sum() > 0


def test_distilbert_begins_with_layers_of_its_teacher():
    assert chosen_layers(6, 12) == (0, 2, 4, 7, 9, 11)
    assert chosen_layers(2, 12) == (0, 11)
    teacher, student = tiny_text(depth=4, head="words"), tiny_text(seed=1, depth=2, head="words")
    done = copy_layers(teacher, student, (0, 3))
    assert done.initialized == ()
    assert done.copied == len(student.state_dict())
    for own, other in ((0, 0), (1, 3)):
        pairs = zip(student.encoder.blocks[own].parameters(), teacher.encoder.blocks[other].parameters(), strict=True)
        assert all(torch.equal(a, b) and a is not b for a, b in pairs)
    assert torch.equal(student.embedding.words.weight, teacher.embedding.words.weight)
    assert torch.equal(student.head.words.transform.weight, teacher.head.words.transform.weight)


def test_what_does_not_fit_begins_afresh_or_is_refused():
    teacher = tiny_text(depth=4, head="words")
    student = tiny_text(seed=1, depth=2, head="classes", classes=3)
    done = copy_layers(teacher, student, (1, 2))
    assert all(name.startswith("head.") for name in done.initialized)
    with pytest.raises(UserError, match="has other shapes than its teacher's"):
        copy_layers(teacher, tiny_text(depth=2, hidden=40), (1, 2))
    with pytest.raises(UserError, match="2 numbers from 0 to 3"):
        copy_layers(teacher, student, (1, 4))
    with pytest.raises(UserError, match="the student runs the same block several times"):
        copy_layers(teacher, tiny_text("albert-base", depth=2), (1, 2))


@pytest.mark.parametrize(
    ("module", "name", "broken"),
    [
        (distillation_answers, "_mean", lambda losses: losses.sum()),
        (distillation_layers, "_over_tokens", lambda values, there: values.mean()),
    ],
)
def test_a_wrong_mean_is_seen_in_pieces_or_rows(monkeypatch, module, name, broken):
    monkeypatch.setattr(module, name, broken)
    with pytest.raises(AssertionError):
        test_pieces_and_rows_give_the_loss_and_the_gradient_of_the_padded_batch("classes")


def test_the_loss_of_a_student_falls_towards_its_teacher():
    student, teacher, _ = pair_of("classes")
    batch = batch_of("classes", PADDED)
    objective = Distillation(
        TextClasses, output_recorder(student), output_recorder(frozen(teacher)), [Weighted(1.0, SoftTargets())], own=0
    )
    optimizer = torch.optim.Adam(student.parameters(), 1e-2)
    losses = []
    for _ in range(15):
        loss = objective(batch, batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    agreed = student(batch.text).argmax(-1) == teacher(batch.text).argmax(-1)
    assert F.one_hot(agreed.long(), 2).sum(0)[1] >= len(batch) - 1
