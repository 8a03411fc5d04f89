"""The words of a recipe's files as sets of texts whose tokens are words.

A token's id is the index of the word in the vector cache, so batches, objectives and metrics are those of any text
task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from patchword.data.text.batching.batches import Examples
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.corpus.word_counts import word_splitter
from patchword.data.text.formats.conll import Sentence
from patchword.data.text.formats.tables import Table
from patchword.recipes.text.tasks.sets import TagSet, TextSet
from patchword.recipes.text.tasks.spec import Labels, TextTaskSpec
from patchword.recipes.text.tasks.table import TableTask
from patchword.recipes.vectors.recipe import OverVectorsRecipe

Cut = tuple[tuple[str, ...], ...]  # the words of each text


@dataclass(frozen=True)
class Read:
    """Rows of a file, split into words. shortened: the number of truncated texts."""

    rows: Any
    words: Cut
    shortened: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.words))


def read_words(recipe: OverVectorsRecipe, rows: Any) -> Read:
    """Tagged sentences are split already; other texts are split like the training texts of word vectors."""
    if not isinstance(rows, Table):
        return Read(rows, tuple(sentence.words for sentence in rows))
    cut, length = word_splitter(recipe.cut), recipe.length
    found = [
        tuple(cut(text)) or (text.strip(),) for text in rows.columns["text"]
    ]  # a text of punctuation marks only is one word
    return Read(rows, tuple(words[:length] for words in found), sum(len(words) > length for words in found))


def text_set(spec: TextTaskSpec[Any], read: Read, labels: Labels, name: str, first: int = 0) -> TextSet:
    """Build the text set of a task from words. first: the index of the first word in the vector cache."""
    if isinstance(spec, TableTask):
        truth = spec.truth(read.rows, labels)
        return spec.made(read.rows, _examples(read.words, name, first, labels=truth), truth, labels)
    return _tags(read.rows, read.words, labels, name, first)


def _tags(rows: Sequence[Sentence], words: Cut, labels: Labels, name: str, first: int) -> TagSet:
    number = {label: index for index, label in enumerate(labels)}
    targets = Ragged.of([[number[tag] for tag in sentence.tags] for sentence in rows])
    places = Ragged(torch.cat([torch.arange(len(row)) for row in words]), targets.offsets)
    return TagSet(tuple(rows), _examples(words, name, first, targets=targets), places, labels)


def _examples(words: Cut, name: str, first: int, **truth: Any) -> Examples:
    ids = Ragged.of([range(len(row)) for row in words])
    ids = Ragged(torch.arange(first, first + len(ids.values)), ids.offsets)
    segments = Ragged(torch.zeros(len(ids.values), dtype=torch.uint8), ids.offsets)
    return Examples(name, ids, segments, torch.arange(len(words)), **truth)


def all_words(*parts: Read) -> Cut:
    return tuple(chain.from_iterable(part.words for part in parts))
