"""The common part of tasks that predict something per text of a table."""

from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, cast

import torch
from torch import Tensor

from patchword.data.text.batching.assembly import Limit, sentences
from patchword.data.text.batching.batches import Examples
from patchword.data.text.formats.glue import GLUE, GluePart, GlueTask, read_glue
from patchword.data.text.formats.tables import Table, read_table
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.text.inference.answers import TextAnswer
from patchword.recipes.text.inference.input import Columns, TextInput
from patchword.recipes.text.inference.outputs import Advance
from patchword.recipes.text.inference.reader import Reader
from patchword.recipes.text.inference.requests import TypedOptions, text_inputs
from patchword.recipes.text.tasks.spec import IN_WINDOWS, AnswerOptions, Labels, TextTaskSpec
from patchword.recipes.text.tasks.table_sets import TableSet, merged


class TableTask(TextTaskSpec[Table]):
    """The tables are files, or those of a GLUE task, which defines columns, labels and metrics."""

    head = "classes"
    may_be_empty: ClassVar[Collection[str]] = ()
    has_classes: ClassVar[bool] = False  # one class per row

    @property
    def glue(self) -> GlueTask | None:
        return GLUE.get(self.recipe.glue)

    @property
    def hint(self) -> str:
        folder = "e.g. train=glue, the folder that holds CoLA, SST-2 and so on"
        return folder if self.glue else "e.g. train=reviews.csv text=review label=sentiment"

    @property
    def paired(self) -> bool:
        return bool(self.glue.pair if self.glue else self.recipe.pair)

    def idle(self) -> dict[str, str]:
        values = {**super().idle(), **({"stride": IN_WINDOWS} if self.paired else {})}
        if self.glue:
            values |= dict.fromkeys(("test", "text", "pair", "label"), "GLUE's files have their own")
            values |= {"task": f"it is {self.name} here"} if self.recipe.task != self.name else {}
        return values

    def metrics(self, labels: Labels) -> tuple[str, ...]:
        if self.glue:
            return tuple(dict.fromkeys((self.glue.counts, *self.glue.metrics)))
        return self.own_metrics(labels)

    @abstractmethod
    def own_metrics(self, labels: Labels) -> tuple[str, ...]: ...

    def read(self, part: str) -> Table:
        if self.glue:
            return read_glue(self.recipe.glue, Path(self.recipe.train), cast(GluePart, part))
        return super().read(part)

    def read_file(self, path: Path) -> Table:
        text, pair, label = self.recipe.text, self.recipe.pair, self.recipe.label
        columns = {"text": text, **({"pair": pair} if pair else {}), "label": label}
        training = path == Path(self.recipe.train)
        return read_table(path, columns, may_be_empty=self.may_be_empty, classes=self.has_classes, training=training)

    def labels(self, rows: Table) -> Labels:
        return self.glue.labels if self.glue else self.own_labels(rows)

    @abstractmethod
    def own_labels(self, rows: Table) -> Labels: ...

    @abstractmethod
    def truth(self, rows: Table, labels: Labels) -> Tensor:
        """Return the targets: (rows,), or (rows, labels)."""

    def check(self, path: Path, rows: Table, labels: Labels) -> None:
        self.truth(rows, labels)

    def known_by(self, rows: Table) -> Iterator[tuple[Hashable, str]]:
        pairs = zip(rows.columns["text"], rows.columns.get("pair", rows.columns["text"]), strict=True)
        return ((pair, f"{rows.path}, line {line}") for pair, line in zip(pairs, rows.lines, strict=True))

    def records(self, rows: Table) -> Iterable[object]:
        return zip(*(rows.columns[role] for role in sorted(rows.columns)), strict=True)

    def groups(self, rows: Table) -> Tensor:
        """Equal texts stay together; the number of a group is that of its first row."""
        texts = list(zip(rows.columns["text"], rows.columns.get("pair", rows.columns["text"]), strict=True))
        first = {text: len(texts) - place for place, text in enumerate(reversed(texts), 1)}
        return torch.tensor([first[text] for text in texts])

    def taken(self, rows: Table, index: Sequence[int]) -> Table:
        columns = {role: [values[row] for row in index] for role, values in rows.columns.items()}
        return replace(rows, columns=columns, lines=[rows.lines[row] for row in index])

    def texts(self, tokenizer: Tokenizer, rows: Table, labels: Labels, name: str) -> TableSet:
        limit = Limit(self.recipe.length, self.recipe.stride)
        examples = sentences(tokenizer, name, rows.columns["text"], rows.columns.get("pair"), limit)
        truth = self.truth(rows, labels)
        loss_weights = counting_once(examples.owner) if examples.windowed else None
        return self.made(
            rows, replace(examples, labels=truth[examples.owner], loss_weights=loss_weights), truth, labels
        )

    @abstractmethod
    def made(self, rows: Table, examples: Examples, truth: Tensor, labels: Labels) -> TableSet: ...

    @property
    def own_columns(self) -> Columns:
        if self.glue:
            return Columns(self.glue.text, self.glue.pair or "", quoted=False, header=self.glue.header)
        return Columns(self.recipe.text, self.recipe.pair)

    def read_inputs(self, inputs: Sequence[str], words: TypedOptions) -> Iterable[TextInput]:
        return text_inputs(self.columns(words), inputs, words)

    def answers(
        self, reader: Reader, asked: Sequence[TextInput], options: AnswerOptions, advance: Advance
    ) -> Iterator[TextAnswer]:
        pairs = [one.pair or "" for one in asked] if asked[0].pair is not None else None
        limit = Limit(self.recipe.length, self.recipe.stride)
        examples = sentences(reader.tokenizer, "asked", [one.text for one in asked], pairs, limit)
        reader.counts.add(examples)
        outputs = reader.outputs(examples, len(asked), advance)
        for scores in merged(torch.stack(outputs), examples.owner, len(asked)):
            yield self.answer(scores, reader.labels, options)

    @abstractmethod
    def answer(self, scores: Tensor, names: Labels, options: AnswerOptions) -> TextAnswer:
        """Return the prediction for one text. scores: (classes,)."""


def counting_once(owner: Tensor) -> Tensor:
    """Return a weight per window, (windows,) with mean 1: the windows of a row together count as one row."""
    windows = torch.bincount(owner)
    return len(owner) / (len(windows) * windows[owner].float())
