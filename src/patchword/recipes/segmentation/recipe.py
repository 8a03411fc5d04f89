"""The recipe of semantic segmentation."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, Field, PositiveFloat

from patchword.core.errors import UserError
from patchword.data.detection.sources import SCENES
from patchword.data.segmentation.transforms.label_transforms import (
    LabelChain,
    LabelJitter,
    LabelTransform,
    RandomLabelCrop,
    RandomLabelFlip,
    RandomScale,
)
from patchword.recipes.schema.fields import whole_path
from patchword.recipes.schema.recipe import BACKBONE_LR_RATIO, KIND, STRICT, Chosen, ModelChoice, Recipe

YOUR_MAPS = "label-maps"  # the default folder of recipes for the user's own data
MODEL = (
    "a segmenter (`patchword models`) or the folder of a trained one; model.backbone=NAME is any image model, "
    "model.FIELD=VALUE changes another field"
)


def _as_list(value: Any) -> Any:
    """Parse a list that was typed on the command line; one value is a list of one."""
    if isinstance(value, str):
        try:
            value = yaml.safe_load(value)
        except yaml.YAMLError:
            return value
    return value if isinstance(value, (list, tuple)) else [value]


Listed = BeforeValidator(_as_list)


class LabelAugment(BaseModel):
    """Augmentation of training images with their label maps."""

    model_config = STRICT
    flip: float = Field(0.5, ge=0, le=1, description="probability of a horizontal flip")
    smallest_scale: float = Field(0.5, gt=0, le=1, description="smallest factor of the random resize")
    largest_scale: float = Field(2.0, ge=1, le=8, description="largest factor of the random resize")
    most_of_one_class: float = Field(
        0.75, gt=0, le=1, description="a crop is drawn again while one class has this share of its pixels; 1 is off"
    )
    color_jitter: float = Field(
        0.0, ge=0, le=1, description="maximum relative change of brightness, contrast and saturation"
    )

    def made(self, crop: int, min_size: int, max_size: int) -> LabelTransform:
        """Return the transform. crop, min_size, max_size: those of the recipe."""
        parts: list[LabelTransform] = [
            RandomScale(self.smallest_scale, self.largest_scale, min_size, max_size),
            RandomLabelCrop(crop, self.most_of_one_class),
            RandomLabelFlip(self.flip),
        ]
        return LabelChain(tuple([*parts, LabelJitter(self.color_jitter)] if self.color_jitter else parts))


class SegmentationRecipe(Recipe):
    """Trains a model that classifies every pixel."""

    kind: Literal["segmentation"] = Field("segmentation", description=KIND)
    model: Chosen = Field(ModelChoice(name="upernet"), description=MODEL)
    data: str = Field(
        YOUR_MAPS,
        min_length=1,
        description=f"a folder of images and label maps (folders, CamVid, ADE20K, VOC), or {' or '.join(SCENES)}",
    )
    format: Literal["", "folders", "camvid", "ade20k", "voc", "yaml"] = Field(
        "", description="layout of the folder; empty: recognised by the files"
    )
    ignored: Annotated[tuple[int | str, ...], Listed] = Field(
        (255,), description="pixel values without a class, or names of classes to leave out, e.g. [11,255]"
    )
    validation: float = Field(
        0.1, gt=0, lt=1, description="fraction of the training images that is kept for validation, if the data has none"
    )
    backbone_weights: str = Field(
        "", description="a trained image classifier that the backbone starts from: a run, a folder, a file or hf:NAME"
    )
    backbone_lr_ratio: float = Field(1.0, gt=0, description=BACKBONE_LR_RATIO)
    max_images: int = Field(
        0, ge=0, description="number of training images to use, drawn at random, for all seeds the same; 0: all"
    )
    batch_size: int = Field(16, gt=0, description="crops per optimizer step")
    passes: int = Field(
        1, gt=0, description="passes over the training images per epoch; for small sets, since each epoch is validated"
    )
    crop: int = Field(
        512, gt=0, multiple_of=32, description="side in pixels of the training crops and of sliding windows"
    )
    min_size: int = Field(
        0, ge=0, description="shorter side of the images before the random resize and in tests; 0: as stored"
    )
    max_size: int = Field(2048, gt=0, description="maximum of the longer side, if min_size is given")
    loss_mean: Literal["all", "labelled"] = Field(
        "all", description="pixels that the loss is averaged over: all, ignored ones included (mmseg), or labelled ones"
    )
    test: Literal["whole", "slide"] = Field(
        "whole", description="how images are segmented: at once, or in sliding windows of the crop's size"
    )
    test_scales: Annotated[tuple[PositiveFloat, ...], Listed] = Field(
        (1.0,), min_length=1, description="factors of the image size in tests; probabilities are averaged"
    )
    test_flip: bool = Field(False, description="average with the mirrored image in tests")
    augmentation: LabelAugment = Field(LabelAugment(), description="augmentation of training images")

    def located(self) -> Self:
        found: dict[str, Any] = {"model": self.model.model_copy(update={"name": whole_path(self.model.name)})}
        if self.data not in SCENES:
            found["data"] = whole_path(self.data)
        if self.backbone_weights:
            found["backbone_weights"] = whole_path(self.backbone_weights)
        return self.model_copy(update=found)

    def lr_ratios(self) -> dict[str, float]:
        """Return the factor of the learning rate of the backbone."""
        return {"backbone.": self.backbone_lr_ratio}

    def required_settings(self) -> str:
        """Return the settings that the user has to give, as they are typed."""
        return "data=FOLDER" if self.data == YOUR_MAPS else ""

    def check_settings(self) -> None:
        """Raise an error for settings of other kinds of recipes that segmentation does not support."""
        unsupported = {
            "freeze": ("none", "model.frozen=N keeps the first N stages of the backbone fixed"),
            "layer_decay": (1.0, ""),
            "compile": (False, ""),
            "activation_checkpointing": (False, "gradient_accumulation=N saves memory, too"),
            "sharding": ("none", ""),
        }
        for name, (only, hint) in unsupported.items():
            if getattr(self, name) != only:
                expected = str(only).lower() if isinstance(only, bool) else str(only)
                raise UserError(
                    f"recipe field {name!r}: segmentation supports one value",
                    expected=expected,
                    got=getattr(self, name),
                    hint=hint,
                )
        if "crop" in self.model.overrides():
            raise UserError("recipe field 'model.crop'", expected="crop=N, which the model keeps")

    def check_data_given(self) -> None:
        """Raise an error if no data is given; a folder named "label-maps" is used."""
        if self.data == YOUR_MAPS and not Path(self.data).exists():
            raise UserError(
                "the recipe needs more settings",
                expected=self.required_settings(),
                hint="data: a folder with images and masks of the same names, CamVid, ADE20K, Pascal VOC, "
                f"or {' or '.join(SCENES)}",
            )


def segment_images() -> SegmentationRecipe:
    """Your own images with label maps: folders of images and masks, CamVid, ADE20K or Pascal VOC (data=FOLDER)."""
    return SegmentationRecipe(
        about="Trains a segmenter on your own images with label maps; by default an UperNet with a ResNet-18.",
        model=ModelChoice.model_validate({"name": "upernet", "backbone": "resnet-18", "frozen": 0, "width": 128}),
        augmentation=LabelAugment(color_jitter=0.2),
        epochs=60,
        batch_size=8,
        crop=256,
        learning_rate=5e-4,
        weight_decay=0.05,
    )


def upernet_swin() -> SegmentationRecipe:
    """UperNet with Swin-T as its authors train it on ADE20K: AdamW, 160,000 steps of 16 crops (data=FOLDER)."""
    return SegmentationRecipe(
        about="Trains UperNet with Swin-T by its authors' settings: on ADE20K, 127 epochs are 160,000 steps.",
        model=ModelChoice.model_validate(
            {"name": "upernet", "backbone": "swin-tiny", "backbone_fields": {"drop_path": 0.3}}
        ),
        augmentation=LabelAugment(color_jitter=0.5),
        epochs=127,
        batch_size=16,
        crop=512,
        min_size=512,
        max_size=2048,
        learning_rate=6e-5,
        weight_decay=0.01,
        warmup=1500 / 160_000,
        schedule="linear",
        clip_norm=0.0,
    )


RECIPES = (segment_images, upernet_swin)
