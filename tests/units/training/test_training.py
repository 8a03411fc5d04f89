import json
import math
import shutil
import threading
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from patchword.core.errors import UserError
from patchword.data.image.batches import Batch
from patchword.objectives.classification import Classification
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.lock.lock import exclusive
from patchword.training.loop import Loop, State, Validation
from patchword.training.optimizer import adamw, optimizer_tensors, restore_optimizer
from patchword.training.run_log import read_metrics
from patchword.training.schedule import WarmupCosine
from patchword.training.signals import interruptible
from patchword.training.step import PlainStep
from patchword.training.weight_average import WeightAverage
from support.helpers import tiny, unequal_tensors

# The optimizer


@pytest.mark.parametrize("name", ["vit-tiny-16", "deit-tiny-distilled"])
def test_only_matrices_are_decayed(name):
    model = tiny(name)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed, spared = ({names[id(p)] for p in group["params"]} for group in adamw(model, 1e-3, 0.05).param_groups)
    assert decayed | spared == set(names.values())
    assert not decayed & spared
    assert "stages.0.prefix.tokens" in spared
    assert "stages.0.positions.table" in spared
    for parameter in spared - {"stages.0.prefix.tokens", "stages.0.positions.table"}:
        assert model.get_parameter(parameter).ndim == 1, parameter
    for parameter in decayed:
        assert model.get_parameter(parameter).ndim >= 2, parameter
    assert "stages.0.stem.weight" in decayed


