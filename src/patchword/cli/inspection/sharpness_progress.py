"""Progress bars of the verbs sharpness and landscape: the current phase and the remaining time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from patchword.analysis.sharpness.hessian import Spectrum


class ProgressBars:
    """One bar per phase; a pass over the sample is `batches` ticks."""

    def __init__(self, bar: "Progress") -> None:
        self.bar, self.batches = bar, 1
        self.spectrum: Spectrum | None = None  # the latest

    def begin(self, name: str, passes: int) -> None:
        """Start a phase; the phases before it are complete."""
        for task in self.bar.tasks:
            self.bar.update(task.id, completed=task.total)
        self.bar.add_task(name, total=max(1, passes * self.batches))

    def tick(self) -> None:
        if self.bar.tasks:
            self.bar.advance(self.bar.tasks[-1].id)

    def on_spectrum(self, spectrum: "Spectrum") -> None:
        """Show the leading eigenvalue found so far."""
        self.spectrum = spectrum
        leading, residual = float(spectrum.values[0]), float(spectrum.residuals[0])
        text = f"eigenvalues: leading {leading:.4g}, residual {residual:.1e}"
        self.bar.update(self.bar.tasks[-1].id, description=text)


@contextmanager
def progress_bars() -> Iterator[ProgressBars]:
    """Show progress on stderr, so that stdout has only results; out of memory becomes an error with a hint."""
    import torch
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from patchword.core.errors import UserError
    from patchword.training.console import PrintableConsole

    console = PrintableConsole(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as bar:
            yield ProgressBars(bar)
    except torch.OutOfMemoryError:
        raise UserError(
            "the GPU's memory is too small for this",
            hint="read fewer samples at once (--batch-size 32); a vector of all weights is kept for each product, too",
        ) from None
