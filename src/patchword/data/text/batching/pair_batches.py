"""Batches of sentences and their translations, with similar numbers of tokens and pairs of similar length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from patchword.core.device import to_device
from patchword.core.text import Pair, Text
from patchword.core.work_sharing import SINGLE, LazySequence, WorkSharing
from patchword.data.randomness import order
from patchword.data.text.batching.prefetch import prefetch
from patchword.data.text.batching.ragged import Ragged


@dataclass(frozen=True)
class PairBatchFormat:
    """How pairs become the input of a model. pads: padding ids of source and target.

    begin: the token before every target. Sources and targets end with an end token.
    """

    pads: tuple[int, int]
    begin: int
    device: torch.device


def padded_text(ids: Ragged, pad: int, device: torch.device) -> Text:
    """Pad texts and send them to the device."""
    mask = ids.mask()
    return Text(ids.padded(pad).long(), mask=None if mask.all() else mask).to(device)


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some pairs. target: the tokens to predict, with the end token."""

    source: Ragged
    target: Ragged
    samples: Tensor
    form: PairBatchFormat

    def __len__(self) -> int:
        return len(self.source)

    @property
    def device(self) -> torch.device:
        return self.form.device

    @property
    def weight(self) -> int:
        """Return the number of predicted tokens."""
        return len(self.target.values)

    def split(self, parts: int) -> list["PairBatch"]:
        if parts == 1:
            return [self]
        return [self.take(index) for index in torch.arange(len(self)).chunk(parts)]

    def take(self, index: Tensor) -> "PairBatch":
        return PairBatch(self.source.take(index), self.target.take(index), self.samples[index], self.form)

    @cached_property
    def pair(self) -> Pair:
        """Return the input of the model, on the device; targets are shifted right, after the begin token."""
        ids, there = self.target.padded(self.form.pads[1]).long(), self.target.mask()
        begun = torch.cat([ids.new_full((len(ids), 1), self.form.begin), ids[:, :-1]], 1)
        target = Text(begun, predict_at=there.flatten().nonzero()[:, 0])
        return Pair(self.read, target.to(self.device))

    @cached_property
    def read(self) -> Text:
        """Return the sources alone, on the device."""
        return padded_text(self.source, self.form.pads[0], self.device)

    @cached_property
    def asked_targets(self) -> Tensor:
        """Return the target tokens, (tokens,) on the device."""
        return to_device(self.target.values.long(), self.device)

    def ready(self) -> "PairBatch":
        """Compute the tensors of a training step and send them to the device; return the batch."""
        _ = self.pair, self.asked_targets
        return self


@dataclass(frozen=True, eq=False)
class PairBatches:
    """The batches of a set of pairs. tokens: maximum per batch on its longer side, with padding.

    Pairs are sorted by length; pairs of equal length are shuffled per epoch. So the sizes and the number of batches are
    the same in every epoch. A run can start in the middle of an epoch.
    """

    source: Ragged
    target: Ragged
    tokens: int
    form: PairBatchFormat

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def lengths(self) -> Tensor:
        """Return the length of the longer side of each pair, (pairs,)."""
        return self.source.lengths.maximum(self.target.lengths)

    @cached_property
    def sizes(self) -> list[int]:
        """Return the number of pairs of each batch, the shortest pairs first."""
        return pair_batch_sizes(self.lengths.sort().values, self.tokens)

    def steps_per_epoch(self) -> int:
        return len(self.sizes)

    def epoch(self, epoch: int, seed: int, first: int = 0, group: WorkSharing = SINGLE) -> Iterator[PairBatch]:
        """Yield this process's part of the batches in random order, from number `first`."""
        shuffled = order(seed, epoch, len(self))
        batches = shuffled[self.lengths[shuffled].argsort(stable=True)].split(self.sizes)
        chosen = [batches[number] for number in order(seed + 1, epoch, len(batches)).tolist()]
        return prefetch(lambda index: self.batch(group.share(index)).ready(), chosen[first:])

    def whole(self) -> Sequence[PairBatch]:
        """Return batches of every pair once, shortest first; each batch is made when it is accessed."""
        return LazySequence(self.batch, self.lengths.argsort(stable=True).split(self.sizes))

    def batch(self, index: Tensor) -> PairBatch:
        return PairBatch(self.source.take(index), self.target.take(index), index, self.form)


def pair_batch_sizes(lengths: Tensor, tokens: int) -> list[int]:
    """Return the number of texts of each batch. lengths: of the texts, in ascending order.

    A batch is padded to its last text; it ends before the text with which it would have too many tokens.
    """
    sizes, begun = list[int](), 0
    for number, length in enumerate(lengths.tolist()):
        if number > begun and (number + 1 - begun) * length > tokens:
            sizes.append(number - begun)
            begun = number
    return [*sizes, len(lengths) - begun] if len(lengths) > begun else sizes
