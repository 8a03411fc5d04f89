"""Save a model to a folder that patchword, Hugging Face transformers, timm or the authors' code can read."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.core.files import write_json
from patchword.core.tensor_files import write_tensors
from patchword.layers.model import ModuleWithCard
from patchword.layers.quantize import without_ranges
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS
from patchword.models.segmentation import SEGMENTERS
from patchword.weights.io.cards import VERSION
from patchword.weights.io.dense_families import DENSE
from patchword.weights.io.preprocessing import PILLOW
from patchword.weights.io.weight_source import WEIGHT_FILES
from patchword.weights.names import layouts
from patchword.weights.names.name_table import Layout

Library = Literal["patchword", "huggingface", "timm", "authors", "mmdet", "mmseg", "torchvision"]


def save(model: ModuleWithCard, folder: str | Path, layout: Library = "patchword") -> Path:
    """Write model.safetensors (model.npz for authors who use JAX) and config.json to `folder`.

    layout: the library whose tensor names are used.
    """
    if not isinstance(model, ModuleWithCard) or not hasattr(model, "card"):
        got = f"{type(model).__name__}{' without a card' if isinstance(model, ModuleWithCard) else ''}"
        raise UserError("cannot save this object", expected="a model made by create or load", got=got)
    target, tensors, card = Path(folder), model.state_dict(), model.card
    file, beside = "model.safetensors", set[str]()
    if layout == "patchword":
        config: dict[str, Any] = describe(card)
        metadata = {"patchword": json.dumps(config)}
    else:
        table = _table(layout, card).writing(card)
        file = table.file
        tensors = table.to_theirs(without_ranges(tensors))
        config = table.write_config(card)
        metadata = {"format": "pt"}
        if layout == "huggingface" and (card.model in DENSE or REGISTRY.reads_images(card.model)):
            write_json(target / "preprocessor_config.json", _preprocessor(card, table))
            beside.add("preprocessor_config.json")
    write_tensors(target / file, tensors, metadata)
    stale = {*WEIGHT_FILES, "model.safetensors.index.json", "preprocessor_config.json", "modules.json"}
    for other in stale - {file} - beside:
        (target / other).unlink(missing_ok=True)  # of an earlier model in this folder
    write_json(target / "config.json", config)
    return target


def describe(card: Card) -> dict[str, Any]:
    """Return the card as it is written to config.json."""
    return {"library": "patchword", "version": VERSION, **asdict(card)}


def _table(library: str, card: Card) -> Layout:
    """Return the layout of a library for this model, or raise an error that lists what the library cannot express."""
    family = card.model if card.model in DENSE else REGISTRY.find(card.model)[0].name
    known = {"patchword", *(table.library for table in layouts.LAYOUTS)}
    if library not in known:
        raise UserError(f"unknown layout {library!r}", hint=nearest(library, known))
    refusals: list[dict[str, Any]] = []
    for table in layouts.LAYOUTS:
        if table.library == library and table.writes(family, card):
            config = {**table.needs, **card.config}
            differences = {field: value for field, value in table.needs.items() if config[field] != value}
            if not differences:
                return table
            refusals.append(differences)
    differences = min(refusals, key=len, default={})
    raise UserError(
        f"{library} has no model like {card.model!r}",
        expected=", ".join(f"{field} {value}" for field, value in differences.items()) or "a family it knows",
        got=", ".join(f"{field} {card.config[field]}" for field in differences) or family,
        hint='use layout="patchword"',
    )


def _preprocessor(card: Card, table: Layout) -> dict[str, Any]:
    return {
        "image_processor_type": table.processor,
        "do_resize": card.model not in SEGMENTERS or card.resize.mode == "stretch",
        "size": _size(card),
        "resample": PILLOW.index(card.resize.interpolation),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(card.normalization.mean),
        "image_std": list(card.normalization.std),
    }


def _size(card: Card) -> dict[str, int]:
    """Return the size to which images are resized, in Hugging Face's format."""
    if card.model in DETECTORS:
        return {"shortest_edge": card.config["min_size"], "longest_edge": card.config["max_size"]}
    image = card.config["crop"] if card.model in SEGMENTERS else card.config["image"]
    height, width = (image, image) if isinstance(image, int) else image
    return {"height": height, "width": width}
