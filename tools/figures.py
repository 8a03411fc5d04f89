"""Draws the figures of docs from the numbers in benchmarks/results, or by a command, without a GPU or training.

python tools/figures.py            # all of them
python tools/figures.py positions  # one
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from patchword.analysis.published.comparison import Row, chosen, row_of
from patchword.analysis.speed import Speed
from patchword.inspection.saved_landscape import read_landscape
from patchword.recipes.run import Run
from patchword.reports.colors import TEXT
from patchword.reports.comparison import scatter
from patchword.reports.comparison.measures import Column, MeasuresComparison
from patchword.reports.comparison.panels import draw_rows, grouped, panels_figure
from patchword.reports.comparison.positions import accuracy_figure
from patchword.reports.comparison.with_and_without import Comparison
from patchword.reports.landscape.axes import RunLandscape
from patchword.reports.landscape.landscape import landscape_figure
from patchword.reports.plots.figures import drawn, figure_style
from patchword.studies.scene_systems import SEGMENTERS
from patchword.studies.study import Result, Study, by_run
from patchword.studies.text_positions import Exercise, Finding
from patchword.zoo.entries import entries

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def positions() -> Figure:
    record = json.loads((RESULTS / "positions.json").read_text(encoding="utf-8"))
    length = record["trained_length"]
    found = [
        Finding(one["encoding"], one["weights"], tuple(one["accuracy"].values()), None, None, None, None)
        for one in record["encodings"]
    ]
    tested = [int(tokens) for tokens in record["encodings"][0]["accuracy"]]
    return accuracy_figure(found, Exercise(length=length, lengths=tuple(tokens / length for tokens in tested)))


def contextual_or_static() -> Figure:
    record = json.loads((RESULTS / "contextual_or_static.json").read_text(encoding="utf-8"))
    runs = [_result(one["run"], one["metric"], {one["metric"]: one[one["metric"]]}) for one in record["runs"]]
    return panels_figure(grouped(runs, ("tags", "classes")))


def pretraining_or_scratch() -> Figure:
    tasks = _rows("pretraining-or-scratch-h200.md", "task")
    figure = Figure(figsize=(13, 2.6), layout="constrained")
    figure.suptitle("Pretrained, or from random weights: scores x 100", size=13, weight="bold")
    for number, (task, metric, *arms) in enumerate(tasks, start=1):
        axes = figure.add_subplot(1, len(tasks), number)
        axes.set_title(f"{task}: {metric}", size=11.5)
        values = [[float(value) for value in arm.split(",")] for arm in arms]
        draw_rows(axes, dict(zip(("pretrained", "from scratch"), values, strict=True)))
    figure.supxlabel("dots: seeds; lines and numbers: means", size=9, color=TEXT)
    return figure


def scene_backbones() -> Figure:
    study = Study(about="", time="", runs={}, against="pretrained", baseline="scratch")
    runs = []
    for backbone, arm, *values in _rows("scene-backbones-h200.md", "backbone"):
        runs += _seeds(f"{backbone}-{arm}", {"box_ap": values[0], "mask_ap": values[2]})
    comparison = Comparison.of(study, runs)
    return Comparison(study, runs, _columns("box AP", "mask AP"), comparison.rows).figure()


def scene_systems() -> Figure:
    names = "box AP", "mask AP", "mIoU", "pixel accuracy"
    measures = [column.field for column in _columns(*names)]
    runs = []
    for system, first, _, second, _ in _rows("scene-systems-h200.md", "system"):
        found = measures[2:] if system in SEGMENTERS else measures[:2]
        runs += _seeds(system, dict(zip(found, (first, second), strict=True)))
    study = Study(about="", time="", runs={})
    figure = MeasuresComparison(study, runs, _columns(*names), by_run(runs)).figure()
    for mean in (text for axes in figure.axes for text in axes.texts):
        mean.set_text(f"{float(mean.get_text()):.1f}")  # of seeds with two decimals, the second one is not exact
    return figure


def compare_accuracy() -> bytes:
    return scatter.accuracy([row_of(name) for name in chosen(())])["png"]


def compare_speed() -> bytes:
    found: dict[str, Row] = {}
    for name in ("vision-speed-h200", "vision-speed-cswin-h200", "vision-per-mac-h200"):
        record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for one in record["results"]:
            model, batch = one["setting"]["model"], one["setting"]["batch"]
            if not one["setting"]["train"] and model not in found:
                speed = Speed(batch, 1, batch / one["images_per_second"]["patchword"], None)
                found[model] = row_of(model).measured(None, speed)
    rows = [found[name] for name in chosen(()) if name in found]
    return scatter.speed(rows, "Measured on NVIDIA H200: inference, batch 256, bfloat16, compiled.")["png"]


def loss_surfaces() -> Figure:
    found = []
    for name in ("vit-exercise", "resnet-mini"):
        saved = read_landscape(Run(entries()[name]))
        assert saved is not None
        found.append(RunLandscape(name, saved.sample, saved.loss_name, saved.has_accuracy, saved.found))
    return landscape_figure(found, "random")


def alignment() -> bytes:
    text = "A man in a blue shirt is standing on a ladder cleaning a window."
    return _command("translate", "zoo:translator-en-de", text, "--alignment", "alignment.png")


def windows() -> bytes:
    return _command("windows", "swin-tiny", "--out", ".")


def windows_of_stage() -> bytes:
    return _command("windows", "swin-tiny", "--stage", "1", "--out", ".")


def _command(*words: str) -> bytes:
    """Run a command in an empty folder, and return the figure that it writes there."""
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, "-c", "import patchword.cli; patchword.cli.main()"]
        subprocess.run([*start, *words], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        (path,) = Path(folder).glob("*.png")
        return path.read_bytes()


def _columns(*names: str) -> list[Column]:
    return [Column(name.lower().replace(" ", "_"), f"test {name}", "%", 1.0) for name in names]


def _rows(file: str, head: str) -> list[list[str]]:
    """Return the cells of the tables of a Markdown file whose first column is `head`."""
    found: list[list[str]] = []
    inside = False
    for line in (RESULTS / file).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[0] == head:
            inside = True
        elif inside and not re.fullmatch(r"[-: ]+", cells[0]):
            found.append(cells)
    return found


def _seeds(name: str, measures: dict[str, str]) -> list[Result]:
    """Return a run per seed. measures: the values of all seeds, with commas, by field; may be empty."""
    values = {field: [float(part) for part in text.split(",")] for field, text in measures.items() if text}
    seeds = range(len(next(iter(values.values()))))
    return [
        _result(f"{name}-seed-{seed}", "", {field: found[seed] for field, found in values.items()}) for seed in seeds
    ]


def _result(run: str, metric: str, measures: dict[str, float]) -> Result:
    return Result(run, "", 0, 0, metric, "test", measures, 0.0, 0, 0.0)


FIGURES: dict[str, Callable[[], Figure | bytes]] = {
    "positions": positions,
    "contextual-or-static": contextual_or_static,
    "pretraining-or-scratch": pretraining_or_scratch,
    "scene-backbones": scene_backbones,
    "scene-systems": scene_systems,
    "compare-accuracy": compare_accuracy,
    "compare-speed": compare_speed,
    "loss-surfaces": loss_surfaces,
    "alignment": alignment,
    "windows-swin-tiny": windows,
    "windows-swin-tiny-stage-1": windows_of_stage,
}


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        sys.exit(f"no figure is called {unknown[0]!r}: expected one of {', '.join(FIGURES)}")
    for name in names or FIGURES:
        path = ROOT / "docs" / f"{name}.png"
        with figure_style():
            figure = FIGURES[name]()
            path.write_bytes(figure if isinstance(figure, bytes) else drawn(figure, "png"))
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