def test_decay_is_decoupled_and_only_where_it_should_be():
    model = tiny()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = adamw(model, learning_rate=0.1, weight_decay=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        factor = 1 - 0.1 * 0.5 if name.endswith("weight") and parameter.ndim >= 2 else 1
        assert torch.allclose(parameter, before[name] * factor), name


def test_frozen_weights_are_not_optimized():
    model = tiny()
    model.norm.requires_grad_(False)
    given = [p for group in adamw(model, 1e-3, 0.05).param_groups for p in group["params"]]
    assert len(given) == len(list(model.parameters())) - 2


def test_an_optimizer_is_restored_from_a_checkpoint(tmp_path):
    def trained(model, optimizer, steps):
        for step in steps:
            torch.manual_seed(step)
            model(torch.randn(3, 3, 32, 32)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return model

    whole = tiny()
    whole_optimizer = adamw(whole, 1e-2, 0.1)
    trained(whole, whole_optimizer, range(2))
    Checkpoints(tmp_path).save("epoch-0", optimizer_tensors(whole_optimizer), {})
    halved = tiny()
    halved.load_state_dict(whole.state_dict())
    optimizer = adamw(halved, 1e-2, 0.1)
    restore_optimizer(optimizer, Checkpoints(tmp_path).newest(print)[0])
    trained(whole, whole_optimizer, range(2, 5))
    trained(halved, optimizer, range(2, 5))
    assert unequal_tensors(whole, halved) == []
    assert optimizer.param_groups[1]["weight_decay"] == 0


# The schedule


def test_the_rate_rises_to_its_peak_and_falls_to_its_floor():
    schedule = WarmupCosine(peak=2.0, total=110, warmup=10, floor=0.1)
    assert schedule(0) == pytest.approx(0.2)
    assert schedule(9) == pytest.approx(2.0)
    assert schedule(10) == pytest.approx(2.0)
    assert schedule(60) == pytest.approx(2 * (0.1 + 0.9 / 2))
    assert schedule(110) == pytest.approx(0.2)
    assert schedule(500) == pytest.approx(0.2)
    rates = [schedule(step) for step in range(111)]
    assert all(low < high for low, high in pairwise(rates[:10]))
    assert all(high > low for high, low in pairwise(rates[10:]))


@pytest.mark.parametrize(("total", "warmup"), [(1, 0), (1, 1), (5, 0), (5, 5)])
def test_short_runs_have_a_rate_too(total, warmup):
    schedule = WarmupCosine(1.0, total, warmup)
    assert all(0 < schedule(step) <= 1 for step in range(total))


def test_without_warmup_and_floor_it_is_half_a_cosine():
    schedule = WarmupCosine(3.0, 8)
    assert [schedule(step) for step in range(9)] == pytest.approx(
        [3 * (1 + math.cos(math.pi * step / 8)) / 2 for step in range(9)]
    )


# The step


def gradients_and_weights(micro_batches: int, clip_norm: float = 0.0, count: int = 10, smoothing: float = 0.1):
    """One step of a tiny model; the gradient is copied before the weights change."""
    model = tiny().train()
    optimizer = adamw(model, 1e-3, 0.05)
    caught: dict[str, torch.Tensor] = {}

    def catch(*_: object) -> None:
        caught.update({name: parameter.grad.clone() for name, parameter in model.named_parameters()})

    optimizer.register_step_pre_hook(catch)
    torch.manual_seed(3)
    inputs, labels = torch.randn(count, 3, 32, 32), torch.randint(0, 7, (count,))
    step = PlainStep(Classification(model, smoothing), optimizer, clip_norm=clip_norm, micro_batches=micro_batches)
    result = step(batch_of(inputs, labels), 1e-3)
    return caught, dict(model.named_parameters()), result, (model, inputs, labels)


def batch_of(inputs: torch.Tensor, labels: torch.Tensor) -> Batch:
    return Batch(inputs, labels, torch.arange(len(labels)))


def norm_of(tensors) -> float:
    return float(torch.stack([tensor.double().norm() for tensor in tensors]).norm())


@pytest.mark.parametrize("micro_batches", [2, 4, 10, 32])
def test_a_batch_in_micro_batches_is_the_same_step(micro_batches):
    """10 is not a multiple of 4, so the last micro-batch is smaller and must have less weight."""
    gradients, weights, (loss, right), _ = gradients_and_weights(micro_batches)
    whole_gradients, whole_weights, (whole_loss, whole_right), _ = gradients_and_weights(1)
    scale = max(float(gradient.abs().max()) for gradient in whole_gradients.values())
    for name in weights:
        assert (gradients[name] - whole_gradients[name]).abs().max() < 1e-6 * scale, name
        moved = (whole_gradients[name].abs() > 1e-4 * scale).float()  # Adam's first step is the sign of the gradient
        assert ((weights[name] - whole_weights[name]) * moved).abs().max() < 1e-6, name
    assert float(loss) == pytest.approx(float(whole_loss), rel=1e-5)
    assert float(right) == float(whole_right)


def test_a_step_returns_the_summed_loss_and_the_correct_predictions():
    _, _, (loss, right), (_, inputs, labels) = gradients_and_weights(micro_batches=3, smoothing=0.0)
    scores = tiny().train()(inputs).detach()
    assert float(loss) == pytest.approx(float(F.cross_entropy(scores, labels, reduction="sum")), rel=1e-5)
    assert float(right) == int((scores.argmax(1) == labels).sum())


def test_gradients_are_clipped_to_their_norm():
    free, *_ = gradients_and_weights(micro_batches=1)
    norm = norm_of(free.values())
    clipped, *_ = gradients_and_weights(micro_batches=1, clip_norm=norm / 4)
    assert norm_of(clipped.values()) == pytest.approx(norm / 4, rel=1e-4)
    for name, gradient in free.items():
        assert torch.allclose(clipped[name], gradient / 4, rtol=1e-3, atol=1e-8), name
    untouched, *_ = gradients_and_weights(micro_batches=1, clip_norm=norm * 4)
    assert all(torch.equal(untouched[name], gradient) for name, gradient in free.items())


def test_a_step_uses_the_given_learning_rate_and_resets_the_gradient():
    model = tiny()
    optimizer = adamw(model, 1.0, 0.0)
    before = model.head.linear.bias.detach().clone()
    PlainStep(Classification(model), optimizer)(batch_of(torch.randn(4, 3, 32, 32), torch.arange(4)), 0.25)
    moved = (model.head.linear.bias - before).abs().detach()
    assert moved == pytest.approx(torch.full_like(moved, 0.25), rel=1e-2)  # Adam's first step is the rate itself
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # torch's, on processors without bfloat16
def test_autocast_computes_in_half_precision_and_keeps_single_weights():
    seen = []
    model = tiny()
    model.head.linear.register_forward_hook(lambda _, __, answer: seen.append(answer.dtype))
    step = PlainStep(Classification(model), adamw(model, 1e-3, 0.0), precision="bfloat16")
    loss, _ = step(batch_of(torch.randn(4, 3, 32, 32), torch.arange(4)), 1e-3)
    assert seen == [torch.bfloat16]
    assert loss.dtype == torch.float32
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_smoothing_is_the_formula(smoothing):
    logits, labels = torch.randn(20, 7), torch.randint(0, 7, (20,))
    target = F.one_hot(labels, 7) * (1 - smoothing) + smoothing / 7
    by_hand = -(target * logits.log_softmax(1)).sum(1).mean()
    batch = batch_of(logits, labels)
    outcome = Classification(lambda inputs: inputs, smoothing)(batch, batch)
    assert float(outcome.loss) == pytest.approx(float(by_hand), rel=1e-5)
    assert int(outcome.right) == int((logits.argmax(1) == labels).sum())


# The average


def test_the_average_is_its_recurrence():
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.9)
    by_hand = {name: parameter.detach().double().clone() for name, parameter in model.named_parameters()}
    for step in range(1, 201):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        average.update(step)
        decay = min(0.9, (1 + step) / (10 + step))
        for name, parameter in model.named_parameters():
            by_hand[name] = decay * by_hand[name] + (1 - decay) * parameter.detach().double()
    for name, expected in by_hand.items():
        assert torch.allclose(average.shadow[name].double(), expected, atol=1e-5), name
        assert not torch.allclose(model.get_parameter(name).double(), expected, atol=1e-2), name


def test_the_average_is_in_the_model_only_inside():
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.9)
    before = {name: tensor.clone() for name, tensor in average.shadow.items()}
    with torch.no_grad():
        model.weight.add_(1)
    with average.applied():
        assert torch.equal(model.weight, before["weight"])
    assert torch.equal(model.weight, before["weight"] + 1)
    assert torch.equal(average.shadow["weight"], before["weight"])


