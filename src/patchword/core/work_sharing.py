"""How the processes of one run divide their work, without any dependency on torch.distributed."""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar, overload

from torch import Tensor

Item = TypeVar("Item")
Made = TypeVar("Made")
Answer = tuple[Tensor, ...]


class WorkSharing(Protocol):
    """The processes that share the work of one run."""

    @property
    def rank(self) -> int:
        """The rank of this process."""
        ...

    @property
    def size(self) -> int:
        """The number of processes."""
        ...

    def share(self, index: Tensor) -> Tensor:
        """Return the samples of a batch that this process works on."""
        ...

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a value over all processes, on its device."""
        ...

    def map(self, ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Return ask(item) for each item, in order. Every process computes some; all processes get all results."""
        ...


class SingleWorker:
    """A single process, which does all the work."""

    rank, size = 0, 1

    def share(self, index: Tensor) -> Tensor:
        return index

    def total(self, value: Tensor) -> Tensor:
        return value

    def map(self, ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        return [ask(item) for item in items]


SINGLE = SingleWorker()


class LazySequence(Sequence[Made], Generic[Item, Made]):
    """Computes make(item) when the item is read, so that a process makes only the items that it works on."""

    def __init__(self, make: Callable[[Item], Made], items: Sequence[Item]) -> None:
        self.make, self.items = make, items

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Made: ...

    @overload
    def __getitem__(self, index: slice) -> "LazySequence[Item, Made]": ...

    def __getitem__(self, index: int | slice) -> "Made | LazySequence[Item, Made]":
        return LazySequence(self.make, self.items[index]) if isinstance(index, slice) else self.make(self.items[index])
