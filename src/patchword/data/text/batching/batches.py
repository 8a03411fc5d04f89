"""Batches of texts: which, in which order, padded to one length or one behind the other in a row."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
import torch
from torch import Tensor

from patchword.core.text import Packed, Text
from patchword.core.to_device import to_device
from patchword.core.work_sharing import SINGLE, LazySequence, WorkSharing
from patchword.data.randomness import order
from patchword.data.text.batching.packing import fitted
from patchword.data.text.batching.prefetch import prefetched
from patchword.data.text.batching.ragged import Ragged

IGNORE = -100  # the target of a token that nothing is asked of
_SORTED = 32  # batches whose texts are sorted by length together
_TOGETHER, _TEXTS = 8, 1024  # batches that are made together, at most, and their texts


@dataclass(frozen=True)
class Form:
    """How token ids become what a model reads. pad: the id of [PAD]. in_row: without padding.

    languages: of each segment its language; every segment then begins at position 0 (XLM). None: neither is told.
    """

    pad: int
    in_row: bool
    device: torch.device
    languages: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Some texts and what is to be learned from them.

    labels: (texts,) or (texts, numbers), of whole texts. targets: for each token, IGNORE where nothing is asked.
    asks_places: the model is to answer at the asked tokens alone. shares: (texts,) how much each counts; None: alike.
    """

    ids: Ragged
    segments: Ragged
    samples: Tensor
    form: Form
    labels: Tensor | None = None
    targets: Ragged | None = None
    asks_places: bool = False
    shares: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def device(self) -> torch.device:
        return self.form.device

    @cached_property
    def weight(self) -> int:
        """how many terms the mean of the loss has"""
        return len(self) if self.targets is None else max(1, len(self._places))

    @property
    def tokens(self) -> int:
        """of all its texts, without padding"""
        return len(self.ids.values)

    def split(self, parts: int) -> list["TextBatch"]:
        if parts == 1:
            return [self]
        return [self.take(index) for index in torch.arange(len(self)).chunk(parts)]

    def take(self, index: Tensor) -> "TextBatch":
        return TextBatch(
            self.ids.take(index),
            self.segments.take(index),
            self.samples[index],
            self.form,
            None if self.labels is None else self.labels[index],
            None if self.targets is None else self.targets.take(index),
            self.asks_places,
            None if self.shares is None else self.shares[index],
        )

    def apart(self, sizes: list[int]) -> "list[TextBatch]":
        """its first so many texts, the next so many, and so on"""
        rows = (None if part is None else part.parts(sizes) for part in (self.ids, self.segments, self.targets))
        each = (None if part is None else part.split(sizes) for part in (self.samples, self.labels, self.shares))
        columns = [part or repeat(None, len(sizes)) for part in (*rows, *each)]
        return [
            TextBatch(ids, segments, samples, self.form, labels, targets, self.asks_places, shares)
            for ids, segments, targets, samples, labels, shares in zip(*columns, strict=True)
        ]

    @cached_property
    def text(self) -> Text:
        """what the model reads, on the device"""
        places = self._places if self.asks_places else None
        if self.form.in_row:
            ids, segments = self.ids.values.long()[None], self.segments.values.long()[None]
            text = Text(ids, segments, packed=Packed.of(self.ids.lengths), predict_at=places)
        else:
            ids, segments = self.ids.padded(self.form.pad).long(), self.segments.padded(0).long()
            mask = self.ids.mask()
            text = Text(ids, segments, None if mask.all() else mask, predict_at=places)
        return (text if self.form.languages is None else self._spoken(text, self.form.languages)).to(self.device)

    def _spoken(self, text: Text, languages: tuple[int, ...]) -> Text:
        """with the language of each token, and its place in its own segment"""
        assert text.segments is not None, "segments tell the language"
        number = torch.arange(text.ids.shape[1])
        place = number if text.packed is None else text.packed.position_id
        begun = (number * (text.segments.diff(dim=1, prepend=text.segments[:, :1]) > 0)).cummax(1).values
        positions = torch.where(text.segments > 0, number - begun, place)
        return text._replace(languages=torch.tensor(languages)[text.segments], positions=positions)

    @cached_property
    def answers(self) -> Tensor:
        """the labels, on the device; float32 if they are not whole numbers"""
        assert self.labels is not None, "these texts have no labels"
        labels = self.labels.float() if self.labels.is_floating_point() else self.labels
        return to_device(labels, self.device)

    @cached_property
    def text_weights(self) -> Tensor | None:
        """the shares, on the device"""
        return None if self.shares is None else to_device(self.shares, self.device)

    @cached_property
    def flat_targets(self) -> Tensor:
        """(tokens,) the target of each token, numbered as in `text`, on the device"""
        return to_device(self._flat, self.device)

    @cached_property
    def asked_targets(self) -> Tensor:
        """(count,) the targets of the asked tokens alone, on the device"""
        return to_device(self._flat.index_select(0, self._places), self.device)

    @cached_property
    def _places(self) -> Tensor:
        """(count,) the tokens something is asked of, numbered as in `text`"""
        return torch.from_numpy(np.flatnonzero((self._flat != IGNORE).numpy()))  # torch's own takes ten times as long

    @cached_property
    def _flat(self) -> Tensor:
        assert self.targets is not None, "this batch asks nothing of single tokens"
        targets = self.targets.values if self.form.in_row else self.targets.padded(IGNORE).flatten()
        return targets.long()

    def ready(self) -> "TextBatch":
        """Itself, with what a step needs made and sent to the device."""
        _ = self.text, self.weight, self.text_weights
        if self.labels is not None:
            _ = self.answers
        if self.targets is not None:
            _ = self.asked_targets if self.asks_places else self.flat_targets
        return self


