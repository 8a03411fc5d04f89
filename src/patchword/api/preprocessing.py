"""What turns raw images and texts into the input of a model: its transform and its tokenizer."""

from pathlib import Path
from typing import TYPE_CHECKING

from patchword.api.run import find_folder
from patchword.core.errors import UserError
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers.model import Model
from patchword.layers.pyramid import Backbone
from patchword.models import REGISTRY
from patchword.recipes.run_folder import RunFolder
from patchword.weights.hub.name import is_hub_name
from patchword.weights.local_path import local_path

if TYPE_CHECKING:
    from patchword.pipelines.image_inputs import Transform


def tokenizer(source: RunFolder | str | Path) -> Tokenizer:
    """Return the tokenizer of a model.

    Args:
        source: a run, its name inside `runs`, the folder of a model or of a tokenizer, a file of a tokenizer such as
            vocab.txt, or a fetched name of the hub (`hf:OWNER/REPO`).

    >>> patchword.tokenizer("runs/bert").encode(["a text"])
    """
    if isinstance(source, RunFolder):
        return Tokenizer.read(source.folder)
    path = local_path(source)
    if not is_hub_name(source) and not path.exists() and str(source) in REGISTRY.names():
        raise UserError(f"{str(source)!r} has no tokenizer", expected="a run, a folder, or a name of the hub")
    return Tokenizer.read(path if path.exists() else find_folder(path))


def transform(model: Model | Backbone) -> "Transform":
    """Return the function that converts an image to the input of a model, as the model's card describes.

    It takes a path, a PIL image, a uint8 array (height, width, channels) or a tensor, and returns a normalized tensor
    (channels, height, width).

    >>> model = patchword.load("runs/pets")
    >>> logits = model(patchword.transform(model)("photo.png")[None])
    """
    from patchword.pipelines.image_inputs import Transform

    REGISTRY.require_images(model.card.model)
    return Transform(model.card)
