"""The recipe of semantic segmentation."""

from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, Field, PositiveFloat

from patchword.core.errors import UserError
from patchword.data.detection.sources import SCENES
from patchword.data.segmentation.transforms.label_transforms import (
    LabelChain,
    LabelTransform,
    RandomLabelFlip,
    RandomScaledCrop,
)
from patchword.recipes.dense.recipe import BackboneLrRatio, BackboneWeights, DenseRecipe, MaxImages, Passes, Validation
from patchword.recipes.schema.batch_size import AUTO_MEANS, BatchSize
from patchword.recipes.schema.recipe import KIND, STRICT, Chosen, ModelChoice

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
        """Return the transform without the jitter, which batches have. crop, min_size, max_size: of the recipe."""
        scales = self.smallest_scale, self.largest_scale
        cropped = RandomScaledCrop(crop, *scales, min_size, max_size, self.most_of_one_class)
        return LabelChain((cropped, RandomLabelFlip(self.flip)))


class SegmentationRecipe(DenseRecipe):
    """Trains a model that classifies every pixel."""

    your_data = YOUR_MAPS
    data_hint = "a folder with images and masks of the same names, CamVid, ADE20K, Pascal VOC"
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
    validation: Validation = 0.1
    backbone_weights: BackboneWeights = ""
    backbone_lr_ratio: BackboneLrRatio = 1.0
    max_images: MaxImages = 0
    batch_size: BatchSize = Field(16, ge=0, description=f"crops per optimizer step; {AUTO_MEANS}")
    passes: Passes = 1
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

    def check_settings(self) -> None:
        super().check_settings()
        if "crop" in self.model.overrides():
            raise UserError("recipe field 'model.crop'", expected="crop=N, which the model keeps")


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
