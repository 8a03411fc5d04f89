"""Test results per class: confusion matrix, accuracy, precision and F1 of each class, most confident errors."""

from typing import NamedTuple

from torch import Tensor

from patchword.data.image.images import Images
from patchword.objectives.metrics.class_measures import ClassMeasures
from patchword.objectives.metrics.classification import Scores
from patchword.reports.plots import figures, page, png
from patchword.reports.plots.numbers import counted, percent

_SMALL = 6  # a matrix of at most this many classes fits on a phone
_LISTED = 30  # more classes than this are folded, with the worst ones shown
_WORST, _PAIRS, _ERRORS = 10, 6, 24


class Things(NamedTuple):
    """The name of the classified things, e.g. "image", and the data split."""

    name: str
    part: str

    def __str__(self) -> str:
        return f"{self.part} {self.name}"


IMAGES = Things("image", "test")


def confusion_section(scores: Scores, things: Things = IMAGES) -> str:
    """Return the section with the confusion matrix and the most confused classes."""
    counts, classes = scores.confusion(), scores.classes
    right = int(counts.diagonal().sum())
    alternative = f"Confusion matrix of {counted(len(classes), 'class')}: "
    alternative += f"{right:,} of {len(scores.labels):,} {things}s are on the diagonal, which is correct."
    html = page.paragraph(
        f"A row is the true class of the {things.name}s, a column the predicted class. Correct predictions are on the "
        "diagonal. The colour follows the square root of the fraction of the row"
        + ("; an empty cell is 0." if len(classes) <= figures.WITH_NUMBERS else ".")
    )
    kind = "card matrix large" if len(classes) > _SMALL else "card matrix"
    svg = figures.confusion(counts, classes, things.name)
    drawn = page.figure(page.embedded("svg+xml", svg), alternative, kind=kind)
    pairs = confusing_pairs(counts, classes, things) or ["No two classes were confused."]
    listed = f"<div><h3>Most confused classes</h3>\n{page.bullets(pairs)}</div>\n"
    return page.section("Confusion", html + f'<div class="beside">\n{drawn}{listed}</div>\n')


def confusing_pairs(counts: Tensor, classes: tuple[str, ...], things: Things = IMAGES) -> list[str]:
    """Return sentences on the pairs of classes that were confused most often."""
    wrong = (counts - counts.diagonal().diag()).triu() + counts.tril(-1).T
    most = wrong.flatten().argsort(descending=True, stable=True)[:_PAIRS].tolist()
    pairs = [divmod(place, len(classes)) for place in most if wrong.flatten()[place] > 0]
    return [_pair(counts, classes, first, second, things) for first, second in pairs]


def _pair(counts: Tensor, classes: tuple[str, ...], first: int, second: int, things: Things) -> str:
    if counts[second, first] > counts[first, second]:
        first, second = second, first
    there, back = int(counts[first, second]), int(counts[second, first])
    one, other = (f"<b>{page.escape(classes[index])}</b>" for index in (first, second))
    fraction = percent(there / int(counts[first].sum()), 1)
    sentence = f"{one} was predicted as {other} {counted(there, 'time')} ({fraction} of its {things.name}s)"
    return f"{sentence}; the reverse happened {counted(back, 'time')}."


def class_section(scores: Scores, things: Things = IMAGES) -> str:
    """Return the section with accuracy (recall), precision and F1 of each class, and their means."""
    counts = scores.confusion()
    measures = ClassMeasures.of(counts)
    accuracies, present = measures.recall, measures.support.nonzero()[:, 0]
    lowest = float(accuracies[present].min())
    marked = lowest < float(accuracies[present].max())

    def rows(indices: list[int]) -> list[str]:
        worst = [marked and bool(measures.support[index]) and float(accuracies[index]) == lowest for index in indices]
        return [_class_row(scores.classes, counts, measures, *row, things) for row in zip(indices, worst, strict=True)]

    head = ("class", "accuracy (recall)", "precision", "F1", "correct", "most often predicted as")
    caption, means = f"{things.part.capitalize()} accuracy per class", _mean_rows(measures, things)
    whole = page.table(caption, head, rows(list(range(len(counts)))), means, kind="classes")
    if len(counts) <= _LISTED:
        return page.section("Classes", whole)
    worst = present[accuracies[present].argsort(stable=True)[:_WORST]].tolist()
    caption = f"The {len(worst)} classes with the lowest {things.part} accuracy"
    html = page.table(caption, head, rows(worst), means, kind="classes")
    return page.section("Classes", html + page.folded(f"All {len(counts):,} classes", whole))


def _mean_rows(measures: ClassMeasures, things: Things) -> list[str]:
    """Return the rows of the means over the classes."""
    return [
        page.row(
            f"{name} mean",
            percent(getattr(measures, f"recall_{kind}")),
            percent(getattr(measures, f"precision_{kind}")),
            percent(getattr(measures, f"f1_{kind}")),
            "",
            note,
        )
        for name, kind, note in (
            ("macro", "macro", "every class counts the same"),
            ("weighted", "weighted", f"every {things.name} counts the same"),
        )
    ]


def _class_row(
    classes: tuple[str, ...], counts: Tensor, measures: ClassMeasures, index: int, worst: bool, things: Things
) -> str:
    total, right = int(counts[index].sum()), int(counts[index, index])
    number = "" if classes[index] == str(index) else f"<small>{index}</small> "
    name = f"{number}{page.escape(classes[index])}" + (' <span class="mark">lowest</span>' if worst else "")
    if not total:
        return page.row(name, f"no {things}s", "", "", "0 of 0", "")
    bar = f'<span class="bar"><i style="width:{100 * right / total:.1f}%"></i></span> {percent(right / total)}'
    wrong = counts[index].clone()
    wrong[index] = 0
    other = int(wrong.argmax())
    confused = f"{page.escape(classes[other])} ({int(wrong[other]):,})" if wrong[other] else ""
    precision = percent(float(measures.precision[index])) if measures.predicted[index] else "never predicted"
    f1 = percent(float(measures.f1[index]))
    return page.row(name, bar, precision, f1, f"{right:,} of {total:,}", confused, kind="worst" if worst else "")


def errors_section(scores: Scores, images: Images) -> str:
    """Return the section with the wrong predictions of highest probability."""
    wrong = scores.mistakes(_ERRORS)
    if not len(wrong):
        return page.section("Most confident errors", page.paragraph("None: every test image was classified correctly."))
    total = int((scores.predictions != scores.labels).sum())
    about = f"Of {total:,} errors, the {len(wrong)} with the highest predicted probability."
    about = about if total > len(wrong) else "All errors, the highest predicted probability first."
    shown = "".join(
        _error(scores, index, pixels) for index, pixels in zip(wrong.tolist(), images.pixels.take(wrong), strict=True)
    )
    return page.section("Most confident errors", page.paragraph(about) + f'<div class="gallery">\n{shown}</div>\n')


def _error(scores: Scores, index: int, pixels: Tensor) -> str:
    predicted, true = (scores.classes[int(labels[index])] for labels in (scores.predictions, scores.labels))
    probability = percent(float(scores.confidence[index]), 1)
    caption = f"predicted <b>{page.escape(predicted)}</b> {probability},<br>true <b>{page.escape(true)}</b>"
    alternative = f"Test image {index}: {true}, predicted {predicted}"
    return page.figure(png.address(pixels), alternative, caption, png.kind(pixels))
