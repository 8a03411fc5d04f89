"""With and without SAM: what is measured of each run beyond its evaluation, and how it is told."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from patchword.analysis.sharpness.sharpness import SharpnessOptions
from patchword.cli.app import app
from patchword.core.errors import UserError
from patchword.inspection.measures import CorruptionAccuracy, LeadingEigenvalue
from patchword.inspection.robustness import Plan
from patchword.inspection.sharpness import SampleOptions
from patchword.recipes.run import Run
from patchword.reports.comparison.with_and_without import Comparison
from patchword.studies import STUDIES
from patchword.studies.sam import MODELS, in_words, sharpness_aware
from patchword.studies.seeds import study_over_seeds
from patchword.studies.study import Result, Study, results
from support.material import TINY_MODEL, sealed

EIGENVALUE = LeadingEigenvalue(
    SampleOptions(samples=32), SharpnessOptions(eigenvalues=1, products=3, probes=2, steps=1)
)
CORRUPTION = CorruptionAccuracy(Plan(("contrast", "fog"), (1, 5), count=40))
QUICK = ("data=digits", "epochs=1", "batch_size=512", "device=cpu", *TINY_MODEL, "model.image=8")


def small() -> Study:
    """The ViT alone, and little measured of it."""
    study = sharpness_aware()
    runs = {label: recipe for label, recipe in study.runs.items() if label.startswith("vit")}
    return replace(study, runs=runs, measured=(EIGENVALUE, CORRUPTION))


def train(folder: Path, *more: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STUDIES, "sharpness-aware", small)
        for place in ("patchword.api.evaluation", "patchword.reports"):  # after a run, and after its measures
            patch.setattr(f"{place}.write_report", lambda run, found: run.folder / "report.html")
        return CliRunner().invoke(app, ["train", "sharpness-aware", *QUICK, "--runs", str(folder), *more])


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs; tests that change it copy it first."""
    runs = tmp_path_factory.mktemp("runs")
    printed = train(runs)
    assert printed.exit_code == 0, printed.output
    assert printed.output.count("measuring the") == 4
    return runs


