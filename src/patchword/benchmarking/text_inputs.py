"""Texts for benchmarks: random words of given lengths, in the batch layout of each candidate."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from patchword.data.text.batching.batches import IGNORE, BatchFormat, TextBatch
from patchword.data.text.batching.packing import batches_by_tokens, pack_by_tokens
from patchword.data.text.batching.ragged import Ragged, ends

MASKED = 0.15
_FIRST = 5  # ids below are those of special tokens


class Padded(NamedTuple):
    """A padded batch, as transformers takes it. tokens: number of tokens without padding."""

    ids: Tensor
    mask: Tensor | None
    labels: Tensor
    tokens: int


@dataclass(frozen=True, eq=False)
class Texts:
    """Random texts; some of their words are prediction targets, as in masked language modelling."""

    ids: Ragged
    targets: Ragged

    @classmethod
    def of(cls, lengths: Tensor, vocabulary: int, seed: int = 0) -> "Texts":
        generator, total = torch.Generator().manual_seed(seed), int(lengths.sum())
        words = torch.randint(_FIRST, vocabulary, (2, total), generator=generator, dtype=torch.int32)
        asked = torch.randperm(total, generator=generator)[: max(1, round(MASKED * total))]
        targets = torch.full((total,), IGNORE, dtype=torch.int32)
        targets[asked] = words[1, asked]
        return cls(Ragged(words[0], ends(lengths)), Ragged(targets, ends(lengths)))

    @property
    def lengths(self) -> Tensor:
        return self.ids.lengths

    @property
    def is_even(self) -> bool:
        """Return True if all texts have the same length, so that no padding is needed."""
        return bool((self.lengths == self.lengths[0]).all())

    def batch(self, index: Tensor, form: BatchFormat) -> TextBatch:
        ids, targets = self.ids.take(index), self.targets.take(index)
        segments = Ragged(torch.zeros_like(ids.values), ids.offsets)
        return TextBatch(ids, segments, index, form, targets=targets, targets_only=True).ready()

    def padded(self, batch: int, device: torch.device) -> list[Padded]:
        """Return batches of `batch` texts in the given order, each padded to its longest text."""
        found = []
        for index in torch.arange(len(self.ids)).split(batch):
            ids, targets = self.ids.take(index), self.targets.take(index)
            mask = None if self.is_even else ids.mask().long().to(device)
            wide = ids.padded(0).long().to(device), mask, targets.padded(IGNORE).long().to(device)
            found.append(Padded(*wide, len(ids.values)))
        return found

    def packed(self, batch: int, device: torch.device) -> list[TextBatch]:
        """Return batches with the mean token count of `batch` texts; packed without padding on a GPU."""
        if self.is_even:
            form = BatchFormat(0, False, device)
            return [self.batch(index, form) for index in torch.arange(len(self.ids)).split(batch)]
        tokens = round(batch * float(self.lengths.double().mean()))
        form = BatchFormat(0, device.type == "cuda", device)
        order = torch.arange(len(self.ids))
        cuts = (
            pack_by_tokens(order, self.lengths, tokens)
            if form.packed
            else batches_by_tokens(self.lengths, tokens, form.packed)
        )
        return [self.batch(index, form) for index in cuts]

    def sorted(self, tokens: int, device: torch.device) -> list[TextBatch]:
        """Return batches for inference, sorted by length, the longest first, with at most `tokens` tokens each."""
        form = BatchFormat(0, device.type == "cuda" and not self.is_even, device)
        return [self.batch(index, form) for index in batches_by_tokens(self.lengths, tokens, form.packed)]

    def macs(self, config: dict[str, Any], words: bool) -> float:
        """Return the multiply-accumulates of one forward pass; logits are computed only for the predicted words.

        words: whether words are predicted at all.
        """
        width, lengths = config["width"], self.lengths.double()
        linear = config["depth"] * (4 * width**2 + 2 * width * config["hidden"]) * len(self.ids.values)
        attention = 2 * config["depth"] * width * float((lengths**2).sum())
        asked = float((self.targets.values != IGNORE).sum()) if words else 0.0
        return float(linear + attention + asked * width * (config["vocabulary"] + width))


def natural_lengths(texts: int, longest: int, typical: int = 60, seed: int = 0) -> Tensor:
    """Sample text lengths from a log-normal distribution with the median `typical`, cut at `longest`.

    The default is close to the paragraphs of English Wikipedia: median 59 tokens, 5% below 19 and 5% above 193.
    """
    drawn = torch.randn(texts, generator=torch.Generator().manual_seed(seed)) * 0.73 + math.log(typical)
    return drawn.exp().round().long().clamp(min(8, longest), longest)
