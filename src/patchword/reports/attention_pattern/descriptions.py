"""Describes attention patterns in words."""

from collections.abc import Sequence

from patchword.analysis.attention_pattern import AttentionPattern, receptive_fields
from patchword.layers import Interlaced, Windows
from patchword.reports.plots.numbers import counted


def describe(pattern: AttentionPattern) -> str:
    """Return a short description of which tokens attend to which."""
    partition = pattern.partition
    if pattern.is_reduced:
        leading = f" + {pattern.key_grid.prefix}" if pattern.key_grid.prefix else ""
        return f"all tokens attend to {pattern.key_grid.height} x {pattern.key_grid.width}{leading} keys"
    if pattern.groups == 1:
        return "all tokens attend to all tokens"
    if isinstance(partition, Interlaced):
        (rows, columns), inner = pattern.arrangement, partition.inner(pattern.grid)
        return f"{inner.height} rows, {rows} apart" if rows > 1 else f"{inner.width} columns, {columns} apart"
    return _windows(pattern, partition) if isinstance(partition, Windows) else f"groups of {pattern.size}"


def _windows(pattern: AttentionPattern, windows: Windows) -> str:
    inner = windows.inner(pattern.grid)
    if windows.height is None:
        return f"vertical stripes, {inner.width} wide"
    if windows.width is None:
        return f"horizontal stripes, {inner.height} high"
    down, right = divmod(int(pattern.places[0][0, 0]), pattern.places[1].width)  # where the first window starts
    name = f"windows of {inner.height} x {inner.width}"
    if down == right:
        return f"{name}, shifted by {down}" if down else name
    return f"{name}, {down} down" if down else f"{name}, {right} to the right"


def described(pattern: AttentionPattern) -> str:
    """Return the description for a figure, with the sign for sizes."""
    return describe(pattern).replace(" x ", " × ")


def rule(stage: Sequence[AttentionPattern]) -> str:
    """Return the kinds of attention of a stage, in the order of its blocks and heads."""
    kinds = list(dict.fromkeys(described(pattern) for pattern in stage))
    return " and ".join([kinds[0], *(_shortened(kind, kinds[0]) for kind in kinds[1:])])


def _shortened(kind: str, first: str) -> str:
    return f"the same {kind.removeprefix(first).strip(', ')}" if kind.startswith(f"{first}, ") else kind


def receptive_field(stage: Sequence[AttentionPattern], token: int) -> str:
    """Return the number of tokens that a token receives information from, after each kind of block."""
    if any(pattern.is_reduced for pattern in stage):
        return f"all {counted(stage[0].grid.tokens, 'token')}, through fewer keys"
    first, *later = [int(step.sum()) for step in receptive_fields(stage, token)]
    more = "".join(f", {count:,} after {number}" for number, count in enumerate(later, 2))
    return f"{counted(first, 'token')} after 1 block{more}"


def blocks(pattern: AttentionPattern, depth: int) -> str:
    """Return the blocks of a pattern: every block; block 1; blocks 1, 3, 5; odd blocks."""
    if len(pattern.blocks) == depth:
        return "every block"
    if len(pattern.blocks) == 1:
        return f"block {pattern.blocks[0]}"
    for name, first in (("odd", 1), ("even", 2)):
        if len(pattern.blocks) > 3 and pattern.blocks == tuple(range(first, depth + 1, 2)):
            return f"{name} blocks"
    return "blocks " + ", ".join(str(block) for block in pattern.blocks)


def depth_of(stage: Sequence[AttentionPattern]) -> int:
    """Return the number of blocks of a stage."""
    return max(max(pattern.blocks) for pattern in stage)


def percent(fraction: float) -> str:
    """Format with three digits: 1.38%, 14.3%, 100%."""
    return f"{100 * fraction:.3g}%"
