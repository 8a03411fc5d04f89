"""tools/train_zoo.py: from the list of models to jobs in order, and from finished runs to archives."""

import sys
import tarfile
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from patchword.api.training import named_recipe
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.studies import STUDIES
from support.material import silent
from support.source_code import ROOT, load_tool
from support.toys.raw_texts import write_raw_texts

MODELS = yaml.safe_load((ROOT / "packages/zoo/models.yaml").read_text(encoding="utf-8"))
LARGEST_FILE, LARGEST_PACKAGE = 15e6, 60e6  # bytes


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        return load_tool("train_zoo")


def entry(tool, name: str, folder: Path, **more):
    fields = next(one for one in MODELS if one["name"] == name)
    return tool.Entry({**fields, **more}, folder / name, folder / "data")


# The list


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
def test_every_model_has_what_its_card_needs_and_settings_that_fit(tool, model, tmp_path):
    assert all(model[field] for field in ("group", "dtype", "data", "data_licence", "licence"))
    jobs = entry(tool, model["name"], tmp_path).jobs()
    assert len({job.product for job in jobs}) == len(jobs)
    if "vectors" not in model and model["recipe"] not in STUDIES:
        recipe = named_recipe(model["recipe"])[0].with_settings(entry(tool, model["name"], tmp_path).settings())
        recipe.with_settings(model["tiny"])
        REGISTRY.configure(recipe.model.name, recipe.model.overrides())


def parameters(tool, model, folder: Path) -> int:
    """The parameters of a model with the vocabulary that its data has."""
    if "vectors" in model:
        options = model["vectors"]
        width, words = (int(options[options.index(option) + 1]) for option in ("--width", "--vocabulary"))
        return width * words
    if model["recipe"] in STUDIES:
        return REGISTRY.find("vit-exercise")[1].parameters
    recipe = named_recipe(model["recipe"])[0].with_settings(entry(tool, model["name"], folder).settings())
    fields = recipe.model.overrides()
    if model["group"] == "texts":
        fields["vocabulary"] = getattr(recipe, "words", 8192)
    if recipe.kind in ("elmo", "pretraining"):
        fields["head"] = "words"
    with torch.device("meta"):
        return sum(weight.numel() for weight in REGISTRY.create(recipe.model.name, **fields).parameters())


def test_every_model_and_all_together_are_small_enough(tool, tmp_path):
    sizes = {
        model["name"]: parameters(tool, model, tmp_path) * (4 if model["dtype"] == "float32" else 2) for model in MODELS
    }
    assert all(size <= LARGEST_FILE for size in sizes.values()), sizes
    assert sum(sizes.values()) <= LARGEST_PACKAGE, sizes


def test_names_and_groups_choose_models(tool):
    assert [one["name"] for one in tool.chosen(["gpt-mini", "bert-mini"], MODELS)] == ["bert-mini", "gpt-mini"]
    assert {one["group"] for one in tool.chosen(["texts"], MODELS)} == {"texts"}
    assert tool.chosen([], MODELS) == MODELS
    with pytest.raises(UserError, match="got gtp-mini"):
        tool.chosen(["gtp-mini"], MODELS)


# Jobs


def test_students_wait_for_their_own_teachers(tool, tmp_path):
    jobs = {job.name: job for job in entry(tool, "vit-exercise", tmp_path).jobs()}
    assert len(jobs) == 9
    student = jobs["vit-exercise/vit-seed-1"]
    assert [path.parent.name for path in student.needs] == ["first-teacher-seed-1", "second-teacher-seed-1001"]
    assert not student.is_ready
    for path in student.needs:
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    assert student.is_ready
    teacher = jobs["vit-exercise/first-teacher-seed-0"]
    assert teacher.is_ready
    assert named_recipe(teacher.words[1])[0].seed == 0
    assert teacher.words[2:] == ("--name", "first-teacher-seed-0", "--runs", str(tmp_path / "vit-exercise"), "--resume")


def test_several_seeds_of_a_recipe_are_a_run_each(tool, tmp_path):
    jobs = entry(tool, "resnet-mini", tmp_path, seeds=2).jobs()
    assert [job.name for job in jobs] == ["resnet-mini/seed-0", "resnet-mini/seed-1"]
    recipes = [named_recipe(job.words[1])[0] for job in jobs]
    assert [recipe.seed for recipe in recipes] == [0, 1]
    assert all(recipe.epochs == 150 for recipe in recipes)


def never() -> bool:
    return False


def python_job(tool, folder: Path, name: str, code: str = "", needs: tuple[str, ...] = ()):
    """A job that runs Python code and writes its product."""
    product = folder / name
    words = (f"{code or 'pass'}; open({str(product)!r}, 'a').write('x')",)
    return tool.Job(name, words, product, tuple(folder / need for need in needs))


@pytest.fixture
def as_python(tool, monkeypatch):
    """Start `python -c WORDS` instead of patchword."""
    monkeypatch.setattr(tool, "PROGRAM", (sys.executable, "-S", "-c"))


