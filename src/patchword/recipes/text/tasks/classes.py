"""Tasks that predict a class, several labels or a number per text of a table."""

from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.text.batching.batches import Examples
from patchword.data.text.formats.labels import (
    label_flags,
    label_ids,
    label_names,
    numbers,
    split_labels,
)
from patchword.data.text.formats.tables import Table
from patchword.objectives.class_weights import balanced_weights
from patchword.recipes.text.inference.answers import ClassAnswer, LabelsAnswer, NumberAnswer, TextAnswer
from patchword.recipes.text.tasks.spec import AnswerOptions, Labels
from patchword.recipes.text.tasks.table import TableTask
from patchword.recipes.text.tasks.table_sets import ClassSet, LabelsSet, NumberSet, TableSet


class ClassTask(TableTask):
    name = "classes"
    has_classes = True

    def idle(self) -> dict[str, str]:
        used = ("class_weights", "sampling", "label_smoothing")
        return {field: why for field, why in super().idle().items() if field not in used}

    def own_metrics(self, labels: Labels) -> tuple[str, ...]:
        return ("accuracy", "f1", "matthews") if len(labels) == 2 else ("accuracy", "f1-macro")

    def own_labels(self, rows: Table) -> Labels:
        names = label_names(rows.columns["label"])
        if len(names) == len(rows) > 2:
            raise UserError(
                f"every text of {rows.path} has a different label",
                expected="a column of classes",
                got=self.recipe.label,
                hint="give the column with label=..., or predict a number with task=number",
            )
        if len(names) < 2:
            raise UserError(
                f"all texts of {rows.path} have the same label", expected="at least two classes", got=names[0]
            )
        return names

    def truth(self, rows: Table, labels: Labels) -> Tensor:
        return label_ids(rows, labels)

    def strata(self, rows: Table, groups: Tensor) -> Tensor:
        """The class of the first row of each group."""
        return label_ids(rows, label_names(rows.columns["label"]))[groups]

    def made(self, rows: Table, examples: Examples, truth: Tensor, labels: Labels) -> TableSet:
        weights = balanced_weights(truth, len(labels)) if self.recipe.class_weights == "balanced" else None
        metrics = self.metrics(labels)
        return ClassSet(rows, examples, truth, labels, metrics, weights, self.recipe.label_smoothing)

    def answer(self, scores: Tensor, names: Labels, options: AnswerOptions) -> TextAnswer:
        best = (scores / options.temperature).softmax(-1).topk(min(options.top, len(names)))
        return ClassAnswer(tuple(zip((names[k] for k in best.indices.tolist()), best.values.tolist(), strict=True)))


class LabelsTask(TableTask):
    name = "labels"
    loss = "binary cross-entropy (nats)"
    may_be_empty = ("label",)

    def own_metrics(self, labels: Labels) -> tuple[str, ...]:
        return ("multilabel-f1-micro", "multilabel-f1-macro", "multilabel-accuracy")

    def own_labels(self, rows: Table) -> Labels:
        names = label_names(label for row in split_labels(rows) for label in row)
        if not names:
            raise UserError(f"no text of {rows.path} has a label", expected="labels such as a|b")
        return names

    def truth(self, rows: Table, labels: Labels) -> Tensor:
        return label_flags(rows, labels)

    def made(self, rows: Table, examples: Examples, truth: Tensor, labels: Labels) -> TableSet:
        return LabelsSet(rows, examples, truth, labels, self.metrics(labels))

    def answer(self, scores: Tensor, names: Labels, options: AnswerOptions) -> TextAnswer:
        return LabelsAnswer(tuple(zip(names, scores.sigmoid().tolist(), strict=True)))


class NumberTask(TableTask):
    name = "number"
    loss = "squared error"

    def classes(self, labels: Labels) -> int:
        return 1

    def own_metrics(self, labels: Labels) -> tuple[str, ...]:
        return ("pearson", "spearman")

    def own_labels(self, rows: Table) -> Labels:
        return ()

    def truth(self, rows: Table, labels: Labels) -> Tensor:
        return numbers(rows)

    def made(self, rows: Table, examples: Examples, truth: Tensor, labels: Labels) -> TableSet:
        return NumberSet(rows, examples, truth, labels, self.metrics(labels))

    def answer(self, scores: Tensor, names: Labels, options: AnswerOptions) -> TextAnswer:
        return NumberAnswer(float(scores[0]))
