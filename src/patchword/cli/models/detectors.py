"""Detectors in the verbs about models: found by name or in a saved folder, listed, and counted."""

from typing import TYPE_CHECKING, Any

from patchword.cli.common import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    from patchword.weights.local_path import local_path

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


def detector_cost(
    model: str, settings: "Iterable[str] | None", part: str, size: tuple[int, int] | None
) -> "DetectorCost":
    """Return the cost of a detector or a part of it."""
    from patchword.analysis.cost.detection import SIZE, count_detector

    return count_detector(detector_card(model, settings), part, size or SIZE)
