"""What the page Words can ask of each listed model, from its card; no model is opened."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.lab.models import ListedModel
from patchword.models import REGISTRY
from patchword.weights.io.loading import open_weights

HEADS = {"tags": "tags", "span": "answer", "classes": "classes"}  # the answers of fine-tuned heads


def word_models(models: Mapping[str, ListedModel]) -> list[dict[str, Any]]:
    """Return the models that read texts, with what each can do."""
    found = []
    for model in models.values():
        if model.model in REGISTRY.names() and (card := _card(model)) is not None and (can := can_do(card)):
            found.append({"id": model.id, "name": model.name, "can": can, "depth": int(card.config["depth"])})
    return found


def can_do(card: Card) -> list[str]:
    """Return the views of the page that a model can show."""
    family, variant = REGISTRY.find(card.model)
    head = card.config.get("head")
    if family.reads == "characters":
        return ["similar"]
    if family.reads != "texts" or "max_length" not in vars(variant.config):
        return []
    words = ["next" if _is_causal(card.model) else "fill"] if head in ("words", "pretraining") else []
    return ["attention", "walk", "similar", *words, *([HEADS[head]] if head in HEADS else [])]


@cache
def _is_causal(name: str) -> bool:
    with torch.device("meta"):
        return bool(REGISTRY.create(name, depth=1).causal)


def _card(model: ListedModel) -> Card | None:
    """Return the card; None if the files are gone or cannot be read."""
    try:
        return open_weights(model.folder).card
    except (OSError, UserError):
        return None
