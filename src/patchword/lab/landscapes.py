"""The loss landscape, sharpness and robustness of runs: what their folders have, and the jobs that compute it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from patchword.analysis.cost import count
from patchword.core.errors import UserError
from patchword.data.corruptions import GROUPS
from patchword.inspection.robustness import known_robustness, of_these_weights
from patchword.inspection.saved_landscape import SavedLandscape, read_landscape
from patchword.inspection.saved_sharpness import read_sharpness
from patchword.inspection.sharpness import weights_digest
from patchword.lab.errors import UnknownIdError
from patchword.lab.jobs import Job, Jobs
from patchword.lab.models import ListedModel
from patchword.lab.run_folders.content import finite
from patchword.recipes.run import Run
from patchword.recipes.run_folders.listing import run_folders
from patchword.recipes.schema.reading import read_recipe
from patchword.weights.io.loading import open_weights
from patchword.zoo.entries import PREFIX, is_entry

Verb = Literal["landscape", "sharpness", "robustness"]
VERBS: tuple[Verb, ...] = ("landscape", "sharpness", "robustness")
KINDS = ("images", "text")  # of recipes that `patchword landscape` can open
MACS_PER_SECOND = 8e9  # of a small model on one core of a CPU; only for the expected time
BEGIN = 15  # seconds until a child has loaded the run
PRODUCT, PRODUCTS = 6, 130  # a Hessian-vector product in forward passes, and their number for the default options
CORRUPTED, IMAGES = 76, 1000  # passes over the test images, and how many are taken of them
MOST_RUNS = 500
AGAIN = "remove it, and run `patchword sharpness` again"


@dataclass(frozen=True)
class MeasuredRun:
    """A run that may have been measured. can_compute: False for a model of the zoo and for other kinds of recipes."""

    id: str
    name: str
    run: Run
    kind: str

    @property
    def can_compute(self) -> bool:
        return self.kind in KINDS and not self.run.is_read_only

    def to_json(self) -> dict[str, Any]:
        """Return what the list shows."""
        folder = self.run.folder
        is_there = {verb: (folder / f"{verb}.json").is_file() for verb in VERBS}
        is_there["landscape"] |= (folder / "surface.json").is_file()
        return {"id": self.id, "name": self.name, "kind": self.kind, "can_compute": self.can_compute, "has": is_there}


def measured_runs(models: Mapping[str, ListedModel], runs: Path) -> dict[str, MeasuredRun]:
    """Return models of the zoo (zoo:NAME), given runs (@ID), and the runs of a folder, by the ids of the page Runs."""
    found: dict[str, MeasuredRun] = {}
    for model in models.values():
        if _is_trained(model.folder) and runs.resolve() not in model.folder.resolve().parents:
            id = f"{PREFIX}{model.name}" if is_entry(model.folder) else f"@{model.id}"
            found[id] = MeasuredRun(id, model.name, Run(model.folder), model.kind)
    for folder in islice(run_folders(runs), MOST_RUNS) if runs.is_dir() else ():
        if _is_trained(folder):
            name = str(folder.relative_to(runs))
            id = _id(name)
            found[id] = MeasuredRun(id, name, Run(folder), _kind_of(folder))
    return found


def _id(name: str) -> str:
    """Return a name as an id: one part of an address, which starts with @ only if the run was given."""
    return name.replace("~", "~0").replace("/", "~1").replace("@", "~2")


def find_run(runs: Mapping[str, MeasuredRun], id: str) -> MeasuredRun:
    """Return a run by its id."""
    if id not in runs:
        raise UnknownIdError(f"the lab has no run {id[:80]!r}")
    return runs[id]


def list_json(runs: Mapping[str, MeasuredRun], jobs: Jobs) -> dict[str, Any]:
    """Return the runs that have a landscape or can get one, and the job that is running."""
    shown = [one.to_json() for one in runs.values()]
    running = jobs.running()
    return {
        "runs": [one for one in shown if one["has"]["landscape"] or one["can_compute"]],
        "job": _job_json(running, jobs) if running is not None else None,
    }


def measures_json(one: MeasuredRun) -> dict[str, Any]:
    """Return all that is known about a run. Measures of earlier weights are left out; their names are in "older"."""
    landscape, sharpness, older = read_landscape(one.run), read_sharpness(one.run), []
    if landscape is not None and not landscape.belongs_to(one.run):
        landscape, older = None, ["landscape"]
    if sharpness and sharpness.get("digest") != weights_digest(one.run):
        sharpness, older = {}, [*older, "sharpness"]
    robustness = known_robustness(one.run)
    if robustness is not None and not of_these_weights(one.run):
        robustness, older = None, [*older, "robustness"]
    found: dict[str, Any] = {
        "older": older,
        "landscape": None if landscape is None else _landscape_json(landscape),
        "sharpness": _sharpness_json(sharpness) if sharpness else None,
        "robustness": None if robustness is None else {**robustness.to_json(), "groups": _groups(robustness.corrupted)},
    }
    return {**one.to_json(), **{name: finite(value) for name, value in found.items()}}


def seconds_of(one: MeasuredRun, verb: Verb, size: int, samples: int) -> int:
    """Return about how long a measurement takes on a CPU."""
    macs = count(open_weights(one.run.folder).card).macs
    passes = {"landscape": size * size * samples, "sharpness": PRODUCT * PRODUCTS * samples}
    images = passes.get(verb, CORRUPTED * IMAGES)
    return round(BEGIN + images * macs / MACS_PER_SECOND)


def start_job(jobs: Jobs, one: MeasuredRun, verb: Verb, size: int, samples: int) -> Job:
    """Start the measurement of a run as a job. The figure of the landscape is written into the run's folder."""
    if not one.can_compute:
        one.run.check_writable()
        raise UserError(f"{one.name} is a run of the kind {one.kind!r}", expected=f"a run of {' or '.join(KINDS)}")
    if verb == "robustness" and one.kind != "images":
        raise UserError(f"{one.name} is a run on texts", expected="a run on images, whose test images are corrupted")
    folder = str(one.run.folder.absolute())
    words = {
        "landscape": ["--size", str(size), "--samples", str(samples), "--out", f"{folder}/landscape.png"],
        "sharpness": ["--samples", str(samples)],
        "robustness": ["--count", str(IMAGES)],
    }
    return jobs.start(verb, [folder, *words[verb]], name=one.name, about={"run": one.id})