@dataclass(frozen=True, eq=False)
class Examples:
    """Texts as tokens, with what is to be learned from them.

    owner: (texts,) which row of the file each came from; a long one can be read in several windows.
    shortened: rows of which something was cut off. windowed: rows that are read in several windows.
    unknown: share of the tokens that the vocabulary does not have.
    shares: (texts,) how much each counts in training, 1 on average; None: alike.
    """

    name: str
    ids: Ragged
    segments: Ragged
    owner: Tensor
    labels: Tensor | None = None
    targets: Ragged | None = None
    shortened: int = 0
    windowed: int = 0
    unknown: float = 0.0
    shares: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, index: Tensor, form: Form) -> TextBatch:
        labels = None if self.labels is None else self.labels[index]
        targets = None if self.targets is None else self.targets.take(index)
        shares = None if self.shares is None else self.shares[index]
        return TextBatch(self.ids.take(index), self.segments.take(index), index, form, labels, targets, shares=shares)


@dataclass(frozen=True)
class TextBatches:
    """The batches of a set. An epoch is a fixed order; a run can start in the middle of one."""

    examples: Examples
    size: int
    form: Form

    def steps_per_epoch(self) -> int:
        return max(1, len(self.examples) // self.size)

    def epoch(self, epoch: int, seed: int, first: int = 0, group: WorkSharing = SINGLE) -> Iterator[TextBatch]:
        """Texts of like length are together; a last batch too small to fill is left out. Those of this process."""
        batches = bucketed(self.examples.ids.lengths, self.size, seed, epoch)[first:]
        return made_ahead(lambda index: self.examples.batch(index, self.form), batches, group)

    def packed(self, tokens: int) -> Sequence[TextBatch]:
        """Every text once, the longest first, as many in a batch as so many tokens hold."""
        return self._lazily(fitted(self.examples.ids.lengths, tokens, self.form.in_row))

    def whole(self) -> Sequence[TextBatch]:
        """Every text once, the longest first."""
        return self._lazily(self.examples.ids.lengths.argsort(descending=True, stable=True).split(self.size))

    def _lazily(self, parts: Sequence[Tensor]) -> Sequence[TextBatch]:
        """each batch is made when it is asked for"""
        return LazySequence(lambda index: self.examples.batch(index, self.form), parts)


def made_ahead(
    make: Callable[[Tensor], TextBatch], batches: Sequence[Tensor], group: WorkSharing = SINGLE
) -> Iterator[TextBatch]:
    """The batches of the texts of these numbers, those of this process, in other threads. Whatever is done there stops
    the thread that trains for a moment, be it for many texts or few: small batches are made together.

    make: what is learned from a text must not depend on the others
    """

    def several(indices: Sequence[Tensor]) -> list[TextBatch]:
        own = [group.share(index) for index in indices]
        return [batch.ready() for batch in make(torch.cat(own)).apart([len(index) for index in own])]

    count = max(1, min(_TOGETHER, _TEXTS // max(map(len, batches), default=1)))
    for made in prefetched(several, [batches[first : first + count] for first in range(0, len(batches), count)]):
        yield from made


def bucketed(lengths: Tensor, size: int, seed: int, epoch: int) -> list[Tensor]:
    """The numbers of the texts of each batch: shuffled, sorted by length within stretches, and the batches shuffled."""
    full = len(lengths) // size * size or len(lengths)
    shuffled = order(seed, epoch, len(lengths))[:full]
    stretch = torch.arange(full) // (size * _SORTED)
    key = stretch * (int(lengths.max()) + 1) + lengths[shuffled]
    batches = shuffled[key.argsort(stable=True)].split(size)
    return [batches[number] for number in order(seed + 1, epoch, len(batches)).tolist()]
