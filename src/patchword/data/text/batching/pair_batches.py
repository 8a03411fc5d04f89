"""Batches of sentences and their translations: of about as many tokens each, pairs of like length together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from patchword.core.text import Pair, Text
from patchword.core.to_device import to_device
from patchword.core.work_sharing import SINGLE, LazySequence, WorkSharing
from patchword.data.randomness import order
from patchword.data.text.batching.prefetch import prefetched
from patchword.data.text.batching.ragged import Ragged


@dataclass(frozen=True)
class PairForm:
    """How pairs become what a model reads. pads: the padding of the source and of the target.

    begin: the token in front of every target. Sources and targets end with a token of their own.
    """

    pads: tuple[int, int]
    begin: int
    device: torch.device


def padded_text(ids: Ragged, pad: int, device: torch.device) -> Text:
    """on the device"""
    mask = ids.mask()
    return Text(ids.padded(pad).long(), mask=None if mask.all() else mask).to(device)


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some pairs. target: what is to be written, its end token included."""

    source: Ragged
    target: Ragged
    samples: Tensor
    form: PairForm

    def __len__(self) -> int:
        return len(self.source)

    @property
    def device(self) -> torch.device:
        return self.form.device

    @property
    def weight(self) -> int:
        """how many tokens are asked for"""
        return len(self.target.values)

    def split(self, parts: int) -> list["PairBatch"]:
        if parts == 1:
            return [self]
        return [self.take(index) for index in torch.arange(len(self)).chunk(parts)]

    def take(self, index: Tensor) -> "PairBatch":
        return PairBatch(self.source.take(index), self.target.take(index), self.samples[index], self.form)

    @cached_property
    def pair(self) -> Pair:
        """What the model reads, on the device: targets one token later, behind the one that begins them."""
        ids, there = self.target.padded(self.form.pads[1]).long(), self.target.mask()
        begun = torch.cat([ids.new_full((len(ids), 1), self.form.begin), ids[:, :-1]], 1)
        target = Text(begun, predict_at=there.flatten().nonzero()[:, 0])
        return Pair(self.read, target.to(self.device))

    @cached_property
    def read(self) -> Text:
        """the sources alone, on the device"""
        return padded_text(self.source, self.form.pads[0], self.device)

    @cached_property
    def asked_targets(self) -> Tensor:
        """(tokens,) what is to be written, on the device"""
        return to_device(self.target.values.long(), self.device)

    def ready(self) -> "PairBatch":
        """Itself, with what a step needs made and sent to the device."""
        _ = self.pair, self.asked_targets
        return self


@dataclass(frozen=True, eq=False)
class PairBatches:
    """The batches of a set of pairs. tokens: of a batch on its longer side, with padding.

    Pairs are sorted by length, those of one length in another order in every epoch; so the sizes of the batches are the
    same in every epoch, and so is their number. A run can start in the middle of an epoch.
    """

    source: Ragged
    target: Ragged
    tokens: int
    form: PairForm

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def lengths(self) -> Tensor:
        """(pairs,) of the longer side of each"""
        return self.source.lengths.maximum(self.target.lengths)

    @cached_property
    def sizes(self) -> list[int]:
        """pairs of each batch, the shortest first"""
        return filled(self.lengths.sort().values, self.tokens)

    def steps_per_epoch(self) -> int:
        return len(self.sizes)

    def epoch(self, epoch: int, seed: int, first: int = 0, group: WorkSharing = SINGLE) -> Iterator[PairBatch]:
        """In a random order; of each batch, the pairs that are this process's."""
        shuffled = order(seed, epoch, len(self))
        batches = shuffled[self.lengths[shuffled].argsort(stable=True)].split(self.sizes)
        chosen = [batches[number] for number in order(seed + 1, epoch, len(batches)).tolist()]
        return prefetched(lambda index: self.batch(group.share(index)).ready(), chosen[first:])

    def whole(self) -> Sequence[PairBatch]:
        """Every pair once, the shortest first; each batch is made when it is asked for."""
        return LazySequence(self.batch, self.lengths.argsort(stable=True).split(self.sizes))

    def batch(self, index: Tensor) -> PairBatch:
        return PairBatch(self.source.take(index), self.target.take(index), index, self.form)


def filled(lengths: Tensor, tokens: int) -> list[int]:
    """How many texts go into each batch. lengths: of the texts, the shortest first

    A batch is padded to its last text: it ends before the one with which it would have too many tokens.
    """
    sizes, begun = list[int](), 0
    for number, length in enumerate(lengths.tolist()):
        if number > begun and (number + 1 - begun) * length > tokens:
            sizes.append(number - begun)
            begun = number
    return [*sizes, len(lengths) - begun] if len(lengths) > begun else sizes
