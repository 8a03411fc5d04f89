"""The recipe of an ELMo that is pretrained on raw text."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from patchword.core.errors import UserError
from patchword.data.text.corpus.word_counts import WordSplitting
from patchword.recipes.schema.batch_size import AUTO_MEANS, BatchSize
from patchword.recipes.schema.fields import refuse_hub_name, whole_path
from patchword.recipes.schema.recipe import (
    EPOCHS,
    KIND,
    LEARNING_RATE,
    MODEL,
    WARMUP,
    WEIGHT_DECAY,
    Chosen,
    ModelChoice,
    Recipe,
)
from patchword.recipes.text.recipe import Files


class ElmoRecipe(Recipe):
    """Pretrains an ELMo on raw text."""

    unsupported = frozenset({"activation_checkpointing", "compile"})
    kind: Literal["elmo"] = Field("elmo", description=KIND)
    model: Chosen = Field(ModelChoice(name="elmo-small"), description=MODEL)
    text: Files = Field((), description="text files, .jsonl files or folders of them, separated by commas")
    cut: WordSplitting = Field(
        "marks",
        description="how a text is split: marks: punctuation marks are words; words: lower case, without punctuation; "
        "spaces: at spaces",
    )
    words: int = Field(
        30_000, ge=2, description="size of the vocabulary: the most frequent words; all others are the unknown word"
    )
    drawn: int = Field(
        0, ge=0, description="negative samples per step of the sampled softmax (ELMo: 8192); 0 is the full softmax"
    )
    length: int = Field(50, ge=4, description="maximum tokens per sequence; longer sentences are split")
    held_out: float = Field(
        0.01, gt=0, lt=0.5, description="fraction of the sentences that is kept for validation and never trained on"
    )
    epochs: int = Field(5, gt=0, description=EPOCHS)
    batch_size: BatchSize = Field(8192, ge=0, description=f"tokens per optimizer step, with padding; {AUTO_MEANS}")
    learning_rate: float = Field(1e-3, gt=0, description=LEARNING_RATE)
    warmup: float = Field(0.05, ge=0, lt=1, description=WARMUP)
    weight_decay: float = Field(0.01, ge=0, description=WEIGHT_DECAY)

    def located(self) -> Self:
        model = self.model.model_copy(update={"name": whole_path(self.model.name)})
        return self.model_copy(update={"text": tuple(map(whole_path, self.text)), "model": model})

    def check_model(self) -> None:
        """Raise an error for a name of the hub."""
        hint = "the published ELMo is an .hdf5 file with an options.json, not safetensors: download both into a folder"
        refuse_hub_name(self.model.name, "model=elmo-small, a run, or the folder of published weights", hint)

    def require_text(self) -> None:
        if not self.text:
            raise UserError("no texts are given", expected="text=FILE, or several files separated by commas")

    def files(self) -> list[Path]:
        return [Path(name) for name in self.text]


def elmo_pretrain() -> ElmoRecipe:
    return ElmoRecipe(about="A small ELMo: a character CNN and a bidirectional language model (text=FILES).")
