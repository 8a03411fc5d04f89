"""What a run does to its disk, as a list of events; paths are relative to the recorded folder."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Create:
    """A new empty file."""

    path: str


@dataclass(frozen=True)
class Write:
    path: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class Truncate:
    path: str
    size: int


@dataclass(frozen=True)
class Sync:
    """fsync of a file or a folder."""

    path: str


@dataclass(frozen=True)
class Rename:
    path: str
    target: str


@dataclass(frozen=True)
class Unlink:
    """A file or an empty folder is removed."""

    path: str


@dataclass(frozen=True)
class MakeFolder:
    path: str


@dataclass(frozen=True)
class Acknowledged:
    """A save returned: the checkpoint of this name may not be lost any more. No call to the disk."""

    name: str


Event = Create | Write | Truncate | Sync | Rename | Unlink | MakeFolder | Acknowledged
