"""Batches of texts as token ids: padded to one length, or packed into one sequence without padding."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from patchword.core.device import to_device


class Packed(NamedTuple):
    """Boundaries of texts whose tokens are packed into one sequence, without padding.

    cu_seqlens: (texts + 1,) int32, cumulative lengths: text i has the tokens cu_seqlens[i] to cu_seqlens[i + 1].
    max_seqlen: the number of tokens of the longest text.
    sequence_id: (tokens,) the index of the text that each token belongs to.
    position_id: (tokens,) the position of each token in its text.
    """

    cu_seqlens: Tensor
    max_seqlen: int
    sequence_id: Tensor
    position_id: Tensor

    @classmethod
    def of(cls, lengths: Tensor) -> "Packed":
        """Compute the boundaries from the lengths of the texts, (texts,).

        numpy does this in a fifth of the time that torch needs.
        """
        sizes = lengths.cpu().numpy()
        ends = np.cumsum(sizes)
        sequence_id = np.repeat(np.arange(len(sizes)), sizes)
        position_id = np.arange(len(sequence_id)) - np.repeat(ends - sizes, sizes)
        cu_seqlens = np.concatenate([[0], ends]).astype(np.int32)
        bounds, sequences, positions = (
            torch.from_numpy(part).to(lengths.device) for part in (cu_seqlens, sequence_id, position_id)
        )
        return cls(bounds, int(sizes.max()), sequences, positions)

    def to(self, device: torch.device) -> "Packed":
        """Return a copy on the device."""
        parts = self.cu_seqlens, self.sequence_id, self.position_id
        cu_seqlens, sequence_id, position_id = (to_device(part, device) for part in parts)
        return Packed(cu_seqlens, self.max_seqlen, sequence_id, position_id)

    @property
    def mask(self) -> Tensor:
        """The padding mask of the padded form: (texts, max_seqlen), True where a text has a token."""
        return torch.arange(self.max_seqlen, device=self.cu_seqlens.device) < self.cu_seqlens.diff()[:, None]

    def pad(self, tokens: Tensor) -> Tensor:
        """(1, tokens, width) -> (texts, max_seqlen, width). The values at padded positions are arbitrary."""
        index = torch.arange(self.max_seqlen, device=tokens.device) + self.cu_seqlens[:-1, None]
        return tokens[0][index.clamp(max=tokens.shape[1] - 1)]

    def join(self, padded: Tensor) -> Tensor:
        """The inverse of `pad`: (texts, max_seqlen, width) -> (1, tokens, width)."""
        return padded[self.sequence_id, self.position_id][None]


class Text(NamedTuple):
    """A batch of texts.

    ids: (batch, tokens) int64, or (1, tokens of all texts) with `packed`.
    segments: of the same shape, the segment id of each token; None means 0 everywhere.
    mask: (batch, tokens), True where there is a token; None means everywhere. Not used with `packed`.
    packed: the boundaries of the texts if they are packed into one sequence; None if they are padded.
    predict_at: (count,) the indices, in the flattened batch, of the tokens whose words are predicted; None means all.
    positions: of the shape of ids, the position of each token in its text; None means 0, 1, 2, ...
    languages: of the shape of ids, the language id of each token; None adds no language embedding.
    spelling: (words, characters), for character-level models: the distinct words of the batch; ids then index its rows.
        Without it, ids have a third axis, the characters of each token.
    targets: (count,) the correct words at `predict_at`. A language-model head then returns losses instead of logits,
        so that the logits over the whole vocabulary are never stored.
    """

    ids: Tensor
    segments: Tensor | None = None
    mask: Tensor | None = None
    packed: Packed | None = None
    predict_at: Tensor | None = None
    positions: Tensor | None = None
    languages: Tensor | None = None
    spelling: Tensor | None = None
    targets: Tensor | None = None

    @property
    def texts(self) -> int:
        """The number of texts."""
        return len(self.ids) if self.packed is None else len(self.packed.cu_seqlens) - 1

    @property
    def device(self) -> torch.device:
        """The device of the token ids."""
        return self.ids.device

    def to(self, device: torch.device) -> "Text":
        """Return a copy on the device."""
        parts = {name: part for name, part in self._asdict().items() if isinstance(part, Tensor)}
        packed = self.packed and self.packed.to(device)
        return self._replace(packed=packed, **{name: to_device(part, device) for name, part in parts.items()})

    def first(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width): the first token of each text, usually [CLS]."""
        return tokens[:, 0] if self.packed is None else self._taken(tokens, self.packed.cu_seqlens[:-1], self.packed)

    def last(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width): the last token of each text."""
        if self.packed is not None:
            return self._taken(tokens, self.packed.cu_seqlens[1:] - 1, self.packed)
        if self.mask is None:
            return tokens[:, -1]
        batch, count = self.mask.shape
        positions = torch.arange(count, device=self.device)
        found = tokens[torch.arange(batch, device=self.device), (positions * self.mask).argmax(1)]
        return found.where(self.mask.any(1)[:, None], 0)

    def mean(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width): the mean over the tokens of each text."""
        if self.packed is not None:
            total = tokens.new_zeros(self.texts, tokens.shape[-1]).index_add(0, self.packed.sequence_id, tokens[0])
            return total / self.packed.cu_seqlens.diff()[:, None].clamp(min=1)
        if self.mask is None:
            return tokens.mean(1)
        valid = self.mask[..., None].to(tokens.dtype)
        return (tokens * valid).sum(1) / valid.sum(1).clamp(min=1)

    @staticmethod
    def _taken(tokens: Tensor, index: Tensor, packed: Packed) -> Tensor:
        """Return the token at an index per text; zeros for a text without tokens, whose index is a neighbour's."""
        found = tokens[0, index.clamp(0, tokens.shape[1] - 1)]
        return found.where(packed.cu_seqlens.diff()[:, None] > 0, 0)


class Pair(NamedTuple):
    """Source texts and target texts of sequence-to-sequence models; both are padded on the right.

    target: the input of the decoder: a start token, then the target text. The decoder predicts the next token after
        each of its tokens; `predict_at` of the target selects some of them.
    """

    source: Text
    target: Text

    @property
    def device(self) -> torch.device:
        """The device of the source's token ids."""
        return self.source.device

    def to(self, device: torch.device) -> "Pair":
        """Return a copy on the device."""
        return Pair(self.source.to(device), self.target.to(device))
