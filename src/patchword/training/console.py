"""The console of runs that are started from Python."""

import sys
from typing import Any

from rich.console import Console


def run_console(**options: Any) -> Console:
    """Return a console that animates nothing unless it writes to a terminal; options: those of rich's `Console`.

    A notebook shows each frame of an animation as a line of its own, and rich's own output of notebooks needs
    ipywidgets. Both are avoided; ipykernel sets FORCE_COLOR, by which rich would take it for a terminal.
    """
    stream = sys.stderr if options.get("stderr") else sys.stdout
    return Console(force_jupyter=False, force_interactive=None if stream.isatty() else False, **options)
