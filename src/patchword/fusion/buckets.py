"""Texts in a row, brought to one of few sizes, so that a compiled model of them can be recorded for each.

Every batch of natural texts has other sizes: tokens, texts, words that are asked for. A model whose launches are paid
for one by one then waits for them. Behind its own a batch is given texts that nobody asks about, until its sizes are
those of others; what is answered of them is cut off.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from patchword.core.text import Packed, Text
from patchword.kernels.varlen_attention.operation import has_varlen_attention_kernel
from patchword.layers.attention.attention import Attention
from patchword.layers.attention.core import Pattern, ScaledDotProduct, stays_in_row
from patchword.layers.heads.text import LMHead, PretrainingHead

_TOKENS, _OTHERS = 64, 16  # sizes between a power of two and the next are half as many
MOST = 64  # sizes that are recorded
_IGNORED = -100  # the target of a place that nobody asks about

Answer = Any  # words, or words and what is said of each text
Run = Callable[..., Answer]


class BucketedGraphs:
    """A model of texts that is recorded for few sizes. What does not come in a row, or asks for no words, goes its own
    way; so does a model whose attention pads rows. Parts of batches, and sizes that come when there are many already,
    are not recorded; they have the same sizes nevertheless, so that a run does not depend on what was met before.

    recorded: the model, which holds a graph of each size it has met. changing: the same without graphs
    """

    def __init__(self, model: nn.Module, recorded: Run, changing: Run) -> None:
        self.model, self.recorded, self.changing = model, recorded, changing
        parts = [part for part in model.modules() if isinstance(part, Attention)]
        patterns = [part for part in model.modules() if isinstance(part, Pattern)]
        plain = all(type(part.core) is ScaledDotProduct for part in parts) and all(map(stays_in_row, patterns))
        words = isinstance(getattr(model, "head", None), LMHead | PretrainingHead)
        self.fits = bool(parts) and plain and words
        self.heads = {(part.head_width, part.core.dropout) for part in parts}
        self.limit: int | None = getattr(getattr(model, "entrance", None), "limit", None)
        self.sizes, self.largest = set[tuple[int, ...]](), 0

    def __call__(self, *given: Any) -> Answer:
        text = given[0]
        alone = len(given) == 1 and isinstance(text, Text) and text.packed is not None and text.predict_at is not None
        if not self.fits or not alone or not self._stays_in_row(text.device):
            return self.changing(*given)
        wide = to_bucket(text, self._longest(text.packed.max_seqlen))
        sizes = sizes_of(wide)
        self.largest = max(self.largest, sizes[0])
        part = 2 * sizes[0] <= self.largest  # of a batch that is too large, or that is searched
        if part or (sizes not in self.sizes and len(self.sizes) >= MOST):
            return cut(self.changing(wide), text)
        self.sizes.add(sizes)
        return cut(self.recorded(wide), text)

    def _longest(self, longest: int) -> int:
        """a power of two, or the longest that the model reads"""
        even = _up(longest, 1)
        return even if self.limit is None else max(longest, min(even, self.limit))

    def _stays_in_row(self, device: torch.device) -> bool:
        """where there is a kernel for rows; what is padded would be padded to more"""
        narrow = torch.is_autocast_enabled(device.type)
        kind = torch.get_autocast_dtype(device.type) if narrow else next(self.model.parameters()).dtype
        query = torch.empty(0, dtype=kind, device=device)
        rates = self.heads if self.model.training else {(width, 0.0) for width, _ in self.heads}
        return all(has_varlen_attention_kernel(query, width, rate) for width, rate in rates)


def to_bucket(text: Text, longest: int) -> Text:
    """With texts behind its own, none of them empty or longer than these, and with places nobody asks about. longest:
    what is told instead of the longest of its texts"""
    rows, places = _parts(text)
    texts, tokens = text.texts, text.ids.shape[1]
    more, void = _behind(texts, tokens, rows.max_seqlen)
    asked = _up(len(places), _OTHERS) - len(places)
    number = torch.arange(void, device=text.device)
    which, begins = number * more // max(1, void), torch.arange(more, device=text.device).mul(void).add(more - 1)
    begins = begins // max(1, more)
    grown = Packed(
        torch.cat(
            [rows.cu_seqlens, (begins[1:] + tokens).int(), rows.cu_seqlens.new_full((min(1, more),), tokens + void)]
        ),
        longest,
        torch.cat([rows.sequence_id, which + texts]),
        torch.cat([rows.position_id, number - begins[which]]),
    )
    found = {
        name: torch.cat([part, part.new_zeros(1, void)], 1)
        for name in ("ids", "segments", "positions", "languages")
        if isinstance(part := getattr(text, name), Tensor)
    }
    if text.targets is not None:
        found["targets"] = torch.cat([text.targets, text.targets.new_full((asked,), _IGNORED)])
    return text._replace(packed=grown, predict_at=torch.cat([places, places.new_zeros(asked)]), **found)


def _behind(texts: int, tokens: int, longest: int) -> tuple[int, int]:
    """texts and tokens that are missing to steady sizes: none, or at least one token in each text"""
    wanted = _up(texts, _OTHERS)
    while True:
        more = wanted - texts
        void = _up(tokens + more, _TOKENS) - tokens
        if void <= more * longest:
            return more, void
        wanted = _up(wanted + 1, _OTHERS)


def cut(answer: Answer, text: Text) -> Answer:
    """what was said of the text's own places and texts"""
    _, places = _parts(text)
    if isinstance(answer, Tensor):
        return answer[: len(places)]
    if hasattr(answer, "_fields"):
        return type(answer)(*(part[: len(places)] for part in answer))
    words, following = answer
    return cut(words, text), following[: text.texts]


def sizes_of(text: Text) -> tuple[int, ...]:
    """all that a graph is recorded for"""
    rows, places = _parts(text)
    return text.ids.shape[1], text.texts, rows.max_seqlen, len(places)


def _parts(text: Text) -> tuple[Packed, Tensor]:
    assert text.packed is not None, "texts in a row"
    assert text.predict_at is not None, "words are asked for"
    return text.packed, text.predict_at


def _up(count: int, parts: int) -> int:
    """the next multiple of so many parts of the next power of two"""
    step = max(1, (1 << max(0, count - 1).bit_length()) // parts)
    return -(-count // step) * step
