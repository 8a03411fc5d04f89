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
        tensors may carry our names, Hugging Face's or timm's.
    model: the registry name to build; needed only where the source cannot tell it.
    overrides: config fields to change, e.g. image=384; position tables are resized to fit.
    """
    path = Path(source)
    if not path.exists():
        raise UserError(f"there is nothing at {path}", expected="a run, a model folder or a .safetensors file")
    tensors, told = (_read_folder if path.is_dir() else _read_file)(path)
    card = _identify(tensors, told, model)
    return _build(tensors.ours, card, overrides, path, tensors.unknown)


@dataclass(frozen=True)
class _Source:
    """Tensors under our names, those whose names no table knows, and the layout they came in."""

    ours: Tensors
    unknown: list[str]
    layout: Layout | None


def _read_folder(folder: Path) -> tuple[_Source, Mapping[str, Any]]:
    tensors: Tensors = {}
    metadata: dict[str, str] = {}
    for file in _weight_files(folder):
        part, metadata = read_tensors(file)
        tensors |= part
    config = folder / "config.json"
    told = read_json(config) if config.is_file() else _card_of(metadata)
    return _recognise(tensors), told


def _read_file(path: Path) -> tuple[_Source, Mapping[str, Any]]:
    tensors, metadata = read_tensors(path)
    return _recognise(tensors), _card_of(metadata)


def _card_of(metadata: Mapping[str, str]) -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads(metadata["patchword"]) if "patchword" in metadata else {}
    return told


def _recognise(tensors: Tensors) -> _Source:
    """Which library's names these are is read off the names."""
    if any(name.startswith("stages.") for name in tensors):
        return _Source(tensors, [], None)
    for layout in LAYOUTS:
        if layout.distinct in tensors:
            ours, unknown = layout.to_ours(tensors)
            return _Source(ours, unknown, layout)
    some = ", ".join(sorted(tensors)[:3])
    raise UserError("the names in this file belong to no layout we know", got=f"{len(tensors)} tensors: {some}, ...")


def _identify(source: _Source, told: Mapping[str, Any], model: str | None) -> Card:
    """The model these tensors came from: by its card, by the other library's config, or by the shapes."""
    if told.get("library") == "patchword":
        card = card_from_dict(told)
        return replace(card, model=model) if model else card
    fields: dict[str, Any] = vit.sizes({name: tuple(tensor.shape) for name, tensor in source.ours.items()})
    family = source.layout.family if source.layout else "vit"
    if source.layout:
        fields |= source.layout.fields
        if source.layout.read_config and "model_type" in told:
            fields |= source.layout.read_config(told)
    labels = tuple(told["id2label"][key] for key in sorted(told["id2label"], key=int)) if "id2label" in told else ()
    name = model or _closest(family, fields)
    if "heads" not in fields and model is None and not _agrees(name, fields):
        raise UserError(
            "the tensors do not tell the number of heads",
            got=f"width {fields['width']}, depth {fields['depth']}",
            hint='name the model: load(source, model="vit-base-16"), with heads=... if it has another number',
        )
    known = asdict(REGISTRY.find(name)[1].config)
    config = known | {field: value for field, value in fields.items() if field in known}
    return Card(name, config, labels, REGISTRY.find(name)[0].preparation)


def _closest(family: str, fields: Mapping[str, Any]) -> str:
    """The named variant that shares the most sizes."""

    def shared(name: str) -> int:
        config = asdict(REGISTRY.find(name)[1].config)
        return sum(config.get(field) == value for field, value in fields.items())

    return max((name for name in REGISTRY.names() if REGISTRY.find(name)[0].name == family), key=shared)


def _agrees(name: str, fields: Mapping[str, Any]) -> bool:
    config = asdict(REGISTRY.find(name)[1].config)
    return all(config[field] == fields[field] for field in ("width", "depth", "hidden"))


def _build(
    tensors: Mapping[str, Tensor], card: Card, overrides: Mapping[str, Any], path: Path, unknown: list[str]
) -> Pyramid:
    with torch.device("meta"):
        old = REGISTRY.create(card.model, **card.config)
        new = REGISTRY.create(card.model, **card.config | dict(_checked(card, overrides)))
    _check(fit := fit_resolution(tensors, old, new), new, path, unknown)
    new.load_state_dict({name: tensor.float() for name, tensor in fit.items()}, assign=True)
    new.card = replace(new.card, labels=card.labels, preparation=card.preparation)
    return new.requires_grad_(True).eval()


def _checked(card: Card, overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    for field in overrides:
        if field not in card.config:
            raise UserError(f"model {card.model!r} has no field {field!r}", hint=nearest(field, card.config))
    return overrides


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
    preparation = told.get("preparation", {})
    return Card(
        told["model"],
        {field: tuple(value) if isinstance(value, list) else value for field, value in told["config"].items()},
        tuple(told.get("labels", ())),
        Preparation(tuple(preparation.get("mean", (0.5,))), tuple(preparation.get("std", (0.5,)))),
    )


def _weight_files(folder: Path) -> list[Path]:
    """The weight file of a folder, or its shards in the order of their index."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
        if any(Path(name).name != name for name in names):
            raise UserError(f"{index} names files outside its folder", got=names)
        return [folder / name for name in names]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    for pickled in sorted(path for path in folder.iterdir() if path.suffix in PICKLES):
        refuse_pickle(pickled)
    raise UserError(f"there are no weights in {folder}", expected="model.safetensors")
