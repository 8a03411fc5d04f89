"""The parts that examples of pretraining are made by: how sentences are put together, and what is asked of them.

`Sentences` plans the examples of an epoch: pairs that follow each other or not (BERT), in their order or not (ALBERT),
or sentences packed (RoBERTa, GPT). `Asked` hides what is to be guessed: masked tokens, or of every token the next.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.batching.masking import Masking
from patchword.data.text.batching.ragged import Numbers, Ragged
from patchword.data.text.corpus.example_plan import Plan
from patchword.data.text.corpus.sentence_pairs import plan_order, plan_packed, plan_pairs
from patchword.data.text.corpus.tokenized_corpus import Corpus
from patchword.data.text.tokenizers.template import Frame

_BALANCING = 20_000  # documents from which the share of random partners is found


class Sentences(Protocol):
    """How sentences become examples. second: what is asked of a pair, "" if nothing is."""

    @property
    def second(self) -> str: ...
    @property
    def least(self) -> int:
        """sentences a document has to have"""
        ...

    def plan(self, corpus: Corpus, frame: Frame, length: int, seed: int, epoch: int, documents: Numbers) -> Plan: ...


@dataclass(frozen=True)
class NextPairs:
    """Two stretches of one document, or of two (Devlin et al., 2018). random_share: of pairs that could follow."""

    random_share: float
    second: str = "next"
    least: int = 2

    def plan(self, corpus: Corpus, frame: Frame, length: int, seed: int, epoch: int, documents: Numbers) -> Plan:
        return plan_pairs(corpus, frame, length, seed, epoch, documents, random_share=self.random_share)

    @classmethod
    def balanced(cls, corpus: Corpus, frame: Frame, length: int, documents: Numbers) -> "NextPairs":
        """With a share of random partners among chunks that can be parted, with which half of all pairs have one.

        A chunk of one long sentence always gets a random partner; the others get so many fewer.
        """
        some = documents[np.diff(corpus.documents)[documents] > 1][:_BALANCING]
        low, high = 0.0, 0.5
        for _ in range(7):
            middle = (low + high) / 2
            labels = plan_pairs(corpus, frame, length, 0, 0, some, random_share=middle).label
            low, high = (low, middle) if labels.mean() > 0.5 else (middle, high)
        return cls((low + high) / 2)


@dataclass(frozen=True)
class OrderPairs:
    """Two stretches that follow each other, as they stand or exchanged (Lan et al., 2019)."""

    second: str = "order"
    least: int = 2

    def plan(self, corpus: Corpus, frame: Frame, length: int, seed: int, epoch: int, documents: Numbers) -> Plan:
        return plan_order(corpus, frame, length, seed, epoch, documents)


@dataclass(frozen=True)
class Packed:
    """As many sentences of a document as there is room for (Liu et al., 2019). short: the share of shorter examples."""

    short: float = 0.1
    second: str = ""
    least: int = 1

    def plan(self, corpus: Corpus, frame: Frame, length: int, seed: int, epoch: int, documents: Numbers) -> Plan:
        return plan_packed(corpus, frame, length, seed, epoch, documents, self.short)


class Question(NamedTuple):
    """ids: as the model sees them. targets: for each token what is asked, IGNORE where nothing is."""

    ids: Ragged
    targets: Ragged


class Asked(Protocol):
    """unit: what is counted, e.g. "masked words"."""

    @property
    def unit(self) -> str: ...

    def __call__(self, ids: Ragged, samples: Tensor, seed: int, epoch: int) -> Question: ...


@dataclass(frozen=True, eq=False)
class MaskedTokens:
    """Some tokens are hidden, other ones in every epoch."""

    masking: Masking
    unit: str = "masked words"

    def __call__(self, ids: Ragged, samples: Tensor, seed: int, epoch: int) -> Question:
        masked = self.masking.apply(ids, samples, seed, epoch)
        targets = torch.full_like(ids.values, IGNORE).scatter(0, masked.places, masked.labels.int())
        return Question(Ragged(masked.ids, ids.offsets), Ragged(targets, ids.offsets))


@dataclass(frozen=True)
class NextTokens:
    """Of every token the next is asked, of the last of a text none."""

    unit: str = "words"

    def __call__(self, ids: Ragged, samples: Tensor, seed: int, epoch: int) -> Question:
        targets = ids.values.roll(-1)
        targets[ids.offsets[1:] - 1] = IGNORE
        return Question(ids, Ragged(targets, ids.offsets))
