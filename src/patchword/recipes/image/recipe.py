"""The recipe of an image classifier."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field

from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import Augmentation
from patchword.data.augmentation.presets import PARTS, PRESETS, combine
from patchword.data.image.named_datasets import DATASETS, open_source
from patchword.data.image.sources import ImageSource
from patchword.recipes.distillation.fields import ImageTaught, ImageTeacher
from patchword.recipes.schema.broken import BrokenSamples
from patchword.recipes.schema.class_balance import ClassBalance
from patchword.recipes.schema.fields import whole_path, whole_paths
from patchword.recipes.schema.recipe import (
    KIND,
    LABEL_SMOOTHING,
    MODEL,
    STRICT,
    Chosen,
    ModelChoice,
    Recipe,
    from_text,
)

YOUR_IMAGES = "images"  # the default folder of recipes for the user's own data
YOUR_TEACHER = "teacher"  # the default folder of recipes that distil the user's own teachers
YOUR_WEIGHTS = "weights"  # the default folder of recipes that fine-tune the user's own weights


class Augment(BaseModel):
    """Augmentation of training images; every change keeps the class. A value of 0 switches a part off."""

    model_config = STRICT
    flip: float = Field(0.0, ge=0, le=1, description="probability of a horizontal flip")
    shift: int = Field(0, ge=0, description="maximum shift in pixels in each direction")
    crop: float = Field(
        0.0, ge=0, le=1, description="minimum fraction of the area that a random resized crop keeps; 0 is off"
    )
    color_jitter: float = Field(
        0.0, ge=0, le=1, description="maximum relative change of brightness, contrast and saturation"
    )
    randaugment: float = Field(0.0, ge=0, le=10, description="magnitude of RandAugment; 0 is off")
    randaugment_std: float = Field(0.5, ge=0, description="standard deviation of the magnitude of RandAugment")
    operations: Literal["paper", "deit"] = Field(
        "deit",
        description="operations of RandAugment: the 14 of its paper, or the 15 of DeiT, all of which grow with the "
        "magnitude",
    )
    three_augment: float = Field(0.0, ge=0, le=1, description="probability of greyscale, solarize or blur (3-Augment)")
    random_erasing: float = Field(0.0, ge=0, le=1, description="probability that a part of the image is erased")
    erasing_fill: Literal["square", "const", "pixel"] = Field(
        "square",
        description="what is erased: square is a black square, const a box of the mean colour, pixel a box of noise",
    )
    mixup: float = Field(
        0.0, ge=0, description="alpha of Mixup, which draws its mixing ratio from Beta(alpha, alpha); 0 is off"
    )
    cutmix: float = Field(
        0.0, ge=0, description="alpha of CutMix, which draws its mixing ratio from Beta(alpha, alpha); 0 is off"
    )
    mix_probability: float = Field(
        1.0, ge=0, le=1, description="probability that Mixup or CutMix is applied to an image"
    )
    mix_switch_probability: float = Field(
        0.5, ge=0, le=1, description="probability of CutMix instead of Mixup if both are on"
    )
    repeats: int = Field(
        1, ge=1, description="repeated augmentation: views per image in an epoch, which then reads fewer images"
    )

    def made(self) -> Augmentation:
        """Return the augmentation with these settings."""
        return Augmentation(**self.model_dump())

    def parts(self) -> tuple[str, ...]:
        """Return the names of the parts that are switched on."""
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
    """Return the fields of a preset such as deit, or of a list such as flip,crop, whose parts get DeiT's settings."""
    listed = from_text(value)
    if isinstance(listed, str) and listed not in PRESETS:
        listed = [part.strip() for part in listed.split(",")]
    if isinstance(listed, list | tuple) and all(isinstance(part, str) and part in PARTS for part in listed):
        return combine(*listed)
    if isinstance(value, Mapping | Augment):
        return value
    if isinstance(value, str) and value.strip() in PRESETS:
        return dict(PRESETS[value.strip()])
    expected = f"{', '.join(PRESETS)}, a list of {', '.join(PARTS)}, or fields: {', '.join(Augment.model_fields)}"
    raise UserError("recipe field 'augmentation'", expected=expected, got=value)


