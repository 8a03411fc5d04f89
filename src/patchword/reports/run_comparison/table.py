"""Runs of any kinds side by side: the settings that differ, the results, the costs, and what cannot be compared."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchword.core.disk_space import format_bytes
from patchword.core.errors import UserError
from patchword.recipes.run import Run
from patchword.recipes.run_folders.listing import RunSummary
from patchword.recipes.run_folders.records import read_record
from patchword.reports.comparison.study import Grid
from patchword.reports.plots.numbers import counted, duration, measured, named
from patchword.studies.run_models import cost_of

_NOT_SETTINGS = ("about", "expect", "keep_checkpoints", "save_minutes", "kind", "model.name")  # model has its own row
_ABSENT = "-"


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison. settings: the fields of its recipe; those of inner models have a dot in their name."""

    label: str
    summary: RunSummary
    settings: Mapping[str, Any]
    metrics: Sequence[Mapping[str, float]]
    evaluation: Mapping[str, Any]
    data: Mapping[str, Any]
    device: str
    parameters: int | None
    macs: int | None

    @property
    def measures(self) -> dict[str, float]:
        """The results on its test set, the main metric first."""
        known = {name: float(value) for name, value in self.evaluation.items() if isinstance(value, float)}
        return dict(sorted(known.items(), key=lambda item: item[0] != self.summary.metric))


def compared_run(label: str, summary: RunSummary) -> ComparedRun:
    """Read all that is compared of a run; a broken run raises an error."""
    if summary.state == "broken":
        raise UserError(f"{summary.folder} is broken", got=summary.problem, hint="compare the others without it")
    run = Run(summary.folder)
    machine = run.machine()
    cost = cost_of(run) if (summary.folder / "model.safetensors").is_file() else None
    return ComparedRun(
        label=label,
        summary=summary,
        settings=_settings(run),
        metrics=run.metrics(),
        evaluation=_json(run, "evaluation.json"),
        data=_json(run, "data.json"),
        device=str(machine.get("processor", "") if machine.get("device") == "cpu" else machine.get("device", "")),
        parameters=cost.parameters if cost else None,
        macs=cost.macs if cost else None,
    )


def comparison_grid(runs: Sequence[ComparedRun]) -> Grid:
    """Return the table: one column per run; first the results and costs, then the settings that differ."""
    rows = [
        ["kind", *(run.summary.kind for run in runs)],
        ["model", *(_value(run.summary.model) for run in runs)],
        ["state", *(run.summary.position() for run in runs)],
        ["epochs done", *(str(run.summary.epoch) for run in runs)],
        *_validation(runs),
        *_results(runs),
        ["parameters", *(f"{run.parameters:,}" if run.parameters is not None else _ABSENT for run in runs)],
        ["MACs per input", *(f"{run.macs:,}" if run.macs is not None else _ABSENT for run in runs)],
        ["training time", *(duration(run.summary.seconds) if run.summary.seconds else _ABSENT for run in runs)],
        ["trained on", *(run.device or _ABSENT for run in runs)],
        ["size on disk", *(format_bytes(run.summary.bytes) for run in runs)],
        ["date", *(run.summary.date[:16] for run in runs)],
        *differing_settings(runs),
    ]
    return Grid(["", *(run.label for run in runs)], rows)


