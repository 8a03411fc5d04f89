"""The processes that work on one run together, as those see it who only have to part their work."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from torch import Tensor

Item = TypeVar("Item")
Answer = tuple[Tensor, ...]


class WorkSharing(Protocol):
    """rank: of this process, from 0; size: how many there are."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def share(self, index: Tensor) -> Tensor:
        """of the samples of a batch, those that this process works on"""
        ...

    def map(self, ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """ask(item) of each, in the order of the items; every process asks some, and all know all answers"""
        ...


class SingleWorker:
    """One process does all of the work."""

    rank, size = 0, 1

    def share(self, index: Tensor) -> Tensor:
        return index

    def map(self, ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        return [ask(item) for item in items]


SINGLE = SingleWorker()


class LazySequence(Sequence[Any]):
    """make(item) of each item, made when it is asked for; so that a process makes only what it works on."""

    def __init__(self, make: Callable[[Item], Any], items: Sequence[Item]) -> None:
        self.make, self.items = make, items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: Any) -> Any:
        return self.make(self.items[number])
