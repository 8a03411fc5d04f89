"""Ways of meeting in words."""

from collections.abc import Sequence

from patchword.analysis.attention_pattern import AttentionPattern
from patchword.layers import Interlaced, Windows


def pattern(meeting: AttentionPattern) -> str:
    """A name for how tokens meet."""
    partition = meeting.partition
    if meeting.is_reduced:
        leading = f" + {meeting.key_grid.prefix}" if meeting.key_grid.prefix else ""
        return f"every token reads {meeting.key_grid.height} x {meeting.key_grid.width}{leading} keys"
    if meeting.groups == 1:
        return "every token meets every token"
    if isinstance(partition, Interlaced):
        (rows, columns), inner = meeting.arrangement, partition.inner(meeting.grid)
        return f"{inner.height} rows, {rows} apart" if rows > 1 else f"{inner.width} columns, {columns} apart"
    return _windows(meeting, partition) if isinstance(partition, Windows) else f"groups of {meeting.size}"


def _windows(meeting: AttentionPattern, windows: Windows) -> str:
    inner = windows.inner(meeting.grid)
    if windows.height is None:
        return f"vertical stripes, {inner.width} wide"
    if windows.width is None:
        return f"horizontal stripes, {inner.height} high"
    down, right = divmod(int(meeting.places[0][0, 0]), meeting.places[1].width)  # where the first window begins
    name = f"windows of {inner.height} x {inner.width}"
    if down == right:
        return f"{name}, shifted by {down}" if down else name
    return f"{name}, {down} down" if down else f"{name}, {right} to the right"


def blocks(meeting: AttentionPattern, depth: int) -> str:
    """Which of a stage's blocks: every block; block 1; blocks 1, 3, 5; odd blocks"""
    if len(meeting.blocks) == depth:
        return "every block"
    if len(meeting.blocks) == 1:
        return f"block {meeting.blocks[0]}"
    for name, first in (("odd", 1), ("even", 2)):
        if len(meeting.blocks) > 3 and meeting.blocks == tuple(range(first, depth + 1, 2)):
            return f"{name} blocks"
    return "blocks " + ", ".join(str(block) for block in meeting.blocks)


def depth_of(stage: Sequence[AttentionPattern]) -> int:
    """how many blocks a stage has"""
    return max(max(meeting.blocks) for meeting in stage)


def percent(share: float) -> str:
    """three digits: 1.38%, 14.3%, 100%"""
    return f"{100 * share:.3g}%"