def differing_settings(runs: Sequence[ComparedRun]) -> list[list[str]]:
    """Return a row per setting that is not the same in all runs, of the settings that all their kinds have."""
    names = [name for name in _settings_of(runs) if all(name in of_kind for of_kind in _kinds(runs))]
    rows = [[name, *(_value(run.settings.get(name)) for run in runs)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def settings_of_some_kinds(runs: Sequence[ComparedRun]) -> list[str]:
    """Return the settings that the table leaves out, since not all of the kinds have them."""
    return [name for name in _settings_of(runs) if not all(name in of_kind for of_kind in _kinds(runs))]


def _settings_of(runs: Sequence[ComparedRun]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run.settings if name not in _NOT_SETTINGS))


def _kinds(runs: Sequence[ComparedRun]) -> list[set[str]]:
    """Return the names of the settings of each kind; two runs of a kind can have other models."""
    kinds: dict[str, set[str]] = {}
    for run in runs:
        kinds.setdefault(run.summary.kind, set()).update(run.settings)
    return list(kinds.values())


def _validation(runs: Sequence[ComparedRun]) -> list[list[str]]:
    """Return a row per main metric with its best value on the validation data."""
    rows = []
    for metric in dict.fromkeys(run.summary.metric for run in runs if run.summary.validation is not None):
        cells = [
            measured(metric, run.summary.validation)
            if run.summary.metric == metric and run.summary.validation is not None
            else _ABSENT
            for run in runs
        ]
        rows.append([f"best validation {named(metric)}", *cells])
    return rows


def _results(runs: Sequence[ComparedRun]) -> list[list[str]]:
    """Return a row per measure of the evaluations, and per part of the data that was evaluated."""
    keys = dict.fromkeys((run.summary.part, name) for run in runs for name in run.measures)
    return [
        [
            f"{part} {named(name)}",
            *(
                measured(name, run.measures[name]) if run.summary.part == part and name in run.measures else _ABSENT
                for run in runs
            ),
        ]
        for part, name in keys
    ]


def not_comparable(runs: Sequence[ComparedRun]) -> list[str]:
    """Return, in sentences, which rows of the table do not measure the same thing in all runs."""
    found = []
    kinds = _groups(runs, lambda run: run.summary.kind)
    metrics = _groups(runs, lambda run: run.summary.metric)
    if len(kinds) > 1:
        found.append(f"The kinds differ ({_listed(kinds)}): losses and scores of different kinds cannot be compared.")
        if left_out := settings_of_some_kinds(runs):
            found.append(f"{counted(len(left_out), 'setting')} that only some of the kinds have are left out.")
    elif len(metrics) > 1:
        found.append(f"The main metrics differ ({_listed(metrics)}): only equal rows can be compared.")
    if len(kinds) == 1 and len(_groups(runs, lambda run: run.data.get("name"))) > 1:
        data = _groups(runs, lambda run: str(run.data.get("name")))
        found.append(f"The data differs ({_listed(data)}): scores on different data cannot be compared.")
    elif len(kinds) == 1 and len(_groups(runs, lambda run: run.data.get("fingerprint"))) > 1:
        found.append("The training samples differ: scores can be compared only if the test set is the same.")
    if len(parts := _groups([run for run in runs if run.evaluation], lambda run: run.summary.part)) > 1:
        found.append(f"The scores are of different parts of the data ({_listed(parts)}).")
    if open_runs := [run.label for run in runs if run.summary.state != "finished"]:
        found.append(f"Not finished: {', '.join(open_runs)}. Its numbers are those of the epochs that are done.")
    if len(_groups(runs, lambda run: run.device)) > 1:
        found.append("The runs were trained on different machines: training times cannot be compared.")
    return found


def _groups(runs: Sequence[ComparedRun], key: Any) -> dict[Any, list[str]]:
    groups: dict[Any, list[str]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run.label)
    return groups


def _listed(groups: Mapping[Any, list[str]]) -> str:
    return "; ".join(f"{', '.join(labels)}: {name or 'none yet'}" for name, labels in groups.items())


def _settings(run: Run) -> dict[str, Any]:
    """Return the fields of the recipe; those of the model are the whole config that was saved with the weights."""
    values = run.recipe().model_dump(mode="json")
    if isinstance(teacher := values.get("teacher"), dict) and not teacher.get("name"):
        del values["teacher"]  # without one, its other fields have no effect
    card = _json(run, "config.json").get("config")
    return _flat({**values, "model": {**values["model"], **card}} if isinstance(card, dict) else values)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if prefix + name in _NOT_SETTINGS:
            continue
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _value(value: Any) -> str:
    """Return a setting as it is typed; of a long path, the end."""
    text = str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
    if value is None or text == "" or (isinstance(value, float) and not math.isfinite(value)):
        return _ABSENT
    return text if len(text) <= 40 else "\N{HORIZONTAL ELLIPSIS}" + text[-39:]


def _json(run: Run, name: str) -> dict[str, Any]:
    return read_record(run.folder, name)
