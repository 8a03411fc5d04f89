"""The recipe of a classifier of images."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field

from patchword.data.named import SETS
from patchword.recipes.recipe import STRICT, Chosen, ModelChoice, Recipe


class Augment(BaseModel):
    model_config = STRICT
    flip: float = Field(0.0, ge=0, le=1, description="chance of a mirror image")
    shift: int = Field(0, ge=0, description="pixels to move, at most, each way")
    erase: float = Field(0.0, ge=0, le=1, description="chance of a blank square")


class ImageRecipe(Recipe):
    kind: Literal["images"] = "images"
    model: Chosen = ModelChoice(name="vit-exercise")
    data: str = Field(
        "fashion-mnist", min_length=1, description="a named set, a folder of classes, or a .csv/.jsonl manifest"
    )
    validation: float = Field(0.1, gt=0, lt=1, description="share of the training set kept for validation")
    augmentation: Augment = Augment()
    smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing")

    def located(self) -> Self:
        path = Path(self.data)
        is_file = self.data not in (*SETS, "digits") and path.exists()
        return self.model_copy(update={"data": str(path.absolute())}) if is_file else self
