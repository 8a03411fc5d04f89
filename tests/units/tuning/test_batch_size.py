"""batch_size=auto: the search with a simulated memory, real steps of every kind, and the run that follows."""

from pathlib import Path

import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.recipes import find_recipe
from patchword.recipes.run import Run
from patchword.recipes.schema.batch_size import AUTO_BATCH
from patchword.recipes.schema.reading import recipe_from
from patchword.recipes.train import build_task
from patchword.training.step import PlainStep
from patchword.tuning import batch_size
from patchword.tuning.batch_search import BatchSearch, BatchTrial, FoundBatch
from patchword.tuning.batch_size import describe, find_batch_size, try_steps, with_batch_size
from patchword.tuning.trial_steps import trial_task
from support.material import TINY_MODEL, differing, silent
from support.tiny.kinds import TINY, tiny_kind
from support.tiny_texts import refusal

DIGITS = ("train", "digits-vit", *TINY_MODEL, "epochs=1", "device=cpu")


def steps_that_need(per_sample: int, memory: int, tried: list[int], seconds=lambda size: size):
    """Steps on a machine with this much memory, which fails when it is full."""

    def attempt(size: int) -> BatchTrial | None:
        tried.append(size)
        return BatchTrial(size, per_sample * size, seconds(size)) if per_sample * size <= memory else None

    return attempt


# The search


def test_a_gpu_takes_the_largest_that_fits_with_head_room():
    tried = []
    found = BatchSearch(2, 4096, 900, on_cpu=False).run(steps_that_need(10, 1000, tried))
    assert (found.trial.size, found.trial.memory) == (64, 640)
    assert "do not fit" in found.reason
    assert tried == [2, 4, 8, 16, 32, 64, 128]


def test_a_size_between_the_limit_and_the_memory_lacks_head_room():
    assert BatchSearch(2, 4096, 900, on_cpu=False).run(steps_that_need(15, 1000, [])).trial.size == 32
    assert BatchSearch(2, 4096, 950, on_cpu=False).run(steps_that_need(15, 1000, [])).trial.size == 32
    assert BatchSearch(2, 4096, 960, on_cpu=False).run(steps_that_need(15, 1000, [])).trial.size == 64


def test_a_first_size_that_is_too_large_is_halved():
    tried = []
    assert BatchSearch(16, 64, 90, on_cpu=False).run(steps_that_need(20, 100, tried)).trial.size == 4
    assert tried == [16, 8, 4]


def test_a_model_that_never_fits_is_refused():
    with pytest.raises(UserError, match="not even the smallest batch fits into memory"):
        BatchSearch(4, 64, 90, on_cpu=False).run(lambda size: None)


def test_an_epoch_keeps_some_steps():
    found = BatchSearch(2, 20, None, on_cpu=False).run(steps_that_need(1, 10**9, []))
    assert (found.trial.size, found.reason) == (16, "with more, an epoch would have too few steps")


def test_a_cpu_does_not_try_what_would_fill_the_memory():
    tried = []
    found = BatchSearch(2, 4096, 900, on_cpu=True).run(steps_that_need(10, 1000, tried, seconds=lambda size: 1.0))
    assert found.trial.size == 64
    assert "expected to exceed the memory" in found.reason
    assert tried == [2, 4, 8, 16, 32, 64]


def test_a_cpu_stops_where_more_samples_are_hardly_faster():
    """A step takes 1 s, and 0.1 s per sample: at 32 twice the batch is 14 % faster per sample, at 64 only 7 %."""
    attempt = steps_that_need(1, 10**9, [], seconds=lambda size: 1 + 0.1 * size)
    found = BatchSearch(2, 4096, None, on_cpu=True).run(attempt)
    assert found.trial.size == 64
    assert "hardly faster" in found.reason


# Real steps


