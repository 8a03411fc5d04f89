"""A run that is stopped anywhere and resumed is bit-equal to an uninterrupted run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.data.image.batches import Batch
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.images import InMemory, decode
from patchword.data.image.sources import DigitsSource
from patchword.recipes import train as recipe_run
from patchword.recipes.evaluation import evaluate
from patchword.recipes.image import task as image_task
from patchword.recipes.run import Run
from patchword.recipes.run_folders import samples
from patchword.recipes.train import train
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.checkpoint.manifest import Digest, manifest_of
from patchword.training.checkpoint.origin import origin_of
from patchword.training.lock.lock import exclusive
from patchword.training.run_log import RunLog
from patchword.training.state import _OLD_NAMES
from support.material import differing, everything_below, silent, tiny_recipe, write_classes

RECIPE = tiny_recipe()
STEPS = 10  # of an epoch: 1,294 training samples in batches of 128
LAST = "epoch-00002-batch-0000000"


class Died(BaseException):
    """Simulates a kill: no code of the library catches it."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert train(RECIPE, folder, silent())
    return folder


def metrics(folder: Path) -> list[dict[str, float]]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in Run(folder).metrics()]


def state(folder: Path) -> dict[str, float]:
    return {**json.loads((folder / "checkpoints" / LAST / "state.json").read_text()), "seconds": 0}


def assert_the_same(folder: Path, whole: Path) -> None:
    assert differing(folder / "model.safetensors", whole / "model.safetensors") == []
    tensors = Path("checkpoints") / LAST / "tensors.safetensors"
    assert differing(folder / tensors, whole / tensors) == []
    assert metrics(folder) == metrics(whole)
    assert state(folder) == state(whole)
    for file in ("recipe.yaml", "config.json"):
        assert (folder / file).read_text() == (whole / file).read_text()


def test_the_whole_run_has_everything_that_could_go_wrong(whole):
    """Otherwise the comparisons below would compare nothing."""
    names = load_file(whole / "checkpoints" / LAST / "tensors.safetensors")
    assert {name.split(".")[0] for name in names} == {"model", "average", "optimizer"}
    assert [record["epoch"] for record in metrics(whole)] == [1, 2]
    assert state(whole)["step"] == 2 * STEPS
    assert state(whole)["best_epoch"] == 1  # so that both epochs write the best weights


def test_another_seed_gives_another_run(whole, tmp_path):
    assert train(tiny_recipe("seed=1"), tmp_path / "run", silent())
    assert len(differing(tmp_path / "run" / "model.safetensors", whole / "model.safetensors")) > 10


@pytest.mark.parametrize("steps", [1, 5, STEPS, STEPS + 1, 2 * STEPS - 1, 2 * STEPS])
def test_interrupted_once(whole, tmp_path, stop_after, steps):
    folder = tmp_path / "run"
    stop_after(steps)
    assert not train(RECIPE, folder, silent())
    assert len(metrics(folder)) == (steps - 1) // STEPS
    stop_after(0)
    assert train(RECIPE, folder, silent(), resume=True)
    assert_the_same(folder, whole)


def test_interrupted_every_three_steps(whole, tmp_path, stop_after):
    folder, starts = tmp_path / "run", 0
    stop_after(3)
    while not train(RECIPE, folder, silent(), resume=True):
        stop_after(3)
        starts += 1
    assert starts == 2 * STEPS // 3
    assert_the_same(folder, whole)


def test_saved_at_every_step(whole, tmp_path, stop_after):
    """A resumed run may save at another interval; nothing else changes."""
    folder = tmp_path / "run"
    stop_after(7)
    assert not train(RECIPE, folder, silent())
    stop_after(0)
    assert train(tiny_recipe("save_minutes=0"), folder, silent(), resume=True)
    (folder / "recipe.yaml").write_text(RECIPE.to_yaml())
    assert_the_same(folder, whole)


def test_another_number_of_threads_is_said(whole, tmp_path, stop_after, monkeypatch):
    """Sums over other threads are rounded differently, so that the run is not equal to the bit."""
    folder, same, other = tmp_path / "run", silent(), silent()
    stop_after(3)
    assert not train(RECIPE, folder, silent())
    assert not train(RECIPE, folder, same, resume=True)
    assert "note:" not in same.file.getvalue()
    begun = recipe_run.machine
    monkeypatch.setattr(recipe_run, "machine", lambda device: {**begun(device), "processor": "x86_64, 7 threads"})
    assert not train(RECIPE, folder, other, resume=True)
    assert "note: the run began with another processor" in other.file.getvalue()
    assert "now x86_64, 7 threads" in other.file.getvalue()


