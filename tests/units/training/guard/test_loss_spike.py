"""A loss spike: the run is rewound and skips the batches; a kill does not change the result."""

import json
from pathlib import Path

import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.image.batches import Batch
from patchword.objectives.classification import Outcome
from patchword.recipes import train as recipe_run
from patchword.recipes.image import task as image_task
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.train import train
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.guard import loss_spike as loss_spike
from patchword.training.guard.loss_spike import WIDTH, LossSpike, LossSpikeRewind
from patchword.training.guard.report import StepIndex
from patchword.training.state import State
from support.material import differing, silent, tiny_recipe
from support.tiny_texts import stop_after

RISE = 36  # the step, of 40, whose batch has the high loss
LAST = Path("checkpoints") / "epoch-00001-batch-0000000"


def recipe_of(*fields: str) -> Recipe:
    return tiny_recipe("batch_size=32", "epochs=1", "loss_spike_factor=4", "learning_rate=1e-3", *fields)


@pytest.fixture(autouse=True)
def planted(monkeypatch):
    """One sample, in the batch of step RISE, has a loss 200 times as large; snapshots are frequent."""
    batches = recipe_run.build_task(recipe_of(), silent()).data(0, 0)
    sample = next(int(batch.samples[3]) for number, batch in enumerate(batches) if number == RISE)

    class Steep(image_task.Classification):
        def __call__(self, piece: Batch, batch: Batch) -> Outcome:
            outcome = super().__call__(piece, batch)
            factor = 200 if (piece.samples == sample).any() else 1
            return Outcome(factor * outcome.loss, outcome.right)

    monkeypatch.setattr(image_task, "Classification", Steep)
    monkeypatch.setattr(loss_spike, "SNAPSHOT_EVERY", 15)


class Killed(BaseException):
    pass


def state(folder: Path) -> dict[str, object]:
    return {**json.loads((folder / LAST / "state.json").read_text()), "seconds": 0}


def assert_the_same(folder: Path, whole: Path) -> None:
    for file in ("model.safetensors", LAST / "tensors.safetensors"):
        assert differing(folder / file, whole / file) == []
    assert state(folder) == state(whole)


def test_the_result_is_that_of_a_run_without_the_batches(tmp_path, monkeypatch):
    console = silent()
    assert train(recipe_of(), tmp_path / "run", console)
    skipped = list(range(RISE - WIDTH + 1, RISE + 1))
    assert state(tmp_path / "run")["skipped_steps"] == skipped
    assert state(tmp_path / "run")["seen"] == 0
    output = " ".join(console.file.getvalue().split())
    assert (
        output.count("the loss is above 4 times its median. The run is rewound to step 16 and skips steps 30 to 37")
        == 1
    )

    def assembled(*arguments: object) -> object:
        loop = assemble(*arguments)
        loop.state.skipped_steps = skipped
        return loop

    assemble = recipe_run.assemble
    monkeypatch.setattr(recipe_run, "assemble", assembled)
    assert train(recipe_of("loss_spike_factor=0"), tmp_path / "without", silent())
    tensors = LAST / "tensors.safetensors"
    assert differing(tmp_path / "run" / tensors, tmp_path / "without" / tensors) == []
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("stops", "field"),
    [
        ((RISE - 4, RISE + 3), "save_minutes=1"),  # within the spike, and after the rewind
        pytest.param(range(RISE - 9, RISE + 18, 2), "save_minutes=0", marks=pytest.mark.slow),
    ],
    ids=["saved then", "saved at every step"],
)
def test_a_stop_anywhere_does_not_change_the_result(tmp_path, monkeypatch, stops, field):
    assert train(recipe_of(), tmp_path / "whole", silent())
    for steps in stops:
        folder = tmp_path / f"run-{steps}"
        with monkeypatch.context() as patch:
            stop_after(patch, steps)
            assert not train(recipe_of(field), folder, silent())
        assert train(recipe_of(), folder, silent(), resume=True)
        assert_the_same(folder, tmp_path / "whole")


def test_without_the_field_nothing_is_kept_or_skipped(tmp_path):
    assert train(recipe_of("loss_spike_factor=0"), tmp_path / "run", silent())
    assert not (tmp_path / "run" / "checkpoints" / "rewind").exists()
    assert (state(tmp_path / "run")["skipped_steps"], state(tmp_path / "run")["recent_losses"]) == ([], [])


def test_a_factor_of_one_or_less_is_refused(tmp_path):
    with pytest.raises(
        UserError, match=r"recipe field 'loss_spike_factor': expected 0, or a number above 1, e\.g\. 3, got 0\.5"
    ):
        train(recipe_of("loss_spike_factor=0.5"), tmp_path / "run", silent())


def test_a_spike_belongs_to_one_epoch(tmp_path):
    rewind, now = LossSpikeRewind(2.0, tmp_path, print), State(recent_losses=[1.0] * 60)
    with pytest.raises(LossSpike) as found:
        rewind.record(now, StepIndex(3, 2, 302), 100.0)
    assert (found.value.first, found.value.last) == (300, 302)


@pytest.mark.parametrize("losses", [[1.0] * 20, [1.0] * 40 + [1.9] * 8, [-1.0] * 60, [5 - 0.04 * x for x in range(99)]])
def test_no_spike_is_seen_where_there_is_none(tmp_path, losses):
    now = State()
    for number, loss in enumerate(losses):
        LossSpikeRewind(2.0, tmp_path, print).record(now, StepIndex(0, number, number), loss)


def test_the_run_stops_after_too_many_spikes(tmp_path):
    rewind = LossSpikeRewind(2.0, tmp_path, print)
    rewind.save_snapshot(State(), {"weight": torch.zeros(1)})
    assert rewind.rewind(LossSpike(1, 8), State())[1]["skipped_steps"] == list(range(1, 9))
    with pytest.raises(UserError, match=r"the loss rose above 2 times its median again, at step 99"):
        rewind.rewind(LossSpike(91, 98), State(skipped_steps=list(range(80))))


def test_a_kill_during_a_rewind_loses_nothing(tmp_path, monkeypatch):
    """Later checkpoints stay until the restored state is saved."""
    assert train(recipe_of("save_minutes=0"), tmp_path / "whole", silent())
    folder, there = tmp_path / "run", []

    def outdated(checkpoints: Checkpoints, name: str) -> None:
        mark_outdated(checkpoints, name)
        there.extend(found.name for found in checkpoints.all())
        raise Killed

    mark_outdated = Checkpoints.mark_outdated
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "mark_outdated", outdated)
        with pytest.raises(Killed):
            train(recipe_of("save_minutes=0"), folder, silent())
    assert there == ["epoch-00000-batch-0000035", "epoch-00000-batch-0000036"]
    console = silent()
    assert train(recipe_of("save_minutes=0"), folder, console, resume=True)
    assert "resuming from epoch 1, batch 37" in console.file.getvalue()
    assert_the_same(folder, tmp_path / "whole")


def test_outdated_checkpoints_are_removed_after_the_next_save(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for number in (1, 2, 3):
        checkpoints.save(f"epoch-{number}", {"weight": torch.zeros(1)}, {"way": 1})
    checkpoints.mark_outdated("epoch-2")
    assert [folder.name for folder in checkpoints.all()] == ["epoch-1", "epoch-2", "epoch-3"]
    checkpoints.save("epoch-2", {"weight": torch.ones(1)}, {"way": 2})
    assert [folder.name for folder in checkpoints.all()] == ["epoch-1", "epoch-2"]
    tensors, values = checkpoints.newest(pytest.fail)
    assert (float(tensors["weight"]), values["way"]) == (1, 2)
