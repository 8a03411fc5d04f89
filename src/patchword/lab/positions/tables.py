"""The learned position tables of the listed models."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from patchword.analysis.positions import position_tables
from patchword.core.errors import UserError
from patchword.lab.models import ListedModel
from patchword.models import REGISTRY
from patchword.pipelines.interface import Pipeline

MOST_NUMBERS = 4_000_000  # in all tables of a model: 16 MB


def models_with_tables(models: Iterable[ListedModel]) -> list[dict[str, Any]]:
    """Return the models whose cards name a learned table, without opening them."""
    found = []
    for model in models:
        kind = _position_of(model)
        if kind in ("learned", "relative"):
            found.append({"id": model.id, "name": model.name, "kind": model.kind, "position": kind})
    return found


def _position_of(model: ListedModel) -> str:
    if model.model not in REGISTRY.names():
        return ""
    saved = model.config() if (model.folder / "config.json").is_file() else {}
    fields = saved.get("config", {}) if saved.get("library") == "patchword" else {}
    return str(getattr(REGISTRY.configure(model.model, fields), "position", ""))


def tables_of(model: Pipeline) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the descriptions of the tables of a model, and the tables by their numbers."""
    found = position_tables(model.model)
    if not found:
        raise UserError(f"{model.name} has no learned table of positions", expected="a model like ViT, BERT or Swin")
    numbers = sum(one.table.numel() for one in found)
    if numbers > MOST_NUMBERS:
        what = f"the position tables of {model.name} are too large for the page"
        raise UserError(what, expected=f"at most {MOST_NUMBERS:,} numbers", got=f"{numbers:,}")
    described = [
        {
            "name": one.name,
            "kind": one.kind,
            "grid": None if one.grid is None else [one.grid.height, one.grid.width, one.grid.prefix],
            "shape": list(one.table.shape),
        }
        for one in found
    ]
    return {"tables": described}, {str(number): one.table for number, one in enumerate(found)}
