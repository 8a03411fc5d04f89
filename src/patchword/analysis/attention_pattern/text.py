"""Attention patterns of models of texts: which tokens of a text attend to which, from the model's own indices.

A pattern is a matrix of queries and keys. Big Bird's has a row and a column per block of tokens, as the model itself
computes it; all others have one per token.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from patchword.analysis.cost.count import text_of
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.layers import AttentionMap, BlockSparse, Partition, ScaledDotProduct, record_attention
from patchword.layers.attention.pattern import Pattern
from patchword.layers.attention.projection import Projected
from patchword.models import REGISTRY
from patchword.models.registry import Input

KINDS = ("none", "attends", "global", "window", "random")  # of a pair; the last three are Big Bird's
NONE, ATTENDS, GLOBAL, WINDOW, RANDOM = range(5)
PARTS = ("encoder", "decoder", "memory")  # memory: the decoder's attention to the source
TOKENS, BLOCKS = 16, 16  # of a text, unless another length is asked for: tokens, or Big Bird's blocks
MOST_CELLS = 4_000_000  # of one pattern


@dataclass(frozen=True, eq=False)
class TextPattern:
    """Which tokens of a text attend to which, for some heads in some layers.

    A block of tokens is Big Bird's; a block of the model is a layer here.

    unit: tokens per row and column of `kinds`. kinds: (rows, columns), an index of KINDS for each pair.
    """

    part: str
    layers: tuple[int, ...]  # counted from 1, as are the heads
    heads: tuple[int, ...]
    partition: Partition
    tokens: int
    keys: int
    unit: int
    kinds: Tensor

    @property
    def attends(self) -> Tensor:
        """(rows, columns), True where a row attends to a column."""
        return self.kinds != NONE

    @cached_property
    def pairs(self) -> int:
        """The number of pairs of tokens that attend; the last block of a text may be shorter."""
        rows, columns = (_sizes(tokens, self.unit) for tokens in (self.tokens, self.keys))
        return int(rows @ self.attends.long() @ columns)

    @property
    def computed(self) -> int:
        """The number of pairs that are computed: attended, masked and padded ones, and blocks that are read twice."""
        partition, blocks = self.partition, len(self.kinds)
        if not isinstance(partition, BlockSparse) or not partition.is_sparse(self.tokens):
            return self.tokens * self.keys
        return (2 * blocks + (blocks - 2) * (5 + partition.count)) * self.unit**2

    @property
    def all_pairs(self) -> int:
        return self.tokens * self.keys

    @property
    def is_causal(self) -> bool:
        """Whether no token attends to a later one, and each to all before it."""
        return bool(torch.equal(self.attends, torch.ones_like(self.attends).tril())) and len(self.kinds) > 1

    def to_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "layers": list(self.layers),
            "heads": list(self.heads),
            "tokens": self.tokens,
            "keys": self.keys,
            "tokens_per_cell": self.unit,
            "pairs": self.pairs,
            "computed_pairs": self.computed,
            "all_pairs": self.all_pairs,
            "density": self.pairs / self.all_pairs,
        }


def text_patterns(card: Card, tokens: int = 0) -> list[TextPattern]:
    """Return every attention pattern of a model of texts, in the order of its parts, layers and heads.

    tokens: of the text, and of a translator's source; 0: 16, or 16 blocks of a Big Bird.
    """
    found: list[TextPattern] = []
    ran: dict[str, int] = {}
    for call in _calls(card, tokens):
        part = part_of(call.layer)
        ran[part] = ran.get(part, 0) + 1  # ALBERT runs one layer many times
        for new in _patterns_of(call, part, ran[part]):
            _join(found, new)
    return sorted(found, key=lambda pattern: (PARTS.index(pattern.part), pattern.layers[0], pattern.heads[0]))


def by_part(found: Iterable[TextPattern]) -> list[list[TextPattern]]:
    """Group patterns by the part of the model: encoder, decoder, memory."""
    return [list(part) for _, part in groupby(found, lambda pattern: pattern.part)]


def default_tokens(card: Card) -> int:
    """Return the length of a text of which a pattern is drawn unless another is asked for."""
    config = REGISTRY.configure(card.model, card.config)
    wanted = BLOCKS * config.block if hasattr(config, "random_blocks") else TOKENS
    return int(min(wanted, getattr(config, "max_length", wanted)))


def text_receptive_fields(part: Sequence[TextPattern], row: int) -> list[Tensor]:
    """Return the columns that a row depends on after the first 1, 2, ... layers, by attention and the residual."""
    depth = max(max(pattern.layers) for pattern in part)
    layers = [[pattern.attends for pattern in part if number in pattern.layers] for number in range(1, depth + 1)]
    reads = [torch.stack(heads).any(0).float() for heads in layers]
    steps: list[Tensor] = []
    for last in range(depth):
        reached = torch.arange(len(part[0].kinds)) == row
        for read in reversed(reads[: last + 1]):
            reached = reached | (reached.float() @ read > 0)
        steps.append(reached)
    return steps


def part_of(layer: str) -> str:
    """Return the part of a model whose attention has this name, e.g. decoder.blocks.0.memory.sublayer."""
    if layer.startswith("look.") or ".memory." in layer:
        return "memory"
    return "decoder" if layer.startswith("decoder.") else "encoder"


def _calls(card: Card, tokens: int) -> list[AttentionMap]:
    """Return the attention calls of one forward pass on the meta device, which has shapes but no values."""
    reads = REGISTRY.reads(card.model)
    if reads not in ("texts", "pairs"):
        what = "has no attention" if reads != "images" else "reads images"
        raise UserError(f"{card.model!r} {what}", expected="a model of texts with attention")
    inputs: Input = text_of(card, tokens or default_tokens(card))
    with torch.device("meta"), torch.no_grad():
        model = REGISTRY.create(card.model, **card.config).eval()
        with record_attention(model) as calls:
            model(inputs)
    if not calls:
        raise UserError(f"{card.model!r} has no attention, so there is no attention pattern")
    return calls


def _patterns_of(call: AttentionMap, part: str, layer: int) -> list[TextPattern]:
    """Return the patterns of one call: one for all heads with the same pairs."""
    heads, tokens, keys = call.weights.shape[1:]
    unit = call.partition.block if isinstance(call.partition, BlockSparse) else 1
    rows, columns = -(-tokens // unit), -(-keys // unit)
    if rows * columns > MOST_CELLS:
        raise UserError(
            "the pattern is too large to draw", expected=f"at most {MOST_CELLS:,} pairs", hint="a shorter text"
        )
    if isinstance(call.partition, BlockSparse) and call.partition.is_sparse(tokens):
        kinds = _sparse(call.partition, rows, heads)
    else:
        kinds = _dense(call.partition, rows, columns)[None].expand(heads, -1, -1)
    found: list[TextPattern] = []
    for head, own in enumerate(kinds, 1):
        for index, known in enumerate(found):
            if torch.equal(known.kinds, own):
                found[index] = replace(known, heads=(*known.heads, head))
                break
        else:
            found.append(TextPattern(part, (layer,), (head,), call.partition, tokens, keys, unit, own.contiguous()))
    return found


def _sparse(partition: BlockSparse, blocks: int, heads: int) -> Tensor:
    """(heads, blocks, blocks): the key blocks that the model gathers for each of its blocks."""
    read = partition.read(blocks, heads)  # the first, the last, three of the window, then the random blocks
    kinds = torch.full((heads, blocks, blocks), NONE, dtype=torch.uint8)
    inner = kinds[:, 1:-1]
    for places, kind in ((read[..., 5:], RANDOM), (read[..., 2:5], WINDOW), (read[..., :2], GLOBAL)):
        inner.scatter_(2, places, kind)
    kinds[:, 0] = kinds[:, -1] = GLOBAL
    return kinds


def _dense(partition: Partition, rows: int, columns: int) -> Tensor:
    """(rows, columns): where the model's own attention has weights, with this partition."""
    core, found = ScaledDotProduct(1, 1.0), []
    core.recorder = lambda weights, *_: found.append(weights)
    keys = torch.zeros(1, columns, 1)
    with torch.no_grad():
        core(Projected(torch.zeros(1, rows, 1), keys, keys, None, None), [Pattern(partition)], None)
    return torch.where(found[0][0, 0] > 0, ATTENDS, NONE).to(torch.uint8)


def _join(found: list[TextPattern], new: TextPattern) -> None:
    """Add a pattern, or add its layer to an equal pattern of the same heads."""
    for index, known in enumerate(found):
        if (known.part, known.heads) == (new.part, new.heads) and torch.equal(known.kinds, new.kinds):
            found[index] = replace(known, layers=(*known.layers, *new.layers))
            return
    found.append(new)


def _sizes(tokens: int, unit: int) -> Tensor:
    """(cells,): the number of tokens in each."""
    return (tokens - unit * torch.arange(-(-tokens // unit))).clamp(max=unit)
