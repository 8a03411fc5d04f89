"""Sections of a classifier: its measures, the calibration of its probabilities, the threshold of two classes."""

from typing import Any

from patchword.objectives.metrics.calibration import BINS, CalibrationMeasures, Reliability
from patchword.objectives.metrics.quality import BinaryQuality, Fitted, Quality
from patchword.reports.plots import page, quality_figures
from patchword.reports.plots.numbers import measured, named, percent
from patchword.reports.run.class_results import IMAGES, Things

_WHAT = {
    "accuracy": "correct predictions",
    "balanced-accuracy": "mean of the classes' accuracies: a rare class counts as much as a frequent one",
    "f1": "of the second class: harmonic mean of precision and recall",
    "matthews": "correlation of truth and prediction: 0 is chance, 1 is perfect",
    "f1-macro": "mean of the classes' F1",
    "f1-weighted": "mean of the classes' F1, weighted by their number of examples",
    "top2-accuracy": "the true class is one of the two most probable ones",
    "top5-accuracy": "the true class is one of the five most probable ones",
    "roc-auc": "probability that an example of the positive class scores higher than one of the other class",
    "average-precision": "mean precision over the recall of the positive class",
    "ece": f"mean distance of probability and accuracy, in {BINS} bins; 0% is perfect",
    "brier": "mean squared distance of the probabilities to the truth, from 0 to 2",
    "loss": "cross-entropy in nats",
}


def measure_rows(quality: Quality, known: dict[str, float]) -> list[str]:
    """Return rows of the table of measures. known: other measures, which come first."""
    values = {**known, **{name: value for name, value in quality.measures().items() if name not in known}}
    return [
        page.row(page.escape(named(name)), measured(name, value), page.escape(_WHAT.get(name, "")))
        for name, value in values.items()
    ]


def result_section(quality: Quality, things: Things = IMAGES) -> str:
    """Return the section with the measures over all classes."""
    known = {"accuracy": quality.scores.accuracy, "loss": quality.scores.loss}
    rows = measure_rows(quality, known)
    return page.section("Result", page.table(f"On the {things}s", ("measure", "value", ""), rows, kind="measures"))


def calibration_section(quality: Quality, things: Things = IMAGES) -> str:
    """Return the section on the probabilities: reliability diagram, ECE, Brier score, the effect of a temperature."""
    before, after, fitted = quality.calibration, quality.calibrated, quality.fitted
    if before is None:
        return ""
    if fitted and not fitted.has_temperature:
        after = None
    scaled = (after.reliability, fitted.temperature) if after and fitted else None
    svg = quality_figures.reliability(before.reliability, scaled)
    alternative = f"Reliability diagram: the expected calibration error is {percent(before.ece)}"
    drawn = page.figure(page.embedded("svg+xml", svg), f"{alternative}.", kind="card")
    rows = [
        _row("as trained", before),
        *([_row(f"temperature {fitted.temperature:.3f}", after)] if after and fitted else []),
    ]
    head = ("probabilities", "ECE", "loss", "Brier score")
    table = page.table(f"On the {things}s", head, rows, kind="measures")
    beside = f"<div>{table}{page.paragraph(_advice(fitted, things), 'note')}</div>\n"
    html = page.paragraph(_in_words(before.reliability)) + f'<div class="pair">\n{drawn}{beside}</div>\n'
    return page.section(
        "Calibration", html + page.folded("The bins, and how ECE is defined", _bins(before.reliability))
    )


def _row(name: str, measures: CalibrationMeasures) -> str:
    return page.row(name, percent(measures.ece), f"{measures.nll:.4f}", f"{measures.brier:.4f}")


def _in_words(bins: Reliability) -> str:
    total = bins.counts.sum()
    mean, accuracy = (float(bins.counts.double() @ values / total) for values in (bins.confidence, bins.accuracy))
    side = "too sure" if mean > accuracy else "not sure enough"
    text = (
        f"The mean probability of the predictions is {percent(mean, 1)}, and {percent(accuracy, 1)} of them are correct"
    )
    return f"{text}: on average, the model is {side}." if abs(mean - accuracy) >= 0.005 else f"{text}."


