"""Classifiers of images with a teacher: the losses by hand, the same pixels for both, runs, and what is refused."""

import json
import math
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from torch import Tensor

import patchword
from patchword.core.card import Card, Normalization
from patchword.data.augmentation.augmentation import normalize
from patchword.data.image.batches import Batch
from patchword.data.image.images import resize
from patchword.layers import separate_heads
from patchword.objectives.distillation import images as distillation_images
from patchword.objectives.distillation.answers import HardTargets, SoftTargets, SoftTargetsByClass
from patchword.objectives.distillation.distillation import Recorded
from patchword.objectives.distillation.images import (
    SamePixels,
    image_recorder,
    of_distillation_token,
    token_accuracies,
)
from patchword.recipes.distillation.images import TaughtImages
from patchword.recipes.distillation.task import ready
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.train import assemble, build_task, train
from patchword.studies import STUDIES, find_recipe
from patchword.studies.deit import table
from patchword.studies.study import Result
from patchword.weights import save
from support.helpers import tiny, unequal_tensors
from support.material import silent, write_classes
from support.tiny_texts import refusal, stop_after, without_seconds

SMALL = ("model.image=8", "model.patch=4", "model.depth=1", "model.width=16", "model.heads=2", "model.hidden=32")
COMMON = ("device=cpu", "batch_size=128", "epochs=1", "learning_rate=5e-3")
STUDENT = ("model=deit-mini-distilled", *SMALL, *COMMON)
PLAIN = ("model=deit-mini", *SMALL, *COMMON)


def recipe(*words: str) -> Recipe:
    return find_recipe("digits-vit").with_settings(words)


