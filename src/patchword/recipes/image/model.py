"""Opens the model of an image recipe: trained weights, or a model of the registry with random weights."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchword.core.card import ConfigValue, Resize
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.sources import ImageSource
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.models.registry import keep_mlp_ratio
from patchword.recipes.image.recipe import check_weights_given
from patchword.recipes.model_choice import weights_path
from patchword.recipes.schema.recipe import ModelChoice
from patchword.weights.io.loading import OpenWeights, open_weights


@dataclass(frozen=True)
class ImageModelPlan:
    """The model of a recipe, known before the images are read, since it decides their size.

    fields: of the model's config, as the recipe and the data change them. weights: None for random weights.
    drops_color: the images have colours, and the model reads grey ones.
    """

    name: str
    fields: Mapping[str, ConfigValue]
    format: ImageFormat
    weights: OpenWeights | None = None
    drops_color: bool = False

    def build(self, labels: tuple[str, ...]) -> Model:
        """Build the model for these classes. A trained head is kept only if it has the same classes."""
        fields: dict[str, Any] = {**self.fields, "classes": len(labels)}
        if self.weights is None:
            model = REGISTRY.create(self.name, **fields)
        else:
            model = self.weights.build(**fields)
            if not self.keeps_head(labels):
                model.reset_classifier(len(labels))
        model.card = replace(model.card, labels=labels)
        return model

    def keeps_head(self, labels: tuple[str, ...]) -> bool:
        return self.weights is not None and self.weights.card.labels == labels

    @property
    def path(self) -> Path | None:
        """The path of the weights."""
        return None if self.weights is None else self.weights.path


def plan_image_model(choice: ModelChoice, source: ImageSource) -> ImageModelPlan:
    """Find the model of a recipe and its input size.

    Weights keep their own number of channels. A model of the registry that reads grey images is built for colours if
    the data has them.
    """
    check_weights_given(choice)
    fields = choice.overrides()
    weights = None if weights_path(choice) is None else open_weights(choice.name, **fields)
    name = choice.name if weights is None else weights.card.model
    REGISTRY.require_images(name)
    if weights is not None and choice.from_scratch:
        sizes = weights.card.config
        fields, weights = {**sizes, **keep_mlp_ratio(sizes, fields)}, None
        fields.pop("classes")
    trained = {} if weights is None else weights.card.config
    config = REGISTRY.configure(name, {**trained, **fields})
    color = config.channels == 1 and source.has_color()
    if color and weights is None and "channels" not in choice.overrides():
        return ImageModelPlan(name, {**fields, "channels": 3}, ImageFormat(config.image, 3))
    resize = Resize() if weights is None else weights.card.resize
    return ImageModelPlan(name, fields, ImageFormat(config.image, config.channels, resize), weights, drops_color=color)
