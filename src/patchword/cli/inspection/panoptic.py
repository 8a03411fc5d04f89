"""panoptic: measures the panoptic quality of predicted segments."""

import json
from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.common import Json, console


def panoptic(
    truth: Annotated[Path, typer.Argument(metavar="TRUTH.json", help="True segments in COCO's panoptic format.")],
    predicted: Annotated[Path, typer.Argument(metavar="PREDICTED.json", help="Predicted segments, same format.")],
    as_json: Json = False,
) -> None:
    """Measure the panoptic quality of predicted segments: things and stuff, and each category.

    A file in COCO's format lists the segments of each image; beside it, a folder of the same name holds PNG files
    whose colours are the ids of the segments. Segments match if their IoU is above 0.5. Panoptic quality (PQ) is
    segmentation quality (SQ, the mean IoU of matches) times recognition quality (RQ, the F1 score of matches).

    Examples:

      patchword panoptic panoptic_val2017.json predicted.json
      patchword panoptic panoptic_val2017.json predicted.json --json
    """
    from rich.table import Table

    from patchword.cli.text.answers import progress
    from patchword.inspection.panoptic import panoptic_quality

    with progress(1, "of all") as bar:
        found = panoptic_quality(truth, predicted, lambda done, of: bar(1 / of))
    rows = {**found.means(), **found.per_category()}
    if as_json:
        values = {name: quality._asdict() for name, quality in rows.items()}
        typer.echo(json.dumps({"images": found.images, "quality": values}, indent=2))
        return
    table = Table("category", *(f"{name} (%)" for name in ("PQ", "SQ", "RQ")))
    for name, quality in rows.items():
        table.add_row(name, *(f"{100 * value:.2f}" for value in quality))
    console().print(table)
    console().print(f"{found.images:,} images, {len(found.per_category())} categories with segments", highlight=False)
