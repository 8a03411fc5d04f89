"""How rectangles are laid out on a map, as integers that a kernel can compute with.

Windows, shifted windows, stripes and interlaced pales are one formula along each side of the map:

    index = (group * jump + member * step + shift) mod (groups * members)

Windows jump by their length and step by one; interlaced rows jump by one and step over all groups. An index beyond the
end of the map is padding. An index below `shift` was wrapped around the border: such members attend only to each other
(their shift region).
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Side(NamedTuple):
    """One side of a map, divided into groups."""

    length: int  # tokens of the map along this side
    members: int  # tokens of one group along this side
    groups: int
    step: int  # between two members
    jump: int  # between two groups
    shift: int

    @property
    def is_padded(self) -> bool:
        """True if the groups have more members than the map has tokens along this side."""
        return self.groups * self.members != self.length

    @property
    def is_interlaced(self) -> bool:
        """True if two members are `groups` apart, False if they are adjacent. A kernel supports no other steps."""
        adjacent = (self.step, self.jump) == (1, self.members)
        assert adjacent or (self.step, self.jump) == (self.groups, 1), f"no kernel for {self}"
        return not adjacent

    def indices(self, device: torch.device) -> Tensor:
        """Returns the index of each member, (groups, members); an index of `length` or more is padding."""
        group, member = (torch.arange(count, device=device) for count in (self.groups, self.members))
        return (group[:, None] * self.jump + member * self.step + self.shift) % (self.groups * self.members)


class Members(NamedTuple):
    """All members of all groups, (groups, size) each."""

    token: Tensor  # index on the map
    valid: Tensor  # False: padding
    shift_region: Tensor  # members attend only to members of the same region


class Rectangles(NamedTuple):
    """A map divided into rectangles along both sides."""

    rows: Side
    columns: Side

    @property
    def size(self) -> int:
        """Tokens of a group, with padding."""
        return self.rows.members * self.columns.members

    @property
    def groups(self) -> int:
        return self.rows.groups * self.columns.groups

    @property
    def offsets(self) -> int:
        """Rows of a table of relative position biases."""
        return (2 * self.rows.members - 1) * (2 * self.columns.members - 1)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The numbers that depend on the size of the map: run-time arguments, so that one kernel runs on all maps."""
        return self.rows.length, self.rows.groups, self.columns.length, self.columns.groups

    def constants(self, check_padding: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the compile-time constants of a kernel: members, is_interlaced, shift and is_padded of both sides.

        check_padding: the kernel expects padding also where this map has none
        """
        rows, columns = (
            (side.members, int(side.is_interlaced), side.shift, int(check_padding or side.is_padded)) for side in self
        )
        return rows, columns

    def numbers(self) -> list[int]:
        """Returns both sides as integers, which an operation of torch can take."""
        return [*self.rows, *self.columns]

    def member_indices(self, device: torch.device) -> Members:
        """Returns the tokens of each group."""
        row = self.rows.indices(device)[:, None, :, None].expand(-1, self.columns.groups, -1, self.columns.members)
        column = self.columns.indices(device)[None, :, None, :].expand_as(row)
        valid = (row < self.rows.length) & (column < self.columns.length)
        shift_region = 2 * (row < self.rows.shift) + 1 * (column < self.columns.shift)
        token = row * self.columns.length + column
        found = (
            part.flatten(2).flatten(0, 1) for part in (token.where(valid, torch.zeros_like(token)), valid, shift_region)
        )
        return Members(*found)


def from_numbers(numbers: list[int]) -> list[Rectangles]:
    """Inverts `Rectangles.numbers`, for the concatenated numbers of several."""
    return [
        Rectangles(Side(*numbers[start : start + 6]), Side(*numbers[start + 6 : start + 12]))
        for start in range(0, len(numbers), 12)
    ]
