"""Numbers as people say them."""


def percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f}%"


_CORRELATIONS = ("pearson", "spearman", "matthews")
_NAMES = {
    "bleu": "BLEU",
    "f1": "F1",
    "f1-macro": "macro F1",
    "f1-micro": "micro F1",
    "multilabel-f1-micro": "micro F1",
    "multilabel-f1-macro": "macro F1",
    "multilabel-accuracy": "share of texts with all labels right",
    "exact": "exact match",
    "answerable-exact": "exact match, questions with an answer",
    "answerable-f1": "F1, questions with an answer",
    "impossible-exact": "exact match, questions without an answer",
    "impossible-f1": "F1, questions without an answer",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "matthews": "Matthews correlation",
    "next_accuracy": "next-sentence accuracy",
    "order_accuracy": "sentence-order accuracy",
    "next_perplexity": "perplexity of the next word",
    "previous_perplexity": "perplexity of the previous word",
}


def is_share(metric: str) -> bool:
    """Shares are told in percent; correlations and perplexity are no shares of anything, and BLEU is in hundredths."""
    return metric not in _CORRELATIONS and not is_number(metric)


def is_number(metric: str) -> bool:
    """told as it is"""
    return metric in ("bleu", "loss") or metric.endswith("perplexity")


def named(metric: str) -> str:
    """A metric as a page calls it; one without another name keeps its own."""
    return _NAMES.get(metric, metric)


def measured(metric: str, value: float) -> str:
    if is_share(metric):
        return percent(value)
    return f"{value:,.2f}" if metric == "bleu" or metric.endswith("perplexity") else f"{value:.4f}"


def scale_of(metric: str) -> tuple[float, str]:
    """What a measure is multiplied by in a picture, and how its axis says so."""
    if is_number(metric):
        return 1.0, ""
    return 100.0, " (%)" if is_share(metric) else " (x 100)"


def amount(number: int) -> str:
    """205 k, 11.16 M, 17.56 G: short enough for a tile"""
    for size, name in ((10**12, "T"), (10**9, "G"), (10**6, "M")):
        if number >= size:
            return f"{number / size:.2f} {name}"
    return f"{number / 1000:.0f} k" if number >= 10_000 else f"{number:,}"


def duration(seconds: float) -> str:
    """With spaces that do not break, so that a number keeps its unit."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    told = f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    return told.replace(" ", "\N{NO-BREAK SPACE}")


def counted(number: int, thing: str) -> str:
    """1 epoch, 2 epochs, 3 classes"""
    ending = "" if number == 1 else "es" if thing.endswith("s") else "s"
    return f"{number:,} {thing}{ending}"


def shortened(text: str, most: int) -> str:
    """One printable line of at most so many characters."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return plain if len(plain) <= most else plain[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
