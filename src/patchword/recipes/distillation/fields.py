"""What a recipe says of a teacher."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, PositiveInt

from patchword.recipes.recipe import STRICT, from_text, name_only


class Teacher(BaseModel):
    """Who teaches, and how much each lesson counts. 0 leaves a lesson out."""

    model_config = STRICT
    name: str = Field("", description="a finished run or a model's folder to learn from; empty is no teacher")
    own: float = Field(1.0, ge=0, description="weight of the loss without a teacher")
    soft: float = Field(1.0, ge=0, description="weight of the teacher's answers at a temperature")
    temperature: float = Field(2.0, gt=0, description="how much soft answers are evened out")
    hard: float = Field(0.0, ge=0, description="weight of the teacher's first choice, as if it were true")
    direction: float = Field(0.0, ge=0, description="DistilBERT: weight of the cosine of the last states")
    states: float = Field(0.0, ge=0, description="TinyBERT: weight of all states, through one map of widths")
    scores: float = Field(0.0, ge=0, description="TinyBERT: weight of attention before the softmax")
    features: float = Field(0.0, ge=0, description="MobileBERT: weight of all states, normed")
    attention: float = Field(0.0, ge=0, description="MobileBERT: weight of where each head looks")
    layers: Annotated[tuple[PositiveInt, ...], BeforeValidator(from_text)] = Field(
        (), description="for each layer of the model the teacher's it learns from, e.g. [3, 6, 9, 12]; empty is evenly"
    )
    begin: Literal["own", "layers"] = Field(
        "own", description="layers: the model begins with layers of its teacher, as DistilBERT did"
    )


class ImageTeacher(BaseModel):
    """Who teaches a classifier of images: (1 - share) * its own loss + share * the lesson."""

    model_config = STRICT
    name: str = Field("", description="a run, a model's folder or a file of weights to learn from; empty is no teacher")
    model: str = Field("", description="which model these weights are of, where they do not tell")
    kind: Literal["soft", "soft-deit", "hard"] = Field(
        "hard",
        description="soft: the teacher's answers at a temperature; soft-deit: that, over the number of classes, as in "
        "DeiT's code; hard: its first choice, as if it were true",
    )
    temperature: float = Field(3.0, gt=0, description="how much soft answers are evened out")
    share: float = Field(0.5, gt=0, le=1, description="of the lesson in the loss; DeiT: 0.1 soft, 0.5 hard")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing of the teacher's first choice")
    token: Literal["auto", "class", "distillation", "both"] = Field(
        "auto", description="which token learns from the teacher; auto: the distillation token, if the model has one"
    )


Taught = Annotated[Teacher, BeforeValidator(name_only)]
ImageTaught = Annotated[ImageTeacher, BeforeValidator(name_only)]
