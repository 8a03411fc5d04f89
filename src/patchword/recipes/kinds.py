"""The recipe kinds; a new kind adds a line here."""

from typing import Any

from patchword.core.errors import UserError
from patchword.recipes.detection.kind import DETECTION
from patchword.recipes.elmo.kind import ELMO
from patchword.recipes.image.kind import IMAGES
from patchword.recipes.image_pretraining.kind import IMAGE_PRETRAINING
from patchword.recipes.pretraining.kind import PRETRAINING
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.segmentation.kind import SEGMENTATION
from patchword.recipes.text.kind import TEXT
from patchword.recipes.translation.kind import TRANSLATION
from patchword.recipes.vectors.kind import OVER_VECTORS

KINDS: tuple[RecipeKind[Any, Any], ...] = (
    IMAGES,
    TEXT,
    PRETRAINING,
    OVER_VECTORS,
    TRANSLATION,
    ELMO,
    IMAGE_PRETRAINING,
    DETECTION,
    SEGMENTATION,
)


def kind_named(name: object) -> RecipeKind[Any, Any]:
    """Return the kind of that name; raises a UserError that lists the known names."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise UserError("recipe field 'kind'", expected=" or ".join(kind.name for kind in KINDS), got=name)


def kind_of(recipe: Recipe) -> RecipeKind[Any, Any]:
    """Return the kind that a recipe belongs to."""
    return kind_named(recipe.kind)
