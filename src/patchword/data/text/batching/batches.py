"""Batches of texts: their order, and padding or packing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
import torch
from torch import Tensor

from patchword.core.device import to_device
from patchword.core.text import Packed, Text
from patchword.core.work_sharing import SINGLE, LazySequence, WorkSharing
from patchword.data.randomness import order
from patchword.data.sampling import Sampler
from patchword.data.text.batching.packing import batches_by_tokens
from patchword.data.text.batching.prefetch import prefetch
from patchword.data.text.batching.ragged import Ragged

IGNORE = -100  # the target of a token without a prediction
_SORTED_BATCHES = 32  # number of batches whose texts are sorted by length together
_SORTED_WITH_COPIES = 4  # the same if texts are repeated: copies have the same length and would fill a batch
_TOGETHER, _TEXTS = 8, 1024  # maximum batches that are made together, and their texts


@dataclass(frozen=True)
class BatchFormat:
    """How token ids become the input of a model. pad: the id of [PAD]. packed: one sequence, without padding.

    languages: the language id of each segment; every segment then begins at position 0 (XLM). None: no language ids.
    """

    pad: int
    packed: bool
    device: torch.device
    languages: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Texts and their training targets.

    labels: (texts,) or (texts, numbers), of whole texts. targets: per token, IGNORE for tokens without a prediction.
    targets_only: predict only at the tokens with a target. loss_weights: (texts,); None: equal weights.
    """

    ids: Ragged
    segments: Ragged
    samples: Tensor
    form: BatchFormat
    labels: Tensor | None = None
    targets: Ragged | None = None
    targets_only: bool = False
    loss_weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def device(self) -> torch.device:
        return self.form.device

    @cached_property
    def weight(self) -> int:
        """Return the number of terms in the mean of the loss."""
        return len(self) if self.targets is None else max(1, len(self._places))

    @property
    def tokens(self) -> int:
        """Return the number of tokens of all texts, without padding."""
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
            self.targets_only,
            None if self.loss_weights is None else self.loss_weights[index],
        )

    def apart(self, sizes: list[int]) -> "list[TextBatch]":
        """Split into consecutive batches of these sizes."""
        rows = (None if part is None else part.parts(sizes) for part in (self.ids, self.segments, self.targets))
        each = (None if part is None else part.split(sizes) for part in (self.samples, self.labels, self.loss_weights))
        columns = [part or repeat(None, len(sizes)) for part in (*rows, *each)]
        return [
            TextBatch(ids, segments, samples, self.form, labels, targets, self.targets_only, loss_weights)
            for ids, segments, targets, samples, labels, loss_weights in zip(*columns, strict=True)
        ]

    @cached_property
    def text(self) -> Text:
        """Return the input of the model, on the device."""
        places = self._places if self.targets_only else None
        if self.form.packed:
            ids, segments = self.ids.values.long()[None], self.segments.values.long()[None]
            text = Text(ids, segments, packed=Packed.of(self.ids.lengths), predict_at=places)
        else:
            ids, segments = self.ids.padded(self.form.pad).long(), self.segments.padded(0).long()
            mask = self.ids.mask()
            text = Text(ids, segments, None if mask.all() else mask, predict_at=places)
        return (text if self.form.languages is None else self._with_languages(text, self.form.languages)).to(
            self.device
        )

    def _with_languages(self, text: Text, languages: tuple[int, ...]) -> Text:
        """Add the language of each token, and its position in its segment."""
        assert text.segments is not None, "the language follows from the segment"
        number = torch.arange(text.ids.shape[1])
        place = number if text.packed is None else text.packed.position_id
        begun = (number * (text.segments.diff(dim=1, prepend=text.segments[:, :1]) > 0)).cummax(1).values
        positions = torch.where(text.segments > 0, number - begun, place)
        return text._replace(languages=torch.tensor(languages)[text.segments], positions=positions)

    @cached_property
    def answers(self) -> Tensor:
        """Return the labels, on the device; float32 if they are not integers."""
        assert self.labels is not None, "these texts have no labels"
        labels = self.labels.float() if self.labels.is_floating_point() else self.labels
        return to_device(labels, self.device)

    @cached_property
    def text_weights(self) -> Tensor | None:
        """Return the loss weights of the texts, on the device."""
        return None if self.loss_weights is None else to_device(self.loss_weights, self.device)

    @cached_property
    def flat_targets(self) -> Tensor:
        """Return the target of each token in the order of `text`, (tokens,) on the device."""
        return to_device(self._flat, self.device)

    @cached_property
    def asked_targets(self) -> Tensor:
        """Return the targets of the predicted tokens, (count,) on the device."""
        return to_device(self._flat.index_select(0, self._places), self.device)

    @cached_property
    def _places(self) -> Tensor:
        """Return the flat indices of the tokens with a target, (count,)."""
        return torch.from_numpy(
            np.flatnonzero((self._flat != IGNORE).numpy())
        )  # torch's nonzero takes ten times as long

    @cached_property
    def _flat(self) -> Tensor:
        assert self.targets is not None, "this batch has no token targets"
        targets = self.targets.values if self.form.packed else self.targets.padded(IGNORE).flatten()
        return targets.long()

    def ready(self) -> "TextBatch":
        """Compute the tensors of a training step and send them to the device; return the batch."""
        _ = self.text, self.weight, self.text_weights
        if self.labels is not None:
            _ = self.answers
        if self.targets is not None:
            _ = self.asked_targets if self.targets_only else self.flat_targets
        return self


