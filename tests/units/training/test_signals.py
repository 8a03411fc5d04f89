"""Signals stop a run: after the step in training, immediately in validation and while reading; two immediately."""

import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from patchword.recipes.image import task as image_task
from patchword.recipes.run import Run
from patchword.recipes.train import train
from patchword.training import signals
from patchword.training.cancellation import Cancelled, cancellable
from patchword.training.run_log import RunLog
from patchword.training.signals import breakable, interruptible, stop_exit_code, stop_requested
from support.material import TINY_MODEL, differing, settings, silent, tiny_recipe

STEPS = 10  # of an epoch of the tiny recipe
ALL = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _hangups_are_not_ignored():
    """As without nohup, under which these tests may run."""
    before = signal.signal(signal.SIGHUP, signal.default_int_handler)
    yield
    signal.signal(signal.SIGHUP, before)


def ask(number: signal.Signals = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ALL)
def test_the_exit_code_is_that_of_the_signal(number):
    with interruptible() as asked:
        assert not asked()
        ask(number)
        assert asked()
        assert stop_requested()
    assert stop_exit_code() == 128 + number
    with interruptible() as asked:
        assert not asked()  # a new context starts without a request
    assert stop_exit_code() == 130


@pytest.mark.parametrize("number", ALL)
def test_while_reading_each_signal_is_an_interrupt(number):
    before = signal.getsignal(number)

    def read() -> None:
        with breakable():
            ask(number)

    with pytest.raises(KeyboardInterrupt):
        read()
    assert signal.getsignal(number) is before
    assert stop_exit_code() == 128 + number


def test_an_interrupt_that_python_drops_is_raised_again(capfd):
    """In a callback of a weak reference an exception is printed and forgotten."""

    class Thing:
        pass

    thing, raised = Thing(), []
    watched = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    try:
        with breakable():
            del thing
            assert watched() is None
            for _ in range(100):
                time.sleep(0.001)
    except KeyboardInterrupt:
        raised.append(True)
    assert raised
    assert "Traceback" not in capfd.readouterr().err


def test_two_signals_at_the_same_time_count_as_one():
    """As from a terminal and from a launcher that passes it on."""
    with interruptible() as asked:
        ask(signal.SIGINT)
        ask(signal.SIGTERM)
        assert asked()
    assert stop_exit_code() == 130


def test_under_nohup_a_closed_terminal_stops_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible() as asked:
            ask(signal.SIGHUP)
            assert not asked()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


