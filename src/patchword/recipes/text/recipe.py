"""The recipe of a model fine-tuned on texts."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field

from patchword.core.errors import UserError
from patchword.recipes.distillation.fields import Taught, Teacher
from patchword.recipes.recipe import Chosen, ModelChoice, Recipe

TextTaskName = Literal["classes", "labels", "number", "tags", "span"]
_FILES = ("train", "validation", "test", "tokenizer", "without")


class TextRecipe(Recipe):
    kind: Literal["text"] = "text"
    model: Chosen = ModelChoice(name="bert-mini")
    task: TextTaskName = Field(
        "classes", description="a class or several labels or a number of a text; tags of its words; span of an answer"
    )
    train: str = Field(
        "", description="a .csv, .tsv, .jsonl, .conll(u) or SQuAD .json file (or several); GLUE's folder"
    )
    validation: str = Field("0.1", description="a file, or the share of the training texts kept for validation")
    test: str = Field("", description="a file; without one, the validation texts are reported")
    without: str = Field("", description="of questions: files whose contexts are not learned from, e.g. a test set")
    glue: str = Field("", description="one of GLUE's tasks: cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli")
    text: str = Field("text", description="the column of the text")
    pair: str = Field("", description="the column of a second text")
    label: str = Field("label", description="the column of the label; of tags its name or number, by default the last")
    tokenizer: str = Field("", description="a folder, if the model's folder has none")
    length: int = Field(128, ge=8, description="tokens read at once, special ones included")
    stride: int = Field(0, ge=0, description="a longer text is read in windows so many tokens apart; 0 cuts it off")
    metric: str = Field("", description="what the best epoch is chosen by; empty is the task's own")
    weights: bool = Field(False, description="rare classes count as much as frequent ones, in training")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing, of classes, in training")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="BERT had 0.1; without it steps are quicker")
    teacher: Taught = Teacher()
    quantise: bool = Field(False, description="train as if in 8 bits (Q8BERT), so that `export --int8` loses little")
    quantise_after: int = Field(0, ge=0, description="steps in float32 before that")
    language: Literal["english", "chinese"] = Field("english", description="by whose rules answers are compared")
    packed: Annotated[Literal["auto", "true", "false"], Field(description="without padding; auto: on a GPU")] = "auto"
    epochs: int = Field(3, gt=0)
    batch_size: int = Field(32, gt=0)
    learning_rate: float = Field(5e-5, gt=0, description="peak learning rate")
    schedule: Literal["cosine", "linear", "inverse-root"] = Field("linear", description="how the rate falls")
    weight_decay: float = Field(0.01, ge=0, description="weight decay, on matrices only")

    def located(self) -> Self:
        found = {name: ",".join(map(whole_path, listed(getattr(self, name)))) for name in _FILES}
        model = self.model.model_copy(update={"name": whole_path(self.model.name)})
        teacher = self.teacher.model_copy(update={"name": whole_path(self.teacher.name)})
        return self.model_copy(update={**found, "model": model, "teacher": teacher})

    def share(self) -> float | None:
        """of the training texts, if validation is not a file"""
        return share_of(self.validation)


def share_of(validation: str) -> float | None:
    """None of a file's name"""
    try:
        share = float(validation)
    except ValueError:
        return None
    if not 0 < share < 1:
        raise UserError("recipe field 'validation'", expected="a file, or a share between 0 and 1", got=share)
    return share


def _cut(value: Any) -> Any:
    return tuple(part.strip(" []'\"") for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Files = Annotated[tuple[str, ...], BeforeValidator(_cut)]  # may be typed with commas between them


def listed(names: str) -> list[str]:
    """files with commas between them; a file whose own name has a comma is one"""
    return [names] if Path(names).exists() else [name.strip() for name in names.split(",")]


def whole_path(path: str) -> str:
    """of what is a file or folder; anything else is left as it is"""
    return str(Path(path).absolute()) if path and Path(path).exists() else path
