"""The recipe of a model that is fine-tuned on texts."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field

from patchword.core.errors import UserError
from patchword.recipes.distillation.fields import Taught, Teacher
from patchword.recipes.schema.batch_size import AUTO_MEANS, BatchSize
from patchword.recipes.schema.broken import BrokenSamples
from patchword.recipes.schema.class_balance import ClassBalance
from patchword.recipes.schema.fields import whole_path, whole_paths
from patchword.recipes.schema.recipe import (
    EPOCHS,
    KIND,
    LABEL_SMOOTHING,
    LEARNING_RATE,
    MODEL,
    PACKED,
    SCHEDULE,
    TEXT_TEST,
    TEXT_VALIDATION,
    WEIGHT_DECAY,
    Chosen,
    ModelChoice,
    Recipe,
)

TextTaskName = Literal["classes", "labels", "number", "tags", "span"]
_FILES = ("train", "validation", "test", "tokenizer", "without")


class TextRecipe(ClassBalance, BrokenSamples, Recipe):
    """Fine-tunes a language model on a task over texts."""

    kind: Literal["text"] = Field("text", description=KIND)
    model: Chosen = Field(ModelChoice(name="bert-mini"), description=MODEL)
    task: TextTaskName = Field(
        "classes",
        description="what is predicted: the class of a text, several labels, a number, a tag per word, or the span of "
        "an answer",
    )
    train: str = Field(
        "", description="training texts: .csv, .tsv, .jsonl, .conll(u) or SQuAD .json files, or the folder of GLUE"
    )
    validation: str = Field("0.1", description=TEXT_VALIDATION)
    test: str = Field("", description=TEXT_TEST)
    without: str = Field(
        "", description="for task=span: files whose contexts are excluded from training, e.g. a test set"
    )
    glue: str = Field("", description="a task of GLUE: cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli")
    text: str = Field("text", description="name of the column with the text")
    pair: str = Field("", description="name of the column with the second text of a pair")
    label: str = Field(
        "label", description="name of the column with the label; for tags its name or number, by default the last"
    )
    tokenizer: str = Field("", description="folder of the tokenizer, if the folder of the model has none")
    length: int = Field(128, ge=8, description="maximum tokens per example, with special tokens")
    stride: int = Field(
        0, ge=0, description="longer texts are split into windows that start this many tokens apart; 0 truncates them"
    )
    metric: str = Field("", description="metric that selects the best epoch; empty is the default of the task")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description=LABEL_SMOOTHING)
    attention_dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout of attention weights; BERT has 0.1; steps are faster without it"
    )
    teacher: Taught = Field(Teacher(), description="the model to distil from; teacher=RUN names it")
    quantise: bool = Field(
        False, description="quantization-aware training (Q8BERT), so that `export --int8` loses little accuracy"
    )
    quantise_after: int = Field(0, ge=0, description="training steps in float32 before quantization starts")
    language: Literal["english", "chinese"] = Field(
        "english", description="language whose rules normalise answers before they are compared"
    )
    packed: Annotated[Literal["auto", "true", "false"], Field(description=PACKED)] = "auto"
    epochs: int = Field(3, gt=0, description=EPOCHS)
    batch_size: BatchSize = Field(32, ge=0, description=f"texts per optimizer step; {AUTO_MEANS}")
    learning_rate: float = Field(5e-5, gt=0, description=LEARNING_RATE)
    schedule: Literal["cosine", "linear", "inverse-root"] = Field("linear", description=SCHEDULE)
    weight_decay: float = Field(0.01, ge=0, description=WEIGHT_DECAY)

    def located(self) -> Self:
        found = {name: whole_paths(getattr(self, name)) for name in _FILES}
        model = self.model.model_copy(update={"name": whole_path(self.model.name)})
        teacher = self.teacher.model_copy(update={"name": whole_path(self.teacher.name)})
        return self.model_copy(update={**found, "model": model, "teacher": teacher})

    def validation_fraction(self) -> float | None:
        """Return the fraction of the training texts that is kept for validation; None if validation is a file."""
        return fraction_of(self.validation)


def fraction_of(validation: str) -> float | None:
    """Return the validation field as a fraction, or None if it names files."""
    try:
        fraction = float(validation)
    except ValueError:
        return None
    if not 0 < fraction < 1:
        raise UserError("recipe field 'validation'", expected="a file, or a fraction between 0 and 1", got=fraction)
    return fraction


def _cut(value: Any) -> Any:
    return tuple(part.strip(" []'\"") for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Files = Annotated[tuple[str, ...], BeforeValidator(_cut)]  # comma-separated on the command line
