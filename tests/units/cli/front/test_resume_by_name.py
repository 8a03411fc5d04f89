"""A run is resumed by its name alone, with its own recipe."""

from contextlib import contextmanager
from itertools import count as endless
from pathlib import Path

import pytest

import patchword
from patchword.core.errors import UserError
from patchword.recipes import train as recipe_train
from support.material import QUICK, copied_run

SETTINGS = [*QUICK, "epochs=2", "seed=3"]


@pytest.fixture
def stopped(command, monkeypatch):
    """Start a run and stop it after some steps."""

    def start(*words):
        @contextmanager
        def after_three():
            taken = endless(1)
            yield lambda: next(taken) == 3

        with monkeypatch.context() as patch:
            patch.setattr(recipe_train, "interruptible", after_three)
            code, output, _ = command("train", "digits-vit", *SETTINGS, *words)
        assert code == 130, output

    return start


@pytest.mark.parametrize(
    "words",
    [
        ("mine", "--runs", "elsewhere"),
        ("elsewhere/mine",),
        ("elsewhere/mine", "--runs", "elsewhere"),
        ("mine", "--runs", "elsewhere", "device=cpu"),
    ],
)
def test_a_run_is_resumed_by_its_name_or_folder(command, stopped, words):
    stopped("--name", "mine", "--runs", "elsewhere")
    code, output, _ = command("train", *words, "--resume")
    assert code == 0, output
    assert "resuming from epoch 1, batch 4 of elsewhere/mine (2 epochs of" in output
    assert "3 steps are done" in output
    run = patchword.Run("elsewhere/mine")
    assert (run.recipe().seed, len(run.metrics())) == (3, 2)
    assert not Path("runs").exists()
    code, output, _ = command("train", *words, "--resume")
    assert "elsewhere/mine is finished: 2 epochs, test accuracy" in output


def test_a_name_of_a_recipe_and_of_a_run_means_the_run(command, stopped):
    stopped()
    code, output, _ = command("train", "digits-vit", "--resume")
    assert code == 0, output
    assert "digits-vit is a recipe and a run; --resume means the run runs/digits-vit with its own recipe" in output
    assert len(patchword.Run("runs/digits-vit").metrics()) == 2


def test_a_run_that_does_not_exist_starts_with_a_note(command):
    code, output, _ = command("train", "digits-vit", *QUICK, "--name", "new", "--resume")
    assert code == 0
    assert "there is no run runs/new to resume; it starts from the beginning" in output


def test_a_run_is_not_overwritten_by_its_name(command, stopped):
    stopped("--name", "mine")
    code, _, message = command("train", "mine")
    assert code == 2
    assert "runs/mine has a run already\n  add --resume to resume it" in message
    code, _, message = command("train", "mne", "--resume")
    assert "no recipe is called 'mne'" in message


def test_python_resumes_by_name(stopped):
    stopped("--name", "mine")
    assert len(patchword.train("mine", resume=True, quiet=True).metrics()) == 2
    with pytest.raises(UserError, match="no recipe is called 'mne'"):
        patchword.train("mne", resume=True)


def test_processes_that_are_restarted_stay_in_their_folder(command, trained, monkeypatch):
    copied_run(trained, Path("first/mine"))
    launched: list[list[str]] = []
    monkeypatch.setattr("patchword.cli.training.train.launch", lambda words, *_: launched.append(list(words)) or 0)
    for more in ((), ("--resume",), ("--name", "other", "--resume")):
        assert command("train", "first/mine", "--runs", "second", "--processes", 2, *more)[0] == 0
    begun, resumed, named = (words[words.index("train") + 1 :] for words in launched)
    assert begun == ["first/mine", "--name", "mine", "--runs", "second"]  # without --name, --resume means first/mine
    assert resumed == ["first/mine", "--runs", "second", "--resume"]
    assert named == ["first/mine", "--name", "other", "--runs", "second", "--resume"]
