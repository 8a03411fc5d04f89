"""The result of a count: the cost lines of a part, their sums, and how each number was computed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from patchword.analysis.cost.groups import WHAT, Group, Term, What, in_words, joined, written
from patchword.analysis.cost.line import KINDS, Kind, Line
from patchword.analysis.cost.sizes import Size, Sizes, sizes_of
from patchword.analysis.cost.writing import as_latex, as_markdown, as_text
from patchword.analysis.cost.writing.calculation import Calculation, Chapter

CONVENTION = (
    "multiply-accumulates of matrix products and convolutions, per image or text; biases, norms, softmax and "
    "activations are not counted. Papers often call them FLOPs; counting multiplications and additions separately "
    "would double the number."
)
_IN_STAGE = re.compile(r"stages\.(\d+)\.")


@dataclass(frozen=True)
class Cost:
    """The cost lines of a part, and their sums.

    blocks: the names of all blocks of the model, in the order they run. stages: the sizes of each stage of a model of
    images. facts: what else is known, such as the MLP ratio.
    """

    model: str
    part: str  # its name in the model; "" is the whole model
    input: tuple[int, ...]
    lines: tuple[Line, ...]
    blocks: tuple[str, ...] = field(default=(), kw_only=True)
    stages: Sizes = field(default_factory=dict, kw_only=True)
    facts: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def parameters(self) -> int:
        return sum(line.parameters.value for line in self.lines if line.parameters)

    @property
    def macs(self) -> int:
        return sum(line.macs.value for line in self.lines if line.macs)

    def macs_of(self, kind: Kind) -> int:
        return sum(line.macs.value for line in self.lines if line.macs and line.kind == kind)

    def below(self, part: str) -> "Cost":
        """Return the cost of one part of this part."""
        lines = tuple(line for line in self.lines if line.part == part or line.part.startswith(f"{part}."))
        return replace(self, part=part, lines=lines)

    @property
    def title(self) -> str:
        """What was counted, e.g. "vit-exercise, block 1 (stages.0.encoder.blocks.0)"."""
        if self.part in self.blocks:
            return f"{self.model}, {self.title_of(Group((self.part,), self.lines))} ({self.part})"
        return f"{self.model}, {self.part}" if self.part else self.model

    def conventions(self) -> list[str]:
        """Return what is counted and what is not."""
        return [f"MACs: {CONVENTION}"]

    def symbols(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return the symbols used, each with its values (the stages of a pyramid differ) and its meaning."""
        used: dict[str, tuple[tuple[int, ...], str]] = {}
        for line in self.lines:
            for expression in (line.macs, line.parameters):
                for letter, (value, meaning, _) in (expression.symbols if expression else {}).items():
                    values, first = used.get(letter, ((), meaning))
                    used[letter] = (values if value in values else (*values, value), first)
        return used

    def sizes(self) -> list[Size]:
        """Return the letters of the formulas, and how each follows from the model's sizes."""
        return sizes_of(self.lines, self.stages)

    def groups(self) -> list[Group]:
        """Return the parts in order; blocks of equal cost that follow each other are one group."""
        places: dict[str, list[Line]] = {}
        for line in self.lines:
            places.setdefault(self.block_of(line) or self.place_of(line), []).append(line)
        found: list[Group] = []
        for place, some in places.items():
            one = Group((place,), joined(some))
            if found and place in self.blocks and found[-1].is_before(one):
                found[-1] = Group((*found[-1].parts, place), one.lines)
            else:
                found.append(one)
        return found

    def block_of(self, line: Line) -> str:
        """Return the block that a line belongs to, or nothing."""
        return next((name for name in self.blocks if line.part.startswith(f"{name}.")), "")

    def place_of(self, line: Line) -> str:
        """Return the part that a line outside the blocks belongs to."""
        pieces = line.part.split(".")
        return ".".join(pieces[: 3 if pieces[0] == "stages" or pieces[1:2] == ["layers"] else 1])

    def title_of(self, group: Group) -> str:
        """Return e.g. "stem of stage 2", "blocks 3 to 4 of stage 2". Blocks are counted from 1, through all stages."""
        name = group.parts[0]
        if name not in self.blocks:
            return f"{name.rpartition('.')[2]}{self._where(name)}" if _IN_STAGE.match(name) else name
        first, last = (1 + self.blocks.index(part) for part in (name, group.parts[-1]))
        return f"{f'block {first}' if first == last else f'blocks {first} to {last}'}{self._where(name)}"

    def _where(self, name: str) -> str:
        """Return the stage of a part, or its encoder or decoder, if the model has several."""
        owners = dict.fromkeys(block.partition(".blocks.")[0] for block in self.blocks)
        if len(owners) < 2:
            return ""
        stage = _IN_STAGE.match(name)
        return f" of stage {int(stage[1]) + 1}" if stage else f" of the {name.partition('.blocks.')[0]}"

    def tables(self) -> list[list[tuple[str, int, int]]]:
        """Return tables of parts: names, MACs and parameters, of equal blocks together."""
        return [
            [(one.name, one.times * one.total("macs"), one.times * one.total("parameters")) for one in self.groups()]
        ]

    def terms(self, what: What) -> list[Term]:
        """Return the terms of the sum of MACs or parameters: the groups; of a single part its lines."""
        groups = self.groups()
        if len(groups) == 1 and groups[0].times == 1:
            return groups[0].terms(what)
        titles = [self.title_of(one) if one.times == 1 else f"block{self._where(one.parts[0])}" for one in groups]
        return [Term(title, one.times, one.total(what)) for title, one in zip(titles, groups, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Return all numbers, formulas and sums as values for `json.dumps`."""
        return {
            "model": self.model,
            "part": self.part,
            "input": list(self.input),
            "parameters": self.parameters,
            "macs": {**{kind: self.macs_of(kind) for kind in KINDS}, "total": self.macs},
            "convention": CONVENTION,
            "symbols": {
                name: {"value": values[0] if len(values) == 1 else list(values), "meaning": meaning}
                for name, (values, meaning) in self.symbols().items()
            },
            "sizes": [one.to_json() for one in self.sizes()],
            "steps": [line.to_json() for line in self.lines],
            "groups": [
                {
                    "title": self.title_of(one),
                    "parts": list(one.parts),
                    "times": one.times,
                    "macs": one.total("macs"),
                    "parameters": one.total("parameters"),
                }
                for one in self.groups()
            ],
            "sums": {
                what: {"terms": in_words(terms), "working": written(terms)}
                for what in WHAT
                for terms in [self.terms(what)]
            },
        }

    def calculation(self) -> Calculation:
        """Return the calculation as data, which `to_text`, `to_markdown` and `to_latex` write."""
        terms, groups = {what: self.terms(what) for what in WHAT}, self.groups()
        return Calculation(
            title=self.title,
            input=self.input,
            chapters=self._chapters(groups),
            tables=self.tables(),
            sums={what: (in_words(some) if len(groups) > 1 else "", written(some)) for what, some in terms.items()},
            kinds={title: self.macs_of(kind) for kind, title in KINDS.items()},
            totals={"macs": self.macs, "parameters": self.parameters},
            facts=self.facts,
            conventions=self.conventions(),
        )

    def _chapters(self, groups: Sequence[Group]) -> list[Chapter]:
        """Return one chapter for each group; each has the sizes that no chapter before it has."""
        known: list[Size] = []
        found = []
        for one in groups:
            sizes = [size for size in sizes_of(one.lines, self.stages) if size not in known]
            known += sizes
            sums = {what: written(one.terms(what)) for what in WHAT if one.terms(what)}
            found.append(Chapter(self.title_of(one), one.name, one.times, sizes, one.lines, sums))
        return found

    def to_text(self, steps: bool = True) -> str:
        """Return the calculation as plain text. steps: False for the sums alone."""
        return as_text(self.calculation(), steps)

    def to_markdown(self, steps: bool = True) -> str:
        """Return the calculation as Markdown with tables."""
        return as_markdown(self.calculation(), steps)

    def to_latex(self, steps: bool = True) -> str:
        """Return the calculation as LaTeX, which needs the package amsmath."""
        return as_latex(self.calculation(), steps)
