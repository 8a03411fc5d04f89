"""load: from a run, a saved folder, another library's folder or one file, to a model."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from patchword.core.card import Card, Preparation
from patchword.core.errors import UserError, nearest
from patchword.core.files import read_json
from patchword.core.tensors import PICKLES, Tensors, read_tensors, refuse_pickle
from patchword.layers.pyramid import Pyramid
from patchword.models import REGISTRY
from patchword.models.resize import fit_resolution
from patchword.weights import vit
from patchword.weights.naming import Layout

LAYOUTS = vit.LAYOUTS


def load(source: str | Path, model: str | None = None, **overrides: Any) -> Pyramid:
    """A model with the weights of `source`, in float32, ready to evaluate.

    source: a run's folder, a folder written by `save`, a Hugging Face style folder, or one .safetensors file whose
        tensors may carry our names, Hugging Face's or timm's (which the DeiT authors use too).
    model: the registry name to build; needed only where the source cannot tell it. A file without a config does not
        tell the number of heads: it is taken from the model of the same width, depth and hidden width, if there is one.
    overrides: config fields to change, e.g. image=384; position tables are resized to fit.
    """
    path = Path(source)
    if not path.exists():
        raise UserError(f"there is nothing at {path}", expected="a run, a model folder or a .safetensors file")
    found = _read_folder(path) if path.is_dir() else _read_file(path)
    card = _identify(found, model, overrides)
    return _build(found, card, overrides, path)


@dataclass(frozen=True)
class _Source:
    """What was found: tensors under our names, names that no table knows, the layout, what the files say besides."""

    ours: Tensors
    unknown: list[str]
    layout: Layout
    told: Mapping[str, Any]
    preprocessor: Mapping[str, Any]


def _read_folder(folder: Path) -> _Source:
    tensors: Tensors = {}
    metadata: dict[str, str] = {}
    for file in _weight_files(folder):
        part, metadata = read_tensors(file)
        tensors |= part
    told = _read_object(folder / "config.json") or _card_of(metadata, folder)
    return _recognise(tensors, told, _read_object(folder / "preprocessor_config.json"))


def _read_file(path: Path) -> _Source:
    """One file; a config.json that lies beside a model.safetensors belongs to it."""
    tensors, metadata = read_tensors(path)
    beside = _read_object(path.parent / "config.json") if path.name == "model.safetensors" else {}
    return _recognise(tensors, _card_of(metadata, path) or beside, {})


def _read_object(path: Path) -> Mapping[str, Any]:
    value = read_json(path) if path.is_file() else {}
    if not isinstance(value, dict):
        raise UserError(f"{path} is not a configuration", expected="a JSON object", got=type(value).__name__)
    return value


def _card_of(metadata: Mapping[str, str], path: Path) -> Mapping[str, Any]:
    """The card that `save` puts into the file itself."""
    try:
        told: Mapping[str, Any] = json.loads(metadata.get("patchword", "{}"))
    except ValueError as error:
        raise UserError(f"the card inside {path} cannot be read", got=str(error)) from None
    return told


def _weight_files(folder: Path) -> list[Path]:
    """The weight file of a folder, or its shards."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted({str(name) for name in dict(_read_object(index).get("weight_map") or {}).values()})
        if any(Path(name).name != name for name in names):
            raise UserError(f"{index} names files outside its folder", got=names)
        return [folder / name for name in names]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    for pickled in sorted(path for path in folder.iterdir() if path.suffix in PICKLES):
        refuse_pickle(pickled)
    raise UserError(f"there are no weights in {folder}", expected="model.safetensors")


def _recognise(tensors: Tensors, told: Mapping[str, Any], preprocessor: Mapping[str, Any]) -> _Source:
    """Which library's names these are is read off the names."""
    for layout in LAYOUTS:
        if layout.distinct in tensors:
            ours, unknown = layout.to_ours(tensors)
            return _Source(ours, unknown, layout, told, preprocessor)
    some = ", ".join(sorted(tensors)[:3])
    raise UserError("the names in this file belong to no layout we know", got=f"{len(tensors)} tensors: {some}, ...")


