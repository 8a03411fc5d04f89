"""load: from a run, a saved folder, another library's folder or one file, to a model."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from patchword.core.card import Card, Normalization
from patchword.core.errors import UserError, nearest
from patchword.core.tensor_files import Tensors
from patchword.layers.model import Model
from patchword.layers.quantize import MARK, quantise, without_ranges
from patchword.models import REGISTRY
from patchword.models.older_fields import rename_older_fields
from patchword.models.resize import fit_resolution
from patchword.weights.io.safety_checks import refuse_depth, refuse_nonfinite
from patchword.weights.io.tensor_checks import TASK, check_encoder, check_tensors
from patchword.weights.io.weight_source import WeightSource, read_file, read_folder

RESIZING = ("image", "window", "stripes", "pales")  # fields that change the size of position tables and nothing else
HEAD = ("head", "classes", "pool")  # fields with another value of which the model gets another head
SPARE = ("head.pool.linear.weight", "head.pool.linear.bias")  # BERT's pooler, which not all heads read
COUNTER = "num_batches_tracked"  # of a batch norm; older files lack it, and nothing depends on it


def load(source: str | Path, model: str | None = None, **overrides: Any) -> Model:
    """A model with the weights of `source`, in float32, ready to evaluate.

    source: a run's folder, a folder written by `save`, a Hugging Face style folder, or one .safetensors file whose
        tensors may carry our names, Hugging Face's, timm's or the authors'; or one .npz file of the authors of ViT or
        Mixer; or one .hdf5 file of the authors of ELMo with its options.json beside it, or the folder of both.
    model: the registry name to build; needed only where the source cannot tell it. A file without a config does not
        tell the number of heads: it is taken from the model of the same width, depth and hidden width, if there is one.
    overrides: config fields to change, e.g. image=384; position tables are resized to fit. With classes=... or head=...
        the model gets a new head, which starts afresh; if the source has that very head, it is kept.
    """
    path = Path(source)
    if not path.exists():
        raise UserError(f"there is nothing at {path}", expected="a run, a model folder, a .safetensors or an .npz file")
    found = read_folder(path) if path.is_dir() else read_file(path)
    card = _identify(found, model, overrides)
    return _build(found, card, overrides, path)


def _identify(source: WeightSource, model: str | None, overrides: Mapping[str, Any]) -> Card:
    """The model these tensors came from: by its card, by the other library's config, or by the shapes."""
    if source.told.get("library") == "patchword":
        card = card_from_dict(source.told)
        return replace(card, model=model) if model else card
    shapes = {name: tuple(tensor.shape) for name, tensor in source.ours.items()}
    said = source.layout.read_config(source.told) if source.told else {}
    fields = {**source.layout.sizes(shapes), **source.layout.told, **said}
    name = model or _closest(source.layout.family, {**overrides, **fields})
    if model is None and _lacks_heads(name, {**fields, **overrides}) and not _agrees(name, fields):
        raise UserError(
            "the tensors do not tell the number of heads",
            got=", ".join(f"{field} {value}" for field, value in fields.items() if field not in NOT_STRUCTURE),
            hint=f'tell it: load(source, heads=...), or name the model: load(source, model="{name}")',
        )
    family, variant = REGISTRY.find(name)
    known = asdict(variant.config)
    config = known | {field: value for field, value in fields.items() if field in known}
    if "image" in overrides and "image" not in said and _fits(name, {**config, **overrides}, shapes):
        config["image"] = overrides["image"]  # shapes tell how many patches there were, not how they lay
    card = Card(name, config, _labels(source.told))
    if family.normalization:
        card = replace(card, normalization=_normalization(source) or family.normalization.over(config["channels"]))
    return card


