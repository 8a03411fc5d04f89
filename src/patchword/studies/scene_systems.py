"""All detectors and segmenters on generated scenes, with the same backbone and the same budget."""

from collections.abc import Mapping, Sequence
from typing import Any

from patchword.recipes.detection.recipe import DetectionRecipe, ObjectAugment
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.segmentation.recipe import LabelAugment, SegmentationRecipe
from patchword.studies.detection import BACKBONES, BOX_AP, BUDGET, DETECTOR, INPUT, MASK_AP, SIDE
from patchword.studies.spread import Spread
from patchword.studies.study import Result, ShownMeasure, Study, by_run

WIDTH = DETECTOR["width"]  # of the neck of each system
_ANY = {name: DETECTOR[name] for name in ("frozen", "batch_norms", "width")}
_IMAGES = {name: DETECTOR[name] for name in ("min_size", "max_size")}
# Widths of attention and feed-forward keep their published ratio to the width of the tokens; heads have 32 channels.
_QUERIES: Mapping[str, Any] = {"heads": WIDTH // 32, "hidden": 8 * WIDTH}

# The detector -> its sizes. A scene has 2 to 6 objects, so that few boxes and queries suffice.
DETECTORS: Mapping[str, Mapping[str, Any]] = {
    "faster-rcnn": DETECTOR,
    "mask-rcnn": DETECTOR,
    "cascade-mask-rcnn": DETECTOR,
    "retinanet": {**_ANY, **_IMAGES},
    "atss": {**_ANY, **_IMAGES},
    "reppoints-v2": {**_ANY, **_IMAGES},
    "sparse-rcnn": {**_ANY, **_IMAGES, **_QUERIES, "inner": WIDTH // 4, "proposals": 50},
    # It learns slowly, so that it has half of its published layers.
    "detr": {
        **{**_ANY, **_IMAGES, **_QUERIES},
        **{"encoder_depth": 3, "decoder_depth": 3, "queries": 30, "max_detections": 30},
        **dict.fromkeys(("dropout", "attention_dropout", "hidden_dropout"), 0.0),
    },
}
# Settings of systems that learn badly with those of BUDGET.
TRAINING: Mapping[str, Mapping[str, Any]] = {"detr": {"learning_rate": 2e-4, "clip_norm": 0.1}}
SEGMENTERS: Mapping[str, Mapping[str, Any]] = {
    "upernet": {**_ANY, "auxiliary": WIDTH // 2},
    "semantic-fpn": {**_ANY, "hidden": WIDTH // 2},
}
MEASURES = (BOX_AP, MASK_AP, ShownMeasure("mean_iou", "mIoU"), ShownMeasure("pixel_accuracy", "pixel accuracy"))


def scene_systems() -> Study:
    """All detectors and segmenters with the same small ResNet on Fashion-MNIST scenes: AP, mIoU, cost."""
    return Study(
        "All detectors and segmenters with the same small ResNet from scratch on the same Fashion-MNIST scenes; "
        f"MACs at {SIDE} x {SIDE} pixels with the most boxes that each head can read.",
        "about 2 to 4 minutes per run on one H200, 10 runs at a time",
        {name: _detector(name) for name in DETECTORS} | {name: _segmenter(name) for name in SEGMENTERS},
        conclusion=in_words,
        shown=MEASURES,
        costs=True,
    )


def _detector(name: str) -> Recipe:
    fields = _fields(name, "One of the detectors on scenes.", DETECTORS[name])
    return DetectionRecipe.model_validate({**fields, "augmentation": ObjectAugment(flip=0.5)})


def _segmenter(name: str) -> Recipe:
    """Return the recipe of a segmenter. As for the detectors, a flip is the only augmentation."""
    augmentation = LabelAugment(flip=0.5, smallest_scale=1.0, largest_scale=1.0, most_of_one_class=1.0)
    fields = _fields(name, "One of the segmenters on scenes.", SEGMENTERS[name])
    return SegmentationRecipe.model_validate({**fields, "crop": SIDE, "augmentation": augmentation})


def _fields(name: str, about: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that recipes of detectors and segmenters share."""
    backbone, inner = BACKBONES["resnet"]
    model = {"name": name, "backbone": backbone, "backbone_fields": {**INPUT, **inner}, **sizes}
    return {"about": about, "data": "fashion-mnist-scenes", "model": model, **BUDGET, **TRAINING.get(name, {})}


def in_words(results: Sequence[Result]) -> str:
    """Return, per measure, the system with the highest mean, and its difference from the next one."""
    groups = by_run(results)
    lines = []
    for measure in MEASURES:
        found = {
            name: Spread.of([100 * result.measures[measure.field] for result in runs])
            for name, runs in groups.items()
            if all(measure.field in result.measures for result in runs)
        }
        if len(found) > 1:
            lines.append(_best(measure, found))
    return "\n".join(lines)


def _best(measure: ShownMeasure, found: Mapping[str, Spread]) -> str:
    first, second = sorted(found, key=lambda name: found[name].mean, reverse=True)[:2]
    best, next_best = found[first], found[second]
    text = f"{measure.title}: {first} is best with {best.mean:.2f}, "
    text += f"{best.mean - next_best.mean:.2f} points above {second}"
    if best.deviation is None or next_best.deviation is None:
        return f"{text}."
    deviation = max(best.deviation, next_best.deviation)
    relation = "more" if best.mean - next_best.mean > deviation else "not more"
    return f"{text}, which is {relation} than the larger standard deviation of the two ({deviation:.2f})."
