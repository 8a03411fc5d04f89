"""Predicts tags for the words of texts."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch

from patchword.data.text.batching.assembly import words
from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.corpus.word_spans import Span, word_spans
from patchword.objectives.metrics.tag_spans import are_span_tags
from patchword.recipes.text.inference.answers import TagAnswer, Tagged
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.text.inference.outputs import Advance
from patchword.recipes.text.inference.reader import Reader, grouped

_WORDS = 2000  # words per part of a sentence; longer sentences are split
_TOGETHER = 50_000  # words
Stretch = tuple[int, list[Span]]  # the number of a text, and some of its words


def tagged(reader: Reader, asked: Sequence[TextInput], length: int, advance: Advance) -> Iterator[TagAnswer]:
    stretches = [
        (number, places[begin : begin + _WORDS])
        for number, places in enumerate(map(_places, asked))
        for begin in range(0, len(places), _WORDS)
    ]
    found: list[list[Tagged]] = [[] for _ in asked]
    for group in grouped(stretches, lambda stretch: len(stretch[1]), _TOGETHER):
        share = len(asked) * len(group) / len(stretches)
        for number, word in _tag(reader, asked, group, length, share, advance):
            found[number].append(word)
    spells = are_span_tags(reader.labels)
    return (TagAnswer(one.text, tuple(words), spells) for one, words in zip(asked, found, strict=True))


def _places(one: TextInput) -> list[Span]:
    if not one.words:
        return word_spans(one.text)
    ends = accumulate(len(word) + 1 for word in one.words)  # a space is between words
    return [(end - 1 - len(word), end - 1) for word, end in zip(one.words, ends, strict=True)]


def _tag(
    reader: Reader,
    asked: Sequence[TextInput],
    stretches: Sequence[Stretch],
    length: int,
    share: float,
    advance: Advance,
) -> Iterator[tuple[int, Tagged]]:
    """Yield each tagged word with the index of its text."""
    cut = [[asked[number].text[start:end] for start, end in places] for number, places in stretches]
    examples, begun = words(reader.tokenizer, "asked", cut, None, length)
    outputs = reader.outputs(examples, share, advance)
    names, first = reader.labels, begun.values != IGNORE
    best = torch.cat(outputs)[first].softmax(-1).max(-1)
    owners = examples.owner.repeat_interleave(examples.ids.lengths)[first]
    columns = (owners, begun.values[first], best.indices, best.values)
    for owner, word, tag, probability in zip(*(column.tolist() for column in columns), strict=True):
        number, places = stretches[owner]
        yield number, Tagged(cut[owner][word], names[tag], probability, *places[word])
