"""Opens a text model and its tokenizer."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from patchword.core.errors import UserError
from patchword.data.text.batching.batches import BatchFormat
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers.model import Model
from patchword.layers.text.model import TextModel
from patchword.models import REGISTRY
from patchword.models.registry import keep_mlp_ratio
from patchword.recipes.model_choice import weights_path
from patchword.recipes.schema.recipe import ModelChoice
from patchword.weights import load

_PADDED = 128  # vocabularies are padded to a multiple of at most this


def open_text_model(choice: ModelChoice, tokenizer: str = "", **head: Any) -> tuple[TextModel, Tokenizer]:
    """Open a folder with weights and a tokenizer, or build a model of the registry with random weights.

    head: fields of the model's head that replace those of the folder
    """
    folder = weights_path(choice)
    overrides = {**choice.overrides(), **head}
    if folder is None:
        if REGISTRY.reads(choice.name) != "texts":
            raise _reads_others(choice.name, REGISTRY.reads(choice.name))
        if not tokenizer:
            hint = (
                "`patchword tokenizer train FILES --out FOLDER` makes one; a trained model (model=FOLDER) has its own"
            )
            raise UserError(f"{choice.name!r} needs a tokenizer", expected="tokenizer=FOLDER", hint=hint)
        found = Tokenizer.read(Path(tokenizer))
        config = {"vocabulary": found.vocabulary, **overrides}
        model = as_text(REGISTRY.create(choice.name, **config), choice.name)
    else:
        model = as_text(_fresh(folder, overrides) if choice.from_scratch else load(folder, **overrides), choice.name)
        found = Tokenizer.read(Path(tokenizer) if tokenizer else folder if folder.is_dir() else folder.parent)
    check_vocabulary(model, found, choice.name)
    return model, found


def _fresh(folder: Path, overrides: dict[str, Any]) -> Model:
    """Build the model of a folder with random weights."""
    card = load(folder).card
    return REGISTRY.create(card.model, **{**card.config, **keep_mlp_ratio(card.config, overrides)})


def as_text(model: nn.Module, name: str) -> TextModel:
    if not isinstance(model, TextModel):
        raise _reads_others(name, REGISTRY.reads(model.card.model) if isinstance(model, Model) else "images")
    return model


def _reads_others(name: str, what: str) -> UserError:
    return UserError(f"{name!r} reads {what}", expected="a model of texts, e.g. bert-mini")


def batch_format(packed: str, tokenizer: Tokenizer, device: torch.device) -> BatchFormat:
    """Return the format of batches. packed: the recipe's field: "true", "false" or "auto", which packs on a GPU."""
    return BatchFormat(0 if tokenizer.pad is None else tokenizer.pad, packs(packed, device), device)


def packs(packed: str, device: torch.device) -> bool:
    """Return True if batches are packed. packed: the recipe's field"""
    return device.type == "cuda" if packed == "auto" else packed == "true"


def check_length(length: int, model: TextModel) -> None:
    positions = model.card.config["max_length"]
    if length > positions:
        raise UserError("recipe field 'length'", expected=f"at most {positions}, the maximum of the model", got=length)


def check_vocabulary(model: TextModel, tokenizer: Tokenizer, name: str) -> None:
    """Check that the embedding has a row per vocabulary entry, and no more rows than padding adds."""
    rows, entries = model.card.config["vocabulary"], tokenizer.vocabulary
    if not entries <= rows < entries + _PADDED:
        raise UserError(
            f"the tokenizer does not belong to the model {name}",
            expected=f"a vocabulary of {rows:,}",
            got=f"{entries:,}",
            hint="give the tokenizer that the model was trained with: tokenizer=FOLDER",
        )
