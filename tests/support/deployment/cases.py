"""One tiny model per family of the registry, with inputs and the way to export it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import patchword
from patchword.data.text.tokenizers.characters import CharacterReader
from patchword.layers.text.frozen_vectors import Frozen
from patchword.models import REGISTRY
from patchword.models.registry import Family
from patchword.weights.export.export import Exported, export
from support.helpers import pairs, pixels, randomise, smallest, texts, tiny_pair, tiny_text

STILL = {"dropout": 0.0, "attention_dropout": 0.0}
SHALLOW = {  # one block of every kind: exporting takes time for each
    "vit-exercise": {"depth": 1},
    "deit-mini": {"depth": 1},
    "mixer-mini": {"depth": 1},
    "swin-mini": {"depths": (2,), "heads": (2,)},
    "cvt-mini": {"depths": (1, 1)},
    "resnet-mini": {"depths": (1, 1, 1)},
}
SPARSE = {"max_length": 40, "block": 2, "random_blocks": 1}
CHARACTERS = {"characters": 12, "character_width": 5, "filters": ((1, 4), (3, 8)), "width": 16, "cell": 24}
SENTENCES = [["a", "cat", "sat", "on", "it"], ["why"], ["the", "longest", "sentence", "of", "all"]]


@dataclass(frozen=True)
class Case:
    """A model in evaluation mode, its inputs, and the function that writes it to a file."""

    model: nn.Module
    inputs: tuple[Any, ...]
    write: Callable[[Path], Exported]


def cases() -> dict[str, Callable[[], Case]]:
    """Return what builds each case, by its name."""
    families = {family.name: partial(_family, family) for family in REGISTRY.families}
    return {**families, "bigbird-sparse": _sparse}


def _family(family: Family) -> Case:
    return {"images": _images, "texts": _texts, "pairs": _pairs, "characters": _characters, "vectors": _vectors}[
        family.reads
    ](smallest(family.name))


def _images(name: str) -> Case:
    model = randomise(patchword.create(name, **SHALLOW.get(name, {}))).eval()
    return Case(model, (pixels(2, model.card.config["channels"], 28, 28),), partial(export, model))


def _texts(name: str) -> Case:
    model = tiny_text(name, head="words", **STILL)
    return Case(model, (texts(17, 9, 24, 2),), partial(export, model))


def _sparse() -> Case:
    model = tiny_text("bigbird-base", head="words", **SPARSE, **STILL)
    return Case(model, (texts(37, 20),), partial(export, model, tokens=37))


def _pairs(name: str) -> Case:
    model = tiny_pair(name, dropout=0.0)
    return Case(model, (pairs((17, 9, 24, 2), (5, 20, 11, 24)),), partial(export, model))


def _characters(name: str) -> Case:
    """The recurrent matrices are small: with large ones, rounding alone changes the outputs."""
    sizes = {**CHARACTERS, "vocabulary": 31, "classes": 7, "dropout": 0.0, "head_dropout": 0.0}
    model = randomise(patchword.create(name, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.3 if parameter.ndim == 3 else 1.0)
    return Case(model, (CharacterReader(limit=12, spare=3)(SENTENCES),), partial(export, model))


def _vectors(name: str) -> Case:
    model = randomise(patchword.create(name, sources=((2, 6),), width=12, dropout=0.0)).eval()
    mask = torch.arange(9) < torch.tensor([9, 4])[:, None]
    return Case(model, (Frozen(pixels(2, 9, 12), mask),), partial(export, model))
