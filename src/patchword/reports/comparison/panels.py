"""A study of several tasks: one row per candidate, one column and one panel per task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from patchword.core.files import whole_file, write_json, write_text
from patchword.reports.colors import BLUE, INK, TEXT
from patchword.reports.comparison.study import Grid, group_of, write_csv
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import duration, measured, named, scale_of, shortened
from patchword.studies.spread import Spread
from patchword.studies.study import Result

_KINDS: tuple[Literal["svg", "png"], ...] = ("svg", "png")
Groups = dict[str, dict[str, list[Result]]]  # task -> candidate -> its seeds


def grouped(results: Sequence[Result], panels: Sequence[str]) -> Groups:
    """Group results by panel and row: tags-word2vec-seed-0 is in the panel tags and the row word2vec."""
    found: Groups = {}
    for result in results:
        panel = next(panel for panel in panels if result.run.startswith(f"{panel}-"))
        found.setdefault(panel, {}).setdefault(group_of(result).removeprefix(f"{panel}-"), []).append(result)
    return found


def panels_grid(groups: Groups) -> Grid:
    """Return the mean of each task's measure and its standard deviation over the seeds."""
    columns = ["vectors"]
    for panel, rows in groups.items():
        first = next(iter(rows.values()))[0]
        columns += [f"{panel}, {first.part} {named(first.metric)}", "seeds", "training time"]
    labels = dict.fromkeys(label for rows in groups.values() for label in rows)
    cells = [[label, *(cell for rows in groups.values() for cell in _cells(rows.get(label, [])))] for label in labels]
    return Grid(columns, cells)


def _cells(seeds: Sequence[Result]) -> list[str]:
    if not seeds:
        return ["", "", ""]
    metric, spread = seeds[0].metric, Spread.of([result.score for result in seeds])
    deviation = "" if spread.deviation is None else f" \N{PLUS-MINUS SIGN} {measured(metric, spread.deviation)}"
    seconds = duration(Spread.of([result.seconds for result in seeds]).mean)
    return [f"{measured(metric, spread.mean)}{deviation}", str(len(seeds)), seconds]


def write_panels(
    about: str, results: Sequence[Result], panels: Sequence[str], folder: Path, conclusion: str
) -> list[Path]:
    """Write results.md, results.json, results.csv and one figure into the study's folder."""
    groups = grouped(results, panels)
    note = "Mean over the seeds, with the standard deviation."
    write_text(folder / "results.md", f"{about} {note}\n\n{panels_grid(groups).markdown()}\n{conclusion}\n")
    record = {"about": about, "conclusion": conclusion, "means": _means(groups), **_runs(results)}
    write_json(folder / "results.json", record)
    for kind in _KINDS:
        with whole_file(folder / f"results.{kind}") as temporary:
            temporary.write_bytes(drawn(panels_figure(groups), kind))
    figures = [folder / f"results.{kind}" for kind in _KINDS]
    return [folder / "results.md", folder / "results.json", write_csv(results, folder), *figures]


def _means(groups: Groups) -> dict[str, Any]:
    return {
        panel: {label: Spread.of([result.score for result in seeds]).to_json() for label, seeds in rows.items()}
        for panel, rows in groups.items()
    }


def _runs(results: Sequence[Result]) -> dict[str, Any]:
    return {"runs": [result.to_json() for result in results]}


def panels_figure(groups: Groups) -> Figure:
    """Draw a panel per task: a dot per seed, a line at their mean, in the study's order from the top."""
    most = max(len(rows) for rows in groups.values())
    with figure_style():
        figure = Figure(figsize=(4.2 * len(groups) + 0.6, 0.42 * most + 1.3), layout="constrained")
        figure.suptitle(f"{' and '.join(groups)}: mean and seeds of each row", size=13, weight="bold")
        for number, (panel, rows) in enumerate(groups.items()):
            seeds = list(rows.values())
            metric, part = seeds[0][0].metric, seeds[0][0].part
            scale, unit = scale_of(metric)
            axes = figure.add_subplot(1, len(groups), number + 1, xlabel=f"{part} {named(metric)}{unit}")
            axes.set_title(panel, size=11.5)
            draw_rows(axes, {label: [scale * result.score for result in runs] for label, runs in rows.items()})
        figure.supxlabel("dots: seeds; lines and numbers: means", size=9, color=TEXT)
        return figure


def draw_rows(axes: Axes, rows: Mapping[str, Sequence[float]]) -> None:
    """Draw a row per label, from the top: a dot per seed, a line at their mean, and the mean as a number.

    A row without values stays empty.
    """
    for place, values in enumerate(rows.values()):
        if not values:
            continue
        mean = Spread.of(values).mean
        axes.plot([mean, mean], [place - 0.26, place + 0.26], color=INK, linewidth=2)
        axes.plot(values, [place] * len(values), "o", color=BLUE, markersize=5, alpha=0.75)
        beyond = (max(values), place)
        axes.annotate(f"{mean:.2f}", beyond, (8, 0), textcoords="offset points", va="center", size=9)
    axes.set_yticks(range(len(rows)), [shortened(label, 30) for label in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.3)
    axes.xaxis.set_major_locator(MaxNLocator(4))
