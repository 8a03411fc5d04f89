"""The runs of several seeds: each seed's result, mean, standard deviation, and a figure of dots."""

from collections.abc import Sequence
from pathlib import Path

from patchword.core.files import write_json, write_text
from patchword.reports.comparison.study import Grid, data_part, write_csv, write_dots
from patchword.reports.plots.numbers import duration, heading, measured
from patchword.studies.seeds import spreads
from patchword.studies.spread import Spread
from patchword.studies.study import Result


def seeds_grid(results: Sequence[Result]) -> Grid:
    """Return the table of all seeds, with mean, standard deviation and median below.

    Measures that do not fit are not printed; results.md has all of them.
    """
    first, found = results[0], spreads(results)
    names = list(dict.fromkeys([first.metric, *found]))
    titles = {name: f"{data_part(results)} {heading(name)}" for name in names}
    columns = ["run", *titles.values(), "epochs", "training time"]
    rows = [
        [
            result.run,
            *(measured(name, {**result.measures, "loss": result.loss}[name]) for name in names),
            str(result.epochs),
            duration(result.seconds),
        ]
        for result in results
    ]
    below = [
        [title, *(_cell(name, getattr(found[name], field)) for name in names), "", ""]
        for title, field in (("mean", "mean"), ("standard deviation", "deviation"), ("median", "median"))
    ]
    optional = [title for name, title in titles.items() if name not in (first.metric, "loss")]
    return Grid(columns, rows, below=below, optional=optional)


def _cell(name: str, value: float | None) -> str:
    return "" if value is None else measured(name, value)


def seeds_in_words(results: Sequence[Result]) -> str:
    """Return one sentence with the numbers to report in a paper."""
    metric = results[0].metric
    spread: Spread = spreads(results)[metric]
    text = f"{data_part(results)} {heading(metric)} over {len(results)} {'seed' if len(results) == 1 else 'seeds'}: "
    text += f"mean {measured(metric, spread.mean)}"
    if spread.deviation is not None:
        text += f", standard deviation {measured(metric, spread.deviation)}"
    return f"{text}, median {measured(metric, spread.median)}"


def write_seeds(about: str, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write results.md, results.json, results.csv, results.svg and results.png into the folder of the runs."""
    first, found = results[0], spreads(results)
    made = f"{first.model}, {first.parameters:,} parameters, {first.macs:,} MACs"
    text = f"{about}\n\n{made}.\n\n{seeds_grid(results).markdown()}\n{seeds_in_words(results)}\n"
    write_text(folder / "results.md", text)
    summary = {name: spread.to_json() for name, spread in found.items()}
    runs = [result.to_json() for result in results]
    write_json(folder / "results.json", {"metric": first.metric, "part": first.part, "summary": summary, "runs": runs})
    lines = {name: getattr(found[first.metric], name) for name in ("mean", "median")}
    dots = write_dots(results, folder, lines)
    return [folder / "results.md", folder / "results.json", write_csv(results, folder), *dots]