def stop_job(jobs: Jobs, id: str) -> Job:
    """Stop one of these jobs; a job of another page is left alone."""
    if jobs.find(id).verb not in VERBS:
        raise UnknownIdError(f"this page has no job {id[:80]!r}")
    return jobs.stop(id)


def _job_json(job: Job, jobs: Jobs) -> dict[str, Any]:
    lines = jobs.output(job.id, 4000).strip().splitlines()
    return {**job.to_json(), "line": lines[-1][:200] if lines else ""}


def _is_trained(folder: Path) -> bool:
    return (folder / "recipe.yaml").is_file() and (folder / "model.safetensors").is_file()


def _kind_of(folder: Path) -> str:
    try:
        return str(read_recipe(folder / "recipe.yaml").kind)
    except UserError:
        return ""


def _landscape_json(saved: SavedLandscape) -> dict[str, Any]:
    loss, accuracy = saved.found.middle
    return {
        "directions": saved.kind,
        "sample": saved.sample,
        "loss_name": saved.loss_name,
        "places": saved.found.places.tolist(),
        "loss": saved.found.losses.tolist(),
        "accuracy": saved.found.accuracies.tolist() if saved.has_accuracy else None,
        "middle": {"loss": loss, "accuracy": accuracy if saved.has_accuracy else None},
    }


def _sharpness_json(kept: Mapping[str, Any]) -> dict[str, Any]:
    names = ("sample", "weights", "loss_name", "loss", "accuracy", "eigenvalues", "lowest", "trace", "epsilon")
    if missing := [name for name in names if name not in kept]:
        raise UserError("sharpness.json of this run is not complete", expected=missing[0], hint=AGAIN)
    return {name: kept[name] for name in names}


def _groups(corrupted: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Return the mean accuracy of every group of corruptions that was measured as a whole."""
    means = {kind: sum(row.values()) / len(row) for kind, row in corrupted.items()}
    whole = {name: kinds for name, kinds in GROUPS.items() if all(kind in means for kind in kinds)}
    return {name: sum(means[kind] for kind in kinds) / len(kinds) for name, kinds in whole.items()}
