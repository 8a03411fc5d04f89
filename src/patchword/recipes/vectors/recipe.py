"""The recipe of a tagger or a classifier over vectors that stay as they are."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from patchword.data.text.corpus.word_counts import Cutting
from patchword.recipes.recipe import Chosen, ModelChoice, Recipe
from patchword.recipes.text.recipe import TextRecipe, listed, whole_path
from patchword.recipes.vectors.sources import listed_sources


class OverVectorsRecipe(Recipe):
    kind: Literal["over-vectors"] = "over-vectors"
    model: Chosen = Field(ModelChoice(name="over-vectors"), description="its sizes: model.width, model.depth, ...")
    vectors: str = Field(
        "", description="random, a file of word vectors, or a run's folder; several, side by side, with + between"
    )
    task: Literal["tags", "classes"] = Field("tags", description="a tag for each word, or a class for each text")
    train: str = Field("", description="a .conll(u) file of tags; a .csv, .tsv or .jsonl file of classes")
    validation: str = Field("0.1", description="a file, or the share of the training texts kept for validation")
    test: str = Field("", description="a file; without one, the validation texts are reported")
    text: str = Field("text", description="of classes: the column of the text")
    label: str = Field("label", description="of classes: the column of the label")
    column: str = Field("", description="of tags: the name or number of their column; empty: upos, or the last")
    cut: Cutting = Field("words", description="of classes: how a text is cut, as for word vectors; or at spaces")
    length: int = Field(256, gt=0, description="of classes: words of a text that are read")
    memory: float = Field(8.0, gt=0, description="GiB that the vectors of all words may take")
    epochs: int = Field(8, gt=0)
    batch_size: int = Field(32, gt=0)
    learning_rate: float = Field(2e-3, gt=0, description="peak learning rate")
    schedule: Literal["cosine", "linear"] = Field("linear", description="how the rate falls")
    weight_decay: float = Field(0.01, ge=0, description="weight decay, on matrices only")

    def located(self) -> Self:
        files = {
            name: ",".join(map(whole_path, listed(getattr(self, name)))) for name in ("train", "validation", "test")
        }
        sources = "+".join(map(_located, listed_sources(self.vectors))) if self.vectors else ""
        return self.model_copy(update={**files, "vectors": sources})

    def texts(self) -> TextRecipe:
        """How its files are read and parted, which is as for a model that is fine-tuned."""
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
    """Runs may be told by their name below `runs`."""
    below = Path("runs") / name
    return whole_path(str(below) if not Path(name).exists() and below.exists() else name)
