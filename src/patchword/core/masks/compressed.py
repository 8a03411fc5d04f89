"""COCO's compressed string of run lengths.

Each length after the third is stored as the difference to the length two places before. A number is written as groups
of 5 bits with its sign, the lowest group first; bit 6 of a character marks that another group follows, and 48 is added.
"""

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError

_MOST_GROUPS = 12  # 60 bits


def compress(counts: NDArray[np.int64]) -> str:
    """Return the string of run lengths."""
    numbers = counts.astype(np.int64)
    numbers[3:] -= counts[1:-2]
    groups, more = [], []
    rest = numbers
    for _ in range(_MOST_GROUPS):
        group, rest = rest & 31, rest >> 5
        groups.append(group)
        more.append(np.where(group & 16, rest != -1, rest != 0))
        if not more[-1].any():
            break
    follows = np.logical_and.accumulate(np.stack(more, axis=1), axis=1)
    written = np.concatenate((np.ones((len(counts), 1), dtype=bool), follows[:, :-1]), axis=1)
    characters = np.stack(groups, axis=1) + np.where(follows, 32, 0) + 48
    return bytes(characters[written].astype(np.uint8)).decode("ascii")


def decompress(text: str | bytes) -> NDArray[np.int64]:
    """Return the run lengths of a string."""
    data = text.encode("utf-8") if isinstance(text, str) else text
    codes = np.frombuffer(data, dtype=np.uint8).astype(np.int64) - 48
    wrong = "the text is not a compressed string of run lengths"
    if not len(codes) or codes.min() < 0 or codes.max() > 63:
        raise UserError(wrong, expected="characters from '0' to 'o'", got=repr(data[:20]))
    last = np.flatnonzero(codes < 32)
    if not len(last) or last[-1] != len(codes) - 1:
        raise UserError(wrong, expected="a complete last number", got=f"the end {data[-20:]!r}")
    first = np.concatenate(([0], last[:-1] + 1))
    lengths = last - first + 1
    if lengths.max() > _MOST_GROUPS:
        raise UserError(wrong, expected=f"numbers of at most {_MOST_GROUPS} characters", got=int(lengths.max()))
    place = np.arange(len(codes)) - np.repeat(first, lengths)
    numbers = np.add.reduceat((codes & 31) << (5 * place), first)
    numbers -= np.where(codes[last] & 16, np.int64(1) << (5 * lengths), 0)  # the sign of the last group
    numbers[1::2] = np.cumsum(numbers[1::2])
    numbers[2::2] = np.cumsum(numbers[2::2])
    return numbers
