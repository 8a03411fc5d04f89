"""The input and the output of a cost rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from patchword.analysis.cost.expression import Expression

Kind = Literal["linear", "attention", "convolution", "other"]


@dataclass(frozen=True)
class Line:
    """One product or one set of weights of a part."""

    part: str
    label: str
    kind: Kind
    macs: Expression | None
    parameters: Expression | None


@dataclass(frozen=True)
class Call:
    """The arguments and the output of one call of a part, for one image or one text."""

    arguments: Sequence[Any]
    answer: Any
