"""Colours that belong to names, so that a run has the same colour in every figure and on every page."""

from collections.abc import Iterable
from zlib import crc32

# Okabe and Ito, without the yellow, which is hard to see on white: distinct for everyone, also in grey.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1c2024")


def colors_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per name, whatever their order. Where two names want the same colour, one takes the next free."""
    taken: dict[str, str] = {}
    for name in sorted(set(names)):
        first = crc32(name.encode()) % len(PALETTE)
        order = [*PALETTE[first:], *PALETTE[:first]]
        used = list(taken.values())
        taken[name] = min(order, key=used.count)
    return taken
