"""The fields of classifiers that help rare classes."""

from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from patchword.core.errors import UserError


class ClassBalance(BaseModel):
    """Fields of recipes of classifiers whose classes can have very different numbers of examples."""

    class_weights: Literal["none", "balanced"] = Field(
        "none",
        description="weight of each class in the training loss: none: equal; balanced: inverse to its number of "
        "examples",
    )
    sampling: Literal["natural", "balanced"] = Field(
        "natural",
        description="training examples of an epoch: natural: each once; balanced: as many, every class equally often, "
        "those of rare classes repeatedly",
    )

    def balances_classes(self) -> bool:
        """Return True if something is done about rare classes."""
        return "balanced" in (self.class_weights, self.sampling)

    @model_validator(mode="after")
    def _check_balanced_once(self) -> Self:
        if self.class_weights == self.sampling == "balanced":
            raise UserError(
                "class_weights=balanced and sampling=balanced correct the class frequencies twice",
                expected="one of them",
                hint="a class with a tenth of the examples would count ten times as much as the others",
            )
        return self