def _advice(fitted: Fitted | None, things: Things) -> str:
    if fitted is None:
        return "This run has no calibration.json, so no temperature was fitted on its validation data."
    if not fitted.has_temperature:
        return (
            f"The {fitted.examples:,} validation {things.name}s do not determine a temperature: all predictions on "
            "them are correct, or they are too few. So the probabilities stay as trained."
        )
    text = f"The temperature divides the logits. It was fitted on the {fitted.examples:,} validation {things.name}s, "
    text += "on which the best epoch was chosen, too. " if things.part == "validation" else f"never on {things}s. "
    text += "It changes no prediction. <code>patchword predict RUN ... --calibrated</code> applies it."
    if things.part == "validation":
        text += f" The {things.name}s here are the same ones, so the second row is a little too good."
    return text


def _bins(bins: Reliability) -> str:
    about = "ECE is the mean of |accuracy - mean probability| over bins of equal width, weighted by the number of "
    about += f"predictions in a bin; there are {BINS}, and a bin includes its upper edge."
    width = 1 / len(bins.counts)
    rows = [
        page.row(
            f"{percent(index * width, 1)} to {percent((index + 1) * width, 1)}", f"{count:,}", *_cells(bins, index)
        )
        for index, count in enumerate(bins.counts.tolist())
    ]
    head = ("probability", "predictions", "mean probability", "accuracy")
    return page.paragraph(about) + page.table("Bins of the probabilities as trained", head, rows, kind="measures")


def _cells(bins: Reliability, index: int) -> tuple[str, str]:
    if not bins.counts[index]:
        return "", ""
    return percent(float(bins.confidence[index]), 1), percent(float(bins.accuracy[index]), 1)


def threshold_section(quality: Quality, things: Things = IMAGES) -> str:
    """Return the section of two classes: precision, recall and F1 by threshold; empty for more classes."""
    binary = quality.binary
    if binary is None:
        return ""
    chosen = quality.fitted.threshold if quality.fitted else None
    positive = page.escape(quality.scores.classes[1])
    about = f"The class <b>{positive}</b> is called positive: it is predicted if its probability is at least the "
    about += "threshold, which is 50% elsewhere in this report."
    about += _choice(binary, chosen, things)
    alternative = f"Precision, recall and F1 of {quality.scores.classes[1]} over the threshold."
    svg = quality_figures.thresholds(binary.curve, chosen)
    drawn = page.figure(page.embedded("svg+xml", svg), alternative, kind="card")
    table = page.folded("All thresholds", _table(binary, chosen, things))
    beside = f"<div>{_confusion(binary, quality.scores.classes, 0.5 if chosen is None else chosen)}{table}</div>\n"
    return page.section("Threshold", page.paragraph(about) + f'<div class="pair">\n{drawn}{beside}</div>\n')


def _choice(binary: BinaryQuality, chosen: float | None, things: Things) -> str:
    if chosen is None:
        return ""
    best, half = (percent(binary.at(threshold)["f1"]) for threshold in (chosen, 0.5))
    text = f" On the validation {things.name}s, a threshold of <b>{chosen:.3f}</b> has the best F1"
    if things.part == "validation":
        return f"{text}: {best}; 0.5 gives {half}. It was chosen on these same {things.name}s, so {best} is too good."
    return f"{text}; on the {things}s it gives {best}, and 0.5 gives {half}."


def _confusion(binary: BinaryQuality, classes: tuple[str, ...], threshold: float) -> str:
    counts: list[list[int]] = binary.at(threshold)["confusion"]
    rows = [
        page.row(page.escape(name), *(f"{count:,}" for count in row)) for name, row in zip(classes, counts, strict=True)
    ]
    head = ("true class", *(f"predicted {name}" for name in classes))
    return page.table(f"Confusion at the threshold {threshold:.3f}", head, rows, kind="measures")


def _table(binary: BinaryQuality, chosen: float | None, things: Things) -> str:
    found: list[dict[str, Any]] = [*binary.table(), *([binary.at(chosen)] if chosen is not None else [])]
    rows = [
        page.row(
            f"{row['threshold']:.3f}" + (" (chosen)" if row["threshold"] == chosen else ""),
            *(percent(row[name]) for name in ("precision", "recall", "f1")),
        )
        for row in sorted(found, key=lambda row: float(row["threshold"]))
    ]
    return page.table(f"On the {things}s", ("threshold", "precision", "recall", "F1"), rows, kind="measures")
