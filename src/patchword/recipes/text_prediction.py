"""Answers of a fine-tuned model on texts it has never seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.data.text.assembly import Limit, sentences
from patchword.data.text.questions import windows
from patchword.data.text.squad import Question
from patchword.objectives.answers import ENGLISH
from patchword.recipes.pretraining_recipe import PretrainingRecipe
from patchword.recipes.recipe import read_recipe
from patchword.recipes.text_answers import ClassAnswer, LabelsAnswer, NumberAnswer, SpanAnswer, TextAnswer
from patchword.recipes.text_input import Asked
from patchword.recipes.text_reader import Plain, Progress, Reader, grouped, nobody
from patchword.recipes.text_recipe import TextRecipe, TextTaskName
from patchword.recipes.text_sets import SpanSet, merged
from patchword.recipes.text_tagging import tagged

_TASKS: dict[str, TextTaskName] = {"classes": "classes", "tags": "tags", "span": "span"}


def recipe_of(reader: Reader, paired: bool = False) -> TextRecipe:
    """The run's own; of a folder that is no run, one that fits its head."""
    path = reader.folder / "recipe.yaml"
    if path.is_file():
        recipe = read_recipe(path)
        if isinstance(recipe, TextRecipe):
            return recipe
        if isinstance(recipe, PretrainingRecipe):
            hint = f'`patchword fill {reader.folder} "The [MASK] sat on the mat"` shows what it learned'
            raise UserError(f"{reader.folder} was pretrained; it answers nothing yet", expected="a run", hint=hint)
    if reader.head not in _TASKS:
        hint = "fine-tune it: `patchword train classify-text --set model=FOLDER train=FILE`"
        raise UserError(f"{reader.folder} has no head that answers", expected=" or ".join(_TASKS), hint=hint)
    classes = reader.model.card.config["classes"]
    task = "number" if reader.head == "classes" and classes == 1 else _TASKS[reader.head]
    stride = reader.positions // 3 if task == "span" else 0
    return TextRecipe(task=task, length=reader.positions, stride=stride, pair="pair" if paired else "")


def may_be_unanswered(folder: Path) -> bool:
    """Whether the questions a run was trained on had some without an answer, which the run remembers."""
    remembered = folder / "data.json"
    return remembered.is_file() and bool(read_json(remembered).get("unanswered"))


@dataclass(frozen=True)
class Predictor:
    """A model, the recipe it was trained by, how many classes or answers to name, and whether "" is an answer."""

    reader: Reader
    recipe: TextRecipe
    top: int = 3
    empty: bool = False

    def answers(self, asked: Sequence[Asked], progress: Progress = nobody) -> Iterator[TextAnswer]:
        """In the order of what is asked."""
        task = {"tags": self._tags, "span": self._spans}.get(self.recipe.task, self._texts)
        for group in grouped(asked, lambda one: len(one.text)):
            yield from task(group, progress)

    def _texts(self, asked: Sequence[Asked], progress: Progress) -> Iterator[TextAnswer]:
        pairs = [one.pair or "" for one in asked] if asked[0].pair is not None else None
        limit = Limit(self.recipe.length, self.recipe.stride)
        examples = sentences(self.reader.tokenizer, "asked", [one.text for one in asked], pairs, limit)
        self.reader.counts.add(examples)
        outputs = self.reader.outputs(Plain(examples), len(asked), progress)
        return map(self._answer, merged(torch.stack(outputs), examples.owner, len(asked)))

    def _answer(self, scores: Tensor) -> TextAnswer:
        if self.recipe.task == "number":
            return NumberAnswer(float(scores[0]))
        names = self._names()
        if self.recipe.task == "labels":
            return LabelsAnswer(tuple(zip(names, scores.sigmoid().tolist(), strict=True)))
        best = scores.softmax(-1).topk(min(self.top, len(names)))
        return ClassAnswer(tuple(zip((names[k] for k in best.indices.tolist()), best.values.tolist(), strict=True)))

    def _tags(self, asked: Sequence[Asked], progress: Progress) -> Iterator[TextAnswer]:
        return tagged(self.reader, asked, self._names(), self.recipe.length, progress)

    def _spans(self, asked: Sequence[Asked], progress: Progress) -> Iterator[TextAnswer]:
        questions = [Question("", one.pair or "", one.text, (), "", self.empty) for one in asked]
        limit = Limit(self.recipe.length, self.recipe.stride or self.recipe.length // 3)
        spans = SpanSet(windows(self.reader.tokenizer, "asked", questions, limit), ENGLISH)
        self.reader.counts.add(spans.examples)
        outputs = self.reader.outputs(spans, len(asked), progress)
        return (SpanAnswer(found, self.top) for found in spans.answers(outputs))

    def _names(self) -> tuple[str, ...]:
        card = self.reader.model.card
        return card.labels or tuple(str(number) for number in range(card.config["classes"]))
