"""What a text model can be asked: predictions, vectors, words at masks, continuations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from patchword.recipes.results.calibration import temperature_of
from patchword.recipes.text.inference.answers import TextAnswer
from patchword.recipes.text.inference.embedder import SubwordEmbedder
from patchword.recipes.text.inference.filling import Gap, fill
from patchword.recipes.text.inference.generation import (
    Continuation,
    GenerationOptions,
    Prompt,
    continue_text,
    prompt_of,
)
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.text.inference.outputs import Advance, ignore_progress
from patchword.recipes.text.inference.prediction import Predictor, may_be_unanswered, recipe_of
from patchword.recipes.text.inference.reader import Reader, open_reader
from patchword.recipes.text.inference.token_stream import stream_text
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_of_head, task_spec_of


@dataclass(frozen=True)
class TextEngine:
    """A text model with its tokenizer. The verbs predict, fill and generate ask it as a pipeline does.

    name: what the user opened, for messages. temperature: the logits of classes are divided by it; 1 gives the
    probabilities as trained.
    """

    reader: Reader
    name: str
    temperature: float = 1.0

    @classmethod
    def open(
        cls, name: str, device: str = "auto", precision: Literal["auto", "float32", "bfloat16"] = "float32"
    ) -> "TextEngine":
        """Open a run, also by its name in `runs`, or a folder with weights and a tokenizer."""
        return cls(open_reader(name, device, precision), name)

    @cached_property
    def task(self) -> str | None:
        """The task that the head was trained for: classes, labels, number, tags or span; None if it has none."""
        head, classes = self.reader.head, self.reader.model.card.config["classes"]
        if (self.reader.folder / "recipe.yaml").is_file():
            return task_spec_of(recipe_of(self.reader)).name if task_of_head(head, classes) else None
        return task_of_head(head, classes)

    def recipe(self, paired: bool = False) -> TextRecipe:
        """Return the recipe of the run, or one that fits the head. paired: the inputs are pairs of texts."""
        return recipe_of(self.reader, paired)

    def predict(
        self,
        inputs: Sequence[TextInput],
        recipe: TextRecipe,
        top: int = 3,
        empty: bool | None = None,
        advance: Advance = ignore_progress,
    ) -> list[TextAnswer]:
        """Return the answers in the order of the inputs.

        empty: whether a question may have no answer; None: as in the training data
        """
        can_be_empty = may_be_unanswered(self.reader.folder) if empty is None else empty
        return list(Predictor(self.reader, recipe, top, can_be_empty, self.temperature).answers(inputs, advance))

    def calibrated(self) -> "TextEngine":
        """Return the same engine with the temperature that was fitted on the validation texts of its run."""
        return replace(self, temperature=temperature_of(self.reader.folder, self.name))

    @property
    def embedder(self) -> SubwordEmbedder:
        """The model without its head."""
        return SubwordEmbedder(self.reader)

    def fill(self, text: str, top: int = 5, pieces: bool = False) -> list[Gap]:
        """Return the most probable words at every mask."""
        return fill(self.reader, text, top, pieces)

    def prompt(self, text: str) -> Prompt:
        return prompt_of(self.reader.tokenizer, text)

    def generate(self, prompt: Prompt, options: GenerationOptions) -> list[Continuation]:
        """Return the continuations of a prompt."""
        return continue_text(self.reader, prompt, options)

    def stream(self, prompt: Prompt, options: GenerationOptions) -> Iterator[str]:
        """Yield one continuation in parts, as its tokens are generated."""
        return stream_text(self.reader, prompt, options)
