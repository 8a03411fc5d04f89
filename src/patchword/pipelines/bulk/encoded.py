"""A shard as bytes, and as a file among those that are joined."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Encoded:
    """A shard as bytes. columns: of a CSV file, in their order."""

    content: bytes
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """The file of a shard, in the order of the rows."""

    path: Path
    rows: int
    columns: tuple[str, ...]
