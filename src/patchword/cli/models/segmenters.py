"""Segmenters in the verbs about models: found by name or in a saved folder, listed, and counted."""

from typing import TYPE_CHECKING, Any

from patchword.cli.common import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    from patchword.weights.local_path import local_path

    known = (*REGISTRY.names(), *DETECTORS, *SEGMENTERS)
    if model in known:
        return model in SEGMENTERS
    path = local_path(model)
    if not path.exists() and set(get_close_matches(model, known, n=1)) & set(SEGMENTERS):
        raise UserError(f"no model is called {model!r}", hint=f"{nearest(model, known)} (`patchword models` lists all)")
    return opening.holds_segmenter(path)


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
    from patchword.analysis.cost.segmentation import SIZE
    from patchword.cli.models.dense_families import family_rows
    from patchword.models.segmentation import SEGMENTERS

    return family_rows(SEGMENTERS, pattern, SIZE)


def print_segmenters(rows: "list[dict[str, Any]]") -> None:
    """Print the table of segmenters."""
    from patchword.cli.models.dense_families import print_families

    caption = (
        "Segmenters take any image model as their backbone: --set backbone=swin-tiny. MACs without the auxiliary head, "
        "which runs in training only"
    )
    print_families("segmenters", caption, rows)


def segmenter_cost(
    model: str, settings: "Iterable[str] | None", part: str, size: tuple[int, int] | None
) -> "SegmenterCost":
    """Return the cost of a segmenter or a part of it."""
    from patchword.analysis.cost.segmentation import SIZE, count_segmenter

    return count_segmenter(segmenter_card(model, settings), part, size or SIZE)
