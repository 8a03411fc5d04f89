"""Results of a tagger: each tag, each kind of span, and the most frequent confusions."""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from patchword.data.text.formats.conll import Sentence
from patchword.objectives.metrics.metrics import confusion
from patchword.objectives.metrics.tag_spans import are_span_tags, span_scores
from patchword.recipes.text.tasks.sets import TagSet
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted, percent
from patchword.reports.run.text.markup import Part, marked, passage
from patchword.reports.run.text.values import SCORE_HEAD, score_row

_CONFUSIONS, _EXAMPLES, _LONG = 10, 2, 6


def tag_sections(predicted: Sequence[Sequence[str]], part: str, texts: TagSet) -> list[str]:
    """Return the sections on tags. predicted: the tags of the words of each sentence. part: the data split."""
    counts = _counts(predicted, texts)
    sections = [_spans(predicted, texts)] if are_span_tags(texts.labels) else []
    return [*sections, _tags(counts, texts.labels, part), _confusions(counts, predicted, texts)]


def _counts(predicted: Sequence[Sequence[str]], texts: TagSet) -> Tensor:
    """Count words by true and predicted tag: (tags, tags), rows are true tags, columns predicted tags."""
    number = {label: index for index, label in enumerate(texts.labels)}
    truth = [number[tag] for sentence in texts.sentences for tag in sentence.tags]
    counts = torch.zeros(len(number), len(number), dtype=torch.int64)
    found = confusion(torch.tensor([number[tag] for tag in chain(*predicted)]), torch.tensor(truth))
    counts[: len(found), : len(found)] = found
    return counts


def _spans(predicted: Sequence[Sequence[str]], texts: TagSet) -> str:
    scores = span_scores(predicted, [sentence.tags for sentence in texts.sentences])
    rows = [score_row(kind, score.right, score.predicted, score.true) for kind, score in scores.kinds.items()]
    whole = scores.overall
    foot = [score_row("all kinds", whole.right, whole.predicted, whole.true)]
    about = "A span is correct if its kind, its first word and its last word are all correct."
    table = page.table("Results per kind of span", SCORE_HEAD, rows, foot, kind="classes")
    return page.section("Kinds of spans", page.paragraph(about) + table)


def _tags(counts: Tensor, labels: tuple[str, ...], part: str) -> str:
    right, predicted, true = counts.diagonal().tolist(), counts.sum(0).tolist(), counts.sum(1).tolist()
    rows = [score_row(name, *values) for name, *values in zip(labels, right, predicted, true, strict=True)]
    caption = f"Words of the {part} sentences: {sum(right):,} of {sum(true):,} have the correct tag"
    return page.section("Tags", page.table(caption, SCORE_HEAD, rows, kind="classes"))


def _confusions(counts: Tensor, predicted: Sequence[Sequence[str]], texts: TagSet) -> str:
    wrong = (counts - counts.diagonal().diag()).flatten()
    most = [place for place in wrong.argsort(descending=True, stable=True)[:_CONFUSIONS].tolist() if wrong[place]]
    if not most:
        return page.section("Confusions", page.paragraph("None: every word has the correct tag."))
    pairs = [divmod(place, len(texts.labels)) for place in most]
    html = page.paragraph("The most frequent confusions, with sentences in which the wrong word is marked.")
    for true, given in pairs:
        names = tuple(texts.labels[index] for index in (true, given))
        fraction = percent(int(counts[true, given]) / int(counts[true].sum()), 1)
        text = f"<b>{page.escape(names[0])}</b> predicted as <b>{page.escape(names[1])}</b> "
        text += f"{counted(int(counts[true, given]), 'time')} <small>{fraction} of its words</small>"
        examples = _examples(predicted, texts.sentences, *names)
        html += f'<article class="text"><p class="prediction">{text}</p>\n{examples}</article>\n'
    return page.section("Confusions", html)


def _examples(predicted: Sequence[Sequence[str]], sentences: Sequence[Sentence], true: str, given: str) -> str:
    """Return sentences with this confusion, those long enough to understand first."""
    places = [
        (len(sentence.words) < _LONG, number, word)
        for number, sentence in enumerate(sentences)
        if given in predicted[number] and true in sentence.tags
        for word, tags in enumerate(zip(sentence.tags, predicted[number], strict=True))
        if tags == (true, given)
    ]
    chosen = {number: word for _, number, word in sorted(places, reverse=True)}  # one word per sentence, the first
    order = sorted(chosen, key=lambda number: (len(sentences[number].words) < _LONG, number))[:_EXAMPLES]
    return "".join(_sentence(sentences[number].words, chosen[number]) for number in order)


def _sentence(words: Sequence[str], wrong: int) -> str:
    start = sum(len(word) + 1 for word in words[:wrong])
    part = Part(start, start + len(words[wrong]), "wrong")
    return passage(marked(" ".join(words), [part]))