@dataclass(frozen=True, eq=False)
class Examples:
    """Tokenised texts with their training targets.

    owner: (texts,) row of the file of each text; a long row can have several windows.
    shortened: number of truncated rows. windowed: number of rows with several windows.
    unknown: fraction of tokens that are unknown.
    loss_weights: (texts,), 1 on average; None: equal weights.
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
    loss_weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, index: Tensor, form: BatchFormat) -> TextBatch:
        labels = None if self.labels is None else self.labels[index]
        targets = None if self.targets is None else self.targets.take(index)
        loss_weights = None if self.loss_weights is None else self.loss_weights[index]
        return TextBatch(
            self.ids.take(index), self.segments.take(index), index, form, labels, targets, loss_weights=loss_weights
        )


@dataclass(frozen=True)
class TextBatches:
    """The batches of a data set. The order of an epoch is deterministic; a run can start in the middle of one.

    sampler: draws the texts of an epoch, some of them repeatedly; None: every text once.
    """

    examples: Examples
    size: int
    form: BatchFormat
    sampler: Sampler | None = None

    def steps_per_epoch(self) -> int:
        return max(1, len(self.examples) // self.size)

    def epoch(self, epoch: int, seed: int, first: int = 0, group: WorkSharing = SINGLE) -> Iterator[TextBatch]:
        """Yield this process's part of the batches, from number `first`. Texts of similar length share a batch."""
        drawn = self.sampler(seed, epoch) if self.sampler else None
        batches = bucketed(self.examples.ids.lengths, self.size, seed, epoch, drawn)[first:]
        return prefetch_batches(lambda index: self.examples.batch(index, self.form), batches, group)

    def packed(self, tokens: int) -> Sequence[TextBatch]:
        """Return batches of every text once, longest first, with at most `tokens` tokens each."""
        return self._lazy(batches_by_tokens(self.examples.ids.lengths, tokens, self.form.packed))

    def whole(self) -> Sequence[TextBatch]:
        """Return batches of every text once, longest first."""
        return self._lazy(self.examples.ids.lengths.argsort(descending=True, stable=True).split(self.size))

    def _lazy(self, parts: Sequence[Tensor]) -> Sequence[TextBatch]:
        """Make each batch when it is accessed."""
        return LazySequence(lambda index: self.examples.batch(index, self.form), parts)


def prefetch_batches(
    make: Callable[[Tensor], TextBatch], batches: Sequence[Tensor], group: WorkSharing = SINGLE
) -> Iterator[TextBatch]:
    """Yield this process's part of the batches with these text indices, made ahead in other threads.

    Each call in another thread interrupts the training thread for a moment, whatever its size, so small batches are
    made together. make: the targets of a text must not depend on the other texts.
    """

    def several(indices: Sequence[Tensor]) -> list[TextBatch]:
        own = [group.share(index) for index in indices]
        return [batch.ready() for batch in make(torch.cat(own)).apart([len(index) for index in own])]

    count = max(1, min(_TOGETHER, _TEXTS // max(map(len, batches), default=1)))
    for made in prefetch(several, [batches[first : first + count] for first in range(0, len(batches), count)]):
        yield from made


def bucketed(lengths: Tensor, size: int, seed: int, epoch: int, drawn: Tensor | None = None) -> list[Tensor]:
    """Return the text indices of each batch: shuffle, sort by length within stretches, shuffle the batches.

    drawn: the texts of the epoch, shuffled and some of them repeatedly; None: every text once.
    """
    full = len(lengths) // size * size or len(lengths)
    shuffled = (order(seed, epoch, len(lengths)) if drawn is None else drawn)[:full]
    stretch = torch.arange(full) // (size * (_SORTED_BATCHES if drawn is None else _SORTED_WITH_COPIES))
    key = stretch * (int(lengths.max()) + 1) + lengths[shuffled]
    batches = shuffled[key.argsort(stable=True)].split(size)
    return [batches[number] for number in order(seed + 1, epoch, len(batches)).tolist()]