@pytest.fixture(scope="module")
def prepared_folder(tmp_path_factory) -> Path:
    """A teacher, one with NaN in it, and one of other classes."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        sizes = ("model=resnet-mini", "model.image=8", "model.width=4", "model.depths=[1]")
        assert train(recipe(*sizes, *COMMON), Path("teacher"), silent())
        Path("broken").mkdir()
        Path("broken/config.json").write_text(Path("teacher/config.json").read_text())
        tensors = load_file("teacher/model.safetensors")
        tensors["head.linear.bias"][3] = math.nan
        save_file(tensors, "broken/model.safetensors")
        write_classes(Path("pets"))
        pets = find_recipe("image-folder-vit").with_settings([*sizes, *COMMON, "data=pets", "batch_size=4"])
        assert train(pets, Path("other"), silent())
    return folder


@pytest.fixture
def there(prepared_folder, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("teacher", "broken", "other"):
        Path(name).symlink_to(prepared_folder / name)


# The losses


STUDENT_SCORES, TEACHER_SCORES = [[1.0, 3.0, 0.0]], [[2.0, -2.0, 1.0]]


def softmax(scores: list[float], temperature: float = 1.0) -> list[float]:
    raised = [math.exp(score / temperature) for score in scores]
    return [value / sum(raised) for value in raised]


def soft_by_hand(temperature: float) -> float:
    teacher, said = softmax(TEACHER_SCORES[0], temperature), softmax(STUDENT_SCORES[0], temperature)
    return temperature**2 * sum(p * math.log(p / q) for p, q in zip(teacher, said, strict=True))


def test_the_soft_loss_is_the_papers_and_the_other_is_its_codes():
    seen = Recorded(torch.tensor(STUDENT_SCORES)), Recorded(torch.tensor(TEACHER_SCORES))
    assert float(SoftTargets(3.0)(*seen, None)) == pytest.approx(soft_by_hand(3.0), rel=1e-5)
    assert float(SoftTargetsByClass(3.0)(*seen, None)) == pytest.approx(soft_by_hand(3.0) / 3, rel=1e-5)
    many = Recorded(torch.tensor(STUDENT_SCORES * 4)), Recorded(torch.tensor(TEACHER_SCORES * 4))
    said, teacher = ((one.answer / 3).log_softmax(-1) for one in many)
    as_published = torch.nn.functional.kl_div(said, teacher, reduction="sum", log_target=True) * 9 / said.numel()
    assert torch.isclose(SoftTargetsByClass(3.0)(*many, None), as_published)


def test_the_hard_loss_with_and_without_smoothing():
    seen = Recorded(torch.tensor(STUDENT_SCORES)), Recorded(torch.tensor(TEACHER_SCORES))
    logs = [math.log(share) for share in softmax(STUDENT_SCORES[0])]
    assert float(HardTargets()(*seen, None)) == pytest.approx(-logs[0], rel=1e-5)
    smoothed = -(0.9 * logs[0] + 0.1 * sum(logs) / 3)
    assert float(HardTargets(smoothing=0.1)(*seen, None)) == pytest.approx(smoothed, rel=1e-5)


def batch_of(task: TaughtImages, mixed: bool) -> Batch:
    batch = next(iter(task.data(0, 0)))
    count = 12
    labels = batch.labels[:count]
    if mixed:
        labels = (torch.nn.functional.one_hot(labels, 10) * 0.7 + 0.03).float()
    return Batch(batch.inputs[:count], labels, batch.samples[:count])


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """against labels, or shares of them"""
    shares = torch.nn.functional.one_hot(labels, 10).float() if labels.dim() == 1 else labels
    return -(shares * scores.log_softmax(-1)).sum(-1).mean()


KINDS = {
    "soft": lambda own, teacher: (
        9 * (teacher / 3).softmax(-1).mul((teacher / 3).log_softmax(-1) - (own / 3).log_softmax(-1))
    ),
    "hard": lambda own, teacher: -torch.nn.functional.one_hot(teacher.argmax(-1), 10) * own.log_softmax(-1),
}


@pytest.mark.parametrize("mixed", [False, True], ids=["labels", "shares"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", ["distillation", "both"])
def test_the_class_token_learns_labels_and_the_chosen_tokens_the_teacher(there, kind, token, mixed):
    fields = ("teacher=teacher", f"teacher.kind={kind}", "teacher.share=0.3", f"teacher.token={token}")
    task = build_task(recipe(*STUDENT, *fields), silent())
    batch = batch_of(task, mixed)
    outcome = task.objective(task.model)(batch, batch)
    by_class, by_token = task.model.head.pair(*task.model.encode(batch.inputs))
    mean, std = (torch.tensor(part) for part in (task.model.card.normalization.mean, task.model.card.normalization.std))
    other = task.teachers[0].card.normalization
    teacher = task.teachers[0]((batch.inputs * std + mean - torch.tensor(other.mean)) / torch.tensor(other.std))
    chosen = {"distillation": [by_token], "both": [by_class, by_token]}[token]
    lesson = torch.stack([KINDS[kind](own, teacher).sum(-1).mean() for own in chosen]).mean()
    assert torch.isclose(outcome.loss, 0.7 * cross_entropy(by_class, batch.labels) + 0.3 * lesson, rtol=1e-5)
    pieces = [task.objective(task.model)(piece, batch).loss for piece in batch.split(5)]
    assert torch.isclose(torch.stack(pieces).sum(), outcome.loss, rtol=1e-5)


def test_the_wrong_token_would_be_seen(there, monkeypatch):
    monkeypatch.setitem(distillation_images.ON, "distillation", distillation_images.one_each)
    with pytest.raises(AssertionError):
        test_the_class_token_learns_labels_and_the_chosen_tokens_the_teacher(None, "hard", "distillation", False)


def test_a_student_without_the_token_learns_both_with_one(there):
    task = build_task(recipe(*PLAIN, "teacher=teacher", "teacher.kind=soft", "teacher.share=0.1"), silent())
    batch = batch_of(task, mixed=False)
    scores, teacher = task.model(batch.inputs), task.teachers[0](batch.inputs)
    expected = 0.9 * cross_entropy(scores, batch.labels) + 0.1 * KINDS["soft"](scores, teacher).sum(-1).mean()
    assert torch.isclose(task.objective(task.model)(batch, batch).loss, expected, rtol=1e-4)


def test_compiled_or_not_the_loss_and_the_gradient_are_the_same(there):
    losses, gradients = [], []
    for compiled in (False, True):
        task = build_task(recipe(*STUDENT, "teacher=teacher"), silent())
        torch.compiler.reset()
        forward = torch.compile(task.model, backend="aot_eager", fullgraph=True) if compiled else task.model
        batch = batch_of(task, mixed=False)
        loss = task.objective(forward)(batch, batch).loss
        loss.backward()
        losses.append(float(loss.detach()))
        gradients.append(task.model.head.distilled.weight.grad)
        assert isinstance(task.model(batch.inputs), Tensor)  # outside of the lesson there is one answer
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert torch.allclose(*gradients, atol=1e-6)


def test_heads_are_apart_only_inside():
    model, images = tiny("deit-tiny-distilled"), torch.randn(2, 3, 32, 32)
    with separate_heads(model.head):
        apart = model(images)
    assert torch.allclose(model(images), sum(apart) / 2)
    seen = image_recorder(model, model)(images)
    assert torch.equal(of_distillation_token(seen.answer, None), apart[1])
    assert not torch.allclose(*apart)


# The pixels


OWN, OTHER = Normalization((0.3,), (0.4,)), Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def card(channels: int, image: object, normalization: Normalization) -> Card:
    return Card("vit-exercise", {"channels": channels, "image": image}, normalization=normalization)


@pytest.mark.parametrize(("own", "other"), [(1, 1), (3, 3), (1, 3), (3, 1)])
@pytest.mark.parametrize("side", [12, 9, (20, 16)])
def test_the_teacher_gets_the_pixels_as_it_was_trained_on_them(own, other, side):
    pixels = torch.randint(60, 190, (4, own, 12, 12), dtype=torch.uint8)
    pixels = resize(pixels[..., ::4, ::4], 12, own)  # smooth: little is cut off when it is resized
    preparations = [OWN if channels == 1 else OTHER for channels in (own, other)]
    preparations[1] = replace(preparations[1], std=tuple(2 * value for value in preparations[1].std))
    found = SamePixels(card(own, 12, preparations[0]), card(other, side, preparations[1]), torch.device("cpu"))(
        normalize(pixels, preparations[0])
    )
    expected = normalize(resize(pixels, side, other), preparations[1])
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, atol=1.1 / 255 / 0.4)  # whole numbers there, not here


def test_a_teacher_of_the_same_kind_gets_the_very_input():
    images = torch.randn(2, 1, 12, 12)
    same = SamePixels(card(1, 12, OWN), card(1, (12, 12), OWN), torch.device("cpu"))
    assert same(images) is images
    wrong = SamePixels(card(1, 12, OWN), card(1, 12, replace(OWN, mean=(0.4,))), torch.device("cpu"))
    assert torch.allclose(wrong(images), images - 0.25, atol=1e-6)


@pytest.mark.parametrize("form", ["timm", "huggingface", "file"])
def test_any_teacher_teaches_any_student(there, form):
    """Of another library, of another size and with colours; it need not name its classes."""
    large = tiny("vit-tiny-16", image=16, patch=4, depth=1, heads=3, width=192, hidden=768, classes=10)
    if form == "file":
        save_file(large.state_dict(), "large.safetensors")
        words = ("teacher=large.safetensors", "teacher.model=vit-tiny-16")
    else:
        save(large, "large", layout=form)
        words = ("teacher=large",)
    task = build_task(recipe(*STUDENT, *words), silent())
    assert torch.allclose(task.teachers[0].head.linear.weight, large.head.linear.weight)
    batch = batch_of(task, mixed=False)
    task.objective(task.model)(batch, batch).loss.backward()
    assert task.model.head.distilled.weight.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in task.teachers[0].parameters())
    assert not task.teachers[0].training


# Runs


def test_a_run_with_a_teacher_and_a_climb_goes_on_bit_by_bit(there, monkeypatch):
    words = ("teacher=teacher", "sam=0.05", "augmentation.mixup=0.8", "model.dropout=0.1", "epochs=2")
    chosen = recipe(*STUDENT, *words)
    assert train(chosen, Path("whole"), silent())
    stop_after(monkeypatch, 13)
    assert not train(chosen, Path("again"), silent())
    stop_after(monkeypatch, 0)
    assert train(chosen, Path("again"), silent(), resume=True)
    tensors = [load_file(f"{name}/model.safetensors") for name in ("whole", "again")]
    assert all(torch.equal(tensors[0][key], tensors[1][key]) for key in tensors[0])
    assert without_seconds(Path("again")) == without_seconds(Path("whole"))
    assert Path(Run(Path("whole")).recipe().teacher.name).is_absolute()
    found = evaluate(Run(Path("whole")), "cpu")
    saved = json.loads(Path("whole/evaluation.json").read_text())
    assert set(found.tokens) == {"class_token", "distillation_token"}
    assert saved["class_token"] == found.tokens["class_token"]
    assert "Test Accuracy of the class token" in found.lines()[-2]


def test_the_accuracy_of_each_token():
    model = tiny("deit-tiny-distilled")
    images = torch.randn(9, 3, 32, 32)
    with torch.no_grad():
        by_class, by_token = model.head.pair(*model.encode(images))
    labels = by_token.argmax(-1)
    right = float((by_class.argmax(-1) == labels).double().mean())
    batches = [Batch(images[part], labels[part], part) for part in torch.arange(9).split(4)]
    assert token_accuracies(model, batches) == {"class_token": pytest.approx(right), "distillation_token": 1.0}
    assert right < 1
    assert token_accuracies(tiny(), batches) == {}


def test_the_student_alone_begins_as_the_student_with_a_teacher(there):
    alone, taught = (build_task(recipe(*STUDENT, *words), silent()) for words in ((), ("teacher=teacher",)))
    assert unequal_tensors(alone.model, taught.model) == []
    loop = assemble(recipe(*STUDENT), taught, Path("run"), silent())
    assert sum(len(group["params"]) for group in loop.optimizer.param_groups) == len(list(alone.model.parameters()))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("teacher=nowhere", "'teacher': expected a run, the folder of a model or a file of weights, got nowhere"),
        ("teacher=resnet-mini", "got resnet-mini, a model without weights"),
        ("teacher=broken", "broken has non-finite weights in 1 of"),
        (
            "teacher=other",
            "has other classes than the model: expected 10 classes: 0, 1, 2, 3, 4, ..., got 2: cat, dog",
        ),
        ("teacher=teacher teacher.token=class", "the distillation token of deit-mini-distilled would have no loss"),
        (
            "teacher=teacher teacher.kind=soft teacher.label_smoothing=0.1",
            "'teacher.label_smoothing' has no effect here",
        ),
        ("teacher=teacher teacher.share=1", "the class token would have no loss: the weight of the labels is 0"),
        ("teacher=teacher teacher.share=1.5", "recipe field 'teacher.share'"),
        ("teacher=teacher teacher.temperature=0", "recipe field 'teacher.temperature'"),
        ("teacher=teacher teacher.kind=warm", "expected soft or soft-deit or hard, got warm"),
        ("teacher=teacher sam=-1", "recipe field 'sam': expected a number, 0 or more, got -1"),
        ("teacher=teacher model=deit-mini teacher.token=both", "deit-mini has no distillation token"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(there, command, words, reason):
    output = refusal(command, "train", "digits-vit", *STUDENT, *words.split())
    assert reason in output


def test_a_teacher_that_was_being_trained_learns_nothing_more():
    """Its running statistics, too, would follow the student's pictures."""
    teacher = patchword.create("resnet-mini", image=8, width=4, depths=(1,), channels=1, classes=10).train()
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    found = ready(teacher, torch.device("cpu"))
    assert not found(torch.randn(4, 1, 8, 8)).requires_grad
    assert all(torch.equal(tensor, before[name]) for name, tensor in found.state_dict().items())


