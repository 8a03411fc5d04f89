"""Texts in a row, brought to one of few sizes, so that a compiled model of them can be recorded for each.

Every batch of natural texts has other sizes: tokens, texts, words that are asked for. A model whose launches are paid
for one by one then waits for them. Behind its own a batch is given texts that nobody asks about, until its sizes are
those of others; what is answered of them is cut off.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from patchword.core.text import Rows, Text
from patchword.layers.attention.core import Pattern, stays_in_row

_TOKENS, _OTHERS = 64, 16  # sizes between a power of two and the next are half as many
_MOST = 64  # sizes that are recorded
_IGNORED = -100  # the target of a place that nobody asks about

Answer = Any  # words, or words and what is said of each text
Run = Callable[..., Answer]


class Steady:
    """A model of texts that is recorded for few sizes. What does not come in a row, or asks for no words, goes its own
    way; so does a batch of another size when there are many sizes already.

    recorded: the model, which holds a graph of each size it has met. changing: the same without graphs
    """

    def __init__(self, model: nn.Module, recorded: Run, changing: Run) -> None:
        patterns = [part for part in model.modules() if isinstance(part, Pattern)]
        self.model, self.recorded, self.changing = model, recorded, changing
        self.fits = bool(patterns) and all(stays_in_row(pattern) for pattern in patterns)
        self.longest, self.sizes = 1, set[tuple[int, ...]]()

    def __call__(self, *given: Any) -> Answer:
        text = given[0]
        in_row = isinstance(text, Text) and text.rows is not None and text.places is not None
        if not self.fits or not in_row or not self._is_short(text.device):
            return self.changing(*given)
        self.longest = max(self.longest, text.rows.longest)
        wide = steady(text, min(self.longest, _up(text.rows.longest, 1)))
        sizes = sizes_of(wide)
        if sizes not in self.sizes and len(self.sizes) >= _MOST:
            return self.changing(text)
        self.sizes.add(sizes)
        return cut(self.recorded(wide), text)

    def _is_short(self, device: torch.device) -> bool:
        """in 16 bits; the kernel for rows knows no others, so that these are padded anyhow"""
        if torch.is_autocast_enabled(device.type):
            return torch.get_autocast_dtype(device.type).itemsize == 2
        return next(self.model.parameters()).dtype.itemsize == 2


def steady(text: Text, longest: int) -> Text:
    """With texts behind its own, none of them empty or longer than `longest`, and with places nobody asks about."""
    rows, places = _parts(text)
    texts, tokens = text.texts, text.ids.shape[1]
    more, void = _behind(texts, tokens, longest)
    asked = _up(len(places), _OTHERS) - len(places)
    number = torch.arange(void, device=text.device)
    which, begins = number * more // max(1, void), torch.arange(more, device=text.device).mul(void).add(more - 1)
    begins = begins // max(1, more)
    grown = Rows(
        torch.cat([rows.offsets, (begins[1:] + tokens).int(), rows.offsets.new_full((min(1, more),), tokens + void)]),
        longest,
        torch.cat([rows.text, which + texts]),
        torch.cat([rows.place, number - begins[which]]),
    )
    found = {
        name: torch.cat([part, part.new_zeros(1, void)], 1)
        for name in ("ids", "segments", "positions", "languages")
        if isinstance(part := getattr(text, name), Tensor)
    }
    if text.targets is not None:
        found["targets"] = torch.cat([text.targets, text.targets.new_full((asked,), _IGNORED)])
    return text._replace(rows=grown, places=torch.cat([places, places.new_zeros(asked)]), **found)


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
    return text.ids.shape[1], text.texts, rows.longest, len(places)


def _parts(text: Text) -> tuple[Rows, Tensor]:
    assert text.rows is not None, "texts in a row"
    assert text.places is not None, "words are asked for"
    return text.rows, text.places


def _up(count: int, parts: int) -> int:
    """the next multiple of so many parts of the next power of two"""
    step = max(1, (1 << max(0, count - 1).bit_length()) // parts)
    return -(-count // step) * step
