"""The nine tasks of GLUE (Wang et al. 2018) from a folder of its TSV files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patchword.core.errors import UserError, nearest
from patchword.data.faults import report_fault
from patchword.data.text.formats.tables import Table, TableFormat, read_table

GluePart = Literal["train", "validation", "validation-mismatched", "test", "test-mismatched"]

_FILES: dict[str, tuple[str, ...]] = {"train": ("train.tsv",), "validation": ("dev.tsv",), "test": ("test.tsv",)}
_TWO_GENRES: dict[str, tuple[str, ...]] = {
    "train": ("train.tsv",),
    "validation": ("dev_matched.tsv",),
    "validation-mismatched": ("dev_mismatched.tsv",),
    "test": ("test_matched.tsv",),
    "test-mismatched": ("test_mismatched.tsv",),
}
_AS_PUBLISHED: dict[str, tuple[str, ...]] = {  # MRPC before GLUE cut a dev part from its training part
    **_FILES,
    "train": ("train.tsv", "msr_paraphrase_train.txt"),
    "test": ("test.tsv", "msr_paraphrase_test.txt"),
}
_OTHER_FILES: dict[str, dict[str, tuple[str, ...]]] = {"mnli": _TWO_GENRES, "mrpc": _AS_PUBLISHED}
_ENTAILED = ("entailment", "not_entailment")


@dataclass(frozen=True)
class GlueTask:
    """The files and labels of one GLUE task.

    labels: in the order of the GLUE data sets; empty for a regression from 0 to 5.
    """

    folder: str
    text: str
    pair: str | None
    label: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...] = ("accuracy",)
    counts: str = "accuracy"  # the metric that chooses a checkpoint, and that BERT's table reports
    written: tuple[str, ...] = ()  # the labels in the files, if they differ from `labels`
    header: tuple[str, ...] = ()  # column names, for files without a header
    short_rows: Literal["refuse", "drop"] = "refuse"
    may_be_empty: tuple[str, ...] = ()


GLUE: dict[str, GlueTask] = {
    "cola": GlueTask(
        folder="CoLA",
        text="sentence",
        pair=None,
        label="label",
        labels=("unacceptable", "acceptable"),
        metrics=("matthews",),
        counts="matthews",
        written=("0", "1"),
        header=("source", "label", "star", "sentence"),
    ),
    "sst2": GlueTask("SST-2", "sentence", None, "label", ("negative", "positive"), written=("0", "1")),
    "mrpc": GlueTask(
        folder="MRPC",
        text="#1 String",
        pair="#2 String",
        label="Quality",
        labels=("not_equivalent", "equivalent"),
        metrics=("accuracy", "f1"),
        counts="f1",
        written=("0", "1"),
    ),
    "stsb": GlueTask("STS-B", "sentence1", "sentence2", "score", (), ("pearson", "spearman"), "spearman"),
    "qqp": GlueTask(
        folder="QQP",
        text="question1",
        pair="question2",
        label="is_duplicate",
        labels=("not_duplicate", "duplicate"),
        metrics=("accuracy", "f1"),
        counts="f1",
        written=("0", "1"),
        short_rows="drop",  # three rows of the published training file are truncated
        may_be_empty=("text", "pair"),
    ),
    "mnli": GlueTask("MNLI", "sentence1", "sentence2", "gold_label", ("entailment", "neutral", "contradiction")),
    "qnli": GlueTask("QNLI", "question", "sentence", "label", _ENTAILED),
    "rte": GlueTask("RTE", "sentence1", "sentence2", "label", _ENTAILED),
    "wnli": GlueTask("WNLI", "sentence1", "sentence2", "label", _ENTAILED[::-1], written=("0", "1")),
}


def read_glue(task: str, folder: Path, part: GluePart = "train") -> Table:
    """Read a part of a task. folder: the one that contains CoLA, SST-2 and so on, or the task's own folder.

    A test part has no labels, except MRPC's original file.
    """
    if task not in GLUE:
        raise UserError(f"GLUE has no task {task!r}", hint=nearest(task, GLUE))
    entry = GLUE[task]
    path = glue_file(task, folder, part)
    labelled = not part.startswith("test") or path.suffix == ".txt"
    columns = {"text": entry.text, **({"pair": entry.pair} if entry.pair else {})}
    if labelled:
        columns["label"] = entry.label
    form = TableFormat("tsv", quoted=False)
    if labelled:
        form = TableFormat("tsv", quoted=False, header=entry.header, short_rows=entry.short_rows)
    table = read_table(path, columns, form, entry.may_be_empty)
    if labelled and entry.written:
        table.columns["label"][:] = _named(table, entry)
    return table


def _named(table: Table, task: GlueTask) -> list[str]:
    names = dict(zip(task.written, task.labels, strict=True))
    for row, label in enumerate(table.columns["label"]):
        if label not in names:
            error = UserError(table.where(row, "label"), expected=" or ".join(names), got=repr(label))
            report_fault(error, "a label that is not one of the task's")
    return [names.get(label, task.labels[0]) for label in table.columns["label"]]


def glue_file(task: str, folder: Path, part: str) -> Path:
    """Return the file of a part of a task, or raise an error that names the missing file."""
    files = _OTHER_FILES.get(task, _FILES)
    if part not in files:
        raise UserError(f"{task} has no part {part!r}", expected=", ".join(files))
    home = _home(GLUE[task].folder, folder)
    names = files[part]
    if (home / "dev.tsv").is_file():  # otherwise the published training file would include the dev part
        names = tuple(name for name in names if name != "msr_paraphrase_train.txt")
    for name in names:
        if (home / name).is_file():
            return home / name
    raise UserError(f"{home / names[0]} is missing", hint=f"{task} needs it for its {part} part")


def _home(name: str, folder: Path) -> Path:
    """Find the task's folder; case and hyphens of its name are ignored."""
    if folder.is_file():
        hint = f"give its folder: {folder.parent}" if folder.suffix == ".tsv" else ""
        raise UserError(
            f"{folder} is a file", expected=f"the folder of GLUE, with {name} in it", got="a file", hint=hint
        )
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}", expected=f"the folder of GLUE, with {name} in it")
    for path in [folder.resolve(), *sorted(folder.iterdir())]:
        if _plain(path.name) == _plain(name) and path.is_dir():
            return folder if path == folder.resolve() else path
    raise UserError(f"{folder} has no folder {name}", hint="the GLUE folder has one folder per task")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
