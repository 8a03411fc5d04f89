"""Asked to stop: after the step while training, at once in validation and while reading; twice is at once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from patchword.recipes.image import task as image_task
from patchword.recipes.run import Run
from patchword.recipes.train import train
from patchword.training import signals
from patchword.training.cancellation import Abandoned, abandonable
from patchword.training.journal import RunJournal
from patchword.training.signals import breakable, interruptible, stop_asked, stop_code
from support.material import TINY_MODEL, differing, settings, silent, tiny_recipe

STEPS = 10  # of an epoch of the tiny recipe
BOTH = [signal.SIGTERM, signal.SIGINT]


def ask(number: signal.Signals = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", BOTH)
def test_the_exit_code_is_the_signals(number):
    with interruptible() as asked:
        assert not asked()
        ask(number)
        assert asked()
        assert stop_asked()
    assert stop_code() == 128 + number
    with interruptible() as asked:
        assert not asked()  # asked anew
    assert stop_code() == 130


@pytest.mark.parametrize("number", BOTH)
def test_while_reading_either_signal_is_an_interrupt(number):
    before = signal.getsignal(number)

    def read() -> None:
        with breakable():
            ask(number)

    with pytest.raises(KeyboardInterrupt):
        read()
    assert signal.getsignal(number) is before
    assert stop_code() == 128 + number


def test_two_signals_at_once_are_one_wish():
    """As from a terminal and from a launcher that passes it on."""
    with interruptible() as asked:
        ask(signal.SIGINT)
        ask(signal.SIGTERM)
        assert asked()
    assert stop_code() == 130


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
            "\nstopping: what is done is saved first; once more, and it stops at once\n"
        )
    else:
        assert process.stdout.readline() == "first\n"
    time.sleep(0.05)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) in (-signal.SIGTERM, 143)


def test_threads_that_do_not_end_are_left_behind():
    """A pool that reads a million pictures would be waited for."""
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


def test_a_model_is_left_in_the_middle():
    """between two of its blocks; what a block is made of is not watched, so that it may run in one kernel"""
    model, asked, reached = nn.Sequential(block(), block()), [], []
    model[0].register_forward_hook(lambda *_: asked.append(1))
    model[1].register_forward_hook(lambda *_: reached.append(1))
    with abandonable(model, lambda: False):
        assert not any(part._forward_pre_hooks for part in (model[0][0], model[0][0][0]))

    def leave() -> None:
        with abandonable(model, lambda: bool(asked)):
            model(torch.ones(2))

    with pytest.raises(Abandoned):
        leave()
    assert not reached
    model(torch.ones(2))  # outside, nothing is asked
    assert reached


# A run


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert train(tiny_recipe(), folder, silent())
    return folder


def saved(folder: Path) -> str:
    return max(path.name for path in (folder / "checkpoints").iterdir())


def assert_goes_on(folder: Path, whole: Path) -> None:
    assert train(tiny_recipe(), folder, silent(), resume=True)
    assert differing(folder / "model.safetensors", whole / "model.safetensors") == []
    last = Path("checkpoints") / saved(whole) / "tensors.safetensors"
    assert differing(folder / last, whole / last) == []
    assert [{**record, "seconds": 0} for record in Run(folder).metrics()] == [
        {**record, "seconds": 0} for record in Run(whole).metrics()
    ]


@pytest.mark.parametrize("step", [1, 7, STEPS, STEPS + 4])
def test_a_signal_loses_no_step(whole, tmp_path, monkeypatch, step):
    folder, plain = tmp_path / "run", RunJournal.step

    def watched(self: RunJournal, state, *rest: object) -> None:
        plain(self, state, *rest)
        if state.step == step:
            ask()

    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "step", watched)
        assert not train(tiny_recipe(), folder, silent())
    assert saved(folder) == f"epoch-{(step - 1) // STEPS:05d}-batch-{(step - 1) % STEPS + 1:07d}"
    assert_goes_on(folder, whole)


def test_validation_is_left_and_begun_again(whole, tmp_path, monkeypatch):
    """With the average in the model: what is saved are the trained weights all the same."""
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
    assert_goes_on(folder, whole)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_signal_at_the_end_of_an_epoch_takes_no_other_step(whole, tmp_path, monkeypatch, epoch):
    folder, plain = tmp_path / "run", RunJournal.epoch

    def watched(self: RunJournal, record, state) -> None:
        plain(self, record, state)
        if record["epoch"] == epoch:
            ask()

    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "epoch", watched)
        assert not train(tiny_recipe(), folder, silent())  # the test set is not read now, even after the last epoch
    assert saved(folder) == f"epoch-{epoch:05d}-batch-0000000"
    assert_goes_on(folder, whole)


# The command


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stop_while_reading_writes_nothing(command, monkeypatch, tmp_path, number, code):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("patchword.recipes.train.gather", lambda *_: ask(number))
    words = ["train", "digits-vit", *settings(*TINY_MODEL, "device=cpu")]
    found, told, complaint = command(*words)
    assert found == code
    assert "stopped; nothing was written yet" in told
    assert "Traceback" not in told + complaint
    assert list(tmp_path.iterdir()) == []


def test_a_stop_while_testing_says_how_to_go_on(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ["train", "digits-vit", *settings(*TINY_MODEL, "device=cpu", "epochs=1", "batch=128"), "--name", "a b"]
    with monkeypatch.context() as patch:
        patch.setattr("patchword.recipes.evaluation.evaluate", lambda *_: ask())
        code, told, _ = command(*words)
    assert code == 143
    assert told.endswith("Resume with:\n  patchword train 'runs/a b/recipe.yaml' --name 'a b' --runs runs --resume\n")
    assert signals.stop_asked()
