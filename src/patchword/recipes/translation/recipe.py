"""The recipe of a model that translates."""

from typing import Literal, Self

from pydantic import Field

from patchword.objectives.metrics.bleu import BleuWords
from patchword.recipes.recipe import Chosen, ModelChoice, Recipe
from patchword.recipes.text.recipe import listed, share_of, whole_path

_FILES = ("train", "validation", "test", "tokenizer")


class TranslationRecipe(Recipe):
    kind: Literal["translation"] = "translation"
    model: Chosen = ModelChoice(name="transformer-small")
    train: str = Field(
        "", description="two files of as many lines with a comma between, or one .tsv file; .gz files, too"
    )
    validation: str = Field("0.02", description="such files, or the share of the training pairs kept for validation")
    test: str = Field("", description="such files; without any, the validation pairs are reported")
    tokenizer: str = Field(
        "", description="a folder, or two with a comma between; empty: learned from the training pairs"
    )
    vocabularies: Literal["shared", "separate"] = Field("shared", description="one for both languages, or one each")
    words: int = Field(8000, gt=0, description="entries of a vocabulary that is learned")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="label smoothing, in training")
    beam: int = Field(5, gt=0, description="beams of the search, in the test; validation takes the likeliest word")
    penalty: float = Field(0.6, ge=0, description="of short translations in the search; 0 compares plain probabilities")
    bleu: BleuWords = Field("13a", description="how sacrebleu cuts words: 13a, intl; zh for Chinese; char for others")
    epochs: int = Field(40, gt=0)
    batch_size: int = Field(4096, gt=0, description="tokens of a batch, of its longer side and with padding")
    learning_rate: float = Field(2e-3, gt=0, description="peak learning rate; of LSTMs better 0.001")
    schedule: Literal["cosine", "linear", "inverse-root"] = Field("inverse-root", description="how the rate falls")
    weight_decay: float = Field(0.01, ge=0, description="weight decay, on matrices only")
    ema_decay: float = Field(0.999, ge=0, lt=1, description="decay of the moving average of the weights; 0 is off")

    def located(self) -> Self:
        found = {name: ",".join(map(whole_path, listed(getattr(self, name)))) for name in _FILES}
        model = self.model.model_copy(update={"name": whole_path(self.model.name)})
        return self.model_copy(update={**found, "model": model})

    def share(self) -> float | None:
        """of the training pairs, if validation is no file"""
        return share_of(self.validation)