@pytest.fixture
def trained(once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(once, tmp_path / "runs") / "sharpness-aware"


def row(run: str, accuracy: float, eigenvalue: float, corruption: float) -> Result:
    measures = {"accuracy": accuracy, "leading_eigenvalue": eigenvalue, "corruption_accuracy": corruption}
    return Result(run, "m", 1, 1, "accuracy", "test", measures, 1.0, 1, 1.0)


ROWS = [
    row("vit-seed-0", 0.90, 100.0, 0.50),
    row("vit-seed-1", 0.92, 300.0, 0.54),
    row("vit-sam-seed-0", 0.92, 40.0, 0.60),
    row("vit-sam-seed-1", 0.93, 60.0, 0.60),
    row("resnet-seed-0", 0.90, 10.0, 0.50),
    row("resnet-sam-seed-0", 0.90, 20.0, 0.40),
]


def test_the_runs_differ_in_sam_and_nothing_else_flattens():
    study = sharpness_aware()
    assert list(study.runs) == ["vit", "vit-sam", "resnet", "resnet-sam", "mixer", "mixer-sam"]
    for label, (model, rho) in MODELS.items():
        plain, sam = study.runs[label], study.runs[f"{label}-sam"]
        assert (plain.model.name, plain.sam, sam.sam) == (model, 0, rho)
        assert plain.model_copy(update={"sam": rho}) == sam
        assert (plain.augmentation.parts(), plain.label_smoothing, plain.ema_decay, plain.average_last_epochs) == (
            (),
            0,
            0,
            0,
        )
    assert {recipe.epochs for recipe in study.with_settings(["epochs=2"]).runs.values()} == {2}
    with pytest.raises(UserError, match="what this study compares"):
        study.with_settings(["sam=0.1"])
    assert study_over_seeds(study, 2).measured == study.measured


def test_what_is_measured_is_all_that_was_asked_for():
    eigenvalue, corruption = sharpness_aware().measured
    assert (eigenvalue.asked.samples, eigenvalue.options.eigenvalues) == (2048, 1)
    assert (len(corruption.plan.kinds), corruption.plan.severities, corruption.plan.count) == (
        15,
        (1, 2, 3, 4, 5),
        2000,
    )


def test_every_run_is_measured_and_told(trained: Path):
    rows = list(csv.DictReader((trained / "results.csv").open()))
    assert [row["run"] for row in rows] == ["vit", "vit-sam"]
    for found in rows:
        kept = json.loads((trained / found["run"] / "sharpness.json").read_text())
        spoiled = json.loads((trained / found["run"] / "robustness.json").read_text())
        assert float(found["leading_eigenvalue"]) == kept["eigenvalues"][0]["value"]
        assert float(found["corruption_accuracy"]) == spoiled["mean_corruption_accuracy"]
        assert spoiled["digest"] == kept["digest"]
    printed = (trained / "results.md").read_text()
    assert "| model | SAM | test accuracy | leading eigenvalue | corruption accuracy |" in printed
    assert "- vit: SAM " in printed
    assert json.loads((trained / "results.json").read_text())["means"].keys() == {"vit", "vit-sam"}
    assert Image.open(trained / "results.png").size[0] > 1000


def test_nothing_is_measured_twice(trained: Path):
    before = [path.stat().st_mtime_ns for path in sorted(trained.glob("*/*.json"))]
    again = train(trained.parent, "--resume")
    assert (again.exit_code, again.output.count("(done)")) == (0, 2)
    assert "measuring" not in again.output
    assert [path.stat().st_mtime_ns for path in sorted(trained.glob("*/*.json"))] == before


def test_what_is_missing_or_of_other_weights_is_measured_again(trained: Path):
    (trained / "vit-sam" / "robustness.json").unlink()
    weights = trained / "vit" / "model.safetensors"
    save_file({name: tensor * 0.5 for name, tensor in load_file(weights).items()}, weights)
    sealed(weights.parent)
    assert "leading_eigenvalue" not in results(small(), trained)[0].measures
    again = train(trained.parent, "--resume")
    assert (again.exit_code, again.output.count("measuring the leading")) == (0, 1)
    assert again.output.count("measuring the corruption") == 2
    assert "leading_eigenvalue" in results(small(), trained)[0].measures


def test_other_samples_are_not_taken_for_these(trained: Path):
    run = Run(trained / "vit")
    assert EIGENVALUE.known(run) is not None
    assert replace(EIGENVALUE, asked=SampleOptions(samples=33)).known(run) is None
    assert replace(EIGENVALUE, asked=SampleOptions(samples=32, seed=1)).known(run) is None
    assert (
        replace(EIGENVALUE, options=SharpnessOptions(eigenvalues=1, products=50)).known(run) is None
    )  # three do not converge
    assert CORRUPTION.known(run) is not None
    for other in (replace(CORRUPTION.plan, count=39), replace(CORRUPTION.plan, kinds=("fog",)), Plan(count=40)):
        assert CorruptionAccuracy(other).known(run) is None


def test_a_measure_takes_what_the_verb_kept(trained: Path):
    run = Run(trained / "vit")
    words = ["sharpness", str(run.folder), "--samples", "24", "--eigenvalues", "2", "--iterations", "4"]
    words += ["--probes", "2", "--steps", "1", "--device", "cpu"]
    assert CliRunner().invoke(app, words).exit_code == 0
    kept = json.loads((run.folder / "sharpness.json").read_text())
    options = SharpnessOptions(eigenvalues=1, products=4)
    assert LeadingEigenvalue(SampleOptions(samples=24), options).known(run) == kept["eigenvalues"][0]["value"]


def test_the_share_of_the_work_that_is_done_is_told(trained: Path):
    run, printed = Run(trained / "vit"), []
    for measure in (EIGENVALUE, CORRUPTION):
        printed.clear()
        measure.measure(run, "cpu", printed.append)
        assert len(printed) > 4
        assert 0.5 < sum(printed) < 1 + 1e-6


def test_the_conclusion_tells_the_factor():
    vit, resnet = in_words(ROWS).splitlines()
    assert vit == (
        "vit: SAM lowers the leading eigenvalue by a factor of 4.00 (from 200 to 50), "
        "test accuracy +1.50 points, corruption accuracy +8.00 points."
    )
    assert resnet.startswith("resnet: SAM raises the leading eigenvalue by a factor of 2.00 (from 10 to 20), ")
    assert in_words(ROWS[:2]) == ""


def test_the_table_has_mean_and_spread():
    found = Comparison.of(sharpness_aware(), ROWS)
    assert found.grid().rows[0] == ["vit", "no", "91.00 ± 1.41", "200 ± 141", "52.00 ± 2.83"]
    assert found.grid().rows[3] == ["resnet", "yes", "90.00", "20.0", "40.00"]
    assert "over 2 seeds" in found.note
    axes = found.figure().axes
    assert [one.get_yscale() for one in axes] == ["linear", "log", "linear"]
    assert [one.get_ylabel() for one in axes] == [
        "test accuracy (%)",
        "leading eigenvalue\n(loss per squared weight)",
        "corruption accuracy (%)",
    ]
    flat = Comparison.of(sharpness_aware(), [row("vit", 0.9, -1.0, 0.5), row("vit-sam", 0.9, 1.0, 0.5)])
    assert flat.figure().axes[1].get_yscale() == "linear"
