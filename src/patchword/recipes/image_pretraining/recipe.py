"""The recipe of a ViT that is pretrained on unlabelled images."""

from typing import Literal

from pydantic import Field

from patchword.data.image.named_datasets import open_unlabelled
from patchword.data.image.sources import ImageSource
from patchword.recipes.image.recipe import YOUR_IMAGES, Augment, ImageDataRecipe
from patchword.recipes.schema.recipe import KIND, ModelChoice


class ImagePretrainingRecipe(ImageDataRecipe):
    """Pretrains a ViT on images without labels: it predicts the pixels of masked patches."""

    kind: Literal["image-pretraining"] = Field("image-pretraining", description=KIND)
    data: str = Field(
        YOUR_IMAGES,
        min_length=1,
        description="a folder of images, or any data set of image classification, whose labels are not used",
    )
    mask_ratio: float = Field(0.6, gt=0, lt=1, description="fraction of the patches that are masked and predicted")

    def open_data(self) -> ImageSource:
        self.check_data_given()
        return open_unlabelled(self.data)


def image_pretrain() -> ImagePretrainingRecipe:
    """Your own images without labels; the result is fine-tuned with `finetune-images` (model=... data=...)."""
    return ImagePretrainingRecipe(
        about="Pretrains a small ViT on your own images without labels: masked image modelling.",
        model=ModelChoice.model_validate({"name": "vit-tiny-16", "image": 64, "patch": 8, "depth": 6}),
        augmentation=Augment(flip=0.5, crop=0.67),
        epochs=100,
        batch_size=128,
        learning_rate=1e-3,
        weight_decay=0.05,
    )
