"""steps.jsonl and confusion.jsonl: bounded, readable after a kill, cut back on resume, and never in the way."""

import itertools
import json

import pytest

from patchword.recipes.train import assemble, build_task, train
from patchword.training import progress_files
from patchword.training.progress_files import BoundedLines, ConfusionLog, RecordedSteps, read_lines
from patchword.training.state import State, Validation
from support.material import differing, silent, tiny_recipe


class Silent:
    """The log around which the steps are recorded."""

    def start(self, *_) -> None: ...
    def step(self, *_) -> None: ...
    def epoch(self, *_) -> None: ...
    def stop(self) -> None: ...


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(progress_files, "STEP_SECONDS", 0)


def steps(folder) -> list[int]:
    return [record["step"] for record in read_lines(folder / "steps.jsonl")]


def stopped_run(folder, at: int, **fields: str):
    """Train the tiny recipe, stopped after `at` steps."""
    recipe = tiny_recipe(*(f"{name}={value}" for name, value in fields.items()))
    folder.mkdir(exist_ok=True)
    loop = assemble(recipe, build_task(recipe, silent()), folder, silent())
    loop.resume(lambda _: None)
    loop.interrupted = lambda: loop.state.step == at
    return loop, loop.run()


def test_a_run_records_its_steps_and_confusion(tmp_path, every_step):
    recipe = tiny_recipe()
    assert train(recipe, tmp_path / "run", silent())
    records = read_lines(tmp_path / "run" / "steps.jsonl")
    metrics = read_lines(tmp_path / "run" / "metrics.jsonl")
    per_epoch = metrics[0]["step"]
    assert [record["step"] for record in records] == list(range(1, 2 * per_epoch + 1))
    assert records[per_epoch - 1]["epoch"] == 1
    assert records[per_epoch]["epoch"] == pytest.approx(1 + 1 / per_epoch, abs=1e-4)
    assert records[-1]["learning_rate"] == pytest.approx(metrics[-1]["learning_rate"], rel=1e-5, abs=1e-9)
    # all batches but the last one of an epoch have 128 images: means of steps give the mean of the epoch
    matrices = read_lines(tmp_path / "run" / "confusion.jsonl")
    assert [matrix["epoch"] for matrix in matrices] == [1, 2]
    for matrix, record in zip(matrices, metrics, strict=True):
        right = sum(row[index] for index, row in enumerate(matrix["counts"]))
        assert right / sum(map(sum, matrix["counts"])) == pytest.approx(record["validation_accuracy"])


def test_losses_are_means_since_the_line_before(tmp_path, every_step):
    log = RecordedSteps(Silent(), tmp_path, lambda step: 0.1)
    log.start(State(), 2, 2)
    sums = [(1, 1, 10, 20.0), (2, 2, 20, 30.0), (3, 1, 10, 5.0)]  # step, batch, examples and loss of the epoch so far
    for step, batch, seen, total in sums:
        state = State(step=step, epoch=(step - 1) // 2, batch=batch, seen=seen)
        log.step(state, lambda total=total, seen=seen: total / seen, lambda: float("nan"))
    found = read_lines(tmp_path / "steps.jsonl")
    assert [record["loss"] for record in found] == [2.0, 1.0, 0.5]
    assert "accuracy" not in found[0]
    assert [record["epoch"] for record in found] == [0.5, 1.0, 1.5]


def test_a_resumed_run_cuts_the_steps_back_and_ends_with_the_same_bits(tmp_path, every_step):
    """A kill after the checkpoint of step 3: later lines are those of a lost part of the run; the last one is torn."""
    _, done = stopped_run(tmp_path / "whole", at=-1)
    assert done
    _, done = stopped_run(tmp_path / "killed", at=3)
    assert not done
    lost = tmp_path / "killed" / "steps.jsonl"
    with lost.open("a") as file:
        file.write('{"step":4,"epoch":0.4,"loss":99}\n{"step":5,"lo')
    assert steps(tmp_path / "killed") == [1, 2, 3, 4]
    (tmp_path / "killed" / "confusion.jsonl").write_text('{"epoch":1,"step":99,"counts":[[99]]}\n{"epo')
    _, done = stopped_run(tmp_path / "killed", at=-1)
    assert done
    assert steps(tmp_path / "killed") == steps(tmp_path / "whole")
    pairs = zip(
        *(read_lines(tmp_path / name / "steps.jsonl") for name in ("killed", "whole")),
        strict=True,
    )
    assert all(ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4) for ours, theirs in pairs)
    matrices = [(tmp_path / name / "confusion.jsonl").read_text() for name in ("killed", "whole")]
    assert matrices[0] == matrices[1]
    assert not differing(*(tmp_path / name / "model.safetensors" for name in ("killed", "whole")))


def test_a_rewind_to_before_a_loss_spike_cuts_the_steps_back(tmp_path, every_step):
    log = RecordedSteps(Silent(), tmp_path, lambda step: 0.1)
    log.start(State(), 1, 10)
    for step in (1, 2, 3, 4, 3, 4, 5):
        log.step(State(step=step, seen=step, batch=step), lambda: 1.0, lambda: 1.0)
    assert steps(tmp_path) == [1, 2, 3, 4, 5]


def test_one_line_per_second(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress_files.time, "monotonic", lambda: now[0])
    log, read = RecordedSteps(Silent(), tmp_path, lambda step: 0.1), []
    log.start(State(), 1, 1000)
    for step in range(1, 101):
        now[0] += 0.1
        log.step(State(step=step, seen=step), lambda step=step: read.append(step) or 1.0, lambda: 1.0)
    assert len(steps(tmp_path)) == len(read) == pytest.approx(10, abs=1)


def test_a_full_file_is_thinned_evenly(tmp_path):
    lines = BoundedLines(tmp_path / "steps.jsonl", 32)
    for step in range(1, 401):
        lines.add({"step": step})
        found = steps(tmp_path)
        assert found == [record["step"] for record in lines.records]
        assert len(found) <= 32
        assert found[-1] == step
        assert found[0] == 1
        assert max((b - a for a, b in itertools.pairwise(found)), default=0) <= max(1, 3 * step / 16)


def test_a_disk_without_room_stops_the_file_and_not_the_run(tmp_path):
    lines = BoundedLines(tmp_path / "gone" / "steps.jsonl", 4)
    for step in range(10):
        lines.add({"step": step})
    assert not (tmp_path / "gone").exists() or lines.failed


@pytest.mark.parametrize("text", ["", "\n", "{", '[1]\n"a"\n3\nnull\n', '{"a":\xff', "\0" * 50, "[" * 100_000])
def test_what_cannot_be_read_is_left_out(tmp_path, text):
    (tmp_path / "steps.jsonl").write_bytes(b'{"step":1}\n' + text.encode("latin-1"))
    assert steps(tmp_path) == [1]
    log = RecordedSteps(Silent(), tmp_path, lambda step: 0.1)
    log.start(State(step=1), 1, 1)
    assert (tmp_path / "steps.jsonl").read_text() == '{"step":1}\n'


def test_many_classes_have_no_matrix(tmp_path):
    log = ConfusionLog(tmp_path)
    log(Validation(1.0, 0.5), State(epoch=1))
    assert not (tmp_path / "confusion.jsonl").exists()
    log(replace_confusion(Validation(1.0, 0.5)), State(epoch=2, step=7))
    assert json.loads((tmp_path / "confusion.jsonl").read_text()) == {"epoch": 2, "step": 7, "counts": [[1, 2], [3, 4]]}


def replace_confusion(validation: Validation) -> Validation:
    return validation._replace(confusion=[[1, 2], [3, 4]])
