"""Which attention kernels know the mathematics of a partition or a position."""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

Kernel = Literal["window", "dense", "varlen"]  # rectangles of a map, short sequences, packed sequences


class KernelSupport:
    """Base of parts that fast kernels know.

    A class declares the kernels: `class Windows(KernelSupport, kernels=["window"])`. A subclass does not inherit them,
    because it may compute something else; it declares its own.
    """

    kernels: ClassVar[frozenset[Kernel]] = frozenset()

    def __init_subclass__(cls, *, kernels: Iterable[Kernel] = (), **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.kernels = frozenset(kernels)

    def supports(self, kernel: Kernel) -> bool:
        """True if the kernel computes what this part computes."""
        return kernel in self.kernels
