"""What a disk may have after a power cut: a model of what fsync promises, and of all that may happen without it.

The data of a file are safe after an fsync of the file. An entry of a folder (a new file, a rename, a removal) is safe
after an fsync of the folder, of a rename after that of its target. Whatever is not yet safe may be there or not, each
by itself; of data also a part. A rename happens whole or not at all, as on any journaled file system.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.power.events import Acknowledged, Create, Event, MakeFolder, Rename, Sync, Truncate, Unlink, Write

Image = dict[str, bytes | None]  # the files of a folder with their bytes, and folders with None


@dataclass(eq=False)
class Node:
    """A file or a folder, whatever its name is. now, safe: bytes; now_entries, safe_entries: of a folder."""

    is_folder: bool = False
    now: bytes = b""
    safe: bytes = b""
    now_entries: "dict[str, Node]" = field(default_factory=dict)
    safe_entries: "dict[str, Node]" = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Entry:
    """A change of entries that is not safe yet: a node goes from one place, to another, or both."""

    node: Node
    source: tuple[Node, str] | None
    target: tuple[Node, str] | None

    def apply(self, entries: dict[Node, dict[str, Node]]) -> None:
        if self.source and entries.get(self.source[0], {}).get(self.source[1]) is self.node:
            del entries[self.source[0]][self.source[1]]
        if self.target:
            entries.setdefault(self.target[0], {})[self.target[1]] = self.node

    def is_of(self, folder: Node) -> bool:
        place = self.target or self.source
        return place is not None and place[0] is folder


class Disk:
    """The folder as processes see it, and what of it is safe."""

    def __init__(self) -> None:
        self.root = Node(is_folder=True)
        self.unsafe: list[Entry] = []
        self.acknowledged = ""

    def apply(self, event: Event) -> None:
        match event:
            case Acknowledged(name):
                self.acknowledged = max(self.acknowledged, name)
            case Create(path) | MakeFolder(path):
                self._change(Node(is_folder=isinstance(event, MakeFolder)), None, self._place(path))
            case Unlink(path):
                place = self._place(path)
                self._change(place[0].now_entries[place[1]], place, None)
            case Rename(path, target):
                place = self._place(path)
                self._change(place[0].now_entries[place[1]], place, self._place(target))
            case Write(path, offset, data):
                node = self._node(path)
                padded = node.now.ljust(offset, b"\0")
                node.now = padded[:offset] + data + padded[offset + len(data) :]
            case Truncate(path, size):
                node = self._node(path)
                node.now = node.now[:size].ljust(size, b"\0")
            case Sync(path):
                self._sync(self._node(path))

    def image(
        self, keeps_entry: Callable[[Entry], bool] = lambda entry: True, data: Callable[[Node], bytes] | None = None
    ) -> Image:
        """Return the files after a power cut. keeps_entry, data: what is left of that which is not safe."""
        folders = {node: dict(node.safe_entries) for node in _folders(self.root)}
        for entry in self.unsafe:
            for place in (entry.source, entry.target):
                if place:
                    folders.setdefault(place[0], dict(place[0].safe_entries))
        for entry in self.unsafe:
            if keeps_entry(entry):
                entry.apply(folders)
        found: Image = {}
        _walk(self.root, "", folders, data or (lambda node: node.now), found)
        return found

    def _change(self, node: Node, source: tuple[Node, str] | None, target: tuple[Node, str] | None) -> None:
        if source:
            del source[0].now_entries[source[1]]
        if target:
            target[0].now_entries[target[1]] = node
        self.unsafe.append(Entry(node, source, target))

    def _sync(self, node: Node) -> None:
        node.safe = node.now
        if not node.is_folder:
            return
        left: list[Entry] = []
        for entry in self.unsafe:
            if not entry.is_of(node):
                left.append(entry)
                continue
            if entry.source and entry.source[0].safe_entries.get(entry.source[1]) is entry.node:
                del entry.source[0].safe_entries[entry.source[1]]
            if entry.target:
                entry.target[0].safe_entries[entry.target[1]] = entry.node
            # how the node came to the place that it has left is past, too
            left = [one for one in left if entry.source is None or one.target != entry.source]
        self.unsafe = left

    def _node(self, path: str) -> Node:
        node = self.root
        for part in Path(path).parts:
            node = node.now_entries[part]
        return node

    def _place(self, path: str) -> tuple[Node, str]:
        return self._node(str(Path(path).parent)), Path(path).name


def after_power_cut(disk: Disk, random_ones: int, generator: random.Random) -> Iterator[tuple[str, Image]]:
    """Yield what may be left at this moment, from nothing that is not safe to all of it, each with its name."""
    yield "nothing unsafe is left", disk.image(lambda entry: False, lambda node: node.safe)
    yield "all is left, as after a kill", disk.image()
    yield "names without their data", disk.image(data=lambda node: node.safe)
    yield "data without their names", disk.image(lambda entry: False)
    yield "half of the data", disk.image(data=_half)
    yield "zeros for data", disk.image(data=_zeros)
    for number in range(random_ones):
        chosen: dict[Node, bytes] = {}

        def data(node: Node, chosen: dict[Node, bytes] = chosen) -> bytes:
            return chosen.setdefault(node, generator.choice([node.now, node.safe, _half(node), _zeros(node)]))

        yield f"at random, {number + 1}", disk.image(lambda entry: generator.random() < 0.5, data)


def written(image: Image, folder: Path) -> None:
    """Write the files into a new folder."""
    folder.mkdir(parents=True)
    for name, content in sorted(image.items()):
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)


def replayed(events: Sequence[Event]) -> Disk:
    disk = Disk()
    for event in events:
        disk.apply(event)
    return disk


def _half(node: Node) -> bytes:
    start = _unchanged(node)
    return node.now[: start + (len(node.now) - start) // 2]


def _zeros(node: Node) -> bytes:
    start = _unchanged(node)
    return node.now[:start].ljust(len(node.now), b"\0")


def _unchanged(node: Node) -> int:
    """Return how many bytes at the start are as they were made safe."""
    same = (place for place, (one, other) in enumerate(zip(node.now, node.safe, strict=False)) if one != other)
    return next(same, min(len(node.now), len(node.safe)))


def _folders(root: Node) -> Iterator[Node]:
    yield root
    for node in {*root.now_entries.values(), *root.safe_entries.values()}:
        if node.is_folder:
            yield from _folders(node)


def _walk(
    folder: Node, prefix: str, entries: dict[Node, dict[str, Node]], data: Callable[[Node], bytes], found: Image
) -> None:
    for name, node in entries.get(folder, folder.safe_entries).items():
        found[prefix + name] = None if node.is_folder else data(node)
        if node.is_folder:
            _walk(node, f"{prefix}{name}/", entries, data, found)