def test_the_average_is_removed_from_the_model_after_an_error():
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.9)
    with torch.no_grad():
        model.weight.add_(1)
    before = model.weight.detach().clone()

    def fail() -> None:
        with average.applied():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert torch.equal(model.weight, before)


def test_without_decay_the_average_is_the_model_itself():
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.0)
    before = model.weight.detach().clone()
    average.update(1)
    with average.applied():
        assert torch.equal(model.weight, before)
    assert average.shadow == {}


# Checkpoints


def place(batch: int) -> str:
    return f"epoch-00000-batch-{batch:07d}"


@pytest.fixture
def two(tmp_path):
    """Two checkpoints, of batch 1 and of batch 2."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for batch in (1, 2):
        checkpoints.save(place(batch), {"weight": torch.full((64,), float(batch))}, {"batch": batch})
    return checkpoints


def test_the_newest_checkpoint_is_read(two):
    tensors, state = two.newest(pytest.fail)
    assert state == {"batch": 2}
    assert torch.equal(tensors["weight"], torch.full((64,), 2.0))


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("file", "damage", "reason"),
    [
        ("tensors.safetensors", flip_a_bit, "tensors.safetensors has changed"),
        ("tensors.safetensors", truncate, "tensors.safetensors has changed"),
        ("tensors.safetensors", lambda path: path.write_bytes(b""), "tensors.safetensors has changed"),
        ("tensors.safetensors", lambda path: path.unlink(), "cannot be used"),
        ("state.json", flip_a_bit, "state.json has changed"),
        ("state.json", lambda path: path.unlink(), "cannot be used"),
        ("manifest.json", lambda path: path.unlink(), "cannot be used"),
        ("manifest.json", truncate, "cannot be used"),
        ("manifest.json", lambda path: path.write_text("[]"), "cannot be used"),
        ("manifest.json", lambda path: path.write_text("{}"), "cannot be used"),
        ("manifest.json", lambda path: path.write_bytes(b"\xff"), "cannot be used"),
    ],
)
def test_a_damaged_checkpoint_is_skipped_with_a_message(two, file, damage, reason):
    damage(two.folder / place(2) / file)
    messages = []
    tensors, state = two.newest(messages.append)
    assert state == {"batch": 1}
    assert float(tensors["weight"][0]) == 1
    assert len(messages) == 1
    assert messages[0].startswith(f"checkpoint {place(2)} is skipped: ")
    assert reason in messages[0]


def test_when_all_are_damaged_there_is_no_checkpoint(two):
    for batch in (1, 2):
        truncate(two.folder / place(batch) / "tensors.safetensors")
    messages = []
    assert two.newest(messages.append) is None
    assert [line.split(" ")[1] for line in messages] == [place(2), place(1)]


def test_a_damaged_checkpoint_is_written_again_in_its_place(two):
    truncate(two.folder / place(2) / "tensors.safetensors")
    two.save(place(2), {"weight": torch.full((64,), 5.0)}, {"batch": 2})
    tensors, _ = two.newest(pytest.fail)
    assert float(tensors["weight"][0]) == 5


def test_half_written_folders_are_never_read_and_are_removed(two):
    for name in (f".{place(3)}.4711.tmp", f".{place(1)}.old"):
        shutil.copytree(two.folder / place(2), two.folder / name)
    assert two.newest(pytest.fail)[1] == {"batch": 2}
    two.save(place(4), {"weight": torch.zeros(1)}, {"batch": 4})
    assert sorted(path.name for path in two.folder.iterdir()) == [place(2), place(4)]


def test_only_the_last_two_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for batch in range(5):
        checkpoints.save(place(batch), {"weight": torch.zeros(1)}, {"batch": batch})
        assert len(list(tmp_path.iterdir())) == min(2, batch + 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [place(3), place(4)]


def test_a_save_that_fails_leaves_the_old_ones(two, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("patchword.training.checkpoint.checkpoint.flush", full)
    with pytest.raises(UserError, match=rf"cannot write the checkpoint .*{place(3)}: got No space left on device"):
        two.save(place(3), {"weight": torch.zeros(1)}, {"batch": 3})
    assert sorted(path.name for path in two.folder.iterdir()) == [place(1), place(2)]
    assert two.newest(pytest.fail)[1] == {"batch": 2}


def test_everything_is_on_the_disk_before_the_name(tmp_path, monkeypatch):
    """The safe order: flush the files and their folder, rename, then flush the parent folder."""
    flushed = []

    def record(path):
        flushed.append((path.name, (tmp_path / place(1)).exists()))

    monkeypatch.setattr("patchword.training.checkpoint.checkpoint.flush", record)
    Checkpoints(tmp_path).save(place(1), {"weight": torch.zeros(1)}, {"batch": 1})
    names = [name for name, _ in flushed]
    assert names[:3] == ["tensors.safetensors", "state.json", "manifest.json"]
    assert names[3].startswith(f".{place(1)}")
    assert flushed[4] == (tmp_path.name, True)
    assert not any(named for _, named in flushed[:4])


def test_a_folder_without_checkpoints_has_none(tmp_path):
    assert Checkpoints(tmp_path / "nothing").newest(pytest.fail) is None


# The loop


class RecordingLog:
    """A log that keeps the records."""

    def __init__(self) -> None:
        self.records, self.stars, self.stopped = [], [], 0

    def start(self, state, epochs, steps_per_epoch) -> None: ...
    def step(self, state, loss, accuracy) -> None: ...

    def epoch(self, record, state) -> None:
        self.records.append(record)
        self.stars.append(state.epochs_since_best == 0)

    def stop(self) -> None:
        self.stopped += 1


def loop_of(tmp_path, accuracies: list[float], losses: list[float] | None = None, **options) -> Loop:
    """A loop over random data with given validation scores and losses."""
    model = nn.Linear(2, 2)
    optimizer = adamw(model, 0.1, 0.0)
    answers, kept = iter(zip(losses or [1.0] * len(accuracies), accuracies, strict=True)), []
    loop = Loop(
        model=model,
        optimizer=optimizer,
        step=PlainStep(Classification(model), optimizer),
        schedule=WarmupCosine(0.1, 3 * len(accuracies)),
        average=WeightAverage(model, 0.0),
        data=lambda _, first: (batch_of(torch.randn(4, 2), torch.tensor([0, 1, 0, 1])) for _ in range(first, 3)),
        validate=lambda: Validation(*next(answers)),
        save_best=lambda: kept.append(model.weight.detach().clone()),
        checkpoints=Checkpoints(tmp_path / "checkpoints"),
        run_log=RecordingLog(),
        step_seed=lambda step: step,
        epochs=len(accuracies),
        steps_per_epoch=3,
        **options,
    )
    loop.kept = kept
    return loop


def test_the_best_weights_are_kept_and_marked(tmp_path):
    loop = loop_of(tmp_path, [0.5, 0.4, 0.6, 0.6, 0.7])
    assert loop.run()
    assert loop.run_log.stars == [True, False, True, False, True]  # an equal score with an equal loss is not better
    assert len(loop.kept) == 3
    assert (loop.state.best_score, loop.state.best_epoch, loop.state.step) == (0.7, 4, 15)
    assert loop.run_log.stopped == 1


def test_of_equal_scores_the_lower_loss_is_better(tmp_path):
    """On an easy set the score is perfect long before the probabilities are."""
    loop = loop_of(tmp_path, [0.9, 1.0, 1.0, 1.0, 0.9], [0.5, 0.4, 0.2, 0.3, 0.1])
    assert loop.run()
    assert loop.run_log.stars == [True, True, True, False, False]
    assert (loop.state.best_epoch, loop.state.best_loss) == (2, 0.2)


@pytest.mark.parametrize(("patience", "epochs"), [(0, 7), (1, 2), (2, 5), (3, 7)], ids=["never", "one", "two", "three"])
def test_training_stops_when_patience_is_out(tmp_path, patience, epochs):
    loop = loop_of(tmp_path, [0.5, 0.4, 0.6, 0.5, 0.5, 0.7, 0.1], patience=patience)
    assert loop.run()
    assert len(loop.run_log.records) == epochs


def test_a_run_out_of_patience_stays_finished(tmp_path):
    loop_of(tmp_path, [0.5, 0.4, 0.6], patience=1).run()
    again = loop_of(tmp_path, [0.5, 0.4, 0.6], patience=1)
    assert again.resume(pytest.fail)
    assert again.run()
    assert again.run_log.records == []


def test_records_have_the_means_of_an_epoch(tmp_path):
    loop = loop_of(tmp_path, [0.5, 0.75])
    results = []

    class Recorded(PlainStep):
        def __call__(self, *arguments):
            results.append(super().__call__(*arguments))
            return results[-1]

    loop.step = Recorded(loop.step.objective, loop.optimizer)
    loop.run()
    first = loop.run_log.records[0]
    assert first["loss"] == pytest.approx(sum(float(loss) for loss, _ in results[:3]) / 12)
    assert first["accuracy"] == pytest.approx(sum(float(right) for _, right in results[:3]) / 12)
    assert [record["epoch"] for record in loop.run_log.records] == [1, 2]
    assert [record["step"] for record in loop.run_log.records] == [3, 6]
    assert [record["validation_accuracy"] for record in loop.run_log.records] == [0.5, 0.75]
    assert first["learning_rate"] == loop.schedule(2)


def test_validation_sees_the_average_in_evaluation_mode(tmp_path):
    loop = loop_of(tmp_path, [0.5])
    loop.average = WeightAverage(loop.model, 0.5)
    seen = []

    def look() -> Validation:
        seen.append((loop.model.training, loop.model.weight.detach().clone()))
        return Validation(1.0, 0.5)

    loop.validate = look
    loop.run()
    (training, weight), *_ = seen
    assert not training
    assert torch.equal(weight, loop.average.shadow["weight"])
    assert not torch.equal(weight, loop.model.weight)
    assert torch.equal(loop.kept[0], weight)


def test_the_average_follows_every_step_of_the_run(tmp_path):
    loop, steps = loop_of(tmp_path, [0.5, 0.6]), []
    loop.average.update = steps.append
    loop.run()
    assert steps == [1, 2, 3, 4, 5, 6]


def test_the_log_is_stopped_when_training_fails(tmp_path):
    loop = loop_of(tmp_path, [0.5])

    def fail() -> Validation:
        raise RuntimeError("out of memory")

    loop.validate = fail
    with pytest.raises(RuntimeError, match="out of memory"):
        loop.run()
    assert loop.run_log.stopped == 1


def test_a_state_is_restored_from_json():
    for state in (State(), State(best_score=0.1 + 0.2, loss=1 / 3, skipped_steps=[3, 4])):
        assert State.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_a_state_with_the_earlier_names_of_its_fields_is_read():
    earlier = {
        **{"step": 7, "epoch": 1, "batch": 3, "seen": 24, "loss": 1.5, "right": 20.0, "best": 0.75, "best_epoch": 0},
        **{"waited": 2, "seconds": 9.5, "parts": 4, "bad": 5, "bad_in_row": 1, "skipped": [2, 3], "losses": [0.5]},
    }
    state = State.from_dict(earlier)
    saved = state.to_dict()
    assert saved.pop("best_loss") == float("inf")  # which they did not have
    assert list(saved.values()) == list(earlier.values())
    assert (state.correct, state.best_score, state.epochs_since_best, state.micro_batches) == (20.0, 0.75, 2, 4)
    assert (state.nonfinite_steps, state.nonfinite_in_a_row) == (5, 1)
    assert (state.skipped_steps, state.recent_losses) == ([2, 3], [0.5])


# The lock, the signals, the log


def test_a_folder_has_one_process(tmp_path):
    def enter() -> None:
        with exclusive(tmp_path):
            pass

    with (
        exclusive(tmp_path),
        pytest.raises(UserError, match=r"is in use by another run: got process \d+ on \S+, since .*\n.*another --name"),
    ):
        enter()
    enter()  # free again


def test_signals_request_a_stop_and_do_not_kill():
    import os
    import signal

    before = signal.getsignal(signal.SIGTERM)
    with interruptible() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupted()
    assert signal.getsignal(signal.SIGTERM) is before


def test_outside_of_the_main_thread_no_stop_is_requested():
    answers = []

    def work() -> None:
        with interruptible() as interrupted:
            answers.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == [False]


def test_an_incomplete_log_line_is_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_metrics(path) == []
    path.write_text('{"epoch": 1}\n{"epoch": 2}\n{"epo')
    assert read_metrics(path) == [{"epoch": 1}, {"epoch": 2}]


def test_older_metrics_call_the_learning_rate_rate(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "rate": 0.5}\n')
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"epoch": 1, "learning_rate": 0.5}]
