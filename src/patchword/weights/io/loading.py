"""Load a model from a run, a saved folder, another library's folder or one file."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from patchword.core.card import Card, ConfigValue, Normalization, Resize
from patchword.core.errors import AmbiguityWarning, UserError, nearest
from patchword.core.tensor_files import Tensors
from patchword.layers.model import Model
from patchword.layers.quantize import MARK, quantise, without_ranges
from patchword.models import REGISTRY
from patchword.models.older_fields import rename_older_fields
from patchword.models.resize import fit_resolution
from patchword.weights.hub.cache import local_path
from patchword.weights.hub.download import fetch
from patchword.weights.hub.name import HubName, is_hub_name
from patchword.weights.io.preprocessing import authors_resize, read_normalization, read_resize
from patchword.weights.io.safety_checks import refuse_depth, refuse_nonfinite
from patchword.weights.io.tensor_checks import TASK, check_encoder, check_tensors
from patchword.weights.io.weight_source import WeightSource, read_file, read_folder

RESIZING = ("image", "window", "stripes", "pales")  # fields that only change the size of position tables
HEAD = ("head", "classes", "pool")  # fields that change the head
SPARE = ("head.pool.linear.weight", "head.pool.linear.bias")  # BERT's pooler, which not all heads use
COUNTER = "num_batches_tracked"  # of a batch norm; missing in older files, and not used


def load(source: str | Path, model: str | None = None, *, download: bool = False, **overrides: ConfigValue) -> Model:
    """Load a model in float32 and evaluation mode.

    source: a run folder, a folder written by `save`, a Hugging Face folder, or one .safetensors file with our tensor
        names, Hugging Face's, timm's or the authors'; or one .npz file of the authors of ViT or Mixer; or one .hdf5
        file of the authors of ELMo with its options.json in the same folder, or that folder; or the name of a model on
        the hub, hf:OWNER/REPO or hf:OWNER/REPO@REVISION, which is read from the cache of huggingface_hub.
    model: the registry name; needed only if it cannot be inferred from the source. A file without a config does not
        contain the number of heads: it is taken from the model of the same width, depth and hidden width, if any.
    overrides: config fields to change, e.g. image=384; position tables are resized. With classes=... or head=... the
        model gets a newly initialised head, unless the source already has this head.
    download: fetch a model of the hub that is not in the cache; without it nothing is requested from the network.
    """
    return open_weights(source, model, download=download, **overrides).build(**overrides)


def open_weights(
    source: str | Path, model: str | None = None, *, download: bool = False, **overrides: ConfigValue
) -> "OpenWeights":
    """Read the weights of a source and identify their model, with the arguments of `load`."""
    path = fetch(HubName.parse(str(source))) if download and is_hub_name(source) else local_path(source)
    if not path.exists():
        raise UserError(f"there is nothing at {path}", expected="a run, a model folder, a .safetensors or an .npz file")
    found = read_folder(path) if path.is_dir() else read_file(path)
    card = _identify(found, model, overrides)
    for field, note in found.layout.unstated(found.config).items():
        if field not in overrides:
            warnings.warn(note, AmbiguityWarning, stacklevel=3)
    return OpenWeights(found, card, Path(source))


@dataclass(frozen=True)
class OpenWeights:
    """Weights that have been read. card: their model, as it was trained. path: as it was given, for messages."""

    source: WeightSource
    card: Card
    path: Path

    def build(self, **overrides: ConfigValue) -> Model:
        """Return the model in float32 and evaluation mode; `load` describes the overrides."""
        return _build(self.source, self.card, overrides, self.path)


def _identify(source: WeightSource, model: str | None, overrides: Mapping[str, ConfigValue]) -> Card:
    """Identify the model of the tensors: by its card, by the other library's config, or by the shapes."""
    if source.config.get("library") == "patchword":
        card = card_from_dict(source.config)
        return replace(card, model=model) if model else card
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
    return card


