"""A model of texts as it is served: its predictions and its vectors, in packed batches."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from patchword.core.errors import UserError
from patchword.pipelines.text_inputs import check_pairs
from patchword.pipelines.texts import TextEngine
from patchword.recipes.text.inference.embedding import EmbeddingOptions
from patchword.recipes.text.inference.input import TextInput, checked_text
from patchword.recipes.text.inference.prediction import may_be_unanswered
from patchword.recipes.text.inference.reader import Counts
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.serving.engine.request import Item
from patchword.serving.models.served import CPU_TOKENS, GPU_TOKENS, EmbedGroup, PredictGroup, ServedModel

MOST_CHARACTERS = 100_000  # of one text: a text that is split into windows is read to its end
_SAMPLE = "A text of about twenty tokens, as they are sent: it measures how fast this model answers on this machine."


@dataclass(frozen=True)
class TextAsked:
    """One text of a request. is_truncated: it is longer than the model reads, and is not split into windows."""

    given: TextInput
    is_truncated: bool


class TextTooLongError(UserError):
    """A text has more characters than the server reads."""


class ServedTexts(ServedModel):
    """Predictions as `patchword predict` makes them, vectors as `patchword embed` does."""

    reads = "texts"
    unit = "tokens"

    def __init__(self, name: str, engine: TextEngine) -> None:
        reader = engine.reader
        self.name = name
        self._engine = replace(engine, reader=replace(reader, form=replace(reader.form, packed=True)))
        self._empty = may_be_unanswered(reader.folder)

    @property
    def abilities(self) -> tuple[str, ...]:
        return ("predict", "embed") if self._engine.task is not None else ("embed",)

    @property
    def width(self) -> int:
        return int(self._engine.reader.model.card.config["width"])

    @property
    def second(self) -> str | None:
        """What it must be given with a text: a pair, a question, or nothing."""
        if self._engine.task is None:
            return None
        spec = task_spec_of(self._recipe(False))
        return "question" if "question" in spec.asked_as else "pair" if spec.paired else None

    @property
    def is_on_cpu(self) -> bool:
        return self._engine.reader.form.device.type == "cpu"

    @property
    def budget(self) -> int:
        return CPU_TOKENS if self.is_on_cpu else GPU_TOKENS

    @cached_property
    def options(self) -> EmbeddingOptions:
        """The options of `patchword embed` without options."""
        return self._engine.embedder.options(None, None, None, None)

    def describe(self) -> dict[str, Any]:
        task, labels = self._engine.task, []
        if task in ("classes", "labels", "tags"):
            labels = list(self._engine.reader.labels)
        length = self._recipe(False).length if task else self.options.length
        return {"task": task, "labels": labels, "width": self.width, "max_tokens": length}

    def items(self, inputs: Sequence[TextInput], top: int) -> list[Item]:
        """Check texts, pairs or questions, and count their tokens."""
        self.require("predict")
        is_paired = any(one.pair is not None for one in inputs)
        recipe = self._recipe(is_paired)
        spec = task_spec_of(recipe)
        for number, one in enumerate(inputs):
            check_text(one, number)
        check_pairs(inputs, spec.paired, "question" in spec.asked_as, self.name)
        splits = bool(recipe.stride and not is_paired) or spec.name in ("tags", "span")
        return self._counted(inputs, recipe.length, splits, PredictGroup(top, is_paired))

    def embed_items(self, texts: Sequence[str]) -> list[Item]:
        """Check texts to embed, and count their tokens."""
        inputs = [TextInput(text) for text in texts]
        for number, one in enumerate(inputs):
            check_text(one, number)
        return self._counted(inputs, self.options.length, False, EmbedGroup())

    def sample(self) -> list[Item]:
        if self._engine.task is None:
            (one,) = self.embed_items([_SAMPLE])
        else:
            spec = task_spec_of(self._recipe(False))
            pair = _SAMPLE if spec.paired or "question" in spec.asked_as else None
            (one,) = self.items([TextInput(_SAMPLE, pair)], 1)
        return [one] * max(1, self.budget // one.size)

    def compute(self, items: Sequence[Item]) -> Sequence[Any]:
        group = items[0].group
        asked: list[TextAsked] = [item.value for item in items]
        if not isinstance(group, PredictGroup):
            return self._vectors(asked)
        engine = replace(self._engine, reader=replace(self._engine.reader, counts=Counts()))
        answers = engine.predict([one.given for one in asked], self._recipe(group.is_paired), group.top, self._empty)
        cut = [{"truncated": True} if one.is_truncated else {} for one in asked]
        return [answer.record() | more for answer, more in zip(answers, cut, strict=True)]

    def _vectors(self, asked: Sequence[TextAsked]) -> list[np.ndarray[tuple[int], np.dtype[np.float32]]]:
        embedder = self._engine.embedder.with_new_counts()
        parts = embedder.embed([one.given.text for one in asked], self.options)
        return [vector for part in parts for vector in part.vectors]

    def _recipe(self, is_paired: bool) -> TextRecipe:
        return self._recipes[is_paired]

    @cached_property
    def _recipes(self) -> tuple[TextRecipe, TextRecipe]:
        return self._engine.recipe(paired=False), self._engine.recipe(paired=True)

    def _counted(self, inputs: Sequence[TextInput], length: int | None, splits: bool, group: Hashable) -> list[Item]:
        """Return the items. splits: a long text is split into windows, else it is truncated."""
        tokenizer = self._engine.reader.tokenizer
        most = length or self._engine.reader.max_length
        enough = None if splits else most + 1
        first = tokenizer.ids_of([one.text for one in inputs], enough)
        second = tokenizer.ids_of([one.pair or "" for one in inputs], enough)
        found = []
        for one, ids, pair in zip(inputs, first, second, strict=True):
            tokens = len(ids) + len(pair) + tokenizer.frame.specials(one.pair is not None)
            is_cut = tokens > most and not splits
            found.append(Item(TextAsked(one, is_cut), max(1, most if is_cut else tokens), group))
        return found


def check_text(one: TextInput, number: int) -> None:
    """Raise an error for a text that is empty, too long or cannot be encoded."""
    where = f"inputs.{number}"
    for text in (one.text, one.pair):
        if text is None:
            continue
        if len(text) > MOST_CHARACTERS:
            expected = f"at most {MOST_CHARACTERS:,} characters"
            hint = "send parts of the text"
            raise TextTooLongError(f"{where} is too long", expected=expected, got=f"{len(text):,}", hint=hint)
        checked_text(text, where)
