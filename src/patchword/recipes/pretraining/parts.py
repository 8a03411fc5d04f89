"""The parts that build pretraining examples: how sentences are combined, and what is predicted.

`Sentences` plans the examples of an epoch: pairs that follow each other or not (BERT), in order or not (ALBERT), or
packed sentences (RoBERTa, GPT). `TargetRule` makes the targets: masked tokens, or the next token at every position.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.batching.masking import Masking
from patchword.data.text.batching.ragged import Numbers, Ragged
from patchword.data.text.corpus.example_plan import ExamplePlan
from patchword.data.text.corpus.sentence_pairs import plan_order, plan_packed, plan_pairs
from patchword.data.text.corpus.tokenized_corpus import Corpus
from patchword.data.text.tokenizers.template import Frame

_BALANCING = 20_000  # documents from which the fraction of random partners is estimated


class Sentences(Protocol):
    """How sentences become examples. second: the objective over a pair, "" if there is none."""

    @property
    def second(self) -> str: ...
    @property
    def least(self) -> int:
        """Return the minimum number of sentences per document."""
        ...

    def plan(
        self, corpus: Corpus, frame: Frame, length: int, seed: int, epoch: int, documents: Numbers
    ) -> ExamplePlan: ...


@dataclass(frozen=True)
class NextPairs:
    """Two segments of one document, or of two (Devlin et al., 2018). random_share: fraction of the latter."""

    random_probability: float
    second: str = "next"
    least: int = 2

    def plan(self, corpus: Corpus, frame: Frame, length: int, seed: int, epoch: int, documents: Numbers) -> ExamplePlan:
        return plan_pairs(corpus, frame, length, seed, epoch, documents, random_probability=self.random_probability)

    @classmethod
    def balanced(cls, corpus: Corpus, frame: Frame, length: int, documents: Numbers) -> "NextPairs":
        """Choose the fraction of random partners so that half of all pairs have one.

        A chunk of one long sentence always gets a random partner, so the other chunks get fewer.
        """
        some = documents[np.diff(corpus.documents)[documents] > 1][:_BALANCING]
        low, high = 0.0, 0.5
        for _ in range(7):
            middle = (low + high) / 2
            labels = plan_pairs(corpus, frame, length, 0, 0, some, random_probability=middle).label
            low, high = (low, middle) if labels.mean() > 0.5 else (middle, high)
        return cls((low + high) / 2)


@dataclass(frozen=True)
class OrderPairs:
    """Two consecutive segments, in order or swapped (Lan et al., 2019)."""

    second: str = "order"
    least: int = 2

    def plan(self, corpus: Corpus, frame: Frame, length: int, seed: int, epoch: int, documents: Numbers) -> ExamplePlan:
        return plan_order(corpus, frame, length, seed, epoch, documents)


@dataclass(frozen=True)
class Packed:
    """Examples of as many sentences of a document as fit (Liu et al., 2019). short: fraction of shorter examples."""

    short: float = 0.1
    second: str = ""
    least: int = 1

    def plan(self, corpus: Corpus, frame: Frame, length: int, seed: int, epoch: int, documents: Numbers) -> ExamplePlan:
        return plan_packed(corpus, frame, length, seed, epoch, documents, self.short)


class Question(NamedTuple):
    """The input ids of a batch and the token to predict at each position, IGNORE where none is predicted."""

    ids: Ragged
    targets: Ragged


class TargetRule(Protocol):
    """The rule that makes inputs and targets. unit: what is counted, e.g. "masked words"."""

    @property
    def unit(self) -> str: ...

    def __call__(self, ids: Ragged, samples: Tensor, seed: int, epoch: int) -> Question: ...


@dataclass(frozen=True, eq=False)
class MaskedTokens:
    """Masks some tokens, other ones in every epoch."""

    masking: Masking
    unit: str = "masked words"

    def __call__(self, ids: Ragged, samples: Tensor, seed: int, epoch: int) -> Question:
        masked = self.masking.apply(ids, samples, seed, epoch)
        targets = torch.full_like(ids.values, IGNORE).scatter(0, masked.places, masked.labels.int())
        return Question(Ragged(masked.ids, ids.offsets), Ragged(targets, ids.offsets))


@dataclass(frozen=True)
class NextTokens:
    """Predicts the next token at every position but the last of a text."""

    unit: str = "words"

    def __call__(self, ids: Ragged, samples: Tensor, seed: int, epoch: int) -> Question:
        targets = ids.values.roll(-1)
        targets[ids.offsets[1:] - 1] = IGNORE
        return Question(ids, Ragged(targets, ids.offsets))
