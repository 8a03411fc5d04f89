"""Segmenters in the verbs about models: found by name or in a saved folder, listed, and counted."""

import json
from typing import TYPE_CHECKING, Any

import typer

from patchword.cli.common import console, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from patchword.analysis.cost.segmentation import SegmenterCost
    from patchword.core.card import Card


def is_segmenter(model: str) -> bool:
    """Return whether a name, a run or a saved folder is a segmenter. A name close to that of one is an error."""
    from difflib import get_close_matches

    from patchword.core.errors import UserError, nearest
    from patchword.models import REGISTRY
    from patchword.models.detection import DETECTORS
    from patchword.models.segmentation import SEGMENTERS
    from patchword.pipelines.segmentation import opening
    from patchword.weights.hub.cache import local_path

    known = (*REGISTRY.names(), *DETECTORS, *SEGMENTERS)
    if model in known:
        return model in SEGMENTERS
    path = local_path(model)
    if not path.exists() and set(get_close_matches(model, known, n=1)) & set(SEGMENTERS):
        raise UserError(f"no model is called {model!r}", hint=f"{nearest(model, known)} (`patchword models` lists all)")
    return opening.is_segmenter(path)


def segmenter_card(model: str, settings: "Iterable[str] | None") -> "Card":
    """Return the card of a segmenter by name or from a saved folder, with some fields changed."""
    import torch

    from patchword.models.segmentation import SEGMENTERS, create_segmenter
    from patchword.weights import load_segmenter

    overrides = fields_of(settings or ())
    if model not in SEGMENTERS:
        return load_segmenter(model, **overrides).card
    with torch.device("meta"):
        return create_segmenter(model, **overrides).card


def segmenter_rows(pattern: str) -> list[dict[str, Any]]:
    """Return the segmenters that match a shell pattern, with counts for their default backbone."""
    from fnmatch import fnmatchcase

    from patchword.analysis.cost.segmentation import count_segmenter
    from patchword.models.segmentation import SEGMENTERS

    rows = []
    for name, family in SEGMENTERS.items():
        if fnmatchcase(name, pattern):
            cost = count_segmenter(segmenter_card(name, ()))
            rows.append(
                {
                    "name": name,
                    "title": family.title,
                    "backbone": family.config.backbone,
                    "parameters": cost.parameters,
                    "macs": cost.macs,
                    "input": list(cost.input[1:]),
                    "paper": family.paper,
                }
            )
    return rows


def print_segmenters(rows: "list[dict[str, Any]]") -> None:
    """Print the table of segmenters."""
    from rich.table import Table

    caption = (
        "Segmenters take any image model as their backbone: --set backbone=swin-tiny. MACs without the auxiliary head, "
        "which runs in training only"
    )
    table = Table(title="segmenters", title_justify="left", caption=caption, caption_justify="left")
    for title in ("model", "default backbone", "parameters", "MACs", "input", "paper"):
        table.add_column(title, justify="right" if title in ("parameters", "MACs", "input") else "left", no_wrap=True)
    for row in rows:
        size = " x ".join(str(side) for side in row["input"])
        counts = f"{row['parameters']:,}", f"{row['macs']:,}"
        table.add_row(row["name"], row["backbone"], *counts, size, row["paper"])
    console(120).print(table)


def show_segmenter_cost(
    model: str, settings: "Iterable[str] | None", part: str, size: tuple[int, int] | None, steps: bool, as_json: bool
) -> None:
    """Count a segmenter and print the result, by part or with every step."""
    from patchword.analysis.cost.segmentation import SIZE, count_segmenter

    found = count_segmenter(segmenter_card(model, settings), part, size or SIZE)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        print_segmenter_cost(console(), found, steps)


def print_segmenter_cost(out: "Console", found: "SegmenterCost", steps: bool) -> None:
    """Print the cost of a segmenter: parts or steps, and sums."""
    from patchword.analysis.cost import CONVENTION
    from patchword.analysis.cost.segmentation import CONVENTION as OF_SEGMENTERS
    from patchword.cli.models.cost_steps import print_steps
    from patchword.cli.models.detectors import print_rows

    size = " x ".join(str(side) for side in found.input)
    where = f", {found.part}" if found.part else ""
    out.print(f"[bold]{found.model}[/bold], backbone {found.backbone}{where}, input {size}\n", highlight=False)
    if steps:
        print_steps(out, found)
    print_rows(out, found.parts(), "part")
    print_rows(out, [*found.sections(), ("total", found.macs, found.parameters)], "sum")
    out.print(f"[dim]MACs: {CONVENTION}\n{OF_SEGMENTERS}[/dim]", highlight=False)
