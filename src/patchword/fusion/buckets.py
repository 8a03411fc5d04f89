"""Packed text, padded to one of few sizes, so that each size has a CUDA graph.

Every batch of natural text has other sizes: tokens, texts, positions to predict at. Without a CUDA graph a small model
waits for the launches of its kernels. So a batch gets padding texts behind its own until its sizes are those of a
bucket; the outputs for the padding are cut off.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from patchword.core.text import Packed, Text
from patchword.kernels.varlen_attention.operation import has_varlen_attention_kernel
from patchword.layers.attention.attention import Attention
from patchword.layers.attention.core import Pattern, ScaledDotProduct, supports_varlen
from patchword.layers.heads.text import LMHead, PretrainingHead

_TOKENS, _OTHERS = 64, 16  # sizes per power of two; between a power of two and the next there are half as many
MOST_BUCKETS = 64  # that get a CUDA graph
_IGNORED = -100  # the target of a padding position

Output = Any  # losses or logits of tokens, or these and the logits of each text
Run = Callable[..., Output]


class BucketedGraphs:
    """A text model with a CUDA graph per bucket of sizes.

    Text that is not packed, or without positions to predict at, runs without CUDA graphs; so does a model whose
    attention pads packed text. A micro-batch, and a bucket beyond the largest number of buckets, run without CUDA
    graphs too, but padded to the same sizes, so that the outputs do not depend on which batches came before.

    graphed: the model with a CUDA graph per size. plain: the model without CUDA graphs
    """

    def __init__(self, model: nn.Module, graphed: Run, plain: Run) -> None:
        self.model, self.graphed, self.plain = model, graphed, plain
        attentions = [part for part in model.modules() if isinstance(part, Attention)]
        patterns = [part for part in model.modules() if isinstance(part, Pattern)]
        known = all(type(part.core) is ScaledDotProduct for part in attentions) and all(map(supports_varlen, patterns))
        predicts_tokens = isinstance(getattr(model, "head", None), LMHead | PretrainingHead)
        self.fits = bool(attentions) and known and predicts_tokens
        self.heads = {(part.head_width, part.core.dropout) for part in attentions}
        self.limit: int | None = getattr(getattr(model, "embedding", None), "limit", None)
        self.sizes, self.largest = set[tuple[int, ...]](), 0

    def __call__(self, *inputs: Any) -> Output:
        text = inputs[0]
        alone = len(inputs) == 1 and isinstance(text, Text) and text.packed is not None and text.predict_at is not None
        if not self.fits or not alone or not self._stays_packed(text.device):
            return self.plain(*inputs)
        padded = to_bucket(text, self._longest(text.packed.max_seqlen))
        sizes = sizes_of(padded)
        self.largest = max(self.largest, sizes[0])
        is_micro_batch = 2 * sizes[0] <= self.largest
        if is_micro_batch or (sizes not in self.sizes and len(self.sizes) >= MOST_BUCKETS):
            return cut(self.plain(padded), text)
        self.sizes.add(sizes)
        return cut(self.graphed(padded), text)

    def _longest(self, longest: int) -> int:
        """a power of two, or the longest that the model reads"""
        even = _up(longest, 1)
        return even if self.limit is None else max(longest, min(even, self.limit))

    def _stays_packed(self, device: torch.device) -> bool:
        """True if there is a kernel for packed text; without one, padding texts would be padded to the longest"""
        casts = torch.is_autocast_enabled(device.type)
        dtype = torch.get_autocast_dtype(device.type) if casts else next(self.model.parameters()).dtype
        query = torch.empty(0, dtype=dtype, device=device)
        rates = self.heads if self.model.training else {(width, 0.0) for width, _ in self.heads}
        return all(has_varlen_attention_kernel(query, width, rate) for width, rate in rates)


def to_bucket(text: Text, longest: int) -> Text:
    """The text with padding texts behind its own, none of them empty or longer than these, and with padding positions.

    longest: the new length of the longest text
    """
    packed, places = _parts(text)
    texts, tokens = text.texts, text.ids.shape[1]
    more, void = _missing(texts, tokens, packed.max_seqlen)
    asked = _up(len(places), _OTHERS) - len(places)
    number = torch.arange(void, device=text.device)
    which, begins = number * more // max(1, void), torch.arange(more, device=text.device).mul(void).add(more - 1)
    begins = begins // max(1, more)
    offsets = packed.cu_seqlens
    grown = Packed(
        torch.cat([offsets, (begins[1:] + tokens).int(), offsets.new_full((min(1, more),), tokens + void)]),
        longest,
        torch.cat([packed.sequence_id, which + texts]),
        torch.cat([packed.position_id, number - begins[which]]),
    )
    found = {
        name: torch.cat([part, part.new_zeros(1, void)], 1)
        for name in ("ids", "segments", "positions", "languages")
        if isinstance(part := getattr(text, name), Tensor)
    }
    if text.targets is not None:
        found["targets"] = torch.cat([text.targets, text.targets.new_full((asked,), _IGNORED)])
    return text._replace(packed=grown, predict_at=torch.cat([places, places.new_zeros(asked)]), **found)


def _missing(texts: int, tokens: int, longest: int) -> tuple[int, int]:
    """padding texts and padding tokens up to the sizes of a bucket: none, or at least one token per text"""
    wanted = _up(texts, _OTHERS)
    while True:
        more = wanted - texts
        void = _up(tokens + more, _TOKENS) - tokens
        if void <= more * longest:
            return more, void
        wanted = _up(wanted + 1, _OTHERS)


def cut(output: Output, text: Text) -> Output:
    """the outputs for the text's own positions and texts"""
    _, places = _parts(text)
    if isinstance(output, Tensor):
        return output[: len(places)]
    if hasattr(output, "_fields"):
        return type(output)(*(part[: len(places)] for part in output))
    tokens, following = output
    return cut(tokens, text), following[: text.texts]


def sizes_of(text: Text) -> tuple[int, ...]:
    """all sizes that a CUDA graph is specific to"""
    packed, places = _parts(text)
    return text.ids.shape[1], text.texts, packed.max_seqlen, len(places)


def _parts(text: Text) -> tuple[Packed, Tensor]:
    assert text.packed is not None, "the text is packed"
    assert text.predict_at is not None, "the text has positions to predict at"
    return text.packed, text.predict_at


def _up(count: int, parts: int) -> int:
    """the next multiple of the next power of two divided by `parts`"""
    step = max(1, (1 << max(0, count - 1).bit_length()) // parts)
    return -(-count // step) * step
