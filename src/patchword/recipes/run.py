"""A run is a folder: the recipe, the checkpoints, the metrics, and the best weights as a model anyone can load.

recipe.yaml         what was done; can be trained again as it is
config.json         the model's card
model.safetensors   the weights that were best on the validation set
tokenizer.json      of a run on texts, its tokenizer
metrics.jsonl       a line an epoch
checkpoints/        where a restart goes on
evaluation.json     the test result
machine.json        what it ran on
data.json           which samples it was trained on
report.html         all of it, to read
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.data.image.images import Images
from patchword.data.image.named_datasets import open_source
from patchword.layers.model import Model
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.recipe import Recipe, read_recipe
from patchword.training.journal import read_metrics
from patchword.training.parallel.rank import launched
from patchword.weights import load


def resume_command(folder: Path) -> str:
    """What goes on with the run of a folder, ready to be typed; with as many processes as we are."""
    place = ["--name", folder.name, "--runs", folder.parent, "--resume"]
    together = ["--processes", processes] if (processes := launched()) > 1 else []
    return shlex.join(str(word) for word in ["patchword", "train", folder / "recipe.yaml", *place, *together])


@dataclass(frozen=True)
class Run:
    """A run's folder, read."""

    folder: Path

    def __post_init__(self) -> None:
        if not (self.folder / "recipe.yaml").is_file():
            runs = sorted(path.parent.name for path in self.folder.parent.glob("*/recipe.yaml"))
            hint = f"runs here: {', '.join(runs)}" if runs else "`patchword train RECIPE` makes one"
            raise UserError(f"{self.folder} is not a run", expected="a folder with recipe.yaml", hint=hint)

    def recipe(self) -> Recipe:
        return read_recipe(self.folder / "recipe.yaml")

    def image_recipe(self) -> ImageRecipe:
        recipe = self.recipe()
        if not isinstance(recipe, ImageRecipe):
            raise UserError(f"{self.folder} is a run on texts", expected="a run on images")
        return recipe

    def metrics(self) -> list[dict[str, Any]]:
        return read_metrics(self.folder / "metrics.jsonl")

    def machine(self) -> dict[str, Any]:
        path = self.folder / "machine.json"
        return dict(read_json(path)) if path.is_file() else {}

    def model(self, **overrides: Any) -> Model:
        if not (self.folder / "model.safetensors").is_file():
            hint = f"let its first epoch end: {resume_command(self.folder)}"
            raise UserError(f"{self.folder} has no weights yet", hint=hint)
        return load(self.folder, **overrides)

    def test_images(self, card: Card) -> Images:
        """The test part of the run's data, as the model of this card wants it."""
        source = open_source(self.image_recipe().data)
        return source.read("test", card.config["image"], card.config["channels"]).with_classes(card.labels)
