"""Pattern: a partition and a position, for one group of heads."""

from torch import nn

from patchword.layers.attention.kernel_support import Kernel, KernelSupport
from patchword.layers.attention.partition import Full, Partition
from patchword.layers.attention.position import Position


class Pattern(nn.Module):
    """Which tokens attend to which, and how position enters; one pattern per group of heads."""

    def __init__(self, partition: Partition | None = None, position: Position | None = None) -> None:
        super().__init__()
        self.partition = partition or Full()
        self.position = position or Position()

    def supports(self, kernel: Kernel) -> bool:
        """True if the kernel computes attention with this partition and this position."""
        parts = self.partition, self.position
        return all(isinstance(part, KernelSupport) and part.supports(kernel) for part in parts)
