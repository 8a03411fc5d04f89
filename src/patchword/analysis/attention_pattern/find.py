"""Finds the attention patterns of a model by one forward pass on the meta device, which has shapes but no values.

The pass records the partition and the grids of every attention call; `members` and the partition's own mask then give
the token pairs. No geometry is computed a second time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import cast

import torch
from torch import Tensor, nn

from patchword.analysis.attention_pattern.pattern import AttentionPattern
from patchword.analysis.attention_pattern.receptive_field import key_receptive_field
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.layers import Attention, AttentionMap, TokenMixing, record_attention
from patchword.models import REGISTRY


def attention_patterns(card: Card) -> list[AttentionPattern]:
    """Return every attention pattern of a model, in the order of the stages, blocks and heads."""
    REGISTRY.require_images(card.model)
    with torch.device("meta"), torch.no_grad():
        model = REGISTRY.create(card.model, **card.config).eval()
        with record_attention(model) as maps:
            model(REGISTRY.example(card))
    if not maps:
        raise UserError(f"{card.model!r} has no attention, so there is no attention pattern", hint=_instead(model))
    found: list[AttentionPattern] = []
    for _, calls in groupby(maps, lambda call: call.layer):
        for head_group, call in enumerate(calls, 1):
            _join(found, _pattern_of(call, head_group), model.get_submodule(call.layer))
    return sorted(found, key=lambda pattern: (pattern.stage, pattern.blocks[0], pattern.head_group))


def by_stage(found: Iterable[AttentionPattern]) -> list[list[AttentionPattern]]:
    """Group patterns by stage."""
    return [list(stage) for _, stage in groupby(found, lambda pattern: pattern.stage)]


def density(found: Sequence[AttentionPattern]) -> float:
    """Return attended pairs over the pairs of global attention, over all blocks and heads."""
    return _fraction(found, [pattern.pairs for pattern in found])


def computed_density(found: Sequence[AttentionPattern]) -> float:
    """Return the same for the pairs that are computed: masked pairs and padding count, too."""
    return _fraction(found, [pattern.computed for pattern in found])


def receptive_fields(stage: Sequence[AttentionPattern], token: int) -> list[Tensor]:
    """Return the receptive field of a token after one, two, ... of the stage's kinds of blocks, over all heads.

    The last kind comes first: the tokens it attends to have themselves attended in the blocks before.
    """
    kinds = [list(kind) for _, kind in groupby(stage, lambda pattern: pattern.blocks)]
    reached = torch.arange(stage[0].grid.tokens) == token
    steps = []
    for kind in reversed(kinds):
        reached = torch.stack([pattern.attended_keys(reached) for pattern in kind]).any(0)
        steps.append(reached)
    return steps


def block_receptive_fields(stage: Sequence[AttentionPattern], token: int) -> list[Tensor]:
    """Return the tokens of the stage's input that a token depends on after the first 1, 2, ... blocks of the stage.

    Through attention and the residual connection alone: convolutions beside them are not counted.
    """
    depth = max(max(pattern.blocks) for pattern in stage)
    blocks = [[pattern for pattern in stage if number in pattern.blocks] for number in range(1, depth + 1)]
    steps: list[Tensor] = []
    for last in range(depth):
        if steps and bool(steps[-1].all()):
            steps.append(steps[-1])  # more blocks only add tokens
            continue
        reached = torch.arange(stage[0].grid.tokens) == token
        for block in reversed(blocks[: last + 1]):
            reached = torch.stack([reached, *(pattern.attended_tokens(reached) for pattern in block)]).any(0)
        steps.append(reached)
    return steps


def _pattern_of(call: AttentionMap, head_group: int) -> AttentionPattern:
    assert call.grid is not None, "an image model's attention knows its grid"
    assert call.key_grid is not None, "an image model's attention knows its keys' grid"
    pieces = call.layer.split(".")
    stage, block = (int(pieces[pieces.index(name) + 1]) + 1 for name in ("stages", "blocks"))
    return AttentionPattern(
        stage, (block,), head_group, call.weights.shape[1], call.partition, call.grid, call.key_grid
    )


def _join(found: list[AttentionPattern], new: AttentionPattern, layer: nn.Module) -> None:
    """Add a pattern, or add its block to an equal pattern."""
    for index, known in enumerate(found):
        if known.same_as(new):
            found[index] = replace(known, blocks=(*known.blocks, *new.blocks))
            return
    if new.is_reduced:
        attention = cast(Attention, layer)
        new = replace(
            new, key_receptive_field=key_receptive_field(attention.projection, attention.output.in_features, new.grid)
        )
    found.append(new)


def _instead(model: nn.Module) -> str:
    """Return how a model without attention mixes its tokens."""
    if any(isinstance(module, TokenMixing) for module in model.modules()):
        return "its token-mixing MLPs mix every token with every other, by weights that belong to positions"
    return "its convolutions mix each position with its neighbours"


def _fraction(found: Sequence[AttentionPattern], pairs: Sequence[int]) -> float:
    weights = [pattern.heads * len(pattern.blocks) for pattern in found]
    some = sum(weight * number for weight, number in zip(weights, pairs, strict=True))
    return some / sum(weight * pattern.all_pairs for weight, pattern in zip(weights, found, strict=True))
