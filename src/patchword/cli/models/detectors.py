"""Detectors in the verbs about models: found by name or in a saved folder, listed, and counted."""

import json
from typing import TYPE_CHECKING, Any

import typer

from patchword.cli.common import console, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from patchword.analysis.cost.detection import DetectorCost
    from patchword.core.card import Card


def is_detector(model: str) -> bool:
    """Return whether a name or a saved folder is a detector. A name close to that of a detector is an error."""
    from difflib import get_close_matches

    from patchword.core.errors import UserError, nearest
    from patchword.models import REGISTRY
    from patchword.models.detection import DETECTORS
    from patchword.models.segmentation import SEGMENTERS
    from patchword.pipelines.detection import opening
    from patchword.weights.hub.cache import local_path

    known = (*REGISTRY.names(), *DETECTORS, *SEGMENTERS)
    if model in known:
        return model in DETECTORS
    if not local_path(model).exists() and set(get_close_matches(model, known, n=1)) & set(DETECTORS):
        raise UserError(f"no model is called {model!r}", hint=f"{nearest(model, known)} (`patchword models` lists all)")
    return opening.is_detector(local_path(model))


def detector_card(model: str, settings: "Iterable[str] | None") -> "Card":
    """Return the card of a detector by name or from a saved folder, with some fields changed."""
    import torch

    from patchword.models.detection import DETECTORS, create_detector
    from patchword.weights import load

    overrides = fields_of(settings or ())
    if model not in DETECTORS:
        return load(model, **overrides).card
    with torch.device("meta"):
        return create_detector(model, **overrides).card


def detector_rows(pattern: str) -> list[dict[str, Any]]:
    """Return the detectors that match a shell pattern, with counts for their default backbone."""
    from patchword.analysis.cost.detection import SIZE
    from patchword.cli.models.dense_families import family_rows
    from patchword.models.detection import DETECTORS

    return family_rows(DETECTORS, pattern, SIZE)


def print_detectors(rows: "list[dict[str, Any]]") -> None:
    """Print the table of detectors, with a note about box heads if one of them has proposals."""
    from patchword.cli.models.dense_families import print_families
    from patchword.models.detection import DETECTORS
    from patchword.models.detection.config import RcnnConfig

    caption = "Detectors take any image model as their backbone: --set backbone=swin-tiny"
    if any(isinstance(DETECTORS[row["name"]].config, RcnnConfig) for row in rows):
        caption += ". MACs of R-CNNs with proposals: 1,000 boxes through each box head, 100 through each mask head"
    print_families("detectors", caption, rows)


def show_detector_cost(
    model: str, settings: "Iterable[str] | None", part: str, size: tuple[int, int] | None, steps: bool, as_json: bool
) -> None:
    """Count a detector and print the result, by part or with every step."""
    from patchword.analysis.cost.detection import SIZE, count_detector

    found = count_detector(detector_card(model, settings), part, size or SIZE)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        print_detector_cost(console(), found, steps)


def print_detector_cost(out: "Console", found: "DetectorCost", steps: bool) -> None:
    """Print the cost of a detector: parts or steps, anchors, numbers of boxes, sums."""
    from patchword.analysis.cost import CONVENTION
    from patchword.analysis.cost.detection import CONVENTION as OF_DETECTORS
    from patchword.cli.models.dense_families import print_parts

    print_parts(out, found, steps)
    if found.anchors:
        out.print(f"  anchors: {sum(one.count for one in found.anchors):,}", highlight=False)
    for one in found.anchors:
        out.print(f"    {one.name}, stride {one.stride}: {one.working()}", highlight=False)
    if found.boxes:
        out.print(f"  boxes through each box head: {found.boxes:,} (proposals per image)", highlight=False)
    if found.masks:
        out.print(f"  boxes through each mask head: {found.masks:,} (detections per image)", highlight=False)
    out.print(f"\n[dim]MACs: {CONVENTION}\n{OF_DETECTORS}[/dim]", highlight=False)