@pytest.mark.parametrize("kind", TINY)
def test_every_kind_can_be_tried(kind, monkeypatch):
    monkeypatch.setattr(batch_size, "_SECONDS", 0.0)
    task = trial_task(tiny_kind(kind), silent())
    size = task.recipe.batch_size
    small, large = (try_steps(task, one) for one in (size // 2, size))
    assert (small.size, large.size) == (size // 2, size)
    assert 0 < small.memory < large.memory
    assert min(small.seconds, large.seconds) > 0


def test_a_full_memory_is_no_failure(monkeypatch):
    task, compute = trial_task(tiny_kind("images"), silent()), PlainStep.gradient

    def gradient(step: PlainStep, batch: object) -> object:
        if batch.weight > 20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute(step, batch)

    monkeypatch.setattr(PlainStep, "gradient", gradient)
    monkeypatch.setattr(batch_size, "_SECONDS", 0.0)
    monkeypatch.setattr("patchword.tuning.batch_search.GAIN", 0.0)
    assert find_batch_size(task).trial.size == 16
    monkeypatch.setattr(PlainStep, "gradient", lambda *_: (_ for _ in ()).throw(RuntimeError("another error")))
    with pytest.raises(RuntimeError, match="another error"):
        try_steps(task, 2)


# The run


@pytest.fixture
def found(monkeypatch) -> list[int]:
    """The search finds 100 and is counted."""
    searches = []

    def find(task: object) -> FoundBatch:
        searches.append(task.recipe.batch_size)
        return FoundBatch(BatchTrial(100, 5_000_000, 0.25), "a reason")

    monkeypatch.setattr(batch_size, "find_batch_size", find)
    return searches


def test_a_run_has_the_number_and_a_resumed_one_keeps_it(command, found):
    code, printed, complaint = command(*DIGITS, "batch_size=auto", "--name", "auto")
    assert (code, complaint) == (0, "")
    text = " ".join(printed.split())
    assert "batch_size=100 was found for batch_size=auto: a step needs about 5.0 MB and takes about 0.25 s" in text
    assert "learning_rate=0.002 stays as it is, for batch_size=32 in the recipe" in text
    assert "learning_rate=0.0035; linear (SGD), 0.0063" in text
    assert "batch_size: 100" in Path("runs/auto/recipe.yaml").read_text()
    assert Run(Path("runs/auto")).recipe().learning_rate == 0.002
    assert command(*DIGITS, "batch_size=auto", "--name", "auto", "--resume")[0] == 0
    assert command(*DIGITS, "batch_size=100", "--name", "number")[0] == 0
    assert found == [128]
    assert differing(Path("runs/auto/model.safetensors"), Path("runs/number/model.safetensors")) == []


def test_a_run_that_saved_nothing_does_not_decide_the_number(found, tmp_path):
    large = find_recipe("digits-vit").with_settings([*TINY_MODEL, "batch_size=512", "device=cpu"])
    (tmp_path / "recipe.yaml").write_text(large.to_yaml())  # e.g. of a run that did not fit into memory
    auto = large.with_settings(["batch_size=auto"])
    assert with_batch_size(auto, tmp_path, silent()).batch_size == 100
    (tmp_path / "checkpoints/epoch-00000-batch-0000001").mkdir(parents=True)
    assert with_batch_size(auto, tmp_path, silent()).batch_size == 512
    assert len(found) == 1


def test_all_seeds_have_one_number(command, found):
    assert command(*DIGITS, "batch_size=auto", "--name", "seeds", "--seeds", "2")[0] == 0
    assert command(*DIGITS, "batch_size=auto", "--name", "seeds", "--seeds", "3", "--resume")[0] == 0
    recipes = [Run(file.parent).recipe() for file in Path("runs/seeds").glob("*/recipe.yaml")]
    assert [recipe.batch_size for recipe in recipes] == [100, 100, 100]
    assert len(found) == 1


def test_python_and_a_dry_run_have_it_too(found):
    fields = dict(word.split("=") for word in TINY_MODEL) | {"epochs": 1, "device": "cpu", "batch_size": "auto"}
    assert patchword.train("digits-vit", quiet=True, **fields).recipe().batch_size == 100
    plan = patchword.dry_run("digits-vit", name="plan", seconds=0, **fields)
    assert plan.recipe.batch_size == 100
    assert plan.decided["batch_size"] == "100"


# The field


def test_the_field_is_written_and_read():
    recipe = find_recipe("digits-vit").with_settings(["batch_size=auto"])
    assert recipe.batch_size == AUTO_BATCH
    assert "batch_size: auto" in recipe.to_yaml()
    assert (
        recipe_from(recipe.model_dump(mode="json"))
        == recipe
        == find_recipe("digits-vit").with_values({"batch_size": "auto"})
    )


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
@pytest.mark.parametrize("recipe", ["digits-vit", "classify-text", "elmo-pretrain"])
def test_other_values_are_refused(recipe, value):
    message = rf"recipe field 'batch_size': expected a whole number above 0, or auto, got {value}"
    with pytest.raises(UserError, match=message):
        find_recipe(recipe).with_settings([f"batch_size={value}"])


def test_it_is_for_one_recipe_in_one_process(command, monkeypatch):
    recipe = find_recipe("digits-vit").with_settings(["batch_size=auto"])
    with pytest.raises(UserError, match="a study compares runs of one batch size"):
        build_task(recipe, silent())
    with pytest.raises(UserError, match="batch_size=auto has no effect with 'tokens'"):
        with_batch_size(tiny_kind("pretraining", "tokens=64", "batch_size=auto"), Path("runs/x"), silent())
    monkeypatch.setattr(batch_size, "rank_of", lambda: 0)
    with pytest.raises(UserError, match="batch_size=auto looks at one process"):
        with_batch_size(recipe, Path("runs/x"), silent())
    assert "a whole number above 0, or auto" in refusal(command, "train", "digits-vit", "batch_size=0")


def test_no_hint_without_a_change():
    found = FoundBatch(BatchTrial(32, 1000, 1.0), "a reason")
    assert "learning_rate" not in describe(find_recipe("digits-vit"), found, 32)