@pytest.mark.parametrize("change", ["moved", "removed"])
def test_a_folder_that_is_moved_or_removed_is_not_made_again(tmp_path, monkeypatch, change):
    folder, away = tmp_path / "run", tmp_path / "away"

    class Meddler(recipe_run.Supervision):
        steps = 0

        def stop(self) -> bool:
            self.steps += 1
            if self.steps == STEPS + 3:
                folder.rename(away)
                if change == "removed":
                    shutil.rmtree(away)
            return False

    with pytest.raises(UserError, match="was moved or removed while it was trained"):
        train(RECIPE, folder, silent(), supervision=Meddler())
    assert not folder.exists()
    if change == "moved":
        away.rename(folder)
        assert train(RECIPE, folder, silent(), resume=True)


def test_a_checkpoint_with_the_earlier_names_of_the_state_is_resumed(whole, tmp_path, stop_after):
    folder = tmp_path / "run"
    stop_after(STEPS + 7)
    assert not train(RECIPE, folder, silent())
    checkpoint = folder / "checkpoints" / "epoch-00001-batch-0000007"
    values = json.loads((checkpoint / "state.json").read_text())
    earlier = {new: old for old, new in _OLD_NAMES.items()}
    assert earlier.keys() < values.keys()
    (checkpoint / "state.json").write_text(json.dumps({earlier.get(name, name): values[name] for name in values}))
    digests = {name: Digest() for name in ("tensors.safetensors", "state.json")}
    for name, digest in digests.items():
        digest.update((checkpoint / name).read_bytes())
    (checkpoint / "manifest.json").write_text(manifest_of(digests, origin_of(checkpoint)))
    stop_after(0)
    console = silent()
    assert train(RECIPE, folder, console, resume=True)
    assert "resuming from epoch 2, batch 8" in console.file.getvalue()
    assert_the_same(folder, whole)


@pytest.mark.parametrize("place", ["log", "checkpoint", "weights"])
@pytest.mark.parametrize("epoch", [1, 2])
def test_killed_at_the_end_of_an_epoch(whole, tmp_path, monkeypatch, place, epoch):
    """After the best weights were written, after the line was logged, or before either."""
    folder, times = tmp_path / "run", iter(range(1, 100))
    owner, name = {
        "log": (RunLog, "epoch"),
        "checkpoint": (Checkpoints, "save"),
        "weights": (image_task, "save"),
    }[place]
    original = getattr(owner, name)

    def dies(*arguments: object) -> None:
        if next(times) == epoch:
            raise Died
        original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dies)
        with pytest.raises(Died):
            train(RECIPE, folder, silent())
    assert train(RECIPE, folder, silent(), resume=True)
    assert_the_same(folder, whole)


def test_a_damaged_checkpoint_costs_time_and_nothing_else(whole, tmp_path, stop_after):
    folder = tmp_path / "run"
    for steps in (4, 3):
        stop_after(steps)
        assert not train(RECIPE, folder, silent(), resume=True)
    newest = folder / "checkpoints" / "epoch-00000-batch-0000007" / "tensors.safetensors"
    content = bytearray(newest.read_bytes())
    content[-100] ^= 4
    newest.write_bytes(content)
    stop_after(0)
    console = silent()
    assert train(RECIPE, folder, console, resume=True)
    output = console.file.getvalue()
    assert "checkpoint epoch-00000-batch-0000007 is skipped: tensors.safetensors has changed" in output
    assert "resuming from epoch 1, batch 5" in output
    assert_the_same(folder, whole)


def test_a_run_without_an_intact_checkpoint_is_not_started_again(tmp_path, stop_after):
    """It would overwrite the best weights and the log."""
    folder = tmp_path / "run"
    stop_after(STEPS + 3)
    assert not train(RECIPE, folder, silent(), resume=True)
    for found in (folder / "checkpoints").iterdir():
        (found / "state.json").write_text("{}")
    before = {path: path.read_bytes() for path in everything_below(folder) if path.is_file()}
    stop_after(0)
    with pytest.raises(
        UserError, match="the run cannot be resumed: expected an intact checkpoint, got 2 damaged checkpoints"
    ):
        train(RECIPE, folder, silent(), resume=True)
    assert (folder / "metrics.jsonl").read_text().count("\n") == 1
    changed = {path.name for path, content in before.items() if path.read_bytes() != content}
    assert changed <= {".lock", "machine.json", "seal.json"}


def test_half_written_files_of_a_kill_are_removed(whole):
    litter = whole / ".model.safetensors.4711.tmp"
    litter.write_bytes(b"half")
    assert train(RECIPE, whole, silent(), resume=True)
    assert not litter.exists()


def test_resuming_a_run_that_never_started_starts_it(whole, tmp_path):
    assert train(RECIPE, tmp_path / "run", silent(), resume=True)
    assert_the_same(tmp_path / "run", whole)


def test_a_finished_run_stays_as_it_is(whole):
    before = {path: path.read_bytes() for path in everything_below(whole / "checkpoints") if path.is_file()}
    assert train(RECIPE, whole, silent(), resume=True)
    assert {path: path.read_bytes() for path in everything_below(whole / "checkpoints") if path.is_file()} == before
    assert len(metrics(whole)) == 2


