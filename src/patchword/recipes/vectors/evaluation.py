"""Evaluation of a tagger or a classifier over frozen vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from patchword.core.device import pick_device
from patchword.layers import FrozenVectorModel
from patchword.objectives.metrics.classification import Scores
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.text.data import read_evaluated
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.sets import Judged, TextSet
from patchword.recipes.text.tasks.table_sets import ClassSet
from patchword.recipes.vectors.recipe import OverVectorsRecipe
from patchword.recipes.vectors.sets import all_words, read_words, text_set
from patchword.recipes.vectors.sources_models import open_sources
from patchword.recipes.vectors.task import bank_of, judge
from patchword.training.console import run_console


@dataclass(frozen=True)
class VectorsEvaluation:
    """The result of a model over frozen vectors.

    names: of the vector sources. part: the evaluated data split: "test", or "validation" if there is no test file.
    """

    kind: ClassVar[str] = "over-vectors"
    model: FrozenVectorModel
    names: tuple[str, ...]
    texts: TextSet
    judged: Judged
    metric: str
    part: str
    scores: Scores | None
    skipped: Sequence[str] = ()  # lines that name the rows with empty cells

    def lines(self) -> Sequence[str]:
        lines = [*self.skipped, f"{self.part.capitalize()} Loss: {self.judged.loss:.4f}"]
        lines += [f"{self.part.capitalize()} {name}: {value:.4f}" for name, value in self.judged.measures.items()]
        return [*lines, *self.notes()]

    def notes(self) -> list[str]:
        """Return the weight of each layer, if there are several, and a caution about results on validation texts."""
        lines = [
            f"layers of {name}, the lowest first: {', '.join(f'{share:.0%}' for share in shares)}"
            for name, shares in zip(self.names, self.model.layer_weights(), strict=True)
            if len(shares) > 1
        ]
        if self.part == "validation":
            lines.append("(the best epoch was chosen on these same texts; give test=FILE for others)")
        return lines

    def summary(self) -> dict[str, Any]:
        summary = self.scores.summary() if self.scores is not None else {"loss": self.judged.loss}
        layers = dict(zip(self.names, self.model.layer_weights(), strict=True))
        return {**summary, **self.judged.measures, "metric": self.metric, "part": self.part, "layers": layers}


def evaluate_over_vectors(run: RunFolder, recipe: OverVectorsRecipe, device: str) -> VectorsEvaluation:
    target, spec = pick_device(device), task_spec_of(recipe.texts())
    model = cast(FrozenVectorModel, run.model().to(target))
    labels = model.card.labels
    part = "test" if recipe.test else "validation"
    rows, skipped = read_evaluated(spec, part)
    spec.check(Path(recipe.test), rows, labels)
    read, sources = read_words(recipe, rows), open_sources(recipe.vectors, target)
    texts = text_set(spec, read, labels, part)
    bank = bank_of(recipe, sources, all_words(read), target, run_console(quiet=True))
    judged = judge(model, bank, texts)
    scores = texts.scores(judged) if isinstance(texts, ClassSet) else None
    names = tuple(source.name for source in sources)
    return VectorsEvaluation(model, names, texts, judged, spec.metric(labels), part, scores, skipped)
