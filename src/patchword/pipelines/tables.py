"""Tables as text, for the terminal."""

import io
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.table import Table
from rich.text import Text

from patchword.pipelines.image_inputs import OneImage
from patchword.reports.plots.numbers import shortened

_LONGEST = 60  # characters of a text


def text_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return a table without colours, as wide as the terminal. rows: column -> cell; missing cells stay empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(*columns)
    for row in rows:
        table.add_row(*(Text(row.get(name, "")) for name in columns))
    text = io.StringIO()
    width = max(80, shutil.get_terminal_size((100, 24)).columns)
    Console(file=text, width=width, color_system=None, force_jupyter=False).print(table)
    return text.getvalue().rstrip("\n")


def shown_input(given: OneImage | str) -> str:
    """Return an input in a few words."""
    if isinstance(given, Path):
        return str(given)
    if isinstance(given, str):
        return shortened(given, _LONGEST)
    size = (given.width, given.height) if isinstance(given, Image.Image) else given.shape
    return f"{type(given).__name__} {' x '.join(map(str, size))}"
