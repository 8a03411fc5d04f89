"""Tables of detectors and segmenters, and the head of their costs."""

from typing import TYPE_CHECKING, Any, cast

from patchword.cli.common import console

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from patchword.analysis.cost.detection import DetectorCost
    from patchword.analysis.cost.segmentation import SegmenterCost
    from patchword.models.detection.family import DetectorFamily
    from patchword.models.segmentation.config import SegmenterFamily


def family_rows(
    families: "Mapping[str, DetectorFamily] | Mapping[str, SegmenterFamily]", pattern: str, size: tuple[int, int]
) -> list[dict[str, Any]]:
    """Return the families that match a shell pattern. size: height and width of the image of their MACs."""
    from fnmatch import fnmatchcase

    return [
        {
            "name": name,
            "title": family.title,
            "backbone": family.config.backbone,
            "parameters": family.parameters,
            "macs": family.macs,
            "input": [3, *size],
            "paper": family.paper,
        }
        for name, family in families.items()
        if fnmatchcase(name, pattern)
    ]


def print_families(title: str, caption: str, rows: "list[dict[str, Any]]") -> None:
    """Print the table of families."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for column in ("model", "default backbone", "parameters", "MACs", "input", "paper"):
        table.add_column(column, justify="right" if column in ("parameters", "MACs", "input") else "left", no_wrap=True)
    for row in rows:
        size = " x ".join(str(side) for side in row["input"])
        counts = f"{row['parameters']:,}", f"{row['macs']:,}"
        table.add_row(row["name"], row["backbone"], *counts, size, row["paper"])
    console(120).print(table)


def print_parts(out: "Console", found: "DetectorCost | SegmenterCost", steps: bool) -> None:
    """Print the parts of a cost and their sums. steps: also every step."""
    from patchword.cli.models.cost_steps import print_steps

    size = " x ".join(str(side) for side in found.input)
    where = f", {found.part}" if found.part else ""
    out.print(f"[bold]{found.model}[/bold], backbone {found.backbone}{where}, input {size}\n", highlight=False)
    if steps:
        print_steps(out, found)
    _print_rows(out, found.parts(), "part")
    _print_rows(out, [*found.sections(), ("total", found.macs, found.parameters)], "sum")


def _print_rows(out: "Console", rows: Any, title: str) -> None:
    """Print rows of (name, MACs, parameters)."""
    names = [row[0] for row in cast("list[tuple[str, int, int]]", rows)]
    width = max(map(len, [title, *names])) + 2
    out.print(f"  {title:<{width}}{'MACs':>18}{'parameters':>16}", highlight=False)
    for name, macs, parameters in rows:
        out.print(f"  {name:<{width}}{macs:>18,}{parameters:>16,}", highlight=False)
    out.print()
