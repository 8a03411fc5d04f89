"""The recipe of a classifier of images."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field

from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import Augmentation
from patchword.data.augmentation.presets import PARTS, PRESETS, together
from patchword.data.image.named_datasets import SETS
from patchword.recipes.distillation.fields import ImageTaught, ImageTeacher
from patchword.recipes.recipe import STRICT, Chosen, ModelChoice, Recipe, from_text


class Augment(BaseModel):
    model_config = STRICT
    flip: float = Field(0.0, ge=0, le=1, description="chance of a mirror image")
    shift: int = Field(0, ge=0, description="pixels to move, at most, each way")
    crop: float = Field(0.0, ge=0, le=1, description="least share of the area that a random crop keeps; 0 is off")
    color_jitter: float = Field(0.0, ge=0, le=1, description="most that brightness, contrast and saturation change")
    randaugment: float = Field(0.0, ge=0, le=10, description="strength of RandAugment's operations; 0 is off")
    randaugment_std: float = Field(0.5, ge=0, description="standard deviation of that strength")
    operations: Literal["paper", "deit"] = Field(
        "deit", description="RandAugment's 14 of the paper, or DeiT's 15, which grow with the strength"
    )
    three_augment: float = Field(
        0.0, ge=0, le=1, description="chance of one of greyscale, solarize and blur (3-Augment)"
    )
    random_erasing: float = Field(0.0, ge=0, le=1, description="chance of a blank part")
    erasing_fill: Literal["square", "const", "pixel"] = Field(
        "square", description="a black square, or a box of any shape: of the mean colour, or of noise"
    )
    mixup: float = Field(0.0, ge=0, description="a of the Beta(a, a) of Mixup's shares; 0 is off")
    cutmix: float = Field(0.0, ge=0, description="a of the Beta(a, a) of CutMix's shares; 0 is off")
    mix_probability: float = Field(1.0, ge=0, le=1, description="chance that a picture is mixed with another at all")
    mix_switch_probability: float = Field(0.5, ge=0, le=1, description="chance of CutMix where both are on")
    repeats: int = Field(1, ge=1, description="views of a picture in an epoch, which takes fewer pictures")

    def made(self) -> Augmentation:
        """What does it."""
        return Augmentation(**self.model_dump())

    def parts(self) -> tuple[str, ...]:
        """What is switched on."""
        names = (
            "flip",
            "shift",
            "crop",
            "color_jitter",
            "randaugment",
            "three_augment",
            "random_erasing",
            "mixup",
            "cutmix",
        )
        views = ("repeats",) if self.repeats > 1 else ()
        return (*(name for name in names if getattr(self, name)), *views)


def augment_fields(value: Any) -> Any:
    """The fields of a name such as deit, or of a list such as flip,crop, which get DeiT's settings."""
    listed = from_text(value)
    if isinstance(listed, str) and listed not in PRESETS:
        listed = [part.strip() for part in listed.split(",")]
    if isinstance(listed, list | tuple) and all(isinstance(part, str) and part in PARTS for part in listed):
        return together(*listed)
    if isinstance(value, Mapping | Augment):
        return value
    if isinstance(value, str) and value.strip() in PRESETS:
        return dict(PRESETS[value.strip()])
    expected = f"{', '.join(PRESETS)}, a list of {', '.join(PARTS)}, or fields: {', '.join(Augment.model_fields)}"
    raise UserError("recipe field 'augmentation'", expected=expected, got=value)


class ImageRecipe(Recipe):
    kind: Literal["images"] = "images"
    model: Chosen = ModelChoice(name="vit-exercise")
    data: str = Field(
        "fashion-mnist",
        min_length=1,
        description="a named set, a folder of classes or shards, or a .csv/.jsonl manifest",
    )
    validation: float = Field(0.1, gt=0, lt=1, description="share of the training set kept for validation")
    augmentation: Annotated[Augment, BeforeValidator(augment_fields)] = Field(
        Augment(), description=f"{', '.join(PRESETS)}, a list such as flip,crop, or fields"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing")
    teacher: ImageTaught = ImageTeacher()

    def with_settings(self, settings: Iterable[str]) -> Self:
        """A name or a list comes first: other settings change it."""
        typed, others = [], []
        for setting in settings:
            path, equals, text = setting.partition("=")
            if equals and path.strip() == "augmentation":
                fields = Augment.model_validate(augment_fields(text)).model_dump()
                typed = [f"augmentation.{field}={value}" for field, value in fields.items()]
            else:
                others.append(setting)
        return super().with_settings([*typed, *others])

    def located(self) -> Self:
        path, teacher = Path(self.data), self.teacher
        found: dict[str, Any] = {}
        if self.data not in (*SETS, "digits") and path.exists():
            found["data"] = str(path.absolute())
        if teacher.name and Path(teacher.name).exists():
            found["teacher"] = teacher.model_copy(update={"name": str(Path(teacher.name).absolute())})
        return self.model_copy(update=found)
