"""The panels of one stage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchword.analysis.attention_pattern import AttentionPattern, receptive_fields
from patchword.reports.attention_pattern import maps
from patchword.reports.attention_pattern.descriptions import blocks, depth_of, described, percent
from patchword.reports.attention_pattern.drawing import TokenMap
from patchword.reports.plots.numbers import counted


@dataclass(frozen=True)
class Panel:
    """One map with its title and a note. detail: only on the figure of its own stage."""

    title: str
    note: str
    shown: TokenMap
    detail: bool = False


def panels(stage: Sequence[AttentionPattern], token: int) -> Iterator[Panel]:
    """Yield a panel per attention pattern, and one of their combined receptive field."""
    if all(pattern.pairs == pattern.all_pairs for pattern in stage):  # in all heads and blocks
        yield Panel(described(stage[0]), "every block: density 100%", maps.on_map(stage[0], token))
        return
    depth, head_groups = depth_of(stage), len({pattern.head_group for pattern in stage})
    for pattern in stage:
        yield from _pattern_panels(
            pattern, counted(pattern.heads, "head") if head_groups > 1 else blocks(pattern, depth), token
        )
    if len(stage) > 1 and not any(pattern.is_reduced for pattern in stage):
        yield _together(stage, token)


def _pattern_panels(pattern: AttentionPattern, whose: str, token: int) -> Iterator[Panel]:
    groups = f"{pattern.groups} groups of {pattern.size}, " if pattern.groups > 1 else ""
    note = f"{whose}: {groups}density {percent(pattern.pairs / pattern.all_pairs)}"
    title = described(pattern)
    if pattern.key_receptive_field:
        tokens, keys, (high, wide) = maps.made_into_keys(pattern, pattern.key_receptive_field, token)
        yield Panel("tokens, grouped by their key", f"dashed: the {high} × {wide} tokens of one key", tokens)
        yield Panel(title, note, keys)
        return
    yield Panel(title, note, maps.on_map(pattern, token))
    if pattern.regions.any():
        shown = maps.as_computed(pattern, token)
        yield Panel("as computed, after the roll", "regions with different hatches are masked", shown, detail=True)


def _together(stage: Sequence[AttentionPattern], token: int) -> Panel:
    steps = receptive_fields(stage, token)
    titles = {1: "all heads together", 2: "after both blocks"}
    title = titles.get(len(steps), f"after {len(steps)} blocks")
    note = f"receptive field: {counted(int(steps[-1].sum()), 'token')}"
    return Panel(title, note, maps.receptive_field_map(steps, stage[0], token), detail=True)
