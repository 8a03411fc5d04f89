"""The attention patterns of a model as JSON: which tokens are in which group, and what the attention costs.

A token attends to the keys of its group. If a group has regions, it attends to those of its own region.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from patchword.analysis.attention_pattern import AttentionPattern, attention_patterns, block_receptive_fields, by_stage
from patchword.analysis.cost import Cost, count
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.lab.windows.request import sides_of


def patterns_json(card: Card) -> dict[str, Any]:
    """Return every stage of a model: its grid, its patterns, and the patterns and the cost of each of its blocks."""
    try:
        found = by_stage(attention_patterns(card))
        cost = count(card)
    except UserError:
        raise
    except (ArithmeticError, AssertionError, MemoryError, RuntimeError, ValueError) as error:
        # The registry checks each field alone; parts of a model refuse fields that do not fit each other.
        reason = str(error).partition("\n")[0][:200]
        raise UserError(f"{card.model} cannot be built", got=reason or type(error).__name__) from None
    names = iter(cost.blocks)
    stages = [stage_json(stage, cost, names_of(stage, names)) for stage in found]
    return {"model": card.model, "image": list(sides(card.config["image"])), "sides": sides_of(card), "stages": stages}


def names_of(stage: Sequence[AttentionPattern], names: Any) -> list[str]:
    """Return the names of the next blocks, as many as the stage has."""
    return [next(names) for _ in range(_depth(stage))]


def stage_json(stage: Sequence[AttentionPattern], cost: Cost, names: Sequence[str]) -> dict[str, Any]:
    """Return one stage. names: those of its blocks."""
    grid = stage[0].grid
    token = grid.prefix + 9 * grid.height // 20 * grid.width + 9 * grid.width // 20
    heard = [int(step.sum()) for step in block_receptive_fields(stage, token)]
    blocks = [
        {
            "patterns": [index for index, pattern in enumerate(stage) if number in pattern.blocks],
            **_macs([pattern for pattern in stage if number in pattern.blocks], cost.below(name)),
        }
        for number, name in enumerate(names, 1)
    ]
    return {
        "grid": [grid.height, grid.width],
        "leading": grid.prefix,
        "tokens": grid.tokens,
        "blocks": blocks,
        "patterns": [pattern_json(pattern) for pattern in stage],
        "receptive_field": {"token": token, "tokens": heard},
    }


def pattern_json(pattern: AttentionPattern) -> dict[str, Any]:
    """Return one pattern.

    members: the token of each place of each group, group after group; -1 is padding. None: all tokens in one group.
    places: where each member is on the padded map; None: at its token. regions: a number per member; None: all 0.
    tile: height and width of a group that is a rectangle after the shift. arrangement: rows and columns of groups.
    key_rows, key_columns: of reduced keys, the first token row or column of each, and how many.
    """
    from patchword.reports.attention_pattern import describe  # it imports a plotting library

    places, padded = pattern.places
    inner, made = pattern.partition.inner(pattern.grid), pattern.key_receptive_field
    whole = pattern.groups == 1 and torch.equal(pattern.queries[0], torch.arange(pattern.grid.tokens))
    is_padded = padded != pattern.grid
    return {
        **pattern.to_json(),
        "description": describe(pattern),
        "head_group": pattern.head_group,
        "key_leading": pattern.key_grid.prefix,
        "padded": [padded.height, padded.width],
        "tile": [inner.height, inner.width] if inner is not None and inner.tokens == pattern.size else None,
        "arrangement": list(pattern.arrangement),
        "shift": _shift(pattern),
        "members": None if whole else pattern.queries.flatten().tolist(),
        "places": places.flatten().tolist() if is_padded else None,
        "regions": pattern.regions.flatten().tolist() if bool(pattern.regions.any()) else None,
        "key_rows": _runs(made.rows) if made else None,
        "key_columns": _runs(made.columns) if made else None,
    }


def _shift(pattern: AttentionPattern) -> list[int]:
    """Return how far the map is rolled up and to the left before it is cut: the place of the first member."""
    places, padded = pattern.places
    return list(divmod(max(0, int(places[0, 0]) - padded.prefix), padded.width))


def _runs(made: Tensor) -> list[list[int]]:
    """Return the first token of each key and the number of its tokens: (keys, tokens) along one side."""
    return [[int(one.nonzero()[0]) if bool(one.any()) else 0, int(one.sum())] for one in made]


def _macs(patterns: Sequence[AttentionPattern], cost: Cost) -> dict[str, int]:
    """Return the MACs of a block's attention products, and those of global attention over the same tokens."""
    macs, tokens = cost.macs_of("attention"), patterns[0].grid.tokens
    computed = sum(pattern.heads * pattern.computed for pattern in patterns)
    heads = sum(pattern.heads for pattern in patterns)
    head_width, rest = divmod(macs, 2 * computed)  # a product of queries and keys, one of weights and values
    assert rest == 0, "the attention products are not those of the computed pairs"
    return {"attention_macs": macs, "global_macs": 2 * heads * tokens**2 * head_width, "block_macs": cost.macs}


def _depth(stage: Sequence[AttentionPattern]) -> int:
    return max(max(pattern.blocks) for pattern in stage)
