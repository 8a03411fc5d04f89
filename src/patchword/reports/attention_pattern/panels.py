"""The panels of one stage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchword.analysis.attention_pattern import AttentionPattern, reach
from patchword.reports.attention_pattern import maps
from patchword.reports.attention_pattern.descriptions import blocks, depth_of, pattern, percent
from patchword.reports.attention_pattern.drawing import TokenMap
from patchword.reports.plots.numbers import counted


@dataclass(frozen=True)
class Panel:
    title: str
    note: str
    shown: TokenMap


def panels(stage: Sequence[AttentionPattern], token: int) -> Iterator[Panel]:
    """A panel for each way of meeting, and one of all of them together."""
    if all(meeting.pairs == meeting.all_pairs for meeting in stage):  # for all heads and blocks alike
        yield Panel(pattern(stage[0]), "every block: 100% of pairs", maps.on_map(stage[0], token))
        return
    depth, shares = depth_of(stage), len({meeting.share for meeting in stage})
    for meeting in stage:
        yield from _meeting(meeting, counted(meeting.heads, "head") if shares > 1 else blocks(meeting, depth), token)
    if len(stage) > 1 and not any(meeting.is_reduced for meeting in stage):
        yield _together(stage, token)


def _meeting(meeting: AttentionPattern, whose: str, token: int) -> Iterator[Panel]:
    groups = f"{meeting.groups} groups of {meeting.size}, " if meeting.groups > 1 else ""
    note = f"{whose}: {groups}{percent(meeting.pairs / meeting.all_pairs)} of pairs"
    title = pattern(meeting).replace(" x ", " × ")
    if meeting.footprint:
        tokens, keys, (high, wide) = maps.made_into_keys(meeting, meeting.footprint, token)
        yield Panel("tokens, coloured by their key", f"dashed: {high} × {wide} tokens that make one key", tokens)
        yield Panel(title, note, keys)
        return
    yield Panel(title, note, maps.on_map(meeting, token))
    if meeting.pieces.any():
        shown = maps.as_computed(meeting, token)
        yield Panel("as computed, after the roll", "pieces hatched differently do not meet", shown)


def _together(stage: Sequence[AttentionPattern], token: int) -> Panel:
    steps = reach(stage, token)
    title = "one after the other" if len(steps) > 1 else "all heads together"
    note = f"the token hears of {counted(int(steps[-1].sum()), 'token')}"
    return Panel(title, note, maps.heard(steps, stage[0], token))
