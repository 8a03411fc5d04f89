"""The input and the output of a cost rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from patchword.analysis.cost.expression import Expression

Kind = Literal["linear", "attention", "convolution", "other"]

KINDS: Mapping[Kind, str] = {
    "linear": "linear layers",
    "attention": "attention products",
    "convolution": "convolutions",
}


@dataclass(frozen=True)
class Line:
    """One product or one set of weights of a part."""

    part: str
    label: str
    kind: Kind
    macs: Expression | None
    parameters: Expression | None

    def to_json(self) -> dict[str, Any]:
        """Return the formulas, also with numbers, for `json.dumps`."""
        counts = (("macs", self.macs), ("parameters", self.parameters))
        found = {name: expression.to_json() for name, expression in counts if expression}
        return {"part": self.part, "label": self.label, "kind": self.kind, **found}


@dataclass(frozen=True)
class Call:
    """The arguments and the output of one call of a part, for one image or one text."""

    arguments: Sequence[Any]
    answer: Any
