"""The recipe of an object detector."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, PositiveInt

from patchword.core.errors import UserError
from patchword.data.detection.sources import SCENES
from patchword.data.detection.transforms.chain import Chain, Jitter, Transform, multi_scale
from patchword.data.detection.transforms.geometry import RandomFlip, ResizeShorter
from patchword.recipes.schema.fields import whole_path
from patchword.recipes.schema.recipe import BACKBONE_LR_RATIO, KIND, STRICT, Chosen, ModelChoice, Recipe

YOUR_OBJECTS = "objects"  # the default folder of recipes for the user's own data
MODEL = (
    "a detector (`patchword models`) or the folder of a trained one; model.backbone=NAME is any image model, "
    "model.FIELD=VALUE changes another field"
)


class ObjectAugment(BaseModel):
    """Augmentation of training images with their boxes and masks."""

    model_config = STRICT
    flip: float = Field(0.5, ge=0, le=1, description="probability of a horizontal flip")
    min_sizes: tuple[PositiveInt, ...] = Field(
        (), description="multi-scale: lengths of the shorter side, one is drawn per image; empty: model.min_size"
    )
    crop: bool = Field(
        False, description="resize, crop and resize half of the images, as DETR and Swin; needs min_sizes"
    )
    color_jitter: float = Field(
        0.0, ge=0, le=1, description="maximum relative change of brightness, contrast and saturation"
    )

    def made(self, min_size: int, max_size: int) -> Transform:
        """Return the transform. min_size, max_size: those of the detector."""
        sides = self.min_sizes or (min_size,)
        if self.crop:
            parts: tuple[Transform, ...] = multi_scale(sides, max_size, self.flip).transforms
        else:
            parts = (RandomFlip(self.flip), ResizeShorter(sides, max_size))
        return Chain((*parts, Jitter(self.color_jitter)) if self.color_jitter else parts)


class DetectionRecipe(Recipe):
    """Trains an object detector."""

    kind: Literal["detection"] = Field("detection", description=KIND)
    model: Chosen = Field(ModelChoice(name="atss"), description=MODEL)
    data: str = Field(
        YOUR_OBJECTS,
        min_length=1,
        description=f"a folder or an annotation file (COCO, YOLO, VOC, LabelMe, masks), or {' or '.join(SCENES)}",
    )
    format: Literal["", "coco", "yolo", "voc", "labelme", "masks"] = Field(
        "", description="format of the annotations; empty: recognised by the files"
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
    batch_size: int = Field(16, gt=0, description="images per optimizer step")
    passes: int = Field(
        1, gt=0, description="passes over the training images per epoch; for small sets, since each epoch is validated"
    )
    pad_multiple: int = Field(
        32,
        gt=0,
        multiple_of=32,
        description="the height and width of a batch are multiples of this; on a GPU, CSWin and Pale compile kernels "
        "for each size of a batch, so a larger number starts faster",
    )
    augmentation: ObjectAugment = Field(ObjectAugment(), description="augmentation of training images")

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
        return "data=FOLDER" if self.data == YOUR_OBJECTS else ""

    def check_settings(self) -> None:
        """Raise an error for settings of other kinds of recipes that detection does not support."""
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
                    f"recipe field {name!r}: detection supports one value",
                    expected=expected,
                    got=getattr(self, name),
                    hint=hint,
                )

    def check_data_given(self) -> None:
        """Raise an error if no data is given; a folder named "objects" is used."""
        if self.data == YOUR_OBJECTS and not Path(self.data).exists():
            raise UserError(
                "the recipe needs more settings",
                expected=self.required_settings(),
                hint="data: a folder of images with annotations (COCO JSON, YOLO, VOC XML, LabelMe or masks), "
                f"an annotation file, or {' or '.join(SCENES)}",
            )


def detect_objects() -> DetectionRecipe:
    """Your own images with boxes: COCO JSON, YOLO, Pascal VOC, LabelMe or masks (data=FOLDER)."""
    return DetectionRecipe(
        about="Trains a detector on your own annotated images; by default an ATSS with a ResNet-18.",
        model=ModelChoice.model_validate(
            {"name": "atss", "backbone": "resnet-18", "frozen": 0, "min_size": 384, "max_size": 640}
        ),
        augmentation=ObjectAugment(color_jitter=0.2),
        epochs=60,
        batch_size=8,
        learning_rate=5e-4,
        weight_decay=0.05,
    )


def mask_rcnn_swin() -> DetectionRecipe:
    """Mask R-CNN with Swin-T as its authors train it on COCO: AdamW, 3x schedule, multi-scale (data=FOLDER)."""
    return DetectionRecipe(
        about="Trains Mask R-CNN with Swin-T by its authors' settings: 36 epochs, multi-scale.",
        model=ModelChoice.model_validate(
            {"name": "mask-rcnn", "backbone": "swin-tiny", "backbone_fields": {"drop_path": 0.2}}
        ),
        augmentation=ObjectAugment(min_sizes=tuple(range(480, 801, 32)), crop=True),
        epochs=36,
        batch_size=16,
        learning_rate=1e-4,
        weight_decay=0.05,
        warmup=0.002,
        schedule="step",
        clip_norm=0.0,
    )


def detr() -> DetectionRecipe:
    """DETR with a ResNet-50 nearly as its authors train it on COCO: AdamW, 300 epochs, multi-scale (data=FOLDER).

    Two settings differ. The learning rate falls to a tenth after 3/4 of the run and to a hundredth after 11/12; the
    authors' falls once, to a tenth after 2/3. Biases and norms have no weight decay; the authors' have.
    """
    return DetectionRecipe(
        about="Trains DETR with a ResNet-50 by its authors' settings: 300 epochs, multi-scale.",
        model=ModelChoice.model_validate({"name": "detr", "backbone": "resnet-50"}),
        augmentation=ObjectAugment(min_sizes=tuple(range(480, 801, 32)), crop=True),
        backbone_lr_ratio=0.1,
        epochs=300,
        batch_size=64,
        learning_rate=1e-4,
        weight_decay=1e-4,
        warmup=0.0,
        schedule="step",
        clip_norm=0.1,
    )


RECIPES = (detect_objects, mask_rcnn_swin, detr)
