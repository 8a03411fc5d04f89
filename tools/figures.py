"""Draws the figures of docs from the numbers in benchmarks/results, so that they can be made again without a GPU.

python tools/figures.py            # all of them
python tools/figures.py positions  # one
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from patchword.reports.comparison.measures import Column
from patchword.reports.comparison.panels import grouped, panels_figure
from patchword.reports.comparison.positions import accuracy_figure
from patchword.reports.comparison.with_and_without import Comparison
from patchword.reports.plots.figures import drawn, figure_style
from patchword.studies.study import Result, Study
from patchword.studies.text_positions import Exercise, Finding

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


def scene_backbones() -> Figure:
    study = Study(about="", time="", runs={}, against="pretrained", baseline="scratch")
    runs = []
    for backbone, arm, *values in _rows("scene-backbones-h200.md", "backbone"):
        runs += _seeds(f"{backbone}-{arm}", {"box_ap": values[0], "mask_ap": values[2]})
    comparison = Comparison.of(study, runs)
    return Comparison(study, runs, _columns("box AP", "mask AP"), comparison.rows).figure()


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


FIGURES: dict[str, Callable[[], Figure]] = {
    "positions": positions,
    "contextual-or-static": contextual_or_static,
    "scene-backbones": scene_backbones,
}


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        sys.exit(f"no figure is called {unknown[0]!r}: expected one of {', '.join(FIGURES)}")
    for name in names or FIGURES:
        path = ROOT / "docs" / f"{name}.png"
        with figure_style():
            path.write_bytes(drawn(FIGURES[name](), "png"))
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
