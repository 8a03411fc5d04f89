"""Data splits that are not a corpus: sentences with translations (XLM), and news articles with fields (Grover)."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchword.data.text.batching.assembly import truncated_lengths
from patchword.data.text.batching.batches import BatchFormat, TextBatch
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.formats.news import FieldTokens, Mixing, article_ids
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.pretraining.parts import TargetRule
from patchword.recipes.pretraining.splits import batch_of


@dataclass(frozen=True, eq=False)
class PairSplit:
    """Sentences with their translations; each pair is one example in every epoch (Conneau and Lample, 2019).

    Each of the two sentences is between two separators.
    """

    first: Ragged
    second_ids: Ragged
    separator: int
    length: int
    form: BatchFormat
    target_rule: TargetRule
    seed: int
    second: str = ""

    def __len__(self) -> int:
        return len(self.first)

    def fingerprint(self) -> str:
        found = hashlib.sha256()
        for side in (self.first, self.second_ids):
            found.update(side.values.numpy().tobytes())
            found.update(side.offsets.numpy().tobytes())
        return found.hexdigest()

    def examples(self, epoch: int) -> "PairExamples":
        return PairExamples(self, epoch)


@dataclass(frozen=True, eq=False)
class PairExamples:
    split: PairSplit
    epoch: int

    def __len__(self) -> int:
        return len(self.split)

    @property
    def lengths(self) -> Tensor:
        first, second = self.split.first.lengths, self.split.second_ids.lengths
        ours, theirs = truncated_lengths(first.numpy(), second.numpy(), self.split.length - 4)
        return torch.from_numpy(ours + theirs + 4)

    def batch(self, index: Tensor) -> TextBatch:
        split, end = self.split, np.array([self.split.separator], np.int32)
        first, second = split.first.take(index), split.second_ids.take(index)
        cuts = truncated_lengths(first.lengths.numpy(), second.lengths.numpy(), split.length - 4)
        rows = [
            np.concatenate([end, first.row(number).numpy()[:ours], end, end, second.row(number).numpy()[:theirs], end])
            for number, (ours, theirs) in enumerate(zip(*cuts, strict=True))
        ]
        segments = [(np.arange(len(row)) >= 2 + cut).astype(np.int32) for row, cut in zip(rows, cuts[0], strict=True)]
        return batch_of(split, Ragged.of(rows), Ragged.of(segments), index, self.epoch, split.seed, None)


@dataclass(frozen=True, eq=False)
class NewsSplit:
    """Articles whose fields have another order in every epoch (Zellers et al., 2019); long articles are truncated."""

    articles: tuple[Mapping[str, str], ...]
    tokenizer: Tokenizer
    length: int
    form: BatchFormat
    target_rule: TargetRule
    seed: int
    second: str = ""

    def __len__(self) -> int:
        return len(self.articles)

    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.articles, sort_keys=True).encode()).hexdigest()

    def examples(self, epoch: int) -> "NewsExamples":
        return NewsExamples(self, FieldTokens.of(self.tokenizer), epoch)


@dataclass(frozen=True, eq=False)
class NewsExamples:
    split: NewsSplit
    tokens: FieldTokens
    epoch: int

    def __len__(self) -> int:
        return len(self.split)

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(row) for row in self._rows(range(len(self)))])

    def batch(self, index: Tensor) -> TextBatch:
        split, rows = self.split, self._rows(index.tolist())
        segments = [np.zeros_like(row) for row in rows]
        return batch_of(split, Ragged.of(rows), Ragged.of(segments), index, self.epoch, split.seed, None)

    def _rows(self, numbers: Sequence[int]) -> list[NDArray[np.int32]]:
        split = self.split
        chosen = [split.articles[number] for number in numbers]
        orders = Mixing(seed=split.seed).orders(chosen, self.epoch, numbers)
        return [
            article_ids(split.tokenizer, self.tokens, article, order)[: split.length]
            for article, order in zip(chosen, orders, strict=True)
        ]
