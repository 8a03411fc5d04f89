"""The recipe of an object detector."""

from typing import Literal

from pydantic import BaseModel, Field, PositiveInt

from patchword.data.detection.sources import SCENES
from patchword.data.detection.transforms.chain import Chain, Transform, multi_scale
from patchword.data.detection.transforms.geometry import RandomFlip, ResizeShorter
from patchword.recipes.dense.recipe import BackboneLrRatio, BackboneWeights, DenseRecipe, MaxImages, Passes, Validation
from patchword.recipes.schema.batch_size import AUTO_MEANS, BatchSize
from patchword.recipes.schema.recipe import KIND, STRICT, Chosen, ModelChoice

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
        """Return the transform without the jitter, which batches have. min_size, max_size: those of the detector."""
        sides = self.min_sizes or (min_size,)
        if self.crop:
            parts: tuple[Transform, ...] = multi_scale(sides, max_size, self.flip).transforms
        else:
            parts = (RandomFlip(self.flip), ResizeShorter(sides, max_size))
        return Chain(parts)


class DetectionRecipe(DenseRecipe):
    """Trains an object detector."""

    your_data = YOUR_OBJECTS
    data_hint = "a folder of images with annotations (COCO JSON, YOLO, VOC XML, LabelMe or masks), an annotation file"
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
    validation: Validation = 0.1
    backbone_weights: BackboneWeights = ""
    backbone_lr_ratio: BackboneLrRatio = 1.0
    max_images: MaxImages = 0
    batch_size: BatchSize = Field(16, ge=0, description=f"images per optimizer step; {AUTO_MEANS}")
    passes: Passes = 1
    pad_multiple: int = Field(
        32,
        gt=0,
        multiple_of=32,
        description="the height and width of a batch are multiples of this; on a GPU, CSWin and Pale compile kernels "
        "for each size of a batch, so a larger number starts faster",
    )
    augmentation: ObjectAugment = Field(ObjectAugment(), description="augmentation of training images")


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
