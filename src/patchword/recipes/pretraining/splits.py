"""Data splits of a pretraining run, training and held out, which build the examples of each epoch."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from patchword.data.randomness import uniform
from patchword.data.text.batching.batches import BatchFormat, TextBatch
from patchword.data.text.batching.ragged import Numbers, Ragged
from patchword.data.text.corpus.example_plan import ExamplePlan
from patchword.data.text.corpus.tokenized_corpus import Corpus
from patchword.data.text.tokenizers.template import Frame
from patchword.recipes.pretraining.parts import Sentences, TargetRule
from patchword.recipes.random_purposes import DOCUMENTS_HELD_OUT


class DataSplit(Protocol):
    """A data split, which builds examples."""

    @property
    def form(self) -> BatchFormat: ...
    @property
    def target_rule(self) -> TargetRule: ...
    @property
    def second(self) -> str: ...
    def __len__(self) -> int:
        """Return the number of documents, or of sentence pairs."""
        ...

    def fingerprint(self) -> str: ...

    def examples(self, epoch: int) -> "Examples": ...


class Examples(Protocol):
    """The examples of one epoch."""

    def __len__(self) -> int: ...
    @property
    def lengths(self) -> Tensor:
        """Return the number of tokens of each example."""
        ...

    def batch(self, index: Tensor) -> TextBatch: ...


@dataclass(frozen=True, eq=False)
class CorpusSplit:
    """A split of the documents of a corpus."""

    corpus: Corpus
    documents: Numbers
    frame: Frame
    length: int
    form: BatchFormat
    sentences: Sentences
    target_rule: TargetRule
    seed: int

    @property
    def second(self) -> str:
        return self.sentences.second

    def __len__(self) -> int:
        return len(self.documents)

    def fingerprint(self) -> str:
        return self.corpus.fingerprint()

    def examples(self, epoch: int) -> "PlannedExamples":
        plan = self.sentences.plan(self.corpus, self.frame, self.length, self.seed, epoch, self.documents)
        return PlannedExamples(plan, self, epoch)


@dataclass(frozen=True, eq=False)
class PlannedExamples:
    plan: ExamplePlan
    split: CorpusSplit
    epoch: int

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def lengths(self) -> Tensor:
        return torch.from_numpy(self.plan.lengths)

    def batch(self, index: Tensor) -> TextBatch:
        ids, segments, labels = self.plan.batch(index)
        return batch_of(self.split, ids, segments, index, self.epoch, self.split.seed, labels)


def batch_of(
    split: DataSplit, ids: Ragged, segments: Ragged, index: Tensor, epoch: int, seed: int, labels: Tensor | None
) -> TextBatch:
    question = split.target_rule(ids, index, seed, epoch)
    labels = labels if split.second else None
    return TextBatch(question.ids, segments, index, split.form, labels, question.targets, targets_only=True)


def split_held_out(count: int, fraction: float) -> tuple[Tensor, Tensor]:
    """Return the indices of the training and of the held-out documents; the choice does not depend on the seed."""
    order = uniform(0, 0, torch.arange(count), DOCUMENTS_HELD_OUT).argsort(stable=True)
    aside = min(count - 1, max(1, round(count * fraction)))
    return order[aside:].sort().values, order[:aside].sort().values
