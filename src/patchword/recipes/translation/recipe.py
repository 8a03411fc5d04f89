"""The recipe of a translation model."""

from typing import Literal, Self

from pydantic import Field

from patchword.objectives.metrics.bleu import BleuWords
from patchword.recipes.schema.batch_size import AUTO_MEANS, BatchSize
from patchword.recipes.schema.fields import refuse_hub_name, whole_path, whole_paths
from patchword.recipes.schema.recipe import (
    EMA_DECAY,
    EPOCHS,
    KIND,
    LABEL_SMOOTHING,
    MODEL,
    SCHEDULE,
    WEIGHT_DECAY,
    Chosen,
    ModelChoice,
    Recipe,
)
from patchword.recipes.text.recipe import fraction_of

_FILES = ("train", "validation", "test", "tokenizer")


class TranslationRecipe(Recipe):
    """Trains a model that translates sentences."""

    kind: Literal["translation"] = Field("translation", description=KIND)
    model: Chosen = Field(ModelChoice(name="transformer-small"), description=MODEL)
    train: str = Field(
        "", description="training pairs: two parallel files separated by a comma, or one .tsv file; .gz files work, too"
    )
    validation: str = Field(
        "0.02", description="files like those of train, or the fraction of the training pairs kept for validation"
    )
    test: str = Field("", description="files like those of train; without them, validation pairs are used")
    tokenizer: str = Field(
        "", description="folder of the tokenizer, or two separated by a comma; empty: trained on the training pairs"
    )
    vocabularies: Literal["shared", "separate"] = Field(
        "shared", description="one vocabulary for both languages, or one per language"
    )
    words: int = Field(8000, gt=0, description="size of a vocabulary that is trained on the pairs")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description=LABEL_SMOOTHING)
    beam: int = Field(5, gt=0, description="beam size of the search in the test; validation uses greedy search")
    penalty: float = Field(0.6, ge=0, description="length penalty of the beam search; 0 compares plain probabilities")
    bleu: BleuWords = Field("13a", description="tokenizer of sacrebleu: 13a, intl, zh (Chinese) or char (characters)")
    epochs: int = Field(40, gt=0, description=EPOCHS)
    batch_size: BatchSize = Field(
        4096, ge=0, description=f"tokens per optimizer step, counted on the longer side, with padding; {AUTO_MEANS}"
    )
    learning_rate: float = Field(2e-3, gt=0, description="peak learning rate; 0.001 is better for LSTMs")
    schedule: Literal["cosine", "linear", "inverse-root"] = Field("inverse-root", description=SCHEDULE)
    weight_decay: float = Field(0.01, ge=0, description=WEIGHT_DECAY)
    ema_decay: float = Field(0.999, ge=0, lt=1, description=EMA_DECAY)

    def located(self) -> Self:
        found = {name: whole_paths(getattr(self, name)) for name in _FILES}
        model = self.model.model_copy(update={"name": whole_path(self.model.name)})
        return self.model_copy(update={**found, "model": model})

    def check_model(self) -> None:
        """Raise an error for a name of the hub."""
        hint = "the translation models of the hub (Marian, T5, ...) have other architectures than ours"
        refuse_hub_name(self.model.name, "model=transformer-small, another model of the registry, or a run", hint)

    def validation_fraction(self) -> float | None:
        """Return the fraction of the training pairs that is kept for validation; None if validation is a file."""
        return fraction_of(self.validation)
