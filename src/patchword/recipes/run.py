"""A run is a folder: the recipe, the checkpoints, the metrics, and the best weights as a model anyone can load.

recipe.yaml         what was done; can be trained again as it is
config.json         the model's card
model.safetensors   the weights that were best on the validation set
tokenizer.json      the tokenizer of a run on texts
decoder.safetensors the mask token and the prediction head of masked image modelling
metrics.jsonl       one line per epoch
steps.jsonl         one line per second of training, or less
confusion.jsonl     of a classifier of at most 50 classes: its confusion matrix at each validation
checkpoints/        the states that a restart resumes from, until the run is finished
evaluation.json     the test result
mistakes.json       of a classifier: its most confident mistakes on the test set
evaluations/        results on other data: `patchword evaluate RUN data=OTHER`
machine.json        what it ran on
calibration.json    of a classifier: the temperature and the threshold that were fitted on its validation examples
data.json           which samples it was trained on
samples.safetensors digests of the contents of the samples of all splits
finished.json       when the run was finished
seal.json           the run's id, and size and sha256 of the files above that must not change
report.html         all of it, to read
"""

from dataclasses import dataclass

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.data.image.images import Images
from patchword.recipes.image.evaluation import read_test_images
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.run_folder import RunFolder, resume_command
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.schema.recipe import Recipe


@dataclass(frozen=True)
class Run(RunFolder):
    """The folder of a run, with its recipe."""

    def recipe(self) -> Recipe:
        return read_recipe(self.folder / "recipe.yaml")

    def image_recipe(self) -> ImageRecipe:
        recipe = self.recipe()
        if not isinstance(recipe, ImageRecipe):
            raise UserError(f"{self.folder} is a run of the kind {recipe.kind}", expected="a run of the kind images")
        return recipe

    def test_images(self, card: Card) -> Images:
        """Return the test part of the run's data in the image size and channels of this card."""
        return read_test_images(self.image_recipe(), card)


__all__ = ["Run", "resume_command"]
