"""Which model the page Windows asks for, one of the registry or of the lab, and the size of its image or text."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from patchword.analysis.attention_pattern.text import default_tokens
from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.core.grid import sides
from patchword.lab.errors import UnknownIdError
from patchword.lab.models import ListedModel, find_model
from patchword.models import REGISTRY

LISTED = "lab:"  # before the id of a model of the lab
MOST_SIDE = 384
MOST_TOKENS_PER_SIDE = 128
LENGTHS = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # of texts, in tokens
BLOCKS = (12, 16, 24, 32, 48, 64)  # of long texts, in blocks of a Big Bird


def card_of(models: Mapping[str, ListedModel], name: str, image: str) -> Card:
    """Return the card of a model of images. name: of the registry, or lab:ID. image: a side in pixels, or nothing."""
    card = own_card(models, name)
    REGISTRY.require_images(card.model)
    if not image:
        return card
    number = _one_of("the image side", image, sides_of(card))
    return Card(card.model, _config(card.model, {**card.config, "image": number}))


def tokens_of(card: Card, tokens: str) -> int:
    """Return the length of the text that is asked for. tokens: a length that the page offers, or nothing."""
    return _one_of("the length", tokens, lengths_of(card)) if tokens else default_tokens(card)


def sides_of(card: Card) -> list[int]:
    """Return the image sides that the page offers: its own, and multiples of about 32 pixels (of small images, 4)."""
    height, width = sides(card.config["image"])
    patch = int(card.config["patch"])
    step = patch * max(1, round((32 if height >= 128 else 4) / patch))
    largest = min(MOST_SIDE, 2 * height, MOST_TOKENS_PER_SIDE * patch)
    own = {height} if height == width else set()
    return sorted({*own, *range(-(-(height // 2) // step) * step, largest + 1, step)})


def lengths_of(card: Card) -> list[int]:
    """Return the lengths of texts that the page offers; of a Big Bird, those of full attention are one."""
    block, longest = card.config.get("block"), card.config.get("max_length", max(LENGTHS))
    if block is None or "random_blocks" not in card.config:
        offered = LENGTHS
    else:
        full = 5 + 2 * card.config["random_blocks"]
        offered = tuple(block * blocks for blocks in (full, *(number for number in BLOCKS if number > full)))
    return sorted({default_tokens(card), *(length for length in offered if length <= longest)})


def own_card(models: Mapping[str, ListedModel], name: str) -> Card:
    """Return the card of a model of the registry or of the lab, with all fields of its config."""
    if name.startswith(LISTED):
        model = find_model(models, name.removeprefix(LISTED))
        if model.model not in REGISTRY.names():
            raise UserError(f"{model.name} has no pattern here", expected="a classifier of images or a model of texts")
        card = model.card()
        return Card(card.model, _config(card.model, card.config))
    if name not in REGISTRY.names():
        hint = f"{nearest(name[:80], REGISTRY.names())} (/api/registry lists all)"
        raise UnknownIdError(f"no model is called {name[:80]!r}", hint=hint)
    return Card(name, _config(name, {}))


def _one_of(what: str, text: str, offered: list[int]) -> int:
    if not text.isdecimal() or len(text) > 6 or int(text) not in offered:
        raise UserError(what, expected=f"one of {', '.join(map(str, offered))}", got=repr(text[:20]))
    return int(text)


def _config(model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return asdict(REGISTRY.configure(model, dict(fields)))