def test_all_of_the_loss_may_be_the_teachers_where_every_token_learns_it(there):
    for words in (("teacher.token=both",), ("model=deit-mini",)):
        assert build_task(recipe(*STUDENT, "teacher=teacher", "teacher.share=1", *words), silent()).own == 0


def test_fields_of_a_teacher_that_is_not_there_are_told_of(there):
    for words, message in ((("teacher.kind=soft",), "there is no teacher"), ((), "")):
        console = Console(file=StringIO(), width=200)
        assert not isinstance(build_task(recipe(*STUDENT, *words), console), TaughtImages)
        assert message in console.file.getvalue()
        assert ("teacher" in console.file.getvalue()) == bool(message)


# The study


def test_the_study_asks_for_its_teacher_and_is_the_lectures_table(there, command):
    study = STUDIES["deit-distillation"]().with_settings(["teacher=teacher", "data=digits", "epochs=3"])
    assert {recipe.teacher.name for recipe in study.runs.values()} == {"teacher", ""}
    assert {recipe.data for recipe in study.runs.values()} == {"digits"}
    assert study.runs["none"].teacher.name == ""
    assert (study.runs["soft"].teacher.kind, study.runs["soft"].teacher.share) == ("soft", 0.9)
    output = refusal(command, "train", "deit-distillation", "data=digits")
    assert "this study needs teacher=" in output
    output = refusal(command, "train", "deit-distillation", "data=digits", "teacher=nowhere", *SMALL)
    assert "got nowhere" in output

    def row(run: str, **measures: float) -> Result:
        return Result(run, "deit-mini", 1, 1, "accuracy", "test", measures, 1.0, 1, 1.0)

    rows = [
        row("none-seed-0", accuracy=0.80),
        row("none-seed-1", accuracy=0.82),
        row("token-seed-0", accuracy=0.9, class_token=0.88, distillation_token=0.89),
    ]
    lines = table(rows).splitlines()
    assert lines[0] == "no distillation: 81.00% (standard deviation 1.41%)"
    assert [line.rsplit(" ", 1)[1] for line in lines[1:]] == ["88.00%", "89.00%", "90.00%"]
