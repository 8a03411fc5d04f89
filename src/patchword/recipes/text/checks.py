"""Checks of the texts and settings before training starts."""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.data.faults import FaultReport, SkipRule, collect_faults, warn
from patchword.data.image.splits import Split
from patchword.data.sample_digests import Contents
from patchword.data.skipping import read_with
from patchword.data.text.formats.tables import Table
from patchword.data.text.near_duplicates import SimilarTexts, normalized_text
from patchword.objectives.class_weights import imbalance_hint
from patchword.recipes.text.data import Parts, parted, require_train, validation_fraction
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.spec import TextTaskSpec
from patchword.recipes.text.tasks.table_sets import ClassSet, TableSet


def checked_parts(spec: TextTaskSpec[Any], rule: SkipRule | None) -> tuple[Parts[Any], FaultReport]:
    """Read and check all files. Return the data splits and a report with possible mistakes; raise one error that lists
    all faults.

    rule: a few rows with empty cells are skipped and are no faults.
    """
    recipe = spec.recipe
    require_train(spec)
    others = [] if validation_fraction(spec) else ["validation"]
    others += ["test"] if recipe.test and not recipe.glue else []
    with collect_faults(rule) as report:
        train = report.attempt(spec.read, "train")
        rows = {part: report.attempt(spec.read, part) for part in others}
        labels = report.attempt(spec.labels, train) if train else None
        for part, found in {"train": train, **rows}.items():
            if found and labels is not None:
                report.attempt(spec.check, Path(getattr(recipe, part)), found, labels)
        if train and labels is not None:
            report.attempt(spec.check_trained, Path(recipe.train), train)
            _doubt_contradictions(spec, train)
            _doubt_copies(spec, train, {part: found for part, found in rows.items() if found})
    if train is None or labels is None:
        raise AssertionError("one_report raises an error for missing parts")  # never reached
    return parted(spec, train, rows.get("validation"), labels), report


def contents_of(recipe: TextRecipe, parts: Collection[Split]) -> Mapping[Split, Contents]:
    """Return the rows of these splits with their labels; nothing of a split without a file of its own."""
    spec = task_spec_of(recipe)
    without = {"validation"} if validation_fraction(spec) else set()
    without |= {"test"} if recipe.glue or not recipe.test else set()
    return {part: _contents(spec, part) for part in parts if part not in without}


def _contents(spec: TextTaskSpec[Any], part: Split) -> Contents:
    rows, _ = read_with(spec.recipe.skip_rule(), spec.read, part)
    records, places = list(spec.records(rows)), [place for _, place in spec.known_by(rows)]
    keys = [str(row) for row in range(len(records))]
    return Contents(keys, lambda row: repr(records[row]).encode("utf-8", "surrogatepass"), places.__getitem__)


def _doubt_copies(spec: TextTaskSpec[Any], train: Any, others: Mapping[str, Any]) -> None:
    """Report validation and test texts that are also training texts."""
    learned = dict(spec.known_by(train))
    plain = {normalized_text(known): place for known, place in learned.items()}
    similar = SimilarTexts(learned.items() if others else ())
    for part, rows in others.items():
        row = f"a {spec.row} of the {part} file that is"
        for known, place in spec.known_by(rows):
            text = normalized_text(known)
            if known in learned:
                warn(f"{row} also in the training file", f"{place} is {learned[known]}")
            elif text and text in plain:
                kind = f"{row} in the training file but for case, spaces or punctuation"
                warn(kind, f"{place} is like {plain[text]}")
            elif found := similar.find(known):
                like, share = found
                kind = f"{row} in the training file but for a few words"
                warn(kind, f"{place} is like {like}: {share:.0%} of the runs of three words are equal")


def _doubt_contradictions(spec: TextTaskSpec[Any], train: Any) -> None:
    """Report equal training texts with different labels."""
    labels = train.columns.get("label") if isinstance(train, Table) else None
    first: dict[Hashable, tuple[str, str]] = {}
    for (known, place), label in zip(spec.known_by(train), labels, strict=True) if labels else ():
        other, before = first.setdefault(known, (label, place))
        if other != label:
            warn(f"a {spec.row} with two labels, one of which is wrong", f"{place}: {label!r}; {before}: {other!r}")


def doubts(texts: TableSet, recipe: TextRecipe) -> list[str]:
    """Return the classes with their counts, and possible mistakes in the table."""
    lines = []
    if isinstance(texts, ClassSet):
        counts = Counter(texts.truth.tolist())
        shown = [f"{name} {counts[number]:,}" for number, name in enumerate(texts.labels)]
        more = f", and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        lines.append(f"{len(shown)} classes: {', '.join(shown[:_SHOWN])}{more}")
        hint = imbalance_hint({name: counts[number] for number, name in enumerate(texts.labels)}, "texts")
        lines += [f"note: {hint}"] if hint and not recipe.balances_classes() else []
    similar: dict[str, list[str]] = {}
    for name in texts.labels:
        similar.setdefault(_plain(name), []).append(name)
    lines += [
        f"note: labels that differ only in case or number format: {', '.join(same)}"
        for same in similar.values()
        if len(same) > 1
    ]
    if missing := [name for name in texts.labels if name.casefold() in ("nan", "none", "null", "n/a", "")]:
        lines.append(f"note: a label is called {missing[0]!r}: is it a missing value?")
    columns = texts.table.columns
    rows = list(zip(columns["text"], columns.get("pair", columns["text"]), strict=True))
    if repeated := len(rows) - len(set(rows)):
        lines.append(f"note: {repeated:,} of {len(rows):,} texts are duplicates")
    return lines


_SHOWN = 10  # classes


def _plain(label: str) -> str:
    """Normalise a label: the same result for Good and good, for 1 and 1.0."""
    try:
        return str(float(label))
    except ValueError:
        return label.casefold()


def check_settings(spec: TextTaskSpec[Any]) -> None:
    """Raise an error for a setting that would have no effect."""
    for field, reason in spec.idle().items():
        chosen = getattr(spec.recipe, field)
        if chosen != TextRecipe.model_fields[field].default:
            raise UserError(f"recipe field {field!r} has no effect here", got=chosen, hint=reason)
