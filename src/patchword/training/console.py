"""Consoles that obey no control characters in names, and a stream that a run outlives."""

import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from patchword.core.printable import printable


class PrintableConsole(Console):
    """A console that shows the control characters in a text, such as a class name, instead of sending them."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def show_cursor(self, show: bool = True) -> bool:
        """Leave the cursor as it is where nothing moves: a notebook would show an empty line."""
        return self.is_interactive and super().show_cursor(show)


def run_console(**options: Any) -> Console:
    """Return a console that animates nothing unless it writes to a terminal; options: those of rich's `Console`.

    A notebook shows each frame of an animation as a line of its own, and rich's own output of notebooks needs
    ipywidgets. Both are avoided; ipykernel sets FORCE_COLOR, by which rich would take it for a terminal.
    """
    stream = sys.stderr if options.get("stderr") else sys.stdout
    return PrintableConsole(force_jupyter=False, force_interactive=None if stream.isatty() else False, **options)


class OutlivedStream:
    """A text stream whose reader may go: from then on it writes into nothing, after one sentence on stderr.

    A training is worth more than its lines, which metrics.jsonl has as well: `patchword train ... | head -1`, a
    terminal that was closed, or a full disk under the log do not end it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self, error: OSError) -> None:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._stream.fileno())  # also for what the stream still holds
        os.close(nothing)
        said = f"the output cannot be written ({error.strerror}): the run goes on, and metrics.jsonl has its lines\n"
        try:
            sys.stderr.write(said)
            sys.stderr.flush()
        except OSError:  # the terminal is gone, and stderr with it
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stderr.fileno())
            os.close(nothing)