def _fits(name: str, config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """These tensors are a model of this very config, with no table to resize."""
    with torch.device("meta"):
        expected = REGISTRY.create(name, **config).state_dict()
    return all(shapes.get(key) == tuple(tensor.shape) for key, tensor in expected.items() if key.endswith(".table"))


def _closest(family: str, fields: Mapping[str, Any]) -> str:
    """The named variant that shares the most sizes."""
    if not family:
        raise UserError("these tensors have our names, but no card says of which model", hint="load(source, model=...)")

    def shared(name: str) -> int:
        config = asdict(REGISTRY.find(name)[1].config)
        return sum(config.get(field) == value for field, value in fields.items())

    return max((name for name in REGISTRY.names() if REGISTRY.find(name)[0].name == family), key=shared)


NOT_STRUCTURE = ("image", "channels", "classes", "patch", "norm_eps", "head", "pool", "vocabulary", "max_length")


def _lacks_heads(name: str, fields: Mapping[str, Any]) -> bool:
    return "heads" in asdict(REGISTRY.find(name)[1].config) and "heads" not in fields


def _agrees(name: str, fields: Mapping[str, Any]) -> bool:
    """The variant has the sizes that were found, so that it can be asked for those that were not."""
    config = asdict(REGISTRY.find(name)[1].config)
    return all(config[field] == value for field, value in fields.items() if field not in NOT_STRUCTURE)


def _labels(told: Mapping[str, Any]) -> tuple[str, ...]:
    numbered = told.get("id2label")
    if isinstance(numbered, dict) and all(str(key).isdigit() for key in numbered):
        return tuple(str(numbered[key]) for key in sorted(numbered, key=int))
    return tuple(told.get("label_names") or ())


def _normalization(source: WeightSource) -> Normalization | None:
    other = source.told.get("pretrained_cfg") or {}
    mean = source.preprocessor.get("image_mean") or other.get("mean")
    std = source.preprocessor.get("image_std") or other.get("std")
    return Normalization(tuple(mean), tuple(std)) if mean and std else None


def _build(source: WeightSource, card: Card, overrides: Mapping[str, Any], path: Path) -> Model:
    for field in overrides:
        if field not in card.config:
            raise UserError(f"model {card.model!r} has no field {field!r}", hint=nearest(field, card.config))
    wanted = {**card.config, **overrides}
    refuse_depth(wanted, len(source.ours), path)
    refuse_nonfinite(source.ours, path)
    was = {field: card.config[field] for field in RESIZING if field in card.config}
    old, new = (_meta_model(card.model, config, path) for config in ({**wanted, **was}, wanted))
    fitted = fit_resolution(source.ours, old, new)
    fitted |= {name: torch.tensor(0) for name in new.state_dict() if name.endswith(COUNTER) and name not in fitted}
    changed = any(wanted[field] != card.config[field] for field in HEAD if field in wanted)
    if changed or _lacks_head(fitted, new, told="classes" in overrides):
        card = replace(card, labels=() if changed else card.labels)
        check_encoder(fitted, new, path, source.unknown)
        fitted = _new_head(fitted, card, wanted)
    fitted = {name: tensor for name, tensor in fitted.items() if name not in SPARE or name in new.state_dict()}
    if any(name.endswith(MARK) for name in fitted):
        fitted = without_ranges(fitted) if changed else fitted  # another head has no ranges yet
        new = new if changed else cast(Model, quantise(new))
    check_tensors(fitted, new, path, source.unknown)
    new.load_state_dict({name: _float(tensor) for name, tensor in fitted.items()}, assign=True)
    new.card = replace(new.card, labels=card.labels, normalization=card.normalization)
    return new.requires_grad_(True).eval()


def _meta_model(name: str, config: Mapping[str, Any], path: Path) -> Model:
    """A model without memory; sizes that cannot be are an error of the config's."""
    try:
        with torch.device("meta"):
            return REGISTRY.create(name, **config)
    except UserError:
        raise
    except (RuntimeError, OverflowError, MemoryError, TypeError, ValueError, ZeroDivisionError) as error:
        what = f"no model {name!r} has the sizes that {path} tells"
        raise UserError(what, got=str(error).partition("\n")[0][:200]) from None


def _lacks_head(tensors: Tensors, model: Model, told: bool) -> bool:
    """The source has an encoder alone, and it was told how many classes the model should have."""
    if any(name.startswith("head.") for name in tensors) or not any(True for _ in model.head.parameters()):
        return False
    if not told:
        hint = "tell the number of classes, and the model gets a new head: load(source, classes=10)"
        raise UserError("the source has no head", expected="tensors of a classifier", got="an encoder alone", hint=hint)
    return True


def _new_head(tensors: Tensors, card: Card, wanted: Mapping[str, Any]) -> Tensors:
    """The encoder, and of the head what serves the new one as well; the rest of it starts afresh."""
    fresh = REGISTRY.create(card.model, **wanted).state_dict()
    encoder = {name: tensor for name, tensor in tensors.items() if not name.startswith(TASK)}
    same_task = wanted.get("head") == card.config.get("head")
    for name in (name for name in fresh if name.startswith(TASK)):
        kept = tensors.get(name) if same_task or not name.startswith("head.linear.") else None
        encoder[name] = fresh[name] if kept is None or kept.shape != fresh[name].shape else kept
    return encoder


def _float(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def card_from_dict(told: Mapping[str, Any]) -> Card:
    """The card that `describe` wrote; what is not one is refused."""
    try:
        fields = rename_older_fields(told["config"])
        config = {field: tuple(value) if isinstance(value, list) else value for field, value in fields.items()}
        normalization = told.get("normalization", told.get("preparation"))  # the older name
        means, spreads = (tuple(float(value) for value in normalization[key]) for key in ("mean", "std"))
        labels = tuple(str(label) for label in told["labels"])
        return Card(str(told["model"]), config, labels, Normalization(means, spreads))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            "config.json is not a patchword card",
            expected="model, config, labels, normalization",
            got=f"{type(error).__name__}: {error}",
        ) from None
