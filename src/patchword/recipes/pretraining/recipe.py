"""The recipe of a model pretrained on raw text."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from patchword.recipes.distillation.fields import Taught, Teacher
from patchword.recipes.recipe import Chosen, ModelChoice, Recipe
from patchword.recipes.text.recipe import Files, whole_path


class PretrainingRecipe(Recipe):
    kind: Literal["pretraining"] = "pretraining"
    model: Chosen = ModelChoice(name="bert-mini")
    text: Files = Field((), description="text files, .jsonl files or folders of them, with commas between")
    documents: Literal["auto", "line", "blank", "doc", "file"] = Field(
        "auto", description="how documents are separated: a line each, blank lines, <doc> blocks, a file each"
    )
    tokenizer: str = Field("", description="a folder made by `patchword tokenizer train`, or one with a vocab.txt")
    cache: str = Field("", description="where the tokens are kept; empty is a folder of their own in the data folder")
    parallel: Files = Field(
        (), description="instead of text: a .tsv of sentences and translations, or two files with a comma between"
    )
    articles: Files = Field(
        (), description="instead of text, for Grover: .jsonl files of news with domain, date, authors, headline, body"
    )
    sentences: Literal["next", "order", "packed"] = Field(
        "next", description="pairs: does the second follow (BERT), are they in order (ALBERT); or packed, nothing asked"
    )
    length: int = Field(128, ge=16, description="tokens of an example, special ones included")
    masked: float = Field(0.15, gt=0, lt=1, description="share of the tokens to guess")
    masks: Literal["pieces", "words", "ngrams", "units"] = Field(
        "pieces", description="what is masked as a whole: pieces, words, up to three words, phrases and names (ERNIE)"
    )
    units: str = Field(
        "", description="for masks=units: a file of phrases, one a line; without it Chinese is segmented"
    )
    held_out: float = Field(0.01, gt=0, lt=0.5, description="share of the documents kept for validation")
    dropout: float = Field(0.0, ge=0, lt=1, description="BERT had 0.1; short runs learn faster without")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="of attention weights; BERT had 0.1")
    teacher: Taught = Teacher()
    packed: Annotated[Literal["auto", "true", "false"], Field(description="without padding; auto: on a GPU")] = "auto"
    epochs: int = Field(10, gt=0)
    batch_size: int = Field(256, gt=0, description="examples of a step")
    tokens: int = Field(
        0, ge=0, description="instead: tokens of a step, of as many examples as they hold, long or short; 0 is off"
    )
    learning_rate: float = Field(1e-3, gt=0, description="peak learning rate")
    warmup: float = Field(0.05, ge=0, lt=1, description="share of the run in which the rate rises")
    schedule: Literal["cosine", "linear", "inverse-root"] = Field("linear", description="how the rate falls")
    weight_decay: float = Field(0.01, ge=0, description="weight decay, on matrices only")

    def located(self) -> Self:
        found: dict[str, Any] = {name: whole_path(getattr(self, name)) for name in ("tokenizer", "cache", "units")}
        model = self.model.model_copy(update={"name": whole_path(self.model.name)})
        for name in ("text", "parallel", "articles"):
            found[name] = tuple(map(whole_path, getattr(self, name)))
        teacher = self.teacher.model_copy(update={"name": whole_path(self.teacher.name)})
        return self.model_copy(update={**found, "model": model, "teacher": teacher})

    def files(self) -> list[Path]:
        return [Path(name) for name in self.text]
