"""What the test set showed: the confusion matrix, each class, the pairs that look alike, the surest mistakes."""

from typing import NamedTuple

from torch import Tensor

from patchword.data.image.images import Images
from patchword.objectives.metrics.classification import Scores
from patchword.reports.plots import figures, page
from patchword.reports.plots import png as pictures
from patchword.reports.plots.numbers import counted, percent

_SMALL = 6  # a matrix of no more classes is readable on a phone without scrolling
_LISTED = 30  # more classes than this are folded away behind the worst of them
_WORST, _PAIRS, _MISTAKES = 10, 6, 24


class Things(NamedTuple):
    """What was classified, and which part of the data it was."""

    name: str
    part: str

    def __str__(self) -> str:
        return f"{self.part} {self.name}"


PICTURES = Things("picture", "test")


def confusion_section(scores: Scores, things: Things = PICTURES) -> str:
    counts, classes = scores.confusion(), scores.classes
    right = int(counts.diagonal().sum())
    alternative = f"Confusion matrix of {counted(len(classes), 'class')}: "
    alternative += f"{right:,} of {len(scores.labels):,} {things}s lie on the diagonal, where the answer is right."
    html = page.paragraph(
        f"A row is what the {things.name}s are, a column what the model said. Right answers are on the diagonal. "
        "The colour follows the square root of the share of the row"
        + ("; an empty cell is 0." if len(classes) <= figures.WITH_NUMBERS else ".")
    )
    kind = "card matrix large" if len(classes) > _SMALL else "card matrix"
    svg = figures.confusion(counts, classes, things.name)
    drawn = page.picture(page.embedded("svg+xml", svg), alternative, kind=kind)
    pairs = confusing_pairs(counts, classes, things) or ["No class was taken for another."]
    told = f"<div><h3>Most often confused</h3>\n{page.bullets(pairs)}</div>\n"
    return page.section("Confusion", html + f'<div class="beside">\n{drawn}{told}</div>\n')


def confusing_pairs(counts: Tensor, classes: tuple[str, ...], things: Things = PICTURES) -> list[str]:
    """Sentences on the pairs of classes that were taken for each other most often."""
    wrong = (counts - counts.diagonal().diag()).triu() + counts.tril(-1).T
    most = wrong.flatten().argsort(descending=True, stable=True)[:_PAIRS].tolist()
    pairs = [divmod(place, len(classes)) for place in most if wrong.flatten()[place] > 0]
    return [_pair(counts, classes, first, second, things) for first, second in pairs]


def _pair(counts: Tensor, classes: tuple[str, ...], first: int, second: int, things: Things) -> str:
    if counts[second, first] > counts[first, second]:
        first, second = second, first
    there, back = int(counts[first, second]), int(counts[second, first])
    one, other = (f"<b>{page.escape(classes[index])}</b>" for index in (first, second))
    share = percent(there / int(counts[first].sum()), 1)
    sentence = f"{one} was taken for {other} {counted(there, 'time')} ({share} of its {things.name}s)"
    return f"{sentence}, the other way round {counted(back, 'time')}."


def class_section(scores: Scores, things: Things = PICTURES) -> str:
    counts = scores.confusion()
    totals = counts.sum(1)
    shares = counts.diagonal().double() / totals.clamp(min=1)
    present = totals.nonzero()[:, 0]
    lowest = float(shares[present].min())
    marked = lowest < float(shares[present].max())

    def rows(indices: list[int]) -> list[str]:
        worst = [marked and float(shares[index]) == lowest for index in indices]
        return [_class_row(scores.classes, counts, *row, things) for row in zip(indices, worst, strict=True)]

    head = ("class", "accuracy", "right", "most often taken for")
    whole = page.table(
        f"{things.part.capitalize()} accuracy of each class", head, rows(list(range(len(counts)))), kind="classes"
    )
    if len(counts) <= _LISTED:
        return page.section("Each class", whole)
    worst = present[shares[present].argsort(stable=True)[:_WORST]].tolist()
    html = page.table(
        f"The {len(worst)} classes with the lowest {things.part} accuracy", head, rows(worst), kind="classes"
    )
    return page.section("Each class", html + page.folded(f"All {len(counts):,} classes", whole))


def _class_row(classes: tuple[str, ...], counts: Tensor, index: int, worst: bool, things: Things) -> str:
    total, right = int(counts[index].sum()), int(counts[index, index])
    number = "" if classes[index] == str(index) else f"<small>{index}</small> "
    name = f"{number}{page.escape(classes[index])}" + (' <span class="mark">lowest</span>' if worst else "")
    if not total:
        return page.row(name, f"no {things}s", "0 of 0", "")
    bar = f'<span class="bar"><i style="width:{100 * right / total:.1f}%"></i></span> {percent(right / total)}'
    wrong = counts[index].clone()
    wrong[index] = 0
    other = int(wrong.argmax())
    taken = f"{page.escape(classes[other])} ({int(wrong[other]):,})" if wrong[other] else ""
    return page.row(name, bar, f"{right:,} of {total:,}", taken, kind="worst" if worst else "")


def mistakes_section(scores: Scores, images: Images) -> str:
    wrong = scores.mistakes(_MISTAKES)
    if not len(wrong):
        return page.section("Surest mistakes", page.paragraph("There are none: every test picture was recognised."))
    total = int((scores.predictions != scores.labels).sum())
    told = f"Of {total:,} mistakes, the {len(wrong)} that the model was surest of."
    told = told if total > len(wrong) else "All mistakes there are, the surest first."
    shown = "".join(
        _mistake(scores, index, pixels) for index, pixels in zip(wrong.tolist(), images.pixels.take(wrong), strict=True)
    )
    return page.section("Surest mistakes", page.paragraph(told) + f'<div class="gallery">\n{shown}</div>\n')


def _mistake(scores: Scores, index: int, pixels: Tensor) -> str:
    said, true = (scores.classes[int(answers[index])] for answers in (scores.predictions, scores.labels))
    sure = percent(float(scores.confidence[index]), 1)
    caption = f"said <b>{page.escape(said)}</b> {sure},<br>is <b>{page.escape(true)}</b>"
    alternative = f"Test picture {index}: {true}, taken for {said}"
    return page.picture(pictures.address(pixels), alternative, caption, pictures.kind(pixels))
