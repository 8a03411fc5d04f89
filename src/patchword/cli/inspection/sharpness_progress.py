"""What sharpness and surface show while they compute: the part, how far it is, and the time that is left."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from patchword.analysis.sharpness.hessian import Spectrum


class Watched:
    """One bar for each part; a pass over the sample is `pieces` ticks."""

    def __init__(self, bar: "Progress") -> None:
        self.bar, self.pieces = bar, 1
        self.spectrum: Spectrum | None = None  # the last that was heard of

    def begin(self, name: str, passes: int) -> None:
        """A part that ended before all it was allowed is full."""
        for task in self.bar.tasks:
            self.bar.update(task.id, completed=task.total)
        self.bar.add_task(name, total=max(1, passes * self.pieces))

    def tick(self) -> None:
        if self.bar.tasks:
            self.bar.advance(self.bar.tasks[-1].id)

    def heard(self, spectrum: "Spectrum") -> None:
        self.spectrum = spectrum
        leading, left = float(spectrum.values[0]), float(spectrum.residuals[0])
        told = f"eigenvalues: the leading one is {leading:.4g}, residual {left:.1e}"
        self.bar.update(self.bar.tasks[-1].id, description=told)


@contextmanager
def watching() -> Iterator[Watched]:
    """On stderr, so that what is printed stays clean; memory that runs out is told as a mistake that can be mended."""
    import torch
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from patchword.core.errors import UserError

    told = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=told, transient=True, disable=not told.is_terminal) as bar:
            yield Watched(bar)
    except torch.OutOfMemoryError:
        raise UserError(
            "the GPU's memory is too small for this",
            hint="read fewer samples at once (--batch-size 32); a vector of all weights is kept for each product, too",
        ) from None
