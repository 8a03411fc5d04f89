"""A dry run: exact counts, estimates that agree with a real run, of every kind, and nothing written."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from patchword.data.image.batches import Batch
from patchword.recipes.kinds import KINDS
from patchword.recipes.train import build_task
from patchword.training.step import PlainStep
from patchword.tuning.dry_run import dry_run
from patchword.tuning.memory import activation_bytes, longest_texts
from patchword.tuning.trial_steps import TrialSteps
from support.material import everything_below, silent, tiny_recipe
from support.tiny.kinds import TINY, tiny_kind

PLAN = Path("runs/plan")


def test_every_kind_has_a_tiny_recipe():
    assert list(TINY) == [kind.name for kind in KINDS]


@pytest.mark.parametrize("kind", TINY)
def test_every_kind_says_what_it_will_do_and_writes_nothing(kind):
    recipe = tiny_kind(kind, "epochs=3")
    before = everything_below(Path.cwd())
    found = dry_run(recipe, PLAN, silent(), seconds=0)
    assert everything_below(Path.cwd()) == before
    assert found.steps == 3 * found.steps_per_epoch == 3 * build_task(recipe, silent()).steps_per_epoch()
    assert found.samples["training"] > found.samples["validation"] > 0
    assert found.macs.training == 3 * found.macs.forward > 0
    assert len(found.times.seconds) == 3
    assert found.memory.total > found.memory.weights + found.memory.activations > found.memory.weights
    assert min(found.seconds, found.disk) > 0
    text = str(found)
    assert f"= {found.steps:,} steps" in text
    assert json.loads(json.dumps(found.to_json()))["macs"]["epoch"] == found.macs_per_epoch


@pytest.mark.parametrize("kind", TINY)
def test_a_task_has_the_same_data_and_model_with_another_batch_size(kind):
    task = build_task(tiny_kind(kind), silent())
    other = task.with_batch_size(2 * task.recipe.batch_size)
    assert type(other) is type(task)
    assert other.model is task.model
    assert other.recipe.batch_size == 2 * task.recipe.batch_size
    assert other.samples() == task.samples()
    assert other.fingerprint() == task.fingerprint()
    assert 0 < other.steps_per_epoch() <= task.steps_per_epoch()
    assert len(list(other.data(0, 0))) == other.steps_per_epoch()


def test_the_fields_that_were_decided_are_named():
    found = dry_run(tiny_kind("text", "device=auto"), PLAN, silent(), seconds=0)
    device = str(build_task(tiny_kind("text", "device=auto"), silent()).device)
    packed = "true" if device.startswith("cuda") else "false"
    assert found.decided == {**found.decided, "device": device, "packed": packed, "metric": "accuracy"}
    fixed = dry_run(tiny_kind("text", "precision=float32", "packed=false", "metric=f1"), PLAN, silent(), seconds=0)
    assert fixed.decided == {}


def test_the_memory_of_a_known_model_is_exact():
    """The first layer keeps its input, ReLU and the second layer keep one tensor together; weights do not count."""
    model, inputs = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)), torch.rand(4, 8)
    plain = PlainStep(lambda micro_batch, batch: model(micro_batch.inputs).sum(), torch.optim.SGD(model.parameters()))
    trial = SimpleNamespace(task=SimpleNamespace(model=model), plain=plain)
    assert activation_bytes(trial, Batch(inputs, torch.zeros(4), torch.arange(4))) == 4 * (4 * 8 + 4 * 16)
    plain.micro_batches = 2
    assert activation_bytes(trial, Batch(inputs, torch.zeros(4), torch.arange(4))) == 4 * (4 * 8 + 2 * 16)


def test_texts_are_counted_at_their_mean_length_and_with_the_memory_of_the_longest():
    recipe = tiny_kind("text", "epochs=2")
    found, task = dry_run(recipe, PLAN, silent(), seconds=0), build_task(recipe, silent())
    lengths = task.train.examples.ids.lengths.double()
    assert lengths.min() < lengths.mean() < lengths.max()
    assert found.macs.input == f"text of {round(float(lengths.mean()))} tokens"
    trial, (longest,) = TrialSteps(task), longest_texts(task)
    assert longest.ids.lengths.min() >= lengths.sort(descending=True).values[len(longest) - 1]
    kept = activation_bytes(trial, longest)
    assert found.memory.activations >= kept > min(activation_bytes(trial, batch) for batch in task.data(0, 0))
    assert "stops early" not in str(found)
    assert "stops early (patience=3)" in str(dry_run(tiny_kind("text", "epochs=4"), PLAN, silent(), seconds=0))


def test_more_micro_batches_need_less_memory_and_the_weights_stay():
    whole, cut = (
        dry_run(tiny_recipe(f"gradient_accumulation={count}", "ema_decay=0"), PLAN, silent(), seconds=0).memory
        for count in (1, 4)
    )
    assert cut.activations < 0.4 * whole.activations
    assert (cut.weights, cut.optimizer, cut.average) == (whole.weights, 2 * whole.gradients, 0)


def test_frozen_weights_need_no_moments_and_are_counted():
    found = dry_run(tiny_recipe("freeze=backbone", "average_last_epochs=2"), PLAN, silent(), seconds=0)
    assert found.trained < found.parameters
    assert found.memory.optimizer == 2 * found.memory.gradients == 8 * found.trained
    assert found.memory.average == 8 * found.parameters
    assert f"{found.trained:,} of them trained" in str(found)


def test_sam_computes_two_gradients():
    plain, sharp = (dry_run(tiny_recipe(field), PLAN, silent(), seconds=0) for field in ("sam=0", "sam=0.05"))
    assert sharp.macs.training == 2 * plain.macs.training
