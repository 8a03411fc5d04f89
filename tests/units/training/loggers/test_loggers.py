"""Loggers record a run from start to result; one that fails or is slow neither stops nor changes the run."""

import json
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import patchword
from patchword.api.training import train_recipe
from patchword.core.errors import UserError
from patchword.training.loggers import background, progress
from patchword.training.loggers.background import BackgroundLogger
from patchword.training.loggers.logger import LoggedRun
from patchword.training.loggers.loggers import LOGGERS, KnownLogger, RunLoggers, check_loggers
from support.material import differing, silent, tiny_recipe

RECIPE = tiny_recipe()


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch, unpainted):
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)


class Recorder:
    """A logger that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def start(self, run):
        self.calls.append(("start", run))
        return "here"

    def log(self, values, step):
        self.calls.append(("log", (dict(values), step)))

    def result(self, values, files):
        self.calls.append(("result", (dict(values), [file.name for file in files if file.is_file()])))

    def close(self, outcome):
        self.calls.append(("close", outcome))


@pytest.fixture
def recorder(monkeypatch) -> Recorder:
    """Takes the place of MLflow."""
    found = Recorder()
    monkeypatch.setitem(LOGGERS, "mlflow", KnownLogger(lambda: found, "json", ""))
    return found


def test_a_logger_receives_recipe_epochs_result_and_files(recorder, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "STEP_SECONDS", 0.0)
    folder = tmp_path / "run"
    train_recipe(RECIPE.with_values({"loggers": ["mlflow"]}), folder, out := silent())
    names = [name for name, _ in recorder.calls]
    assert (names[0], names[-2:]) == ("start", ["result", "close"])
    run = recorder.calls[0][1]
    assert (run.folder, run.step, run.recipe["model.depth"], run.recipe["epochs"]) == (folder, 0, 2, 2)
    epochs = [(values, step) for name, (values, step) in recorder.calls[1:-2] if "epoch" in values]
    assert [step for _, step in epochs] == [10, 20]
    saved = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert epochs[1][0] == {name: value for name, value in saved[1].items() if name != "step"}
    steps = [step for name, (values, step) in recorder.calls[1:-2] if "running_loss" in values]
    assert steps == list(range(1, 21))
    values, files = recorder.calls[-2][1]
    assert values["test_accuracy"] == json.loads((folder / "evaluation.json").read_text())["accuracy"]
    assert files == ["report.html", "evaluation.json", "recipe.yaml"]
    assert recorder.calls[-1] == ("close", "finished")
    assert "mlflow: here" in out.file.getvalue()


def test_a_stopped_and_a_failed_run_are_closed_as_such(recorder, monkeypatch):
    recipe = RECIPE.with_values({"loggers": ["mlflow"], "epochs": 1})
    for error, outcome in ((KeyboardInterrupt(), "stopped"), (RuntimeError(), "failed")):
        with monkeypatch.context() as patch:
            patch.setattr("patchword.api.training.finish", lambda *_, error=error: (_ for _ in ()).throw(error))
            with pytest.raises(type(error)):
                train_recipe(recipe, Path(outcome), silent())
        assert recorder.calls[-1] == ("close", outcome)


@pytest.mark.parametrize("method", ["start", "log", "result", "close"])
def test_a_failing_logger_is_reported_once_and_the_run_goes_on(recorder, monkeypatch, method):
    def fail(*_):
        raise OSError(28, "No space left on device")

    setattr(recorder, method, fail)
    began, recipe = time.monotonic(), RECIPE.with_values({"epochs": 1})
    train_recipe(recipe.with_values({"loggers": ["mlflow"]}), Path("logged"), out := silent())
    assert time.monotonic() - began < background.CLOSE_SECONDS  # nothing is waited for
    text = " ".join(out.file.getvalue().split())
    assert text.count("mlflow does not record this run any more, and the run goes on: OSError") == 1
    assert text.count("No space left") == 1
    assert (Path("logged") / "finished.json").is_file()
    train_recipe(recipe, Path("plain"), silent())
    assert not differing(Path("logged/model.safetensors"), Path("plain/model.safetensors"))


def test_a_broken_tensorboard_stops_no_run(monkeypatch):
    def fail(name: str) -> None:
        raise TypeError("Descriptors cannot be created directly")

    monkeypatch.setattr("patchword.training.loggers.loggers.import_module", fail)
    assert RunLoggers.of([], print).loggers == []
    with pytest.raises(UserError, match="the logger tensorboard cannot be used: got Descriptors"):
        check_loggers(["tensorboard"])


def test_a_slow_logger_is_not_waited_for(monkeypatch):
    release, said = threading.Event(), []
    slow = SimpleNamespace(start=lambda run: release.wait(30) and "", log=pytest.fail)
    monkeypatch.setattr(background, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(background, "_WAITING", 3)
    logger, began = BackgroundLogger("slow", slow, said.append), time.monotonic()
    logger.start(LoggedRun(Path(), {}))
    for step in range(10):
        logger.log({}, step)
    logger.close("finished")
    assert time.monotonic() - began < 10
    assert said == ["slow does not record this run any more, and the run goes on: it is too slow"]
    release.set()
    logger.thread.join()


def test_a_logger_that_does_not_end_is_left_behind(monkeypatch):
    release, said = threading.Event(), []
    slow = SimpleNamespace(start=lambda run: "", close=lambda outcome: release.wait(30))
    monkeypatch.setattr(background, "CLOSE_SECONDS", 0.05)
    logger = BackgroundLogger("slow", slow, said.append)
    logger.start(LoggedRun(Path(), {}))
    logger.close("finished")
    assert said == ["slow does not record this run any more, and the run goes on: no answer within 0.05 s"]
    release.set()
    logger.thread.join()


def test_numbers_that_are_not_finite_are_left_out(monkeypatch, recorder):
    with RunLoggers(["mlflow"], print) as loggers:
        loggers.start(LoggedRun(Path(), {}))
        loggers.log({"loss": float("nan"), "score": 1}, 3)
    assert recorder.calls[1] == ("log", ({"score": 1.0}, 3))


def test_a_missing_package_is_an_error_with_the_command_that_installs_it(monkeypatch, command):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"the logger wandb cannot be used(.|\n)*pip install 'patchword\[wandb\]'"):
        check_loggers(["wandb"])
    code, _, complaint = command("train", "digits-vit", "epochs=1", "--log", "wandb")
    assert (code, "pip install 'patchword[wandb]'" in complaint) == (2, True)
    assert not Path("runs").exists()


def test_the_field_takes_one_name_or_several(command):
    assert RECIPE.with_settings(["loggers=mlflow"]).loggers == ("mlflow",)
    assert RECIPE.with_settings(["loggers=[mlflow, wandb]"]).loggers == ("mlflow", "wandb")
    assert RECIPE.with_values({"loggers": "wandb"}).loggers == ("wandb",)
    assert RECIPE.loggers == ()
    with pytest.raises(UserError, match="recipe field 'loggers"):
        RECIPE.with_settings(["loggers=comet"])


def test_only_the_main_process_logs(recorder, monkeypatch):
    monkeypatch.setattr("patchword.api.training.is_main", lambda: False)
    train_recipe(RECIPE.with_values({"loggers": ["mlflow"], "epochs": 1}), Path("run"), silent())
    assert recorder.calls == []


def test_tensorboard_writes_events_unasked():
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = patchword.train("digits-vit", quiet=True, name="run", **{"epochs": 2, "model.depth": 1, "model.width": 16})
    events = event_accumulator.EventAccumulator(str(run.folder)).Reload()
    found = [round(event.value, 5) for event in events.Scalars("validation_accuracy")]
    assert found == [round(row["validation_accuracy"], 5) for row in run.metrics()]


# the interfaces of MLflow and W&B, as far as they are used


class FakeMlflowClient:
    stores: dict[str, "FakeMlflowClient"] = {}  # noqa: RUF012

    def __new__(cls, tracking_uri):
        if tracking_uri not in cls.stores:
            made = cls.stores[tracking_uri] = object.__new__(cls)
            made.runs, made.experiments = {}, {}
        return cls.stores[tracking_uri]

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=name) if name in self.experiments else None

    def create_experiment(self, name, files):
        self.experiments[name] = files
        return name

    def create_run(self, experiment, run_name):
        run = {"name": run_name, "metrics": [], "params": {}, "files": [], "status": "RUNNING", "in": experiment}
        self.runs[f"id-{len(self.runs)}"] = run
        return SimpleNamespace(info=SimpleNamespace(run_id=f"id-{len(self.runs) - 1}"))

    def update_run(self, run_id, status):
        if run_id not in self.runs:
            raise sys.modules["mlflow.exceptions"].MlflowException(run_id)
        self.runs[run_id]["status"] = status

    def log_batch(self, run_id, metrics=(), params=()):
        assert len(params) <= 100
        self.runs[run_id]["metrics"] += metrics
        self.runs[run_id]["params"] |= dict(params)

    def log_artifact(self, run_id, path):
        self.runs[run_id]["files"].append(Path(path).name)

    def set_terminated(self, run_id, status):
        self.runs[run_id]["status"] = status


def module(name: str, **members: object) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(members)
    return made


@pytest.fixture
def mlflow(monkeypatch) -> dict[str, FakeMlflowClient]:
    FakeMlflowClient.stores = {}
    store = SimpleNamespace(uri="")
    entities = module("mlflow.entities", Metric=lambda *parts: parts, Param=lambda *parts: parts)
    found = module(
        "mlflow",
        MlflowClient=FakeMlflowClient,
        is_tracking_uri_set=lambda: bool(store.uri),
        get_tracking_uri=lambda: store.uri,
        set_tracking_uri=lambda uri: setattr(store, "uri", uri),
    )
    exceptions = module("mlflow.exceptions", MlflowException=type("MlflowException", (Exception,), {}))
    for made in (found, entities, exceptions):
        monkeypatch.setitem(sys.modules, made.__name__, made)
    return FakeMlflowClient.stores


def test_mlflow_records_beside_the_runs(mlflow, monkeypatch, tmp_path):
    monkeypatch.setattr("patchword.training.loggers.mlflow.find_spec", lambda name: None)
    train_recipe(RECIPE.with_values({"loggers": ["mlflow"]}), Path("runs/one"), out := silent())
    (address,) = mlflow
    assert address == (tmp_path / "runs/mlruns").as_uri()
    (run,) = mlflow[address].runs.values()
    assert (run["name"], run["in"], run["status"]) == ("one", "patchword", "FINISHED")
    assert run["params"]["model.depth"] == "2"
    assert [metric[3] for metric in run["metrics"] if metric[0] == "validation_loss"] == [10, 20]
    assert "test_accuracy" in {metric[0] for metric in run["metrics"]}
    assert run["files"] == ["report.html", "evaluation.json", "recipe.yaml"]
    assert "mlflow ui --backend-store-uri" in out.file.getvalue().replace("\n", " ")


def test_a_store_that_the_user_set_is_used(mlflow):
    sys.modules["mlflow"].set_tracking_uri("http://server")
    train_recipe(RECIPE.with_values({"loggers": ["mlflow"], "epochs": 1}), Path("runs/one"), silent())
    assert list(mlflow) == ["http://server"]
    assert mlflow["http://server"].experiments == {"patchword": None}


def test_a_resumed_run_continues_in_mlflow_unless_it_was_deleted_there(mlflow):
    class Stop(patchword.Callback):
        def on_epoch_end(self, metrics):
            return True

    fields = {"loggers": ["mlflow"], "epochs": 3, "device": "cpu", "model.depth": 1, "model.width": 16}
    for again in (False, True):
        patchword.train("digits-vit", name="run", quiet=True, callbacks=[Stop()], resume=again, **fields)
    (store,) = mlflow.values()
    (run,) = store.runs.values()
    assert [metric[1] for metric in run["metrics"] if metric[0] == "epoch"] == [1, 2]
    store.runs.clear()
    patchword.train("digits-vit", name="run", quiet=True, resume=True, **fields)
    (run,) = store.runs.values()
    assert [metric[1] for metric in run["metrics"] if metric[0] == "epoch"] == [3]


@pytest.fixture
def wandb(monkeypatch) -> list[dict[str, object]]:
    started = []

    def init(**settings):
        record = {**settings, "rows": [], "files": [], "exit": None}
        started.append(record)
        place = Path(settings["dir"]) / "wandb" / f"offline-{len(started)}" / "files"
        place.mkdir(parents=True)
        return SimpleNamespace(
            id=settings["id"] or "new-id",
            dir=str(place),
            log=lambda values, step: record["rows"].append((step, values)),
            summary=record.setdefault("summary", {}),
            save=lambda path, base_path, policy: record["files"].append(Path(path)),
            finish=lambda exit_code: record.update(exit=exit_code),
        )

    monkeypatch.setitem(sys.modules, "wandb", module("wandb", init=init, Settings=lambda **settings: settings))
    return started


def test_wandb_is_offline_unless_the_user_says_otherwise(wandb, monkeypatch):
    recipe = RECIPE.with_values({"loggers": ["wandb"], "epochs": 1})
    train_recipe(recipe, Path("runs/one"), out := silent())
    (run,) = wandb
    assert (run["mode"], run["project"], run["name"], run["exit"]) == ("offline", "patchword", "one", 0)
    assert run["config"]["epochs"] == 1
    assert [(step, values["epoch"]) for step, values in run["rows"] if "epoch" in values] == [(10, 1)]
    assert "test_accuracy" in run["summary"]
    assert [path.name for path in run["files"]] == ["report.html", "evaluation.json", "recipe.yaml"]
    assert not any(path.is_symlink() for path in run["files"])
    assert "to upload it: wandb sync" in out.file.getvalue().replace("\n", " ")
    monkeypatch.setenv("WANDB_MODE", "online")
    train_recipe(recipe, Path("runs/two"), silent())
    assert wandb[1]["mode"] == "online"


def test_ids_of_two_loggers_are_both_kept(tmp_path):
    run = LoggedRun(tmp_path, {})
    threads = [threading.Thread(target=run.remember_id, args=(name, name)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [LoggedRun(tmp_path, {}).known_id(name) for name in "abcde"] == ["a", "b", "c", "d", ""]
    (tmp_path / "loggers.json").write_text("[")
    assert run.known_id("a") == ""
