"""Load the weights of an image classifier into the backbone of a detector or a segmenter."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.models import REGISTRY, backbone_of
from patchword.models.dense.backbones import DenseBackbone, prepare, stages_of
from patchword.models.registry import configured
from patchword.weights.io.building import HEAD, RESIZING
from patchword.weights.io.dense_families import DENSE
from patchword.weights.io.loading import open_weights

_TRAINING = ("dropout", "attention_dropout", "drop_path")  # fields that only matter in training


@dataclass(frozen=True)
class LoadedBackbone:
    """What `load_backbone` did.

    model: the classifier. loaded: names of the detector's tensors that have its values. left: tensors of the backbone
    that it does not have, such as the norms of the maps; they keep their values.
    """

    model: str
    loaded: tuple[str, ...]
    left: tuple[str, ...]

    def __str__(self) -> str:
        kept = f"; {len(self.left)} of the backbone that it does not have are kept" if self.left else ""
        return f"{len(self.loaded)} tensors of {self.model!r} loaded into the backbone{kept}"


def load_backbone(detector: Detector | Segmenter, source: str | Path, *, download: bool = False) -> LoadedBackbone:
    """Copy the weights of an image classifier into the backbone of a detector or a segmenter, and take its pixel
    normalization.

    source: anything that `load` reads. Its head and final norm are not used. It must be the model that the backbone is
        made of; the image size may differ, then position tables are resized.

    >>> detector = patchword.create("mask-rcnn", backbone="swin-tiny", classes=3)
    >>> print(load_backbone(detector, "runs/my-swin"))
    """
    if not hasattr(detector, "card"):
        raise UserError("a detector without a card", expected="one made by create or load")
    config = configured(detector.card.model, DENSE[detector.card.model].config, detector.card.config)
    if getattr(config, "deep_stem", False):
        raise UserError(
            "the stem of deep_stem=True is not that of an image classifier",
            expected="deep_stem=False",
            hint="load the weights of a whole segmenter, e.g. a file of mmseg, or train from scratch",
        )
    opened = open_weights(source, download=download)
    fields = asdict(REGISTRY.configure(config.backbone, config.backbone_fields))
    _refuse_another(opened.card, config.backbone, fields, opened.path)
    sizes = {field: fields[field] for field in RESIZING if field in fields}
    model = opened.build(classes=opened.card.config["classes"], **sizes)
    given = backbone_of(model, opened.card.model)
    prepare(given, config)
    backbone = cast(DenseBackbone, detector.backbone)
    stages = stages_of(backbone)
    stages.load_state_dict(given.state_dict())
    detector.card = replace(detector.card, normalization=model.card.normalization)
    start = "" if stages is backbone else "backbone."
    loaded = {start + name for name in given.state_dict()}
    parts = [name for name in backbone.state_dict() if name in loaded], set(backbone.state_dict()) - loaded
    return LoadedBackbone(opened.card.model, *(tuple(f"backbone.{name}" for name in sorted(part)) for part in parts))


def _refuse_another(card: Card, backbone: str, fields: dict[str, Any], path: Path) -> None:
    """Raise an error for the weights of another family, or of another size."""
    same_family = card.model not in DENSE and REGISTRY.find(card.model)[0] is REGISTRY.find(backbone)[0]
    free = (*RESIZING, *HEAD, *_TRAINING)
    other = [field for field in fields if field not in free and card.config.get(field) != fields[field]]
    if not same_family or other:
        wrong = [f"{field}: expected {fields[field]}, got {card.config[field]}" for field in other if same_family]
        raise UserError(
            f"{path} has other weights than those of the backbone",
            expected=f"{backbone!r}{' of the same sizes' if same_family else ''}",
            got=repr(card.model),
            hint="\n".join(wrong),
        )
