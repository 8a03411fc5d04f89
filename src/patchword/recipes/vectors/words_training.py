"""Trains word vectors on text: CBOW or skip-gram."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from patchword.core.errors import UserError
from patchword.data.progress import Progress, no_progress
from patchword.data.text.corpus.word_counts import Vocabulary, number_words, word_splitter
from patchword.data.text.corpus.word_pairs import CHUNK, PairSampler
from patchword.data.text.tokenizers.vocabulary_training import texts_in
from patchword.objectives.word_vectors import Kind, Tables, step
from patchword.recipes.vectors.words import WordVectors

RATES: dict[Kind, float] = {"skip-gram": 0.025, "cbow": 0.05}  # word2vec's
_LAST = 1e-4  # fraction of the learning rate at the end
_ABSURD = 3  # a loss above this multiple of the first loss is divergence, even in a step of few words


@dataclass(frozen=True)
class WordVectorOptions:
    """Options of the training of word vectors.

    least: minimum count of a word. most: maximum size of the vocabulary. sample: words above this frequency are
    subsampled. threads: several threads update the same vectors without locks, so that two runs are similar but not
    equal.
    """

    kind: Kind = "skip-gram"
    width: int = 100
    window: int = 5
    negatives: int = 5
    epochs: int = 5
    learning_rate: float | None = None
    sample: float = 1e-3
    least: int = 5
    most: int | None = None
    cut: str = "words"
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise UserError("kind", expected=" or ".join(get_args(Kind)), got=self.kind)
        word_splitter(self.cut)
        for name in ("width", "window", "negatives", "epochs", "least", "threads"):
            if getattr(self, name) < 1:
                raise UserError(name, expected="at least 1", got=getattr(self, name))
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise UserError("learning_rate", expected="above 0", got=self.learning_rate)

    @property
    def first_rate(self) -> float:
        return RATES[self.kind] if self.learning_rate is None else self.learning_rate

    @property
    def first_loss(self) -> float:
        """The loss of untrained vectors: every score is 0, for positive and negative words."""
        return math.log(2) * (1 + self.negatives)


@dataclass(frozen=True)
class Done:
    """Progress of training. loss: of the last step."""

    words: int
    total: int
    seconds: float
    loss: float

    @property
    def speed(self) -> float:
        """Return the words of the text per second. Words that subsampling drops count too, as in other programs."""
        return self.words / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class Learned:
    vectors: WordVectors
    vocabulary: Vocabulary
    done: Done


OnProgress = Callable[[Done], None]


def learn(
    files: Sequence[Path],
    options: WordVectorOptions,
    reading: Progress = no_progress,
    on_progress: OnProgress = lambda done: None,
) -> Learned:
    """Train on text files, .jsonl files or folders of them, which are read twice: to count words and to encode them."""
    cut = word_splitter(options.cut)
    vocabulary = Vocabulary.count(texts_in(files, reading), cut, options.least, options.most)
    numbers = number_words(texts_in(files, reading), cut, vocabulary)
    return learn_numbers(vocabulary, numbers, options, on_progress)


def learn_numbers(
    vocabulary: Vocabulary, numbers: np.ndarray, options: WordVectorOptions, on_progress: OnProgress = lambda done: None
) -> Learned:
    """Train on an encoded text. numbers: from `number_words`. The learning rate falls linearly with the words read."""
    tables = Tables.start(len(vocabulary), options.width, options.seed)
    drawing = PairSampler(vocabulary, options.window, options.sample, options.seed)
    crowd = drawing.crowd(options.threads)
    size, start = len(numbers) * options.epochs, time.perf_counter()

    def part(place: tuple[int, int]) -> tuple[int, float]:
        """Train on one part of the text. Return its length and the loss of its last step."""
        (epoch, begin), change = place, None
        torch.set_num_threads(1)
        for read, windows in drawing.steps(numbers, begin, epoch):
            rate = options.first_rate * max(1 - (epoch * len(numbers) + read) / size, _LAST)
            change = step(tables, options.kind, *windows, options.negatives, crowd, rate)
        return min(CHUNK, len(numbers) - begin), change.loss() if change else 0.0

    places = [(epoch, begin) for epoch in range(options.epochs) for begin in range(0, len(numbers), CHUNK)]
    read, total = 0, vocabulary.total * options.epochs
    with _workers(options.threads) as each:
        for length, loss in each(part, places):
            read += length
            done = Done(round(total * read / size), total, time.perf_counter() - start, loss)
            if not loss < _ABSURD * options.first_loss:
                raise UserError(
                    "the training of the vectors diverges",
                    expected=f"a loss below {options.first_loss:.1f}, the initial loss",
                    got=f"{loss:.4g} with a learning rate of {options.first_rate:g}",
                    hint="lower learning_rate, or take fewer threads",
                )
            on_progress(done)
    return Learned(WordVectors(vocabulary.words, tables.inputs.numpy()), vocabulary, done)


@contextmanager
def _workers(threads: int) -> Iterator[Callable[..., Iterable[tuple[int, float]]]]:
    """Return a map over parts of a text. Threads are enough, because the matmuls release the GIL."""
    before = torch.get_num_threads()
    executor = ThreadPoolExecutor(threads)
    try:
        yield executor.map if threads > 1 else map
    finally:
        executor.shutdown(cancel_futures=True)
        torch.set_num_threads(before)
