"""The fields of a recipe that set up knowledge distillation."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, PositiveInt

from patchword.recipes.schema.recipe import STRICT, from_text, name_only


class Teacher(BaseModel):
    """The teacher of a text model, and the weight of each distillation loss; a weight of 0 switches a loss off."""

    model_config = STRICT
    name: str = Field("", description="folder of a finished run or of a model; empty: no distillation")
    own: float = Field(1.0, ge=0, description="weight of the task's own loss")
    soft: float = Field(1.0, ge=0, description="weight of the loss on the teacher's softened probabilities")
    temperature: float = Field(2.0, gt=0, description="temperature of the softmax in the soft loss")
    hard: float = Field(0.0, ge=0, description="weight of the loss on the teacher's predicted class")
    direction: float = Field(0.0, ge=0, description="DistilBERT: weight of the cosine loss on the last hidden states")
    states: float = Field(
        0.0,
        ge=0,
        description="TinyBERT: weight of the loss on all hidden states, through a learned map to the teacher's width",
    )
    scores: float = Field(0.0, ge=0, description="TinyBERT: weight of the loss on attention scores before the softmax")
    features: float = Field(
        0.0, ge=0, description="MobileBERT: weight of the loss on all hidden states after normalisation"
    )
    attention: float = Field(0.0, ge=0, description="MobileBERT: weight of the loss on the attention of each head")
    layers: Annotated[tuple[PositiveInt, ...], BeforeValidator(from_text)] = Field(
        (), description="the teacher's layer for each layer of the model, e.g. [3, 6, 9, 12]; empty: evenly spaced"
    )
    begin: Literal["own", "layers"] = Field(
        "own", description="initial weights: the model's own, or copies of the teacher's layers (DistilBERT)"
    )


def _comma_separated(names: Any) -> Any:
    """Return a list of names, given as such or typed in brackets, as one text."""
    found = from_text(names)
    if isinstance(found, Sequence) and not isinstance(found, str):
        return ",".join(map(str, found))
    return names


class ImageTeacher(BaseModel):
    """The teachers of an image classifier. The loss is (1 - share) * own loss + share * distillation loss."""

    model_config = STRICT
    name: Annotated[str, BeforeValidator(_comma_separated)] = Field(
        "",
        description="folder of a run or of a model, or a weight file; of several, separated by commas, the "
        "probabilities are averaged; empty: no distillation",
    )
    model: str = Field("", description="registry name of the teacher's model, if its weight file does not contain it")
    kind: Literal["soft", "soft-deit", "hard"] = Field(
        "hard",
        description="the target: soft: the teacher's softened probabilities; soft-deit: the same loss divided by the "
        "number of classes, as in DeiT's code; hard: the teacher's predicted class",
    )
    temperature: float = Field(3.0, gt=0, description="temperature of the softmax in the soft loss")
    share: float = Field(
        0.5, gt=0, le=1, description="weight of the distillation loss; DeiT: 0.1 for soft, 0.5 for hard"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing of the teacher's predicted class")
    token: Literal["auto", "class", "distillation", "both"] = Field(
        "auto",
        description="token that is trained on the teacher's output; auto: the distillation token, if there is one",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="dtype of the teacher's activations; auto: bfloat16 on GPUs that support it, else float32"
    )


Taught = Annotated[Teacher, BeforeValidator(name_only)]
ImageTaught = Annotated[ImageTeacher, BeforeValidator(name_only)]
