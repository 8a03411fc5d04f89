"""The study of the distilled exercise: teachers first, then a student that names their folders."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner

from patchword.cli.app import app
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.recipes import find_recipe
from patchword.recipes.run import Run
from patchword.studies import STUDIES
from patchword.studies.distilled import distilled, exercise_distilled
from patchword.studies.seeds import study_over_seeds

COMMON = ("data=digits", "epochs=1", "batch_size=256", "device=cpu", "model.image=8")


def small():
    teacher = find_recipe("fashion-mnist-teacher").with_settings([*COMMON, "model.width=4", "model.depths=[1]"])
    student = find_recipe("fashion-mnist-distilled").with_settings(
        [*COMMON, "model.patch=4", "model.depth=1", "model.width=16", "model.heads=2", "augmentation.shift=1"]
    )
    return distilled(teacher, student)


def train(runs: Path, *more: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STUDIES, "exercise-distilled", small)
        return CliRunner().invoke(app, ["train", "exercise-distilled", "--seeds", "2", "--runs", str(runs), *more])


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    printed = train(runs)
    assert printed.exit_code == 0, printed.output
    return runs / "exercise-distilled"


def test_the_student_is_the_exercises_model_and_reads_no_test_image_to_choose():
    runs = exercise_distilled().runs
    student = runs["vit"]
    assert student.model == find_recipe("fashion-mnist-vit").model
    assert len({(run.data, run.validation) for run in runs.values()}) == 1
    teachers = [runs["first-teacher"], runs["second-teacher"]]
    assert len({teacher.seed for teacher in teachers}) == 2
    assert len({teacher.model_copy(update={"seed": 0}).to_yaml() for teacher in teachers}) == 1
    _, variant = REGISTRY.find(student.model.name)
    assert variant.parameters == 205_066


def test_every_repetition_has_its_own_teachers():
    study = study_over_seeds(exercise_distilled(), 3).in_folder(Path("runs/study"))
    assert list(study.runs)[:2] == ["first-teacher-seed-0", "first-teacher-seed-1"]
    teachers = [study.runs[f"vit-seed-{seed}"].teacher.name.split(",") for seed in range(3)]
    assert teachers == [
        [f"runs/study/first-teacher-seed-{seed}", f"runs/study/second-teacher-seed-{1000 + seed}"] for seed in range(3)
    ]
    assert {Path(name).name for pair in teachers for name in pair} < set(study.runs)


def test_one_command_trains_teachers_then_students(trained):
    order = [json.loads((trained / name / "evaluation.json").read_text())["accuracy"] for name in small_labels()]
    assert all(0 <= accuracy <= 1 for accuracy in order)
    used = Run(trained / "vit-seed-1").recipe().teacher.name.split(",")
    assert used == [str(trained / "first-teacher-seed-1"), str(trained / "second-teacher-seed-1001")]
    table = (trained / "results.md").read_text()
    assert "vit: accuracy " in table
    assert table.count("(2 seeds)") == 3


def small_labels() -> list[str]:
    return list(study_over_seeds(small(), 2).runs)


def test_the_study_resumes_with_the_same_teachers(trained):
    before = {name: load_file(trained / name / "model.safetensors") for name in ("vit-seed-0", "first-teacher-seed-0")}
    (trained / "vit-seed-0/evaluation.json").unlink()  # as if it had been killed at its end
    again = train(trained.parent, "--resume")
    assert again.exit_code == 0, again.output
    assert again.output.count("(done)") == 5
    for name, tensors in before.items():
        found = load_file(trained / name / "model.safetensors")
        assert all((found[key] == tensors[key]).all() for key in tensors)


def test_a_student_without_teachers_is_refused_before_its_data_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    student = find_recipe("fashion-mnist-distilled")
    assert student.required_settings() == "teacher=RUN"
    with pytest.raises(UserError, match=r"expected teacher=RUN\n.*one or more runs"):
        student.open_data()
    assert find_recipe("finetune-images").required_settings() == "model=WEIGHTS data=FOLDER"
