"""Backbones of Mask R-CNN on generated scenes, from scratch and pretrained, with the same budget."""

from collections.abc import Mapping, Sequence
from typing import Any

from patchword.recipes.detection.recipe import DetectionRecipe, ObjectAugment
from patchword.recipes.image.recipe import Augment, ImageRecipe
from patchword.recipes.schema.recipe import ModelChoice
from patchword.studies.spread import Spread
from patchword.studies.study import Result, ShownMeasure, Study, by_run

# The run -> its model and the changed sizes. All have 2.5 to 3.4 million parameters and 163 to 195 million MACs at
# 128 x 128 pixels; windows, stripes and pales divide the maps of 32, 16, 8 and 4 cells.
BACKBONES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "resnet": ("resnet-18", {"width": 32, "depths": [2, 2, 3, 2]}),
    "swin": ("swin-tiny", {"width": 32, "depths": [2, 2, 6, 2], "heads": [1, 2, 4, 8], "window": 4}),
    "pvt": ("pvt-tiny", {"widths": [32, 64, 128, 256], "depths": [2, 2, 4, 2], "heads": [1, 2, 4, 8]}),
    "cswin": ("cswin-tiny", {"width": 32, "depths": [1, 2, 6, 2], "heads": [2, 4, 8, 16], "stripes": [1, 2, 4, 4]}),
    "pale": ("pale-tiny", {"width": 32, "depths": [2, 2, 4, 2], "heads": [2, 4, 8, 16], "pales": [4, 4, 4, 4]}),
    "cvt": ("cvt-13", {"widths": [32, 64, 192], "depths": [1, 2, 5], "heads": [1, 2, 6]}),
}
SIDE = 128  # pixels of a scene
INPUT: Mapping[str, Any] = {"image": SIDE, "channels": 1}

# The budget of every detector.
BUDGET: Mapping[str, Any] = {
    "epochs": 2,
    "max_images": 4000,
    "passes": 3,
    "batch_size": 32,
    "learning_rate": 5e-4,
    "weight_decay": 0.05,
    "warmup": 0.1,
}
# Sizes of every Mask R-CNN besides its backbone. A scene has 2 to 6 objects, so that few boxes suffice.
DETECTOR: Mapping[str, Any] = {
    "frozen": 0,
    "batch_norms": "train",
    "width": 96,
    "hidden": 256,
    "samples": 2,
    "min_size": SIDE,
    "max_size": SIDE,
    "max_proposals": 200,
    "max_training_proposals": 200,
    "roi_samples": 64,
}
PRETRAINED = "{pretrained}"  # given on the command line
BOX_AP, MASK_AP = ShownMeasure("box_ap", "box AP"), ShownMeasure("mask_ap", "mask AP")
MEASURES = (BOX_AP, MASK_AP)


def scene_backbones_pretrain() -> Study:
    """Six small backbones as classifiers of single garments, to start the detectors of scene-backbones from."""
    return Study(
        "ResNet, Swin, PVT, CSWin, Pale and CvT of about the same cost classify Fashion-MNIST at 128 x 128 pixels.",
        "2 minutes on one H200, 6 runs at a time",
        {label: _classifier(label) for label in BACKBONES},
    )


def scene_backbones() -> Study:
    """Mask R-CNN with six backbones on Fashion-MNIST scenes, from scratch and pretrained (pretrained=FOLDER)."""
    runs = {}
    for label in BACKBONES:
        runs[f"{label}-scratch"] = _detector(label, "")
        runs[f"{label}-pretrained"] = _detector(label, f"{PRETRAINED}/{label}")
    return Study(
        "Mask R-CNN with ResNet, Swin, PVT, CSWin, Pale and CvT of about the same cost on Fashion-MNIST scenes: "
        "backbones from scratch, or pretrained on single garments.",
        "2 to 3 minutes per run on one H200, 10 runs at a time",
        runs,
        conclusion=in_words,
        asks={"pretrained": "the folder of a scene-backbones-pretrain study, e.g. runs/scene-backbones-pretrain"},
        shown=MEASURES,
        against="pretrained",
        baseline="scratch",
        costs=True,
    )


def _classifier(label: str) -> ImageRecipe:
    name, sizes = BACKBONES[label]
    return ImageRecipe(
        about="A small backbone as a classifier of single garments.",
        model=ModelChoice.model_validate({"name": name, **INPUT, **sizes}),
        data="fashion-mnist",
        validation=0.05,
        augmentation=Augment(flip=0.5, shift=8),
        epochs=5,
        batch_size=256,
        learning_rate=1e-3,
        weight_decay=0.05,
    )


def _detector(label: str, weights: str) -> DetectionRecipe:
    name, sizes = BACKBONES[label]
    chosen = {"name": "mask-rcnn", "backbone": name, "backbone_fields": {**INPUT, **sizes}, **DETECTOR}
    fields = {"about": "Mask R-CNN with one of the backbones.", "data": "fashion-mnist-scenes", "model": chosen}
    return DetectionRecipe.model_validate(
        {**fields, **BUDGET, "backbone_weights": weights, "augmentation": ObjectAugment(flip=0.5)}
    )


def in_words(results: Sequence[Result]) -> str:
    """Return how pretraining changes the APs of each backbone, and which backbones are best in each arm."""
    # detectors without masks have the AP of boxes only
    measures = [one for one in MEASURES if all(one.field in result.measures for result in results)]
    groups, lines = by_run(results), []
    for label in BACKBONES:
        scratch, pretrained = groups.get(f"{label}-scratch"), groups.get(f"{label}-pretrained")
        if scratch and pretrained:
            changes = ", ".join(_change(scratch, pretrained, measure) for measure in measures)
            lines.append(f"{label}: pretraining changes {changes}.")
    for arm in ("scratch", "pretrained"):
        found = {label: runs for label in BACKBONES if (runs := groups.get(f"{label}-{arm}"))}
        if len(found) > 1:
            lines.append(f"{arm}: " + ", ".join(_best(found, measure) for measure in measures) + ".")
    return "\n".join(lines)


def _change(before: Sequence[Result], after: Sequence[Result], measure: ShownMeasure) -> str:
    first, last = _mean(before, measure), _mean(after, measure)
    return f"{measure.title} by {last - first:+.2f} points (from {first:.2f} to {last:.2f})"


def _best(found: Mapping[str, Sequence[Result]], measure: ShownMeasure) -> str:
    """Return the backbone with the highest mean."""
    means = {label: _mean(runs, measure) for label, runs in found.items()}
    best = max(means, key=means.__getitem__)
    return f"{best} has the highest {measure.title} ({means[best]:.2f})"


def _mean(results: Sequence[Result], measure: ShownMeasure) -> float:
    """Return the mean in percent."""
    return 100 * Spread.of([result.measures[measure.field] for result in results]).mean
