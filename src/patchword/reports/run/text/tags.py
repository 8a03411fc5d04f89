"""What a tagger got right and wrong: each tag, each kind of span, which tags it takes for which."""

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


def tag_sections(said: Sequence[Sequence[str]], part: str, texts: TagSet) -> list[str]:
    """said: of each sentence the tags that its words were given. part: of the data"""
    counts = _counts(said, texts)
    sections = [_spans(said, texts)] if are_span_tags(texts.labels) else []
    return [*sections, _tags(counts, texts.labels, part), _confusions(counts, said, texts)]


def _counts(said: Sequence[Sequence[str]], texts: TagSet) -> Tensor:
    """(tags, tags) words: rows are the truth, columns what the model said"""
    number = {label: index for index, label in enumerate(texts.labels)}
    truth = [number[tag] for sentence in texts.sentences for tag in sentence.tags]
    counts = torch.zeros(len(number), len(number), dtype=torch.int64)
    found = confusion(torch.tensor([number[tag] for tag in chain(*said)]), torch.tensor(truth))
    counts[: len(found), : len(found)] = found
    return counts


def _spans(said: Sequence[Sequence[str]], texts: TagSet) -> str:
    scores = span_scores(said, [sentence.tags for sentence in texts.sentences])
    rows = [score_row(kind, score.right, score.predicted, score.true) for kind, score in scores.kinds.items()]
    whole = scores.overall
    foot = [score_row("all kinds", whole.right, whole.predicted, whole.true)]
    told = "A span counts where its kind, its first word and its last word are all right."
    table = page.table("Each kind of span", SCORE_HEAD, rows, foot, kind="classes")
    return page.section("Each kind of span", page.paragraph(told) + table)


def _tags(counts: Tensor, labels: tuple[str, ...], part: str) -> str:
    right, said, true = counts.diagonal().tolist(), counts.sum(0).tolist(), counts.sum(1).tolist()
    rows = [score_row(name, *values) for name, *values in zip(labels, right, said, true, strict=True)]
    caption = f"Words of the {part} sentences: {sum(right):,} of {sum(true):,} have the right tag"
    return page.section("Each tag", page.table(caption, SCORE_HEAD, rows, kind="classes"))


def _confusions(counts: Tensor, said: Sequence[Sequence[str]], texts: TagSet) -> str:
    wrong = (counts - counts.diagonal().diag()).flatten()
    most = [place for place in wrong.argsort(descending=True, stable=True)[:_CONFUSIONS].tolist() if wrong[place]]
    if not most:
        return page.section("Confusions", page.paragraph("There are none: every word has the right tag."))
    pairs = [divmod(place, len(texts.labels)) for place in most]
    html = page.paragraph("The tags most often taken for others, with sentences in which the wrong word is marked.")
    for true, given in pairs:
        names = tuple(texts.labels[index] for index in (true, given))
        share = percent(int(counts[true, given]) / int(counts[true].sum()), 1)
        told = f"<b>{page.escape(names[0])}</b> taken for <b>{page.escape(names[1])}</b> "
        told += f"{counted(int(counts[true, given]), 'time')} <small>{share} of its words</small>"
        html += (
            f'<article class="text"><p class="said">{told}</p>\n{_examples(said, texts.sentences, *names)}</article>\n'
        )
    return page.section("Confusions", html)


def _examples(said: Sequence[Sequence[str]], sentences: Sequence[Sentence], true: str, given: str) -> str:
    """Sentences in which the one tag was taken for the other, those long enough to understand first."""
    places = [
        (len(sentence.words) < _LONG, number, word)
        for number, sentence in enumerate(sentences)
        if given in said[number] and true in sentence.tags
        for word, tags in enumerate(zip(sentence.tags, said[number], strict=True))
        if tags == (true, given)
    ]
    chosen = {number: word for _, number, word in sorted(places, reverse=True)}  # one word a sentence, the first
    order = sorted(chosen, key=lambda number: (len(sentences[number].words) < _LONG, number))[:_EXAMPLES]
    return "".join(_sentence(sentences[number].words, chosen[number]) for number in order)


def _sentence(words: Sequence[str], wrong: int) -> str:
    start = sum(len(word) + 1 for word in words[:wrong])
    part = Part(start, start + len(words[wrong]), "wrong")
    return passage(marked(" ".join(words), [part]))
