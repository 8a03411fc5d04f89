"""Finding the meetings of a model: it runs once on the meta device, which has shapes but no numbers.

That tells the partition and the grids of every call of its attention; `members` and the partition's own mask then say
which tokens meet. No geometry is worked out a second time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import cast

import torch
from torch import Tensor, nn

from patchword.analysis.attention_pattern.pattern import AttentionPattern
from patchword.analysis.attention_pattern.receptive_field import footprint
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.layers import Attention, AttentionMap, TokenMixing, record_attention
from patchword.models import REGISTRY


def meetings(card: Card) -> list[AttentionPattern]:
    """Every way in which the tokens of a model meet, in the order of the stages, blocks and heads."""
    REGISTRY.require_images(card.model)
    with torch.device("meta"), torch.no_grad():
        model = REGISTRY.create(card.model, **card.config).eval()
        with record_attention(model) as maps:
            model(REGISTRY.example(card))
    if not maps:
        raise UserError(f"{card.model!r} has no attention, so no groups of tokens meet", hint=_instead(model))
    found: list[AttentionPattern] = []
    for _, calls in groupby(maps, lambda call: call.layer):
        for share, call in enumerate(calls, 1):
            _join(found, _meeting(call, share), model.get_submodule(call.layer))
    return sorted(found, key=lambda meeting: (meeting.stage, meeting.blocks[0], meeting.share))


def by_stage(found: Iterable[AttentionPattern]) -> list[list[AttentionPattern]]:
    return [list(stage) for _, stage in groupby(found, lambda meeting: meeting.stage)]


def density(found: Sequence[AttentionPattern]) -> float:
    """The pairs that meet over those of global attention, counted over all blocks and heads."""
    return _share(found, [meeting.pairs for meeting in found])


def computed_share(found: Sequence[AttentionPattern]) -> float:
    """The same for the pairs that are multiplied out: masked ones and padding, too."""
    return _share(found, [meeting.computed for meeting in found])


def reach(stage: Sequence[AttentionPattern], token: int) -> list[Tensor]:
    """The tokens a token has heard of after one, two, ... of the stage's kinds of blocks; all heads together.

    The last kind reads first: what it reads has itself read through the blocks before.
    """
    kinds = [list(kind) for _, kind in groupby(stage, lambda meeting: meeting.blocks)]
    heard = torch.arange(stage[0].grid.tokens) == token
    steps = []
    for kind in reversed(kinds):
        heard = torch.stack([meeting.reads(heard) for meeting in kind]).any(0)
        steps.append(heard)
    return steps


def _meeting(call: AttentionMap, share: int) -> AttentionPattern:
    assert call.grid is not None, "an image model's attention knows its grid"
    assert call.key_grid is not None, "an image model's attention knows its keys' grid"
    pieces = call.layer.split(".")
    stage, block = (int(pieces[pieces.index(name) + 1]) + 1 for name in ("stages", "blocks"))
    return AttentionPattern(stage, (block,), share, call.weights.shape[1], call.partition, call.grid, call.key_grid)


def _join(found: list[AttentionPattern], new: AttentionPattern, layer: nn.Module) -> None:
    """Adds a meeting, or its block to the meeting that is alike."""
    for index, known in enumerate(found):
        if known.alike(new):
            found[index] = replace(known, blocks=(*known.blocks, *new.blocks))
            return
    if new.is_reduced:
        attention = cast(Attention, layer)
        new = replace(new, footprint=footprint(attention.projection, attention.output.in_features, new.grid))
    found.append(new)


def _instead(model: nn.Module) -> str:
    """What a model without attention does."""
    if any(isinstance(module, TokenMixing) for module in model.modules()):
        return "its feed-forwards along the tokens mix every token with every other, by weights that belong to places"
    return "its convolutions mix each place with its neighbours, in every layer alike"


def _share(found: Sequence[AttentionPattern], pairs: Sequence[int]) -> float:
    weights = [meeting.heads * len(meeting.blocks) for meeting in found]
    some = sum(weight * number for weight, number in zip(weights, pairs, strict=True))
    return some / sum(weight * meeting.all_pairs for weight, meeting in zip(weights, found, strict=True))