def _identify(source: _Source, model: str | None, overrides: Mapping[str, Any]) -> Card:
    """The model these tensors came from: by its card, by the other library's config, or by the shapes."""
    if source.told.get("library") == "patchword":
        card = card_from_dict(source.told)
        return replace(card, model=model) if model else card
    shapes = {name: tuple(tensor.shape) for name, tensor in source.ours.items()}
    fields = {**source.layout.sizes(shapes), **source.layout.told}
    fields |= source.layout.read_config(source.told) if source.told else {}
    name = model or _closest(source.layout.family, fields)
    if model is None and "heads" not in {**fields, **overrides} and not _agrees(name, fields):
        raise UserError(
            "the tensors do not tell the number of heads",
            got=f"width {fields.get('width')}, depth {fields.get('depth')}",
            hint='tell it: load(source, heads=...), or name the model: load(source, model="vit-base-16")',
        )
    family, variant = REGISTRY.find(name)
    known = asdict(variant.config)
    config = known | {field: value for field, value in fields.items() if field in known}
    preparation = _preparation(source) or family.preparation.over(config["channels"])
    return Card(name, config, _labels(source.told), preparation)


def _closest(family: str, fields: Mapping[str, Any]) -> str:
    """The named variant that shares the most sizes."""

    def shared(name: str) -> int:
        config = asdict(REGISTRY.find(name)[1].config)
        return sum(config.get(field) == value for field, value in fields.items())

    return max((name for name in REGISTRY.names() if REGISTRY.find(name)[0].name == family), key=shared)


def _agrees(name: str, fields: Mapping[str, Any]) -> bool:
    config = asdict(REGISTRY.find(name)[1].config)
    return all(config[field] == fields.get(field) for field in ("width", "depth", "hidden"))


def _labels(told: Mapping[str, Any]) -> tuple[str, ...]:
    numbered = told.get("id2label")
    if isinstance(numbered, dict) and all(str(key).isdigit() for key in numbered):
        return tuple(str(numbered[key]) for key in sorted(numbered, key=int))
    return tuple(told.get("label_names") or ())


def _preparation(source: _Source) -> Preparation | None:
    other = source.told.get("pretrained_cfg") or {}
    mean = source.preprocessor.get("image_mean") or other.get("mean")
    std = source.preprocessor.get("image_std") or other.get("std")
    return Preparation(tuple(mean), tuple(std)) if mean and std else None


def _build(source: _Source, card: Card, overrides: Mapping[str, Any], path: Path) -> Pyramid:
    for field in overrides:
        if field not in card.config:
            raise UserError(f"model {card.model!r} has no field {field!r}", hint=nearest(field, card.config))
    wanted = {**card.config, **overrides}
    with torch.device("meta"):
        old = REGISTRY.create(card.model, **{**wanted, "image": card.config["image"]})
        new = REGISTRY.create(card.model, **wanted)
    fitted = fit_resolution(source.ours, old, new)
    _check(fitted, new, path, source.unknown)
    new.load_state_dict({name: tensor.float() for name, tensor in fitted.items()}, assign=True)
    new.card = replace(new.card, labels=card.labels, preparation=card.preparation)
    return new.requires_grad_(True).eval()


def _check(tensors: Mapping[str, Tensor], model: Pyramid, path: Path, unknown: list[str]) -> None:
    """Every tensor must be there, be expected and have its shape; otherwise all that is wrong is listed."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    wrong = [f"missing     {name} {shape}" for name, shape in expected.items() if name not in tensors]
    wrong += [f"unexpected  {name}" for name in [*unknown, *(name for name in tensors if name not in expected)]]
    wrong += [
        f"misshapen   {name}: expected {shape}, got {tuple(tensors[name].shape)}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    if wrong:
        listed = "\n".join(wrong[:20] + ([f"... and {len(wrong) - 20} more"] if len(wrong) > 20 else []))
        raise UserError(f"{path} does not fit {model.card.model!r}: {len(wrong)} tensors differ", hint=listed)


def card_from_dict(told: Mapping[str, Any]) -> Card:
    """The card that `describe` wrote; what is not one is refused."""
    try:
        config = {field: tuple(value) if isinstance(value, list) else value for field, value in told["config"].items()}
        preparation = told["preparation"]
        means, spreads = (tuple(float(value) for value in preparation[key]) for key in ("mean", "std"))
        labels = tuple(str(label) for label in told["labels"])
        return Card(str(told["model"]), config, labels, Preparation(means, spreads))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            "config.json is not a patchword card",
            expected="model, config, labels, preparation",
            got=f"{type(error).__name__}: {error}",
        ) from None
