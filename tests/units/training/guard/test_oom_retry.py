"""Out of memory: the same gradient in smaller micro-batches, also in all later steps."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.data.image.batches import Batch
from patchword.layers.model import Model
from patchword.objectives.classification import Classification, Outcome
from patchword.objectives.distillation.answers import SoftTargets
from patchword.objectives.distillation.distillation import Distillation, Recorded, Weighted, frozen
from patchword.recipes.image import task as image_task
from patchword.recipes.run import Run
from patchword.recipes.train import train
from patchword.training.guard.nonfinite import NonFiniteGuard
from patchword.training.guard.oom_retry import OomRetry
from patchword.training.optimizer import adamw
from patchword.training.sam import SharpnessAware, Steepest
from patchword.training.state import State
from patchword.training.step import PlainStep
from support.batch_norm_model import SIZE, assert_equal, batch_of
from support.batch_norm_model import model_of as with_batch_norms
from support.helpers import tiny
from support.material import differing, silent, tiny_recipe
from support.tiny_texts import stop_after


class Small:
    """An objective that runs out of memory with more than `limit` samples, after `calls` calls."""

    error = torch.OutOfMemoryError("CUDA out of memory")

    def __init__(self, objective: object, limit: int, calls: int = 0) -> None:
        self.objective, self.limit, self.calls, self.sizes = objective, limit, calls, []

    def __call__(self, piece: Batch, batch: Batch) -> Outcome:
        self.sizes.append(len(piece.samples))
        outcome = self.objective(piece, batch)  # changes statistics and draws random numbers before it fails
        if len(piece.samples) > self.limit and len(self.sizes) > self.calls:
            raise self.error
        return outcome


def random_model() -> Model:
    return tiny("vit-tiny-16", dropout=0.2, drop_path=0.2).train()


def taught(model: Model) -> Distillation:
    teacher = frozen(tiny(seed=1))
    lessons = [Weighted(0.5, SoftTargets(2.0))]
    return Distillation(
        lambda answer: Classification(answer),
        lambda images: Recorded(model(images)),
        lambda images: Recorded(teacher(images)),
        lessons,
        0.5,
    )


def guard_of(model: nn.Module, objective: object, folder: Path, sam: float = 0.0, **options: object) -> NonFiniteGuard:
    plain = PlainStep(objective, adamw(model, 1e-2, 0.05), **options)
    step = SharpnessAware(plain, model, Steepest(sam)) if sam else plain
    messages: list[str] = []
    guard = NonFiniteGuard(OomRetry(step, plain, model, messages.append), plain, model, folder, messages.append)
    guard.messages = messages
    return guard


def taken(guard: NonFiniteGuard, steps: int) -> list[Tensor]:
    state, results = State(), []
    for number in range(steps):
        torch.manual_seed(number)
        batch = batch_of(number)
        results += guard(batch, 1e-2)
        state.step, state.batch, state.seen = state.step + 1, state.batch + 1, state.seen + batch.weight
        guard.on_step(state, batch)
    assert state.micro_batches == (guard.plain.micro_batches if guard.messages else 0)
    return results


@pytest.mark.parametrize("model", [random_model, with_batch_norms], ids=["dropout", "batch norm"])
@pytest.mark.parametrize(
    "options", [{}, {"sam": 0.05}, {"clip_norm": 0.5, "micro_batches": 2}], ids=["plain", "sam", "parts"]
)
def test_the_result_is_that_of_a_run_with_as_many_micro_batches(tmp_path, model, options):
    """Bit-equal: a failed try changes neither gradients nor statistics nor random numbers."""
    ours, theirs = model(), model()
    small = Small(Classification(ours, 0.1), limit=3)
    guard = guard_of(ours, small, tmp_path, **options)
    other = guard_of(theirs, Classification(theirs, 0.1), tmp_path, **{**options, "micro_batches": 4})
    assert all(torch.equal(a, b) for a, b in zip(taken(guard, 2), taken(other, 2), strict=True))
    assert guard.plain.micro_batches == 4
    assert_equal(guard, other)
    pieces = [2] * ("micro_batches" not in options) + [4]
    assert guard.messages == [
        f"out of memory: each batch is now computed in {count} micro-batches; "
        "the batch size and the gradient stay the same"
        for count in pieces
    ]
    assert set(small.sizes[len(pieces) :]) >= {3}


def test_the_gradient_is_that_of_the_whole_batch(tmp_path):
    caught: list[list[Tensor]] = []
    for limit in (SIZE, 1):
        model = tiny().train()
        guard = guard_of(model, Small(Classification(model, 0.1), limit), tmp_path)
        guard.plain.optimizer.register_step_pre_hook(
            lambda *_, model=model: caught.append([weight.grad.clone() for weight in model.parameters()])
        )
        taken(guard, 1)
    scale = max(float(gradient.abs().max()) for gradient in caught[0])
    assert all((a - b).abs().max() < 1e-6 * scale for a, b in zip(*caught, strict=True))
    assert guard.plain.micro_batches == SIZE


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # torch's, on processors without bfloat16
def test_in_half_precision_too(tmp_path):
    ours, theirs = random_model(), random_model()
    guard = guard_of(ours, Small(Classification(ours), limit=6), tmp_path, precision="bfloat16")
    other = guard_of(theirs, Classification(theirs), tmp_path, precision="bfloat16", micro_batches=2)
    taken(guard, 1)
    taken(other, 1)
    assert_equal(guard, other)


def test_micro_batches_before_the_failure_do_not_count_twice(tmp_path):
    ours, theirs = random_model(), random_model()
    guard = guard_of(ours, Small(Classification(ours), limit=3, calls=1), tmp_path, micro_batches=2)
    other = guard_of(theirs, Classification(theirs), tmp_path, micro_batches=4)
    taken(guard, 1)
    taken(other, 1)
    assert_equal(guard, other)


def test_both_gradients_of_sam_are_computed_again(tmp_path):
    """Also if only the second one failed: both must use the same dropout."""
    ours, theirs = random_model(), random_model()
    guard = guard_of(ours, Small(Classification(ours, 0.1), limit=6, calls=1), tmp_path, sam=0.05)
    other = guard_of(theirs, Classification(theirs, 0.1), tmp_path, sam=0.05, micro_batches=2)
    taken(guard, 2)
    taken(other, 2)
    assert_equal(guard, other)


def test_a_student_is_taught_the_same(tmp_path):
    ours, theirs = random_model(), random_model()
    guard = guard_of(ours, Small(taught(ours), limit=3), tmp_path)
    other = guard_of(theirs, taught(theirs), tmp_path, micro_batches=4)
    taken(guard, 2)
    taken(other, 2)
    assert_equal(guard, other)


def test_a_sample_that_does_not_fit_is_reported(tmp_path):
    model = tiny().train()
    guard = guard_of(model, Small(Classification(model), limit=0), tmp_path)
    with pytest.raises(UserError, match=rf"a batch does not fit into memory in {SIZE} micro-batches\n.*smaller model"):
        taken(guard, 1)


@pytest.mark.parametrize(
    ("limit", "micro_batches", "message"),
    [
        (3, 1, r"into memory as a whole\nresume with twice as many micro-batches:\nagain gradient_accumulation=6$"),
        (0, SIZE, rf"in {SIZE} micro-batches\n.*smaller model.*\nagain activation_checkpointing=true$"),
    ],
)
def test_several_processes_stop_with_the_command_to_resume(tmp_path, monkeypatch, limit, micro_batches, message):
    """Three processes, so that each computes a third of the requested micro-batches."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    model = tiny().train()
    guard = guard_of(model, Small(Classification(model), limit), tmp_path, micro_batches=micro_batches)
    guard.step.resume_command = "again"
    with pytest.raises(UserError, match=message):
        taken(guard, 1)


