"""Choose the inputs of an exported file by what the model reads."""

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import Size, sides
from patchword.models import REGISTRY
from patchword.weights.export.inputs.base import Inputs
from patchword.weights.export.inputs.characters import CharacterInputs
from patchword.weights.export.inputs.images import ImageInputs
from patchword.weights.export.inputs.pairs import PairInputs
from patchword.weights.export.inputs.texts import TextInputs
from patchword.weights.export.inputs.vectors import VectorInputs


def inputs_of(card: Card, size: Size | None = None, batch: int | None = None, tokens: int | None = None) -> Inputs:
    """Return the inputs of a model. size: of images. batch, tokens: fixed batch size and length; default is any."""
    reads = REGISTRY.reads(card.model)
    if tokens is not None and reads != "texts":
        raise UserError("a fixed number of tokens is for text models", got=card.model)
    match reads:
        case "images":
            return ImageInputs(card, (card.config["channels"], *sides(size or card.config["image"])), batch)
        case "texts":
            return TextInputs(card, batch, tokens)
        case "pairs":
            return PairInputs(card, batch)
        case "characters":
            return CharacterInputs(card, batch)
        case "vectors":
            return VectorInputs(card, batch)
