"""The base of the recipes of detection and segmentation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from patchword.core.errors import UserError
from patchword.data.detection.sources import SCENES
from patchword.recipes.schema.fields import whole_path
from patchword.recipes.schema.recipe import Recipe

Validation = Annotated[
    float,
    Field(gt=0, lt=1, description="fraction of the training images that is kept for validation, if the data has none"),
]
BackboneWeights = Annotated[
    str,
    Field(
        description="a trained image classifier that the backbone starts from: a run, a folder, a file, zoo:NAME or "
        "hf:NAME"
    ),
]
BackboneLrRatio = Annotated[
    float, Field(gt=0, description="factor of the learning rate of the backbone, e.g. 0.1; 1 is off")
]
MaxImages = Annotated[
    int, Field(ge=0, description="number of training images to use, drawn at random, for all seeds the same; 0: all")
]
Passes = Annotated[
    int,
    Field(gt=0, description="passes over the training images per epoch; for small sets, since each epoch is validated"),
]
_UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "freeze": ("none", "model.frozen=N keeps the first N stages of the backbone fixed"),
    "layer_decay": (1.0, "backbone_lr_ratio=0.1 gives the backbone a smaller learning rate"),
    "compile": (False, ""),
    "activation_checkpointing": (False, "gradient_accumulation=N saves memory, too"),
    "sharding": ("none", ""),
}


class DenseRecipe(Recipe):
    """What the recipes of detectors and segmenters have in common; each declares the fields in its own order."""

    unsupported = frozenset(_UNSUPPORTED)
    your_data: ClassVar[str]
    """The default folder of recipes for the user's own data."""
    data_hint: ClassVar[str]
    """What `data` may be."""
    if TYPE_CHECKING:
        data: str
        backbone_weights: str
        backbone_lr_ratio: float

    def located(self) -> Self:
        found: dict[str, Any] = {"model": self.model.model_copy(update={"name": whole_path(self.model.name)})}
        if self.data not in SCENES:
            found["data"] = whole_path(self.data)
        if self.backbone_weights:
            found["backbone_weights"] = whole_path(self.backbone_weights)
        return self.model_copy(update=found)

    def lr_ratios(self) -> dict[str, float]:
        return {"backbone.": self.backbone_lr_ratio}

    def required_settings(self) -> str:
        """Return the settings that the user has to give, as they are typed."""
        return "data=FOLDER" if self.data == self.your_data else ""

    def check_settings(self) -> None:
        """Raise an error for settings of other kinds of recipes that this kind does not support."""
        for name, (only, hint) in _UNSUPPORTED.items():
            if getattr(self, name) != only:
                expected = str(only).lower() if isinstance(only, bool) else str(only)
                raise UserError(
                    f"recipe field {name!r}: {self.kind} supports one value",
                    expected=expected,
                    got=getattr(self, name),
                    hint=hint,
                )

    def check_data_given(self) -> None:
        """Raise an error if no data is given; a folder with the default name is used."""
        if self.data == self.your_data and not Path(self.data).exists():
            hint = f"data: {self.data_hint}, or {' or '.join(SCENES)}"
            raise UserError("the recipe needs more settings", expected=self.required_settings(), hint=hint)