def test_a_run_can_be_resumed_with_settings_that_save_memory(tmp_path, monkeypatch):
    """With more micro-batches than before; it is the same run up to rounding."""
    recipe, sizes, gradient = tiny_recipe("epochs=1"), [], PlainStep.gradient

    def watched(self: PlainStep, batch: Batch) -> tuple[Tensor, Tensor]:
        sizes.append(self.micro_batches)
        return gradient(self, batch)

    monkeypatch.setattr(PlainStep, "gradient", watched)
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        assert not train(recipe, tmp_path / "run", silent())
    more = recipe.with_settings(["gradient_accumulation=2", "activation_checkpointing=true", "device=cpu:0"])
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert not train(more, tmp_path / "run", silent(), resume=True)
    assert sizes == [1] * 3 + [2] * 2
    assert Run(tmp_path / "run").recipe().gradient_accumulation == 2


def test_requested_micro_batches_and_those_after_running_out_of_memory(tmp_path):
    guard = guard_of(tiny(), None, tmp_path, micro_batches=4)
    for forced, micro_batches in ((0, 4), (2, 4), (8, 8)):
        guard.on_resume(State(micro_batches=forced))
        assert guard.plain.micro_batches == micro_batches


def test_the_cpu_allocator_has_another_message(tmp_path):
    """This is what torch raises if the system has no memory."""
    model = tiny().train()
    small = Small(Classification(model), limit=6)
    with pytest.raises(RuntimeError, match=r"not enough memory|can't allocate memory") as raised:
        torch.empty(2**60)
    small.error = raised.value
    guard = guard_of(model, small, tmp_path)
    taken(guard, 1)
    assert guard.plain.micro_batches == 2


def test_other_errors_are_raised(tmp_path):
    def fails(piece: Batch, batch: Batch) -> Outcome:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        taken(guard_of(tiny(), fails, tmp_path), 1)


def test_a_resumed_run_keeps_the_number_of_micro_batches(tmp_path, monkeypatch):
    """The fourth step runs out of memory; the resumed run has enough, and keeps the micro-batches."""
    full = {"calls": 3}

    class Once(image_task.Classification):
        def __call__(self, piece: Batch, batch: Batch) -> Outcome:
            full["calls"] -= 1
            if full["calls"] < 0 and len(piece.samples) > 64:
                raise torch.OutOfMemoryError
            return super().__call__(piece, batch)

    recipe = tiny_recipe("epochs=1")
    monkeypatch.setattr(image_task, "Classification", Once)
    assert train(recipe, tmp_path / "whole", silent())
    full["calls"] = 3
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        assert not train(recipe, tmp_path / "run", silent())
    full["calls"] = 1000
    assert train(recipe, tmp_path / "run", silent(), resume=True)
    assert differing(tmp_path / "run" / "model.safetensors", tmp_path / "whole" / "model.safetensors") == []
    assert full["calls"] == 1000 - 2 * 5  # two micro-batches for each of the remaining steps
