"""Evaluation of a model that was fine-tuned on texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch

from patchword.core.device import pick_device
from patchword.data.skipping import left_out
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers.model import Model
from patchword.layers.quantize import is_quantised
from patchword.objectives.metrics.classification import Scores
from patchword.objectives.metrics.quality import Fitted, Quality
from patchword.recipes.results.calibration import read_fitted
from patchword.recipes.results.mistakes import Mistake, mistakes_of
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.text.data import read_evaluated
from patchword.recipes.text.model import as_text, batch_format
from patchword.recipes.text.quantised_evaluation import Compression, compression
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.task import judge
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.sets import Judged, TextSet
from patchword.recipes.text.tasks.table_sets import ClassSet

_MOST_LINES = 32


@dataclass(frozen=True)
class TextEvaluation:
    """The result of a text model.

    part: the evaluated data split: "test", or "validation" if there is no test file. scores: only for tasks with
    classes. fitted: temperature and threshold of the run.
    """

    kind: ClassVar[str] = "text"
    model: Model
    tokenizer: Tokenizer
    texts: TextSet
    judged: Judged
    metric: str
    part: str
    scores: Scores | None
    compression: Compression | None = None  # for a model with quantization-aware training
    skipped: Sequence[str] = ()  # lines that name the rows with empty cells
    fitted: Fitted | None = None

    @cached_property
    def quality(self) -> Quality | None:
        """The measures of a classifier; None for the other tasks."""
        return None if self.scores is None else Quality(self.scores, self.fitted)

    def lines(self) -> Sequence[str]:
        """Return the result as lines of text."""
        name = self.part.capitalize()
        if self.scores is not None:
            lines = [line.replace("Test", name, 1) for line in self.scores.lines()]
            if len(lines) > _MOST_LINES:
                lines = [*lines[: _MOST_LINES - 2], f"... (all {len(lines) - 2} classes are in the report)", lines[-1]]
        else:
            lines = [f"{name} Loss: {self.judged.loss:.4f}"]
        lines += [f"{name} {measure}: {value:.4f}" for measure, value in self.judged.measures.items()]
        lines += self.compression.lines() if self.compression else []
        if self.part == "validation":
            lines.append(f"({self.chosen_here} on these same texts; give test=FILE for others)")
        return [*self.skipped, *lines]

    @property
    def chosen_here(self) -> str:
        """What was chosen on the validation texts, which makes their results a little too good; without a full stop."""
        if self.quality is None or self.fitted is None:
            return "the best epoch was chosen"
        if self.fitted.threshold is None:
            return "the best epoch and the temperature were chosen"
        return "the best epoch, the temperature and the threshold were chosen"

    def mistakes(self) -> list[Mistake]:
        """Return the most confident mistakes of a classifier, with their texts."""
        texts = self.texts
        if self.scores is None or not isinstance(texts, ClassSet):
            return []
        cells = [texts.table.columns[role] for role in ("text", "pair") if role in texts.table.columns]
        return [
            replace(one, text=" | ".join(column[one.index] for column in cells)) for one in mistakes_of(self.scores)
        ]

    def summary(self) -> dict[str, Any]:
        summary = self.scores.summary() if self.scores is not None else {"loss": self.judged.loss}
        small = {"compression": self.compression.summary()} if self.compression else {}
        summary |= self.quality.summary() if self.quality else {}
        others = {**small, **left_out(self.skipped)}
        return {**summary, **self.judged.measures, "metric": self.metric, "part": self.part, **others}


def evaluate_texts(run: RunFolder, recipe: TextRecipe, device: str) -> TextEvaluation:
    target, spec = pick_device(device), task_spec_of(recipe)
    model = as_text(run.model().to(target), str(run.folder))
    tokenizer, labels = Tokenizer.read(run.folder), model.card.labels
    part = "test" if recipe.test and not recipe.glue else "validation"
    rows, skipped = read_evaluated(spec, part)
    spec.check(Path(recipe.test), rows, labels)
    texts = spec.texts(tokenizer, rows, labels, part)
    judged = judge(model, texts, batch_format(recipe.packed, tokenizer, target))
    scores = texts.scores(judged) if isinstance(texts, ClassSet) else None
    metric = spec.metric(labels)
    on_cpu = batch_format("false", tokenizer, torch.device("cpu"))
    small = compression(model, texts, metric, on_cpu, recipe.length) if is_quantised(model) else None
    fitted = read_fitted(run.folder)
    return TextEvaluation(model, tokenizer, texts, judged, metric, part, scores, small, skipped, fitted)
