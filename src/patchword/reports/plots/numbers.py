"""Formats numbers for tables, figures and pages."""


def percent(fraction: float, digits: int = 2) -> str:
    return f"{100 * fraction:.{digits}f}%"


_CORRELATIONS = ("pearson", "spearman", "matthews")
_NAMES = {
    "balanced-accuracy": "balanced accuracy",
    "f1-weighted": "weighted F1",
    "top2-accuracy": "top-2 accuracy",
    "top5-accuracy": "top-5 accuracy",
    "roc-auc": "ROC AUC",
    "average-precision": "average precision",
    "ece": "expected calibration error",
    "brier": "Brier score",
    "bleu": "BLEU",
    "f1": "F1",
    "f1-macro": "macro F1",
    "f1-micro": "micro F1",
    "multilabel-f1-micro": "micro F1",
    "multilabel-f1-macro": "macro F1",
    "multilabel-accuracy": "fraction of texts with all labels correct",
    "error_reduction": "error reduction",
    "exact": "exact match",
    "answerable-exact": "exact match, questions with an answer",
    "answerable-f1": "F1, questions with an answer",
    "impossible-exact": "exact match, questions without an answer",
    "impossible-f1": "F1, questions without an answer",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "matthews": "Matthews correlation",
    "mean_iou": "mean IoU",
    "next_accuracy": "next-sentence accuracy",
    "order_accuracy": "sentence-order accuracy",
    "next_perplexity": "perplexity of the next word",
    "previous_perplexity": "perplexity of the previous word",
}


def is_fraction(metric: str) -> bool:
    """Return whether a metric is a fraction, shown in percent; correlations, perplexity and BLEU are not."""
    return metric not in _CORRELATIONS and not is_number(metric)


def is_number(metric: str) -> bool:
    """Return whether a metric is shown as it is."""
    return metric in ("bleu", "loss", "brier", "roc-auc", "average-precision") or metric.endswith("perplexity")


def named(metric: str) -> str:
    """Return the name of a metric on a page."""
    return _NAMES.get(metric, metric)


def heading(metric: str) -> str:
    """Return the name of a metric in the heading of a table: box AP for box_ap. It is short, so that tables with many
    measures fit a terminal; `named` spells it out."""
    return metric.replace("_ap", " AP") if metric.startswith(("box_ap", "mask_ap")) else metric


def measured(metric: str, value: float) -> str:
    """Format the value of a metric."""
    if is_fraction(metric):
        return percent(value)
    return f"{value:,.2f}" if metric == "bleu" or metric.endswith("perplexity") else f"{value:.4f}"


def scale_of(metric: str) -> tuple[float, str]:
    """Return the factor for a metric in a figure, and the unit of its axis."""
    if is_number(metric):
        return 1.0, ""
    return 100.0, " (%)" if is_fraction(metric) else " (x 100)"


def amount(number: int) -> str:
    """Format e.g. 205 k, 11.16 M, 17.56 G: short enough for a tile."""
    for size, name in ((10**12, "T"), (10**9, "G"), (10**6, "M")):
        if number >= size:
            return f"{number / size:.2f} {name}"
    return f"{number / 1000:.0f} k" if number >= 10_000 else f"{number:,}"


def duration(seconds: float) -> str:
    """Format a time, with no-break spaces between number and unit."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def counted(number: int, thing: str) -> str:
    """Return e.g. 1 epoch, 2 epochs, 3 classes."""
    ending = "" if number == 1 else "es" if thing.endswith("s") else "s"
    return f"{number:,} {thing}{ending}"


def shortened(text: str, most: int) -> str:
    """Return one printable line of at most `most` characters."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return plain if len(plain) <= most else plain[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
