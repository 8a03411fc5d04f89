"""Build models, detectors and segmenters from weights that have been read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from patchword.core.card import Card, ConfigValue
from patchword.core.device import shapes_only
from patchword.core.errors import UserError
from patchword.core.tensor_files import Tensors
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.layers.model import Model, ModuleWithCard
from patchword.layers.quantize import MARK, quantise, without_ranges
from patchword.models import REGISTRY
from patchword.models.dense.config import DenseConfig
from patchword.models.detection import DETECTORS, create_detector
from patchword.models.field_aliases import field_hint
from patchword.models.registry import configured
from patchword.models.resize import fit_resolution
from patchword.models.segmentation import SEGMENTERS, create_segmenter
from patchword.weights.io.safety_checks import refuse_depth, refuse_nonfinite
from patchword.weights.io.tensor_checks import TASK, check_encoder, check_tensors
from patchword.weights.io.weight_source import WeightSource

RESIZING = ("image", "window", "stripes", "pales")  # fields that only change the size of position tables
HEAD = ("head", "classes", "pool")  # fields that change the head
SPARE = ("head.pool.linear.weight", "head.pool.linear.bias")  # BERT's pooler, which not all heads use
COUNTER = "num_batches_tracked"  # of a batch norm; missing in older files, and not used
Built = TypeVar("Built", bound=ModuleWithCard)


def build_model(source: WeightSource, card: Card, overrides: Mapping[str, ConfigValue], path: Path) -> Model:
    """Return the model of the card in float32 and evaluation mode. overrides: fields of its config to change."""
    wanted = _checked_fields(source, card, overrides, path)
    was = {field: card.config[field] for field in RESIZING if field in card.config}
    old, new = (meta_module(REGISTRY.create, card.model, config, path) for config in ({**wanted, **was}, wanted))
    fitted = _fit(source.ours, old, new)
    changed = any(wanted[field] != card.config[field] for field in HEAD if field in wanted)
    if changed or _lacks_head(fitted, new, classes_given="classes" in overrides):
        card = replace(card, labels=() if changed else card.labels)
        check_encoder(fitted, new, path, source.unknown, _advice(card, overrides))
        fitted = _new_head(fitted, card, wanted, source.layout.created)
    fitted = {name: tensor for name, tensor in fitted.items() if name not in SPARE or name in new.state_dict()}
    if any(name.endswith(MARK) for name in fitted):
        fitted = without_ranges(fitted) if changed else fitted  # a new head has no ranges yet
        new = new if changed else cast(Model, quantise(new))
    check_tensors(fitted, new, path, source.unknown, _advice(card, overrides))
    return _filled(new, fitted, card).requires_grad_(True)


def _advice(card: Card, overrides: Mapping[str, ConfigValue]) -> str:
    """Name the fields that make another model than the weights are of; empty if there are none."""
    given = {
        field: value
        for field, value in overrides.items()
        if field not in (*RESIZING, *HEAD) and value != card.config[field]
    }
    if not given:
        return ""
    asked = " ".join(f"{field}={value}" for field, value in given.items())
    have = ", ".join(f"{field} {card.config[field]}" for field in given)
    return f"the weights have {have}: leave out {asked}, or take {card.model!r} with {asked} for random weights"


def build_detector(source: WeightSource, card: Card, overrides: Mapping[str, ConfigValue], path: Path) -> Detector:
    """Return the detector of the card in float32 and evaluation mode. overrides: fields of its config to change.

    Frozen stages of the backbone stay frozen. With another number of classes, the layers whose shape depends on it are
    newly initialized.
    """
    return _build_dense(create_detector, DETECTORS[card.model].config, source, card, overrides, path)


def build_segmenter(source: WeightSource, card: Card, overrides: Mapping[str, ConfigValue], path: Path) -> Segmenter:
    """Return the segmenter of the card in float32 and evaluation mode, as `build_detector` does with a detector."""
    return _build_dense(create_segmenter, SEGMENTERS[card.model].config, source, card, overrides, path)


def _build_dense(
    create: Callable[..., Built],
    config: DenseConfig,
    source: WeightSource,
    card: Card,
    overrides: Mapping[str, ConfigValue],
    path: Path,
) -> Built:
    """Return the detector or the segmenter. config: the default sizes, for fields that an older card does not have."""
    card = replace(card, config=asdict(configured(card.model, config, card.config)))
    wanted = _checked_fields(source, card, overrides, path)
    refuse_depth(wanted["backbone_fields"], len(source.ours), path)
    same_classes = {**wanted, "classes": card.config["classes"]}
    same_image = {**same_classes, "backbone_fields": card.config["backbone_fields"]}
    saved, new = (meta_module(create, card.model, fields, path) for fields in (same_image, same_classes))
    fitted = _fit(source.ours, saved, new)
    check_tensors(fitted, new, path, source.unknown)
    if wanted["classes"] != card.config["classes"]:
        card = replace(card, labels=())
        new = create(card.model, **wanted)
        fitted = {
            name: fitted[name] if fitted[name].shape == fresh.shape else fresh
            for name, fresh in new.state_dict().items()
        }
    return _filled(new, fitted, card)


def meta_module(create: Callable[..., Built], name: str, config: Mapping[str, Any], path: Path) -> Built:
    """Create a model, a detector or a segmenter on the meta device; impossible sizes are an error of the config."""
    try:
        with shapes_only():
            return create(name, **config)
    except UserError:
        raise
    except (RuntimeError, OverflowError, MemoryError, TypeError, ValueError, ZeroDivisionError) as error:
        what = f"the config of {path} is not possible for model {name!r}"
        raise UserError(what, got=str(error).partition("\n")[0][:200]) from None


def _checked_fields(
    source: WeightSource, card: Card, overrides: Mapping[str, ConfigValue], path: Path
) -> dict[str, Any]:
    """Return the config with the overrides, after checks of both and of the values of the tensors."""
    for field in overrides:
        if field not in card.config:
            raise UserError(f"model {card.model!r} has no field {field!r}", hint=field_hint(field, card.config))
    wanted = {**card.config, **overrides}
    refuse_depth(wanted, len(source.ours), path)
    refuse_nonfinite(source.ours, path)
    return wanted


def _fit(tensors: Tensors, old: ModuleWithCard, new: ModuleWithCard) -> Tensors:
    """Return the tensors with resized position tables and with the counters of batch norms."""
    fitted = fit_resolution(tensors, old, new)
    return fitted | {
        name: torch.tensor(0) for name in new.state_dict() if name.endswith(COUNTER) and name not in fitted
    }


def _filled(new: Built, tensors: Tensors, card: Card) -> Built:
    """Return the model with these tensors, and with the labels and the preprocessing of the card."""
    new.load_state_dict({name: _float(tensor) for name, tensor in tensors.items()}, assign=True)
    new.card = replace(new.card, labels=card.labels, normalization=card.normalization, resize=card.resize)
    return new.eval()


def _lacks_head(tensors: Tensors, model: Model, classes_given: bool) -> bool:
    """True if the source has no head and the caller gave the number of classes."""
    if any(name.startswith("head.") for name in tensors) or not any(True for _ in model.head.parameters()):
        return False
    if not classes_given:
        hint = "set the number of classes to get a new head: load(source, classes=10)"
        raise UserError("the source has no head", expected="tensors of a classifier", got="only an encoder", hint=hint)
    return True


def _new_head(tensors: Tensors, card: Card, wanted: Mapping[str, Any], created: Sequence[str]) -> Tensors:
    """Keep the encoder and the parts of the head that the new one shares; initialise the rest, and `created`."""
    fresh = REGISTRY.create(card.model, **wanted).state_dict()
    encoder = {name: fresh[name] for name in created if name not in tensors}
    encoder |= {name: tensor for name, tensor in tensors.items() if not name.startswith(TASK)}
    same_task = wanted.get("head") == card.config.get("head")
    for name in (name for name in fresh if name.startswith(TASK)):
        kept = tensors.get(name) if same_task or not name.startswith("head.linear.") else None
        encoder[name] = fresh[name] if kept is None or kept.shape != fresh[name].shape else kept
    return encoder


def _float(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor
