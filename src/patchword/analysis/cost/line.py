"""What a rule answers, and what it is given."""

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
    """What a part was given and what it answered, for one image or one text."""

    arguments: Sequence[Any]
    answer: Any
