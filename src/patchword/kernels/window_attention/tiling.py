"""How rectangles lie on a map, as numbers that a kernel can count with, and how large a piece one program takes.

Windows, shifted windows, stripes and interlaced pales are one formula along each side of the map:

    place = (group * jump + member * step + shift) mod (groups * members)

Windows jump by their length and step by one; interlaced rows jump by one and step over all groups. A place behind the
end of the map is padding. A place before `shift` was carried over the seam and meets only its like.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Side(NamedTuple):
    """One side of a map, cut into groups."""

    length: int  # of the map
    members: int  # of one group
    groups: int
    step: int  # between two members
    jump: int  # between two groups
    shift: int

    def places(self, device: torch.device) -> Tensor:
        """(groups, members): where each member lies; behind the length there is nothing"""
        group, member = (torch.arange(count, device=device) for count in (self.groups, self.members))
        return (group[:, None] * self.jump + member * self.step + self.shift) % (self.groups * self.members)


class Spots(NamedTuple):
    """Of all members of all groups, (groups, size) each."""

    token: Tensor
    there: Tensor  # False: padding
    seam: Tensor  # members with the same number meet


class Rectangles(NamedTuple):
    """A map cut along both sides."""

    rows: Side
    columns: Side

    @property
    def size(self) -> int:
        """tokens of a group, with padding"""
        return self.rows.members * self.columns.members

    @property
    def groups(self) -> int:
        return self.rows.groups * self.columns.groups

    @property
    def offsets(self) -> int:
        """rows of a table of relative positions"""
        return (2 * self.rows.members - 1) * (2 * self.columns.members - 1)

    def numbers(self) -> list[int]:
        return [*self.rows, *self.columns]

    def spots(self, device: torch.device) -> Spots:
        row = self.rows.places(device)[:, None, :, None].expand(-1, self.columns.groups, -1, self.columns.members)
        column = self.columns.places(device)[None, :, None, :].expand_as(row)
        there = (row < self.rows.length) & (column < self.columns.length)
        seam = 2 * (row < self.rows.shift) + 1 * (column < self.columns.shift)
        token = row * self.columns.length + column
        found = (part.flatten(2).flatten(0, 1) for part in (token.where(there, torch.zeros_like(token)), there, seam))
        return Spots(*found)


def from_numbers(numbers: list[int]) -> list[Rectangles]:
    """the way back from the numbers of several"""
    return [
        Rectangles(Side(*numbers[start : start + 6]), Side(*numbers[start + 6 : start + 12]))
        for start in range(0, len(numbers), 12)
    ]


class Launch(NamedTuple):
    """tile: tokens that a program holds. whole: that is all of a group. met: those that they meet at a time."""

    tile: int
    met: int
    width: int  # channels of a head, up to a power of two
    whole: bool
    warps: int
    stages: int
    waves: int  # programs that a processor has at a time
    registers: int | None  # that a thread may use at most


# By what was measured on an H200; benchmarks/window_kernel.py --tune tries others.
# The largest tile that holds a whole group, by work and by whether numbers have 16 bits.
WHOLE = {("forward", True): 128, ("forward", False): 64, ("backward", True): 128, ("backward", False): 64}
WIDE = 64  # heads that are wider have half of this
# Of groups that are larger, by 16 bits or not: the tile, and those that it meets. The wider tile is taken where no more
# of it is empty than of two others.
PIECE, WIDER, MET = {True: 64, False: 32}, {True: 64, False: 32}, {True: 64, False: 32}
WARPS = {  # by work and tile
    ("forward", 16): 1, ("forward", 32): 2, ("forward", 64): 4, ("forward", 128): 8,
    ("backward", 16): 1, ("backward", 32): 2, ("backward", 64): 4, ("backward", 128): 8,
}  # fmt: skip
STAGES = {("forward", True): 3, ("forward", False): 3, ("backward", True): 3, ("backward", False): 3}  # by work, whole
# By work, of groups in one tile and narrow heads: what is found once for many images may leave its registers, what
# every image needs fits into these.
REGISTERS: dict[str, int | None] = {"forward": 128, "backward": None}
NARROW = 64  # channels of a head, in 16 bits
WAVES = {  # programs that a processor of the GPU has at a time, by work and tile
    ("forward", 16): 4, ("forward", 32): 4, ("forward", 64): 4, ("forward", 128): 2,
    ("backward", 16): 2, ("backward", 32): 2, ("backward", 64): 2, ("backward", 128): 2,
}  # fmt: skip
SHARED = 227 * 1024  # bytes that a program may share among its threads on an H200


def launch(work: str, size: int, head: int, dtype: torch.dtype, shared: int = SHARED) -> Launch:
    """work: "forward" or "backward"; size: of a group; head: channels; shared: what the GPU has of this memory"""
    short, width = dtype.itemsize == 2, max(16, _power(head))
    most = WHOLE[work, short] // (2 if width > WIDE else 1)
    whole = _power(size) <= most
    tile = max(16, _power(size)) if whole else _piece(size, width, short)
    met = tile if whole else MET[short]
    # tokens wait in shared memory: queries, keys and values (and gradients), beside a tile of weights or answers
    waiting, beside = (3 if work == "forward" else 4) * met * width, tile * max(met, width)
    stages = max(1, min(STAGES[work, whole], (shared // dtype.itemsize - beside) // waiting))
    registers = REGISTERS[work] if whole and short and width <= NARROW else None
    return Launch(tile, met, width, whole, WARPS[work, tile], stages, WAVES[work, tile], registers)


def _piece(size: int, width: int, short: bool) -> int:
    wider = WIDER[short] if width <= NARROW else PIECE[short]
    return wider if -(-size // wider) * wider <= -(-size // PIECE[short]) * PIECE[short] else PIECE[short]


def walkers(groups: int, heads: int, programs: int) -> int:
    """How many programs of a head share its groups, so that each has as many as another or one less.

    programs: how many there should be about, of all heads
    """
    turns = -(-groups * heads // programs)
    return -(-groups // turns)


def walk(groups: int, heads: int, batch: int, programs: int) -> tuple[int, int]:
    """How many programs of a head share the places of groups on the map, and how many the images of a place.

    The quickest, if `programs` run at a time, an image costs 1 and what is found once for a place costs _PLACE.
    """
    places = walkers(groups, heads, programs) if groups * heads > programs else groups
    turns = -(-groups // places)

    def spent(parts: int) -> int:
        return -(-heads * places * parts // programs) * turns * (-(-batch // parts) + _PLACE)

    most = max(1, _ROUNDS * programs // (heads * places))
    return places, min(range(1, min(batch, most) + 1), key=spent)


_PLACE, _ROUNDS = 3, 4


def rest_of(size: int, met: int) -> int:
    """of a group that is met so many at a time: a power of two that holds those who are left, or 0"""
    left = size % met
    return max(16, _power(left)) if left else 0


def _power(number: int) -> int:
    """the next power of two"""
    return 1 << (number - 1).bit_length()
