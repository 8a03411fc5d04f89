"""The attention verb for detectors: what the best queries attend to, and the boxes they became."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from patchword.cli.common import console, fields_of, print_lines

if TYPE_CHECKING:
    from patchword.inspection.attention_objects import ObjectAttention
    from patchword.inspection.attention_options import AttentionOptions
    from patchword.pipelines.detection.engine import DetectionEngine


def show_query_attention(
    model: str,
    given: str,
    question: "AttentionOptions",
    refused: Sequence[str],
    out: Path,
    as_json: bool,
    settings: list[str] | None,
    device: str,
) -> None:
    """Draw the attention of a detector. refused: options that were given and that a detector does not have."""
    from patchword.core.errors import UserError
    from patchword.inspection.attention_objects import object_attention
    from patchword.reports.attention.files import check_out, write_object_attention

    if refused:
        expected = "an image, --layer, --head and --at"
        raise UserError(f"{model} is a detector", expected=expected, got=" and ".join(refused))
    if not Path(given).is_file():
        raise UserError(f"there is no image {given}" if given else "there is no image to inspect", expected="a file")
    check_out(out, ["queries"])
    found = object_attention(_opened(model, settings, device).model, Path(given), question)
    files = write_object_attention(found, out)
    if as_json:
        typer.echo(json.dumps(_record(found, files), indent=2, ensure_ascii=False))
        return
    _print(found)
    print_lines(files)


def _opened(model: str, settings: list[str] | None, device: str) -> "DetectionEngine":
    from patchword.cli.text.answers import messages
    from patchword.core.errors import UserError
    from patchword.models.detection import DETECTORS, create_detector
    from patchword.pipelines.detection.engine import DetectionEngine
    from patchword.pipelines.detection.opening import open_detector
    from patchword.weights.local_path import local_path

    if model in DETECTORS:
        messages(as_json=True).print(f"{model} has random weights: use a run to see what was learned", style="yellow")
        found = create_detector(model, **fields_of(settings or ()))
    elif settings:
        raise UserError(f"{model} has the sizes it was trained with", expected="no --set")
    else:
        found = open_detector(local_path(model))
    return DetectionEngine.of(found, device, name=model)


def _record(found: "ObjectAttention", files: list[Path]) -> dict[str, object]:
    queries = [
        {"query": one.number, "class": one.name, "score": one.score, "box": list(one.box)} for one in found.queries
    ]
    point = {} if found.at is None else {"at": list(found.at)}
    about = {"model": found.model, "layer": found.layer, "heads": list(found.heads), **point}
    return {**about, "queries": queries, "files": [str(file) for file in files]}


def _print(found: "ObjectAttention") -> None:
    from rich.table import Table

    if not found.queries:
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("query", "class", "score", "box (x1, y1, x2, y2)", "largest weight"):
        table.add_column(name, justify="left" if name == "class" else "right", no_wrap=True)
    for one in found.queries:
        box = ", ".join(f"{side:.0f}" for side in one.box)
        table.add_row(str(one.number), one.name, f"{one.score:.2f}", box, f"{float(one.weights.max()):.1%}")
    out, (height, width) = console(90), found.pixels.shape[-2:]
    out.print(table, highlight=False)
    out.print(f"boxes, and --at X,Y, are in pixels of the resized image of {width} x {height} (width x height)")
