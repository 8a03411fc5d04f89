"""Texts as a model reads them: numbered tokens, padded to one length or one behind the other in a row."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from patchword.core.to_device import to_device


class Packed(NamedTuple):
    """Where each text lies, if the tokens of all lie in one row.

    offsets: (texts + 1,) int32, where each text begins and the last ends. longest: tokens of the longest.
    text, place: (tokens,) which text a token belongs to, and its place in it.
    """

    offsets: Tensor
    longest: int
    text: Tensor
    place: Tensor

    @classmethod
    def of(cls, lengths: Tensor) -> "Packed":
        """with numpy, which takes a fifth of the time"""
        sizes = lengths.cpu().numpy()
        ends = np.cumsum(sizes)
        text = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(len(text)) - np.repeat(ends - sizes, sizes)
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        begins, which, where = (torch.from_numpy(part).to(lengths.device) for part in (offsets, text, place))
        return cls(begins, int(sizes.max()), which, where)

    def to(self, device: torch.device) -> "Packed":
        offsets, text, place = (to_device(part, device) for part in (self.offsets, self.text, self.place))
        return Packed(offsets, self.longest, text, place)

    @property
    def mask(self) -> Tensor:
        """(texts, longest), True where a text has a token"""
        return torch.arange(self.longest, device=self.offsets.device) < self.offsets.diff()[:, None]

    def pad(self, tokens: Tensor) -> Tensor:
        """(1, tokens, width) -> (texts, longest, width); what stands where a text has no token has no meaning"""
        places = torch.arange(self.longest, device=tokens.device) + self.offsets[:-1, None]
        return tokens[0][places.clamp(max=tokens.shape[1] - 1)]

    def join(self, padded: Tensor) -> Tensor:
        """the way back: (texts, longest, width) -> (1, tokens, width)"""
        return padded[self.text, self.place][None]


class Text(NamedTuple):
    """A batch of texts.

    ids: (batch, tokens) int64, or (1, tokens of all texts) with `rows`.
    segments: of the same shape, the number of the sentence a token belongs to; None is all 0.
    mask: (batch, tokens), True where there is a token; None is everywhere. Not with `rows`, which need no padding.
    places: (count,) the tokens, numbered through all texts, whose words are asked for; None is all.
    targets: (count,) the words that stood at those places. A head of words then answers how far it is off, instead of
        the scores of all words, which nobody has to hold.
    positions: of the shape of ids, where in its text a token stands; None is one behind the other.
    languages: of the shape of ids, the number of the language of a token; None is all 0.
    spelling: (words, characters) of models that spell: the different words of the batch, which ids then number. Without
        it ids have a third axis, the characters of each token.
    """

    ids: Tensor
    segments: Tensor | None = None
    mask: Tensor | None = None
    rows: Packed | None = None
    places: Tensor | None = None
    positions: Tensor | None = None
    languages: Tensor | None = None
    spelling: Tensor | None = None
    targets: Tensor | None = None

    @property
    def texts(self) -> int:
        """how many there are"""
        return len(self.ids) if self.rows is None else len(self.rows.offsets) - 1

    @property
    def device(self) -> torch.device:
        return self.ids.device

    def to(self, device: torch.device) -> "Text":
        parts = {name: part for name, part in self._asdict().items() if isinstance(part, Tensor)}
        rows = self.rows and self.rows.to(device)
        return self._replace(rows=rows, **{name: to_device(part, device) for name, part in parts.items()})

    def first(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width): of each text its first token, [CLS]"""
        return tokens[:, 0] if self.rows is None else tokens[0, self.rows.offsets[:-1]]

    def last(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width): of each text its last token"""
        if self.rows is not None:
            return tokens[0, self.rows.offsets[1:] - 1]
        if self.mask is None:
            return tokens[:, -1]
        places = torch.arange(self.mask.shape[1], device=self.device)
        return tokens[torch.arange(len(tokens), device=self.device), (places * self.mask).argmax(1)]

    def mean(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width): the mean over the tokens of each text"""
        if self.rows is not None:
            total = tokens.new_zeros(self.texts, tokens.shape[-1]).index_add(0, self.rows.text, tokens[0])
            return total / self.rows.offsets.diff()[:, None]
        if self.mask is None:
            return tokens.mean(1)
        there = self.mask[..., None].to(tokens.dtype)
        return (tokens * there).sum(1) / there.sum(1).clamp(min=1)


class Pair(NamedTuple):
    """Texts and what is written for each of them, such as a translation; both are padded, on the right.

    target: what the decoder has written so far, behind a token that begins every text. Behind each of its tokens the
        next one is asked for; its `places` choose some of them.
    """

    source: Text
    target: Text

    @property
    def device(self) -> torch.device:
        return self.source.device

    def to(self, device: torch.device) -> "Pair":
        return Pair(self.source.to(device), self.target.to(device))
