"""The recipe of a tagger or a classifier over frozen vectors."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from patchword.data.text.corpus.word_counts import WordSplitting
from patchword.recipes.schema.batch_size import AUTO_MEANS, BatchSize
from patchword.recipes.schema.fields import whole_path, whole_paths
from patchword.recipes.schema.recipe import (
    EPOCHS,
    KIND,
    LEARNING_RATE,
    SCHEDULE,
    TEXT_TEST,
    TEXT_VALIDATION,
    WEIGHT_DECAY,
    Chosen,
    ModelChoice,
    Recipe,
)
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.vectors.sources import listed_sources


class OverVectorsRecipe(Recipe):
    """Trains a tagger or a classifier over frozen vectors."""

    kind: Literal["over-vectors"] = Field("over-vectors", description=KIND)
    model: Chosen = Field(
        ModelChoice(name="over-vectors"),
        description="the model over the vectors; model.width, model.depth, ... set its sizes",
    )
    vectors: str = Field(
        "", description="random, a file of word vectors, or the folder of a run; several are concatenated: FIRST+SECOND"
    )
    task: Literal["tags", "classes"] = Field("tags", description="predict one tag per word, or one class per text")
    train: str = Field(
        "", description="training data: a .conll(u) file for tags; a .csv, .tsv or .jsonl file for classes"
    )
    validation: str = Field("0.1", description=TEXT_VALIDATION)
    test: str = Field("", description=TEXT_TEST)
    text: str = Field("text", description="for classes: name of the column with the text")
    label: str = Field("label", description="for classes: name of the column with the label")
    column: str = Field("", description="for tags: name or number of their column; empty: upos, or the last")
    cut: WordSplitting = Field("words", description="for classes: how a text is split into words")
    length: int = Field(256, gt=0, description="for classes: maximum words per text")
    memory: float = Field(8.0, gt=0, description="maximum memory in GiB for the vectors of all words")
    epochs: int = Field(8, gt=0, description=EPOCHS)
    batch_size: BatchSize = Field(32, ge=0, description=f"texts per optimizer step; {AUTO_MEANS}")
    learning_rate: float = Field(2e-3, gt=0, description=LEARNING_RATE)
    schedule: Literal["cosine", "linear"] = Field("linear", description=SCHEDULE)
    weight_decay: float = Field(0.01, ge=0, description=WEIGHT_DECAY)

    def located(self) -> Self:
        files = {name: whole_paths(getattr(self, name)) for name in ("train", "validation", "test")}
        sources = "+".join(map(_located, listed_sources(self.vectors))) if self.vectors else ""
        return self.model_copy(update={**files, "vectors": sources})

    def texts(self) -> TextRecipe:
        """Return the text recipe that reads and splits the same files."""
        label = self.label if self.task == "classes" else self.column or str(TextRecipe.model_fields["label"].default)
        return TextRecipe(
            task=self.task,
            train=self.train,
            validation=self.validation,
            test=self.test,
            text=self.text,
            label=label,
        )


def _located(name: str) -> str:
    """Return an absolute path; a run may be given by its name in the folder `runs`."""
    below = Path("runs") / name
    return whole_path(str(below) if not Path(name).exists() and below.exists() else name)
