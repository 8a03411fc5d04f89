"""Tables of detectors and segmenters, and the head of their costs."""

from typing import TYPE_CHECKING, Any

from patchword.cli.common import console

if TYPE_CHECKING:
    from collections.abc import Mapping

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
