"""Several teachers of one classifier of images: the mean of their probabilities, by hand and in a run."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from patchword.core.card import Normalization
from patchword.objectives.distillation.ensemble import average_answers
from patchword.recipes.distillation import images as taught_images
from patchword.recipes.model_choice import model_names
from patchword.recipes.run import Run
from patchword.recipes.run_folders.verification import reseal
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.train import build_task, train
from patchword.studies import find_recipe
from support.material import silent
from support.tiny_texts import stop_after, without_seconds

TEACHER = ("model=resnet-mini", "model.image=8", "model.width=4", "model.depths=[1]")
STUDENT = ("model=vit-exercise", "model.image=8", "model.patch=4", "model.depth=1", "model.width=16", "model.heads=2")
COMMON = ("device=cpu", "batch_size=256", "epochs=1")
BOTH = "teacher=first,second"


def recipe(*words: str) -> Recipe:
    return find_recipe("digits-vit").with_settings([*COMMON, *words])


@pytest.fixture(scope="module")
def prepared_folder(tmp_path_factory) -> Path:
    """Two teachers; the second was trained with other means of the pixels."""
    folder = tmp_path_factory.mktemp("teachers")
    for name, more in (("first", ()), ("second", ("seed=1", "model.width=6"))):
        assert train(recipe(*TEACHER, *more), folder / name, silent())
    card = folder / "second/config.json"
    before = Run(folder / "second").model().card.normalization
    text = card.read_text().replace(f"{before.mean[0]}", f"{before.mean[0] + 0.05:.4f}")
    card.write_text(text)
    reseal(folder / "second")
    return folder


@pytest.fixture
def there(prepared_folder, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        Path(name).symlink_to(prepared_folder / name)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_softmax_of_the_average_is_the_mean_of_the_softmax(temperature):
    answers = [torch.randn(5, 4) * 6 for _ in range(3)]
    mean = torch.stack([(scores / temperature).softmax(-1) for scores in answers]).mean(0)
    assert torch.allclose((average_answers(answers, temperature) / temperature).softmax(-1), mean, atol=1e-6)
    assert average_answers(answers[:1], temperature) is answers[0]


def test_a_class_that_no_teacher_holds_possible_stays_finite():
    answers = [torch.tensor([[0.0, -1e4, -1e4]]), torch.tensor([[-1e4, 0.0, -1e4]])]
    found = average_answers(answers)
    assert found.isfinite().all()
    assert torch.allclose(found.softmax(-1), torch.tensor([[0.5, 0.5, 0.0]]))


def normalized_again(images, own: Normalization, other: Normalization):
    return (images * own.std[0] + own.mean[0] - other.mean[0]) / other.std[0]


def test_the_loss_of_two_teachers_by_hand(there):
    fields = ("teacher.kind=soft", "teacher.temperature=2", "teacher.share=0.9", "augmentation.mixup=1")
    task = build_task(recipe(*STUDENT, BOTH, *fields), silent())
    batch = next(iter(task.data(0, 0))).first(12)
    outcome = task.objective(task.model)(batch, batch)
    own = task.model.card.normalization
    with torch.no_grad():
        scores = task.model(batch.inputs)
        inputs = [normalized_again(batch.inputs, own, teacher.card.normalization) for teacher in task.teachers]
        said = [(teacher(each) / 2).softmax(-1) for teacher, each in zip(task.teachers, inputs, strict=True)]
    mean = (said[0] + said[1]) / 2
    soft = 4 * (mean * (mean.log() - (scores / 2).log_softmax(-1))).sum(-1).mean()
    labels = -(batch.labels * scores.log_softmax(-1)).sum(-1).mean()
    assert not torch.allclose(said[0], said[1], atol=0.01)
    assert torch.isclose(outcome.loss, 0.1 * labels + 0.9 * soft, rtol=1e-4)


def test_the_hard_target_is_the_class_of_the_mean_probability(there):
    task = build_task(recipe(*STUDENT, BOTH, "teacher.kind=hard", "teacher.temperature=9"), silent())
    images = next(iter(task.data(0, 0))).inputs
    own = task.model.card.normalization
    with torch.no_grad():
        said = [
            teacher(normalized_again(images, own, teacher.card.normalization)).softmax(-1) for teacher in task.teachers
        ]
        found = task._teachers()(images).answer
    assert torch.equal(found.argmax(-1), sum(said).argmax(-1))


def test_a_run_with_two_teachers_that_was_killed_ends_with_the_same_bits(there, monkeypatch):
    chosen = recipe(*STUDENT, BOTH, "teacher.kind=soft", "augmentation.mixup=1", "augmentation.mix_probability=0.5")
    chosen = chosen.with_settings(["epochs=2", "ema_decay=0.9"])
    assert train(chosen, Path("whole"), silent())
    stop_after(monkeypatch, 7)
    assert not train(chosen, Path("again"), silent())
    stop_after(monkeypatch, 0)
    assert train(chosen, Path("again"), silent(), resume=True)
    whole, again = (load_file(f"{name}/model.safetensors") for name in ("whole", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert without_seconds(Path("again")) == without_seconds(Path("whole"))
    saved = Run(Path("whole")).recipe().teacher.name.split(",")
    assert [Path(name).name for name in saved] == ["first", "second"]
    assert all(Path(name).is_absolute() for name in saved)


def test_teachers_are_a_list_in_python_and_in_files(there):
    typed = recipe(*STUDENT, BOTH)
    assert recipe(*STUDENT).with_values({"teacher": ["first", "second"]}) == typed
    assert recipe(*STUDENT).with_values({"teacher": {"name": ("first", "second")}}) == typed
    assert recipe(*STUDENT, "teacher=[first, second]") == typed
    assert model_names(typed) == ["vit-exercise", "first", "second"]


def test_teachers_are_compiled_with_the_student_and_run_in_their_own_precision(there, monkeypatch):
    compiled = []
    monkeypatch.setattr(taught_images, "compile", lambda model, **how: compiled.append((model, how)) or model)
    task = build_task(recipe(*STUDENT, BOTH, "compile=true", "teacher.precision=bfloat16"), silent())
    images = next(iter(task.data(0, 0))).inputs
    seen = []
    for teacher in task.teachers:
        teacher.head.linear.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    task._teachers()(images)
    assert [model for model, _ in compiled] == list(task.teachers)
    assert all(how == {"cuda_graphs": False} for _, how in compiled)
    assert seen == [torch.bfloat16, torch.bfloat16]


@pytest.mark.parametrize("wrong", ["teacher=first,nowhere", "teacher=[first, nowhere]"])
def test_the_missing_one_of_two_teachers_is_named(there, wrong):
    with pytest.raises(ValueError, match="got nowhere"):
        build_task(recipe(*STUDENT, wrong), silent())