class ImageDataRecipe(BrokenSamples, Recipe):
    """The fields of all recipes that train on images."""

    model: Chosen = Field(ModelChoice(name="vit-exercise"), description=MODEL)
    data: str = Field(
        "fashion-mnist",
        min_length=1,
        description="a named data set, a folder with one sub-folder per class or of shards, or a .csv/.jsonl manifest",
    )
    validation: float = Field(
        0.1, gt=0, lt=1, description="fraction of the training images that is kept for validation"
    )
    augmentation: Annotated[Augment, BeforeValidator(augment_fields)] = Field(
        Augment(), description=f"a preset ({', '.join(PRESETS)}), a list of parts such as flip,crop, or single fields"
    )

    def with_settings(self, settings: Iterable[str]) -> Self:
        """A preset or a list of parts is applied first; single fields then change it."""
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
        found: dict[str, Any] = {"model": self.model.model_copy(update={"name": whole_path(self.model.name)})}
        if self.data not in (*DATASETS, "digits"):
            found["data"] = whole_path(self.data)
        return self.model_copy(update=found)

    def open_data(self) -> ImageSource:
        """Open the data set; no image is read yet."""
        self.check_data_given()
        return open_source(self.data)

    def required_settings(self) -> str:
        """Return the settings that the user has to give, as they are typed."""
        model = "model=WEIGHTS" if self.model.name == YOUR_WEIGHTS else ""
        return f"{model} data=FOLDER".strip() if self.data == YOUR_IMAGES else model

    def check_data_given(self) -> None:
        """Raise an error that names all missing settings if no data is given; a folder named "images" is used."""
        if self.data == YOUR_IMAGES and not Path(self.data).exists():
            raise missing_settings(self.required_settings())


def check_weights_given(choice: ModelChoice) -> None:
    """Raise an error if a recipe that fine-tunes has no weights; a folder named "weights" is used."""
    if choice.name == YOUR_WEIGHTS and not Path(choice.name).exists():
        raise missing_settings("model=WEIGHTS")


def missing_settings(settings: str) -> UserError:
    """Return the error of a recipe that lacks settings, with what each of them takes."""
    known = {
        "model": "a run, a model folder, a .safetensors file, zoo:NAME (`patchword models --zoo`), or hf:OWNER/REPO",
        "data": "a folder with one sub-folder of images per class, a .csv or .jsonl list, or a named data set",
        "teacher": "one or more runs with the same classes, separated by commas (e.g. of fashion-mnist-teacher)",
    }
    hints = [f"{name}: {text}" for name, text in known.items() if f"{name}=" in settings]
    return UserError("the recipe needs more settings", expected=settings, hint="\n".join(hints))


class ImageRecipe(ClassBalance, ImageDataRecipe):
    """Trains an image classifier."""

    kind: Literal["images"] = Field("images", description=KIND)
    label_smoothing: float = Field(0.0, ge=0, lt=1, description=LABEL_SMOOTHING)
    teacher: ImageTaught = Field(ImageTeacher(), description="the model to distil from; teacher=RUN names it")

    def required_settings(self) -> str:
        teacher = "teacher=RUN" if self.teacher.name == YOUR_TEACHER else ""
        return f"{super().required_settings()} {teacher}".strip()

    def check_data_given(self) -> None:
        super().check_data_given()
        if self.teacher.name == YOUR_TEACHER and not Path(YOUR_TEACHER).exists():
            raise missing_settings(self.required_settings())

    def located(self) -> Self:
        teacher = self.teacher.model_copy(update={"name": whole_paths(self.teacher.name)})
        return super().located().model_copy(update={"teacher": teacher})
