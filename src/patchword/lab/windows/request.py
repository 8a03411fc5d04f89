"""Which model the page Windows asks for: one of the registry or of the lab, and the side of its image."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.core.grid import sides
from patchword.lab.errors import UnknownIdError
from patchword.lab.models import ListedModel, find_model
from patchword.models import REGISTRY

LISTED = "lab:"  # before the id of a model of the lab
MOST_SIDE = 384
MOST_TOKENS_PER_SIDE = 128


def card_of(models: Mapping[str, ListedModel], name: str, image: str) -> Card:
    """Return the card of a model of images. name: of the registry, or lab:ID. image: a side in pixels, or nothing."""
    card = _own_card(models, name)
    if not image:
        return card
    if not image.isdecimal() or len(image) > 6 or int(image) not in sides_of(card):
        expected = ", ".join(map(str, sides_of(card)))
        raise UserError("the image side", expected=f"one of {expected}", got=repr(image[:20]))
    return Card(card.model, _config(card.model, {**card.config, "image": int(image)}))


def sides_of(card: Card) -> list[int]:
    """Return the image sides that the page offers: its own, and multiples of about 32 pixels (of small images, 4)."""
    height, width = sides(card.config["image"])
    patch = int(card.config["patch"])
    step = patch * max(1, round((32 if height >= 128 else 4) / patch))
    largest = min(MOST_SIDE, 2 * height, MOST_TOKENS_PER_SIDE * patch)
    own = {height} if height == width else set()
    return sorted({*own, *range(-(-(height // 2) // step) * step, largest + 1, step)})


def _own_card(models: Mapping[str, ListedModel], name: str) -> Card:
    if name.startswith(LISTED):
        model = find_model(models, name.removeprefix(LISTED))
        if model.image is None:
            raise UserError(f"{model.name} is not a classifier of images", expected="a classifier of images")
        card = model.card()
        return Card(card.model, _config(card.model, card.config))
    if name not in REGISTRY.names():
        hint = f"{nearest(name[:80], REGISTRY.names())} (/api/registry lists all)"
        raise UnknownIdError(f"no model is called {name[:80]!r}", hint=hint)
    REGISTRY.require_images(name)
    return Card(name, _config(name, {}))


def _config(model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return asdict(REGISTRY.configure(model, dict(fields)))
