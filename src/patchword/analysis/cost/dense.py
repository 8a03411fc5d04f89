"""What the costs of detectors and segmenters have in common: a backbone, parts, and sections of parts."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from patchword.analysis.cost.cost import Cost
from patchword.analysis.cost.groups import Group, Term, What


class PartCost(NamedTuple):
    """The sums of one part, for a table."""

    title: str
    macs: int
    parameters: int


@dataclass(frozen=True)
class DenseCost(Cost):
    """The cost of a detector or a segmenter, or of a part of it. backbone: its name."""

    backbone: str
    convention: ClassVar[str]  # what its counts include besides the convention of all models

    @abstractmethod
    def sections(self) -> list[PartCost]:
        """Return the sums of backbone, neck, heads and so on."""

    @property
    def title(self) -> str:
        """The model, its backbone and the part."""
        return ", ".join(filter(None, [self.model, f"backbone {self.backbone}", self.part]))

    def conventions(self) -> list[str]:
        """Return what is counted and what is not."""
        return [*super().conventions(), self.convention]

    def parts(self) -> list[PartCost]:
        """Return the sums of the stages of the backbone, the layers of the neck, and the parts of the heads."""
        sums: dict[str, tuple[int, int]] = {}
        for line in self.lines:
            title = self.place_of(line)
            macs, parameters = sums.get(title, (0, 0))
            more = line.macs.value if line.macs else 0, line.parameters.value if line.parameters else 0
            sums[title] = macs + more[0], parameters + more[1]
        return [PartCost(title, *both) for title, both in sums.items()]

    def tables(self) -> list[list[tuple[str, int, int]]]:
        """Return two tables: the parts, and the sections with their total."""
        total = PartCost("total", self.macs, self.parameters)
        return [[*self.parts()], [*self.sections(), total]]

    def title_of(self, group: Group) -> str:
        """Return e.g. "backbone, stage 2, blocks 1 to 3"; the blocks of each stage are counted from 1."""
        first, last = group.parts[0], group.parts[-1]
        if first not in self.blocks:
            return first
        place, numbers = self.place_of(group.lines[0]), [int(name.rpartition(".")[2]) + 1 for name in (first, last)]
        return f"{place}, {f'block {numbers[0]}' if first == last else f'blocks {numbers[0]} to {numbers[1]}'}"

    def terms(self, what: What) -> list[Term]:
        """Return the terms of the sum: the sections; of a single section its parts; of a single part its lines."""
        rows = next((rows for rows in (self.sections(), self.parts()) if len(rows) > 1), [])
        return [Term(row.title, 1, getattr(row, what)) for row in rows] or super().terms(what)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `Cost`, with the sums of sections and parts."""
        sums = {
            what: [one._asdict() for one in found]
            for what, found in (("sections", self.sections()), ("parts", self.parts()))
        }
        return {**super().to_json(), "backbone": self.backbone, **sums}