def test_the_recipe_of_a_run_can_be_trained_again(whole, tmp_path):
    assert train(Run(whole).recipe(), tmp_path / "again", silent())
    assert_the_same(tmp_path / "again", whole)


@pytest.mark.parametrize(
    "change", ["learning_rate=1e-4", "seed=1", "model.width=32", "augmentation.shift=2", "epochs=3"]
)
def test_another_recipe_is_refused(whole, change):
    before = {path: path.stat().st_mtime_ns for path in everything_below(whole)}
    field = change.split("=")[0].split(".")[0]
    with pytest.raises(UserError, match=rf"was started with another recipe: expected {field}=.*\n.*another --name"):
        train(tiny_recipe(change), whole, silent(), resume=True)
    assert {path: path.stat().st_mtime_ns for path in everything_below(whole)} == before


def test_a_second_run_of_that_name_is_refused(whole):
    with pytest.raises(UserError, match=r"has a run already\nadd --resume"):
        train(RECIPE, whole, silent())


def test_a_second_process_is_refused(whole):
    with exclusive(whole), pytest.raises(UserError, match=r"is in use by another run: got process \d+"):
        train(RECIPE, whole, silent(), resume=True)


def test_the_test_set_is_read_only_at_the_end(tmp_path, monkeypatch):
    asked, read = [], DigitsSource.read

    def watched(self: DigitsSource, part: str, *rest: object) -> object:
        asked.append(part)
        return read(self, part, *rest)

    monkeypatch.setattr(DigitsSource, "read", watched)
    # The digests of all samples are computed beside the training, which sees none of the test set.
    monkeypatch.setattr(samples, "kind_of", lambda recipe: SimpleNamespace(contents=lambda *_: {}))
    assert train(RECIPE, tmp_path / "run", silent())
    assert asked == ["train"]
    found = evaluate(Run(tmp_path / "run"), "cpu")
    scores, images = found.scores, found.images
    assert asked == ["train", "test"]
    assert len(images) == len(scores.labels) == 359
    assert read_json(tmp_path / "run" / "evaluation.json")["accuracy"] == scores.accuracy


def test_validation_samples_are_never_trained_on(tmp_path, monkeypatch):
    """Every image has its index in two pixels, and the indices that the loss receives are recorded."""
    read = DigitsSource.read

    def numbered(self: DigitsSource, *arguments: object) -> object:
        images = read(self, *arguments)
        pixels = images.pixels.pixels.clone()
        pixels[:, 0, 0, 0] = (torch.arange(len(images)) // 256).to(torch.uint8)
        pixels[:, 0, 0, 1] = (torch.arange(len(images)) % 256).to(torch.uint8)
        return replace(images, pixels=InMemory(pixels))

    seen: dict[str, list[int]] = {"trained": [], "validated": []}

    def numbers(inputs: torch.Tensor, model: torch.nn.Module) -> list[int]:
        mean, std = (torch.tensor(value).view(1, -1, 1, 1) for value in vars(model.card.normalization).values())
        pixels = ((inputs * std + mean) * 255).round().long()
        return (pixels[:, 0, 0, 0] * 256 + pixels[:, 0, 0, 1]).tolist()

    class Watched(image_task.Classification):
        def __call__(self, piece: Batch, batch: Batch) -> object:
            seen["trained"] += numbers(piece.inputs, self.model)
            return super().__call__(piece, batch)

    score = image_task.score

    def watched(model, batches, classes, group):
        kept = list(batches)
        seen["validated"] += [number for batch in kept for number in numbers(batch.inputs, model)]
        return score(model, kept, classes, group)

    monkeypatch.setattr(DigitsSource, "read", numbered)
    monkeypatch.setattr(image_task, "Classification", Watched)
    monkeypatch.setattr(image_task, "score", watched)
    plain = tiny_recipe("augmentation.flip=0", "augmentation.shift=0", "augmentation.random_erasing=0", "epochs=4")
    assert train(plain, tmp_path / "run", silent())
    trained, validated = set(seen["trained"]), set(seen["validated"])
    assert len(seen["trained"]) == 4 * STEPS * 128
    assert len(seen["validated"]) == 4 * len(validated)
    assert not trained & validated
    assert trained | validated == set(range(1438))


def test_an_own_validation_split_is_used_and_all_training_samples_are_trained_on(tmp_path):
    for part, count in (("train", 6), ("val", 2), ("test", 3)):
        write_classes(tmp_path / part, count=count)
    material = recipe_run.build_task(tiny_recipe(f"data={tmp_path}"), silent())
    assert material.train.images.labels.bincount().tolist() == [6, 6]
    assert material.held.images.labels.bincount().tolist() == [2, 2]
    assert material.held.images.pixels.take(torch.tensor([3])).equal(
        decode(tmp_path / "val/dog/1.png", ImageFormat(8, 1))[None]
    )
