"""Predictions of a fine-tuned model for new texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchword.core.errors import UserError
from patchword.recipes.run_folders.records import DATA, read_record
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.text.inference.answers import TextAnswer
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.text.inference.outputs import Advance, ignore_progress
from patchword.recipes.text.inference.reader import Reader, grouped
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import TEXT_TASKS, task_of_head, task_spec_of
from patchword.recipes.text.tasks.spec import AnswerOptions


def recipe_of(reader: Reader, paired: bool = False) -> TextRecipe:
    """Return the recipe of a run; for any other folder, a recipe that fits the model's head."""
    path = reader.folder / "recipe.yaml"
    if path.is_file():
        recipe = read_recipe(path)
        if isinstance(recipe, TextRecipe):
            return recipe
        if recipe.kind == "pretraining":
            hint = f'`patchword fill {reader.folder} "The [MASK] sat on the mat"` shows its predictions'
            raise UserError(f"{reader.folder} is pretrained only; it has no task yet", expected="a run", hint=hint)
    task = task_of_head(reader.head, reader.model.card.config["classes"])
    if task is None:
        heads = dict.fromkeys(spec.head for spec in TEXT_TASKS.values())
        hint = "fine-tune it: `patchword train classify-text --set model=FOLDER train=FILE`"
        raise UserError(f"{reader.folder} has no head for a task", expected=" or ".join(heads), hint=hint)
    return TextRecipe(task=task, length=reader.max_length, pair="pair" if paired else "")


def may_be_unanswered(folder: Path) -> bool:
    """True if the training questions of the run include some without an answer."""
    return bool(read_record(folder, DATA).get("unanswered"))


@dataclass(frozen=True)
class Predictor:
    """A model and its recipe. top: how many classes or answers to return. empty: whether "" is a valid answer.

    temperature: the logits of classes are divided by it.
    """

    reader: Reader
    recipe: TextRecipe
    top: int = 3
    empty: bool = False
    temperature: float = 1.0

    def answers(self, asked: Sequence[TextInput], advance: Advance = ignore_progress) -> Iterator[TextAnswer]:
        """Yield the predictions in the order of the inputs."""
        spec, options = task_spec_of(self.recipe), AnswerOptions(self.top, self.empty, self.temperature)
        for group in grouped(asked, lambda one: len(one.text)):
            yield from spec.answers(self.reader, group, options, advance)
