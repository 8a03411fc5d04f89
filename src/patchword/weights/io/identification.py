"""Identify the model of weights: by its card, by the other library's config, or by the shapes of the tensors."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from patchword.core.card import Card, ConfigValue, Resize
from patchword.core.device import shapes_only
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.models.dense.backbones import pixel_normalization
from patchword.models.detection import DETECTORS
from patchword.models.registry import configured
from patchword.weights.io.cards import card_from_dict
from patchword.weights.io.dense_families import DENSE
from patchword.weights.io.older_ratio import fit_mlp_ratio
from patchword.weights.io.preprocessing import (
    authors_resize,
    read_normalization,
    read_resize,
    read_shorter_side,
    read_square,
)
from patchword.weights.io.weight_source import WeightSource
from patchword.weights.names.closest import closest


def identify(source: WeightSource, model: str | None, overrides: Mapping[str, ConfigValue]) -> Card:
    """Identify the model of the tensors: by its card, by the other library's config, or by the shapes."""
    if source.config.get("library") == "patchword":
        card = card_from_dict(source.config)
        card = replace(card, config=fit_mlp_ratio(card.config, source.ours))
        if DENSE.keys() & {model, card.model}:
            _refuse_another(model, card.model)
        return replace(card, model=model) if model else card
    if source.layout.family in DENSE:
        return _identify_dense(source, model)
    shapes = {name: tuple(tensor.shape) for name, tensor in source.ours.items()}
    declared = source.layout.read_config(source.config) if source.config else {}
    fields = {**source.layout.sizes(shapes), **source.layout.implied, **declared}
    name = model or _closest(source.layout.family, {**overrides, **fields})
    if model is None and _lacks_heads(name, {**fields, **overrides}) and not _agrees(name, fields):
        raise UserError(
            "the number of heads cannot be inferred from the tensors",
            got=", ".join(f"{field} {value}" for field, value in fields.items() if field not in NOT_STRUCTURE),
            hint=f'set it: load(source, heads=...), or name the model: load(source, model="{name}")',
        )
    family, variant = REGISTRY.find(name)
    known = asdict(variant.config)
    config = known | {field: value for field, value in fields.items() if field in known}
    if "image" in overrides and "image" not in declared and _fits(name, {**config, **overrides}, shapes):
        config["image"] = overrides["image"]  # shapes give the number of patches, not their arrangement
    card = Card(name, config, _labels(source.config))
    if family.normalization:
        given = read_normalization(source.preprocessor, source.config.get("pretrained_cfg") or {})
        resize = read_resize(source.preprocessor, source.config.get("pretrained_cfg") or {})
        if source.layout.family and not source.config and not source.preprocessor:
            resize = authors_resize(family.name, config["image"])
        normalization = given or family.normalization.over(config["channels"])
        card = replace(card, normalization=normalization, resize=resize)
    source.layout.check(card)
    return card


def _identify_dense(source: WeightSource, model: str | None) -> Card:
    """Identify a detector or a segmenter of another library by its tensors, and its config if there is one."""
    name = source.layout.family
    _refuse_another(model, name)
    shapes = {key: tuple(tensor.shape) for key, tensor in source.ours.items()}
    default = DENSE[name].config
    known = asdict(default)
    declared = source.layout.read_config(source.config) if source.config else {}
    resize = Resize()
    if name in DETECTORS:
        declared = {**declared, **read_shorter_side(source.preprocessor)}
    elif side := read_square(source.preprocessor):
        declared, resize = {**declared, "crop": side}, Resize("stretch", 1.0, "bilinear")
    fields = {**source.layout.sizes(shapes), **source.layout.implied, **declared}
    config = configured(name, default, {key: value for key, value in fields.items() if key in known})
    normalization = read_normalization(source.preprocessor, source.config.get("pretrained_cfg") or {})
    return Card(name, asdict(config), _labels(source.config), normalization or pixel_normalization(config), resize)


def _refuse_another(model: str | None, found: str) -> None:
    if model not in (None, found):
        raise UserError("the source holds another model", expected=repr(model), got=repr(found))


def _fits(name: str, config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """True if the tensors fit this config without resizing a position table."""
    with shapes_only():
        expected = REGISTRY.create(name, **config).state_dict()
    return all(shapes.get(key) == tuple(tensor.shape) for key, tensor in expected.items() if key.endswith(".table"))


def _closest(family: str, fields: Mapping[str, Any]) -> str:
    """Return the variant of the family that has the most fields in common."""
    if not family:
        raise UserError(
            "the tensors have patchword's names, but no card names the model", hint="load(source, model=...)"
        )
    return closest(family, fields)


NOT_STRUCTURE = ("image", "channels", "classes", "patch", "norm_eps", "head", "pool", "vocabulary", "max_length")


def _lacks_heads(name: str, fields: Mapping[str, Any]) -> bool:
    return "heads" in asdict(REGISTRY.find(name)[1].config) and "heads" not in fields


def _agrees(name: str, fields: Mapping[str, Any]) -> bool:
    """True if the variant has the inferred sizes, so that its other fields can be used."""
    config = asdict(REGISTRY.find(name)[1].config)
    return all(config[field] == value for field, value in fields.items() if field not in NOT_STRUCTURE)


def _labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    numbered = config.get("id2label")
    if isinstance(numbered, dict) and all(str(key).isdigit() for key in numbered):
        return tuple(str(numbered[key]) for key in sorted(numbered, key=int))
    return tuple(config.get("label_names") or ())
