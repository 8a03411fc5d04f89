"""patchword.train: the same run as the command's, with values, callbacks, and a saved run after Ctrl-C."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

import patchword
from patchword.core.errors import UserError
from patchword.recipes import find_recipe
from patchword.training.run_log import RunLog
from support.material import QUICK, differing

TINY = {"model": {"patch": 4, "depth": 2, "width": 16, "heads": 2, "hidden": 32}, "batch_size": 128, "device": "cpu"}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch, unpainted):
    monkeypatch.chdir(tmp_path)


def weights(folder):
    return folder / "model.safetensors"


def test_a_run_from_python_equals_that_of_the_command(command, capsys):
    code, printed, _ = command("train", "digits-vit", *QUICK, "--runs", "typed")
    run = patchword.train("digits-vit", runs="called", epochs=1, **TINY)
    assert code == 0
    assert not differing(weights(run.folder), "typed/digits-vit/model.safetensors")
    assert [line for line in printed.splitlines() if "test" in line] == [
        line for line in capsys.readouterr().out.splitlines() if "test" in line
    ]
    assert run.recipe() == patchword.Run("typed/digits-vit").recipe()
    assert run.report.is_file()
    assert run.evaluation() == patchword.Run("typed/digits-vit").evaluation()


def test_a_quiet_run_prints_nothing(capfd):
    run = patchword.train("digits-vit", name="silent", quiet=True, epochs=1, **TINY)
    assert run.folder.as_posix() == "runs/silent"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epochs": 0}, r"recipe field 'epochs': expected a whole number, greater than 0, got 0"),
        ({"epoch": 3}, r"a recipe has no field 'epoch'\ndid you mean 'epochs'"),
        ({"lr": 1e-3}, r"a recipe has no field 'lr'\ndid you mean 'learning_rate'"),
        ({"depth": 3}, r"did you mean 'model.depth'"),
        ({"epochs": {"inner": 3}}, r"recipe field 'epochs' has no inner fields"),
    ],
)
def test_wrong_fields_get_the_messages_of_the_command(command, fields, message):
    with pytest.raises(UserError, match=message) as raised:
        patchword.train("digits-vit", **fields)
    name, value = next(iter(fields.items()))
    if not isinstance(value, dict):
        assert " ".join(str(raised.value).split()) in " ".join(
            command("train", "digits-vit", f"{name}={value}")[2].split()
        )


def test_a_study_is_refused():
    with pytest.raises(UserError, match=r"is a study: expected a recipe\n.*: patchword train fashion-mnist-families"):
        patchword.train("fashion-mnist-families")


def test_a_second_run_of_the_same_name_is_refused_with_arguments_not_options():
    patchword.train("digits-vit", quiet=True, epochs=1, **TINY)
    with pytest.raises(UserError, match=r"add resume=True to resume it, or choose another name$"):
        patchword.train("digits-vit", quiet=True, epochs=1, **TINY)
    with pytest.raises(UserError, match=r"under another name, or .*\npatchword train .* --name digits-vit-longer"):
        patchword.train("digits-vit", quiet=True, resume=True, epochs=2, **TINY)


class Record(patchword.Callback):
    """Records its calls; asks to stop after this many epochs."""

    def __init__(self, stop: int = 0) -> None:
        self.stop, self.calls = stop, []

    def on_start(self, run):
        self.calls.append(("start", run.folder.name))

    def on_epoch_end(self, metrics):
        self.calls.append(("epoch", metrics["epoch"]))
        return metrics["epoch"] == self.stop

    def on_end(self, run):
        self.calls.append(("end", run.evaluation().part))


def test_callbacks_are_called_and_can_stop_the_run():
    watching, stopping = Record(), Record(stop=1)
    run = patchword.train("digits-vit", quiet=True, callbacks=[stopping, watching], epochs=3, **TINY)
    assert watching.calls == stopping.calls == [("start", "digits-vit"), ("epoch", 1), ("end", "test")]
    assert len(run.metrics()) == 1
    newest = max(path.name for path in (run.folder / "checkpoints").iterdir())
    assert newest.startswith("epoch-00001-batch-0000000")  # no step of the second epoch
    again = patchword.train("digits-vit", quiet=True, callbacks=[watching], resume=True, epochs=3, **TINY)
    assert [row["epoch"] for row in again.metrics()] == [1, 2, 3]
    whole = patchword.train("digits-vit", quiet=True, name="whole", epochs=3, **TINY)
    assert not differing(weights(again.folder), weights(whole.folder))


def test_a_callback_without_methods_is_enough():
    assert patchword.train("digits-vit", quiet=True, callbacks=[patchword.Callback()], epochs=1, **TINY).metrics()


def interrupting(monkeypatch, step: int) -> None:
    original = RunLog.step

    def interrupt(log, state, *values):
        original(log, state, *values)
        if state.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(RunLog, "step", interrupt)


def test_an_interrupted_run_is_saved_and_names_the_call_that_resumes_it(monkeypatch):
    with monkeypatch.context() as patch:
        interrupting(patch, 3)
        with pytest.raises(KeyboardInterrupt) as raised:
            patchword.train("digits-vit", quiet=True, runs="out", epochs=1, **TINY)
    call = str(raised.value).removeprefix("stopped; resume the run with ")
    assert call == "patchword.train('out/digits-vit', runs='out', resume=True)"
    run = eval(call.replace("resume=True", "resume=True, quiet=True"))
    whole = patchword.train("digits-vit", quiet=True, name="whole", epochs=1, **TINY)
    assert not differing(weights(run.folder), weights(whole.folder))


def test_a_second_interrupt_does_not_end_the_program(monkeypatch):
    monkeypatch.setattr("patchword.training.signals._TWICE_SECONDS", -1.0)
    original, seen = RunLog.step, []

    def interrupt(log, state, *values):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        seen.append(state.step)  # after one signal, the step would end
        original(log, state, *values)

    monkeypatch.setattr(RunLog, "step", interrupt)
    with pytest.raises(KeyboardInterrupt, match="resume the run with"):
        patchword.train("digits-vit", quiet=True, epochs=1, **TINY)
    assert seen == []


def test_an_interrupt_before_the_run_says_that_nothing_was_written(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("patchword.recipes.train.build_task", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"^stopped; nothing was written yet$"):
        patchword.train("digits-vit", quiet=True, **TINY)


def test_a_run_in_another_thread_needs_no_signal_handlers():
    runs = []
    thread = threading.Thread(
        target=lambda: runs.append(patchword.train("digits-vit", quiet=True, epochs=1, **TINY)), daemon=True
    )
    thread.start()
    thread.join()
    assert runs[0].evaluation().metric == "accuracy"


def test_a_file_and_a_run_folder_are_recipes_too():
    run = patchword.train("digits-vit", quiet=True, epochs=1, **TINY)
    assert find_recipe("finetune-images").with_values({"model": run}).model.name == str(run.folder)
    again = patchword.train(run, quiet=True, name="again")
    assert not differing(weights(run.folder), weights(again.folder))
    assert json.loads((again.folder / "evaluation.json").read_text()) == json.loads(
        (run.folder / "evaluation.json").read_text()
    )


def test_values_equal_settings():
    recipe = find_recipe("digits-vit")
    typed = recipe.with_settings(["model=swin-tiny", "model.depth=2", "augmentation.flip=0.5", "learning_rate=1e-3"])
    called = recipe.with_values(
        {"model.depth": 2, "model": "swin-tiny", "augmentation": {"flip": 0.5}, "learning_rate": 1e-3}
    )
    assert called == typed


def test_a_path_a_run_or_a_number_is_the_value_of_a_text_field():
    recipe = find_recipe("classify-text")
    typed = recipe.with_settings(["train=a.csv", "validation=0.2", "packed=true", "quantise=true", "model=runs/bert"])
    fields = {"train": Path("a.csv"), "validation": 0.2, "packed": True, "quantise": True, "model": Path("runs/bert")}
    assert recipe.with_values(fields) == typed
    assert find_recipe("bert-pretrain").with_values({"text": [Path("a.txt"), "b.txt"]}).text == ("a.txt", "b.txt")
