"""save: a model as a folder that we, Hugging Face's transformers or timm can read."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.core.files import write_json
from patchword.core.tensors import write_tensors
from patchword.layers.pyramid import Pyramid
from patchword.models import REGISTRY
from patchword.weights.loading import LAYOUTS
from patchword.weights.naming import Layout


def save(model: Pyramid, folder: str | Path, layout: Literal["patchword", "huggingface", "timm"] = "patchword") -> Path:
    """Writes model.safetensors and config.json into `folder`, under the names of `layout`."""
    if not isinstance(model, Pyramid):
        raise UserError("cannot save this", expected="a model made by create or load", got=type(model).__name__)
    target, tensors, card = Path(folder), model.state_dict(), model.card
    if layout == "patchword":
        config: dict[str, Any] = describe(card)
        metadata = {"patchword": json.dumps(config)}
    else:
        table = _table(layout, card)
        tensors = table.to_theirs(tensors)
        config = table.write_config(card)
        metadata = {"format": "pt"}
        if layout == "huggingface":
            write_json(target / "preprocessor_config.json", _preprocessor(card))
    write_tensors(target / "model.safetensors", tensors, metadata)
    (target / "model.safetensors.index.json").unlink(missing_ok=True)  # of weights that lay here before, in shards
    write_json(target / "config.json", config)
    return target


def describe(card: Card) -> dict[str, Any]:
    """The card as it is written to config.json."""
    return {"library": "patchword", "version": 1, **asdict(card)}


def _table(library: str, card: Card) -> Layout:
    family = REGISTRY.find(card.model)[0].name
    distilled = bool(card.config.get("distilled"))
    if card.config.get("positions", "learned") != "learned":
        raise UserError(
            f"{library} has no ViT with {card.config['positions']} positions", hint='use layout="patchword"'
        )
    family = "vit" if family == "deit" and not distilled else family  # without its token, DeiT is a ViT
    for table in LAYOUTS:
        if table.library == library and table.family == family:
            return table
    raise UserError(
        f"no layout is called {library!r}", hint=nearest(library, {"patchword", *(t.library for t in LAYOUTS)})
    )


def _preprocessor(card: Card) -> dict[str, Any]:
    image = card.config["image"]
    height, width = (image, image) if isinstance(image, int) else image
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": height, "width": width},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(card.preparation.mean),
        "image_std": list(card.preparation.std),
    }
