"""MLflow: a local store beside the runs, unless the user has named a server."""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from patchword.training.loggers.logger import LoggedRun, Outcome

_PARAMETERS = 100  # MLflow's limit per call
_LONGEST = 500  # characters of a parameter that every store takes
_STATUS = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


class MLflow:
    """Records a run in MLflow's experiment `patchword`, or in $MLFLOW_EXPERIMENT_NAME.

    It uses a client of its own: the active run and the settings of the user's program stay as they are.
    """

    def __init__(self) -> None:
        self.client: Any = None
        self.id, self.step = "", 0

    def start(self, run: LoggedRun) -> str:
        from mlflow import MlflowClient

        logging.getLogger("alembic").setLevel(logging.WARNING)  # MLflow logs each table that it creates
        logging.getLogger("mlflow.store").setLevel(logging.WARNING)
        chosen = _chosen_store()
        address = chosen or _local_store(run.folder.absolute().parent)
        self.client, self.step = MlflowClient(tracking_uri=address), run.step
        self.id = run.known_id("mlflow")
        if not self._continues():
            experiment = self._experiment("" if chosen else (run.folder.absolute().parent / "mlruns").as_uri())
            self.id = self.client.create_run(experiment, run_name=run.folder.name).info.run_id
            run.remember_id("mlflow", self.id)
            self._log_recipe(run.recipe)
        view = "" if chosen else f"; to look at it: mlflow ui --backend-store-uri {address}"
        return f"recorded in {address}{view}"

    def log(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        self.step, now = max(step, self.step), _milliseconds()
        self.client.log_batch(self.id, metrics=[Metric(name, value, now, step) for name, value in values.items()])

    def result(self, values: Mapping[str, float], files: Sequence[Path]) -> None:
        self.log(values, self.step)
        for file in files:
            self.client.log_artifact(self.id, str(file))

    def close(self, outcome: Outcome) -> None:
        if self.id:
            self.client.set_terminated(self.id, _STATUS[outcome])

    def _continues(self) -> bool:
        """Return whether the run of an earlier start is still there; it is opened again."""
        from mlflow.exceptions import MlflowException

        try:
            if self.id:
                self.client.update_run(self.id, status="RUNNING")
            return bool(self.id)
        except MlflowException:
            return False

    def _experiment(self, files: str) -> str:
        """Return the id of the experiment; a new one is created. files: where it keeps files; empty: as MLflow does"""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "patchword"
        known = self.client.get_experiment_by_name(name)
        return str(known.experiment_id if known else self.client.create_experiment(name, files or None))

    def _log_recipe(self, recipe: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        fields = [Param(name, str(value)[:_LONGEST]) for name, value in recipe.items()]
        for first in range(0, len(fields), _PARAMETERS):
            self.client.log_batch(self.id, params=fields[first : first + _PARAMETERS])


def _chosen_store() -> str:
    """Return the address that the user has set, in the environment or in the program; empty if there is none."""
    import mlflow

    return str(mlflow.get_tracking_uri()) if mlflow.is_tracking_uri_set() else ""


def _local_store(runs: Path) -> str:
    """Return a database beside the runs, or a folder, if MLflow is installed without databases (mlflow-skinny)."""
    return f"sqlite:///{runs / 'mlflow.db'}" if find_spec("sqlalchemy") else (runs / "mlruns").as_uri()


def _milliseconds() -> int:
    return round(1000 * time.time())