def test_jobs_run_after_what_they_need_and_only_once(tool, as_python, tmp_path):
    late = python_job(tool, tmp_path, "late", f"assert open({str(tmp_path / 'early')!r}).read()", needs=("early",))
    jobs = [late, python_job(tool, tmp_path, "early"), python_job(tool, tmp_path, "other")]
    for _ in range(2):
        assert tool.run(jobs, tmp_path / "logs", 2, never, silent()) == []
    assert all(job.product.read_text() == "x" for job in jobs)


def test_a_job_that_fails_is_reported_and_the_others_go_on(tool, as_python, tmp_path):
    wrong = python_job(tool, tmp_path, "wrong", "raise ValueError('no data')")
    jobs = [wrong, python_job(tool, tmp_path, "after", needs=("wrong",)), python_job(tool, tmp_path, "fine")]
    assert tool.run(jobs, tmp_path / "logs", 1, never, silent()) == [wrong]
    assert [job.is_done for job in jobs] == [False, False, True]
    assert "no data" in (tmp_path / "logs/wrong.log").read_text()


def test_jobs_are_stopped_in_time_and_may_save_themselves(tool, as_python, tmp_path):
    on_signal = "lambda *_: (print('saved', flush=True), sys.exit())"
    saves = f"import signal, sys, time; signal.signal(signal.SIGTERM, {on_signal})"
    endless = python_job(tool, tmp_path, "endless", f"{saves}; print('begun', flush=True); time.sleep(60)")
    log = tmp_path / "logs/endless.log"

    def has_begun() -> bool:
        return log.is_file() and "begun" in log.read_text()

    assert tool.run([endless], tmp_path / "logs", 1, has_begun, silent()) == []
    assert log.read_text().split() == ["begun", "saved"]
    assert not endless.is_done


# Archives


def test_an_archive_has_the_small_files_and_rounded_weights(tool, tmp_path):
    run = tmp_path / "runs/swin-mini"
    (run / "checkpoints/epoch-00001").mkdir(parents=True)
    weights = {"weight": torch.randn(4, 4), "bias": torch.randn(4), "count": torch.tensor([3])}
    save_file(weights, run / "model.safetensors", {"patchword": "{}"})
    for name in ("config.json", "events.out.tfevents.1", "checkpoints/epoch-00001/state.json"):
        (run / name).write_text("{}")
    file = tool.pack(run, tmp_path / "out/swin-mini.tar.gz", torch.bfloat16)
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path / "back", filter="data")
    back = tmp_path / "back/swin-mini"
    assert sorted(path.name for path in back.iterdir()) == ["config.json", "model.safetensors"]
    found = load_file(back / "model.safetensors")
    assert torch.equal(found["weight"], weights["weight"].bfloat16())
    assert all(torch.equal(found[name], weights[name]) for name in ("bias", "count"))
    assert torch.equal(load_file(run / "model.safetensors")["weight"], weights["weight"])


def test_recipes_in_an_archive_name_no_folder_of_this_machine(tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs/zoo/bert-mini"
    run.mkdir(parents=True)
    (run / "recipe.yaml").write_text(f"text: [{tmp_path}/runs/zoo/data/texts/books.txt]\n")
    with tarfile.open(tool.pack(run, tmp_path / "out/bert-mini.tar.gz", torch.bfloat16)) as archive:
        text = archive.extractfile("bert-mini/recipe.yaml").read().decode()
    assert text == "text: [runs/zoo/data/texts/books.txt]\n"


def test_teachers_are_packed_without_weights(tool, tmp_path):
    for name in ("teacher", "student"):
        (tmp_path / "study" / name).mkdir(parents=True)
        save_file({"weight": torch.ones(2)}, tmp_path / "study" / name / "model.safetensors")
        (tmp_path / "study" / name / "evaluation.json").write_text("{}")
    file = tool.pack(tmp_path / "study", tmp_path / "study.tar.gz", torch.float32, [tmp_path / "study/teacher"])
    with tarfile.open(file) as archive:
        names = set(archive.getnames())
    assert {"study/teacher/evaluation.json", "study/student/model.safetensors"} <= names
    assert "study/teacher/model.safetensors" not in names


@pytest.mark.slow
def test_the_whole_chain_with_tiny_models(tool, tmp_path, monkeypatch):
    raw = write_raw_texts(tmp_path / "raw", 100)
    sys.modules["zoo_data"].prepare_texts(raw, tmp_path / "data/texts", vocabulary=300)
    monkeypatch.setattr("os.environ", dict(**tool.os.environ))
    words = [str(tmp_path / "data"), "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs"), "--tiny"]
    assert tool.main([*words, "--parallel", "2", "--minutes", "20"]) == 0
    assert {path.name.removesuffix(".tar.gz") for path in (tmp_path / "out").iterdir()} == {
        model["name"] for model in MODELS
    }