def _fits(name: str, config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """True if the tensors fit this config without resizing a position table."""
    with torch.device("meta"):
        expected = REGISTRY.create(name, **config).state_dict()
    return all(shapes.get(key) == tuple(tensor.shape) for key, tensor in expected.items() if key.endswith(".table"))


def _closest(family: str, fields: Mapping[str, Any]) -> str:
    """Return the variant of the family that has the most fields in common."""
    if not family:
        raise UserError(
            "the tensors have patchword's names, but no card names the model", hint="load(source, model=...)"
        )

    def shared(name: str) -> int:
        config = asdict(REGISTRY.find(name)[1].config)
        return sum(config.get(field) == value for field, value in fields.items())

    return max((name for name in REGISTRY.names() if REGISTRY.find(name)[0].name == family), key=shared)


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


def _build(source: WeightSource, card: Card, overrides: Mapping[str, ConfigValue], path: Path) -> Model:
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
    if changed or _lacks_head(fitted, new, classes_given="classes" in overrides):
        card = replace(card, labels=() if changed else card.labels)
        check_encoder(fitted, new, path, source.unknown)
        fitted = _new_head(fitted, card, wanted)
    fitted = {name: tensor for name, tensor in fitted.items() if name not in SPARE or name in new.state_dict()}
    if any(name.endswith(MARK) for name in fitted):
        fitted = without_ranges(fitted) if changed else fitted  # a new head has no ranges yet
        new = new if changed else cast(Model, quantise(new))
    check_tensors(fitted, new, path, source.unknown)
    new.load_state_dict({name: _float(tensor) for name, tensor in fitted.items()}, assign=True)
    new.card = replace(new.card, labels=card.labels, normalization=card.normalization, resize=card.resize)
    return new.requires_grad_(True).eval()


def _meta_model(name: str, config: Mapping[str, Any], path: Path) -> Model:
    """Create a model on the meta device; impossible sizes are an error of the config."""
    try:
        with torch.device("meta"):
            return REGISTRY.create(name, **config)
    except UserError:
        raise
    except (RuntimeError, OverflowError, MemoryError, TypeError, ValueError, ZeroDivisionError) as error:
        what = f"the config of {path} is not possible for model {name!r}"
        raise UserError(what, got=str(error).partition("\n")[0][:200]) from None


def _lacks_head(tensors: Tensors, model: Model, classes_given: bool) -> bool:
    """True if the source has no head and the caller gave the number of classes."""
    if any(name.startswith("head.") for name in tensors) or not any(True for _ in model.head.parameters()):
        return False
    if not classes_given:
        hint = "set the number of classes to get a new head: load(source, classes=10)"
        raise UserError("the source has no head", expected="tensors of a classifier", got="only an encoder", hint=hint)
    return True


def _new_head(tensors: Tensors, card: Card, wanted: Mapping[str, Any]) -> Tensors:
    """Keep the encoder and the parts of the head that the new one shares; initialise the rest."""
    fresh = REGISTRY.create(card.model, **wanted).state_dict()
    encoder = {name: tensor for name, tensor in tensors.items() if not name.startswith(TASK)}
    same_task = wanted.get("head") == card.config.get("head")
    for name in (name for name in fresh if name.startswith(TASK)):
        kept = tensors.get(name) if same_task or not name.startswith("head.linear.") else None
        encoder[name] = fresh[name] if kept is None or kept.shape != fresh[name].shape else kept
    return encoder


def _float(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def card_from_dict(described: Mapping[str, Any]) -> Card:
    """Parse a card written by `describe`; raise an error if it is not one."""
    try:
        fields = rename_older_fields(described["config"])
        config = {field: tuple(value) if isinstance(value, list) else value for field, value in fields.items()}
        normalization = described.get("normalization", described.get("preparation"))  # the older name
        means, spreads = (tuple(float(value) for value in normalization[key]) for key in ("mean", "std"))
        labels = tuple(str(label) for label in described["labels"])
        resize = Resize(**described.get("resize", {}))  # older cards have none
        return Card(str(described["model"]), config, labels, Normalization(means, spreads), resize)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            "config.json is not a patchword card",
            expected="model, config, labels, normalization",
            got=f"{type(error).__name__}: {error}",
        ) from None