SECOND = """
import time
from patchword.training import signals
signals._TWICE_SECONDS = 0.01
with signals.{}():
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("first", flush=True)
    time.sleep(60)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["interruptible", "breakable"])
def test_the_second_signal_ends_it_at_once(kind):
    process = subprocess.Popen(
        [sys.executable, "-c", SECOND.format(kind)], stdout=subprocess.PIPE, stderr=-1, text=True
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    if kind == "interruptible":
        assert process.stderr.readline() + process.stderr.readline() == (
            "\nstopping: the run is saved first. Send the signal again to stop immediately without saving\n"
        )
    else:
        assert process.stdout.readline() == "first\n"
    time.sleep(0.05)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) in (-signal.SIGTERM, 143)


def test_the_process_does_not_wait_for_threads_that_do_not_end():
    """Such as a pool that reads a million images."""
    script = (
        "import time\nfrom patchword.training import signals\nsignals._PATIENCE_SECONDS = 0.1\n"
        "with signals.breakable():\n"
        "    try:\n        print('ready', flush=True)\n        time.sleep(60)\n    finally:\n        time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143


def block():
    return nn.Sequential(nn.Sequential(nn.Linear(2, 2)))


def test_a_forward_pass_is_cancelled_between_blocks():
    """The parts of a block have no hooks, so that they can be fused."""
    model, asked, reached = nn.Sequential(block(), block()), [], []
    model[0].register_forward_hook(lambda *_: asked.append(1))
    model[1].register_forward_hook(lambda *_: reached.append(1))
    with cancellable(model, lambda: False):
        assert not any(part._forward_pre_hooks for part in (model[0][0], model[0][0][0]))

    def leave() -> None:
        with cancellable(model, lambda: bool(asked)):
            model(torch.ones(2))

    with pytest.raises(Cancelled):
        leave()
    assert not reached
    model(torch.ones(2))  # outside of the context nothing is checked
    assert reached


# A run


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert train(tiny_recipe(), folder, silent())
    return folder


def saved(folder: Path) -> str:
    return max(path.name for path in (folder / "checkpoints").iterdir())


def assert_resumes(folder: Path, whole: Path) -> None:
    assert train(tiny_recipe(), folder, silent(), resume=True)
    assert differing(folder / "model.safetensors", whole / "model.safetensors") == []
    last = Path("checkpoints") / saved(whole) / "tensors.safetensors"
    assert differing(folder / last, whole / last) == []
    assert [{**record, "seconds": 0} for record in Run(folder).metrics()] == [
        {**record, "seconds": 0} for record in Run(whole).metrics()
    ]


@pytest.mark.parametrize("step", [1, 7, STEPS, STEPS + 4])
def test_a_signal_loses_no_step(whole, tmp_path, monkeypatch, step):
    folder, plain = tmp_path / "run", RunLog.step

    def watched(self: RunLog, state, *rest: object) -> None:
        plain(self, state, *rest)
        if state.step == step:
            ask()

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "step", watched)
        assert not train(tiny_recipe(), folder, silent())
    assert saved(folder) == f"epoch-{(step - 1) // STEPS:05d}-batch-{(step - 1) % STEPS + 1:07d}"
    assert_resumes(folder, whole)


def test_validation_is_cancelled_and_repeated(whole, tmp_path, monkeypatch):
    """The checkpoint has the trained weights, although the model has the average at that moment."""
    folder, plain, ended = tmp_path / "run", image_task.score, []

    def asked_in_the_middle(*arguments: object) -> object:
        ask()
        found = plain(*arguments)
        ended.append(1)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(image_task, "score", asked_in_the_middle)
        assert not train(tiny_recipe(), folder, silent())
    assert not ended
    assert saved(folder) == f"epoch-00000-batch-{STEPS:07d}"
    assert not (folder / "model.safetensors").exists()
    assert_resumes(folder, whole)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_signal_at_the_end_of_an_epoch_takes_no_other_step(whole, tmp_path, monkeypatch, epoch):
    folder, plain = tmp_path / "run", RunLog.epoch

    def watched(self: RunLog, record, state) -> None:
        plain(self, record, state)
        if record["epoch"] == epoch:
            ask()

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "epoch", watched)
        assert not train(tiny_recipe(), folder, silent())  # the test set is not read now, even after the last epoch
    assert saved(folder) == f"epoch-{epoch:05d}-batch-0000000"
    assert_resumes(folder, whole)


# The command


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_stop_while_reading_writes_nothing(command, monkeypatch, tmp_path, number, code):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("patchword.recipes.train.build_task", lambda *_: ask(number))
    words = ["train", "digits-vit", *settings(*TINY_MODEL, "device=cpu")]
    found, output, errors = command(*words)
    assert found == code
    assert "stopped; nothing was written yet" in output
    assert "Traceback" not in output + errors
    assert list(tmp_path.iterdir()) == []


def test_a_stop_while_testing_prints_how_to_resume(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ["train", "digits-vit", *settings(*TINY_MODEL, "device=cpu", "epochs=1", "batch_size=128"), "--name", "a b"]
    with monkeypatch.context() as patch:
        patch.setattr("patchword.recipes.evaluation.evaluate", lambda *_: ask())
        code, printed, _ = command(*words)
    assert code == 143
    assert printed.endswith(
        "Resume with:\n  patchword train 'runs/a b/recipe.yaml' --name 'a b' --runs runs --resume\n"
    )
    assert signals.stop_requested()
