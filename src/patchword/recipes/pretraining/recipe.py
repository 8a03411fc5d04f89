"""The recipe of a language model that is pretrained on raw text."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from patchword.core.errors import UserError
from patchword.recipes.distillation.fields import Taught, Teacher
from patchword.recipes.schema.batch_size import AUTO_MEANS, BatchSize
from patchword.recipes.schema.fields import whole_path
from patchword.recipes.schema.recipe import (
    EPOCHS,
    HELD_OUT,
    KIND,
    LEARNING_RATE,
    MODEL,
    PACKED,
    SCHEDULE,
    WARMUP,
    WEIGHT_DECAY,
    Chosen,
    ModelChoice,
    Recipe,
)
from patchword.recipes.text.recipe import Files


class PretrainingRecipe(Recipe):
    """Pretrains a language model on raw text."""

    kind: Literal["pretraining"] = Field("pretraining", description=KIND)
    model: Chosen = Field(ModelChoice(name="bert-mini"), description=MODEL)
    text: Files = Field((), description="text files, .jsonl files or folders of them, separated by commas")
    documents: Literal["auto", "line", "blank", "doc", "file"] = Field(
        "auto", description="how documents are separated: one per line, by blank lines, in <doc> blocks, one per file"
    )
    tokenizer: str = Field(
        "", description="folder that `patchword tokenizer train` wrote, or a folder with a vocab.txt"
    )
    cache: str = Field(
        "", description="folder in which the tokenized text is cached; empty: a sub-folder of the data folder"
    )
    parallel: Files = Field(
        (), description="instead of text: a .tsv file of sentences and translations, or two parallel files"
    )
    articles: Files = Field(
        (), description="instead of text, for Grover: .jsonl files with domain, date, authors, headline and body"
    )
    objective: Literal["auto", "masked", "next"] = Field(
        "auto", description="what is predicted: masked words, or the next word; auto: what the model is built for"
    )
    sentences: Literal["next", "order", "packed"] = Field(
        "next",
        description="second objective: next sentence (BERT), sentence order (ALBERT), or packed: sentences are "
        "concatenated and there is none (RoBERTa)",
    )
    length: int = Field(128, ge=16, description="tokens per example, with special tokens")
    masked: float = Field(0.15, gt=0, lt=1, description="fraction of the tokens that are masked and predicted")
    masks: Literal["pieces", "words", "ngrams", "units"] = Field(
        "pieces",
        description="what is masked as a unit: word pieces, whole words, n-grams of up to three words (ALBERT), or "
        "phrases and names (ERNIE)",
    )
    units: str = Field(
        "", description="for masks=units: a file with one phrase per line; without it a segmenter finds Chinese words"
    )
    held_out: float = Field(0.01, gt=0, lt=0.5, description=HELD_OUT)
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout of the model; BERT has 0.1; short runs learn faster without it"
    )
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout of attention weights; BERT has 0.1")
    teacher: Taught = Field(Teacher(), description="the model to distil from; teacher=RUN names it")
    packed: Annotated[Literal["auto", "true", "false"], Field(description=PACKED)] = "auto"
    epochs: int = Field(10, gt=0, description=EPOCHS)
    batch_size: BatchSize = Field(256, ge=0, description=f"examples per optimizer step; {AUTO_MEANS}")
    tokens: int = Field(
        0, ge=0, description="instead of batch_size: tokens per optimizer step, in as many examples as fit; 0 is off"
    )
    learning_rate: float = Field(1e-3, gt=0, description=LEARNING_RATE)
    warmup: float = Field(0.05, ge=0, lt=1, description=WARMUP)
    schedule: Literal["cosine", "linear", "inverse-root"] = Field("linear", description=SCHEDULE)
    weight_decay: float = Field(0.01, ge=0, description=WEIGHT_DECAY)

    def located(self) -> Self:
        found: dict[str, Any] = {name: whole_path(getattr(self, name)) for name in ("tokenizer", "cache", "units")}
        model = self.model.model_copy(update={"name": whole_path(self.model.name)})
        for name in ("text", "parallel", "articles"):
            found[name] = tuple(map(whole_path, getattr(self, name)))
        teacher = self.teacher.model_copy(update={"name": whole_path(self.teacher.name)})
        return self.model_copy(update={**found, "model": model, "teacher": teacher})

    def check_objective(self, model: str, causal: bool) -> None:
        """Raise an error for a model that predicts something else. causal: whether it predicts the next word"""
        own, what = ("next", "the next word") if causal else ("masked", "masked words")
        if self.objective in ("auto", own):
            return
        expected = "a causal model, e.g. gpt2-small" if own == "masked" else "a bidirectional model, e.g. bert-mini"
        raise UserError(
            f"{model} predicts {what}, but the recipe has objective={self.objective}",
            expected=expected,
            hint=f"objective={own} pretrains this model with its own objective",
        )

    def files(self) -> list[Path]:
        return [Path(name) for name in self.text]
