"""A translator as it is served."""

from collections.abc import Sequence
from typing import Any

import torch

from patchword.data.text.batching.ragged import Ragged
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.translation.search import Search
from patchword.recipes.translation.token_stream import TranslationStream
from patchword.recipes.translation.translating import Translating
from patchword.serving.engine.request import Item, Unfinished
from patchword.serving.models.served import CPU_TOKENS, GPU_TOKENS, ServedModel, TranslateGroup
from patchword.serving.models.texts import check_text

_SAMPLE = "A man in a blue shirt stands on a ladder and cleans a window."


class ServedTranslator(ServedModel):
    """Translations as `patchword translate` makes them.

    The size of a text is its tokens times the beams: the translation is about as long as the text.
    """

    reads = "texts"
    unit = "tokens x beams"

    def __init__(self, name: str, engine: Translating) -> None:
        self.name, self._engine = name, engine

    @property
    def abilities(self) -> tuple[str, ...]:
        return ("translate",)

    @property
    def is_on_cpu(self) -> bool:
        return next(self._engine.model.parameters()).device.type == "cpu"

    @property
    def budget(self) -> int:
        return CPU_TOKENS if self.is_on_cpu else GPU_TOKENS

    def describe(self) -> dict[str, Any]:
        return {"task": "translation", "labels": [], "max_tokens": int(self._engine.model.card.config["max_length"])}

    def items(self, inputs: Sequence[Any], top: int) -> list[Item]:
        self.require("predict")
        return []

    def translate_items(self, texts: Sequence[str], group: TranslateGroup) -> list[Item]:
        """Check texts, and count their tokens."""
        inputs = [TextInput(text, place={"file": "inputs"}) for text in texts]
        for number, one in enumerate(inputs):
            check_text(one, number)
        source = self._engine.sources(inputs)
        found = []
        for number, text in enumerate(texts):
            row = source.take(torch.tensor([number]))
            size, stream = len(row.values), TranslationStream(self._engine, row) if group.is_stream else None
            value = (text, row if stream is None else stream)
            found.append(Item(value, size * group.beams, group, 1 if stream else None))
        return found

    def sample(self) -> list[Item]:
        beams = Search().beams
        (one,) = self.translate_items([_SAMPLE], TranslateGroup(beams, Search().penalty, False))
        return [one] * max(1, self.budget // one.size)

    def compute(self, items: Sequence[Item]) -> Sequence[Any]:
        group = items[0].group
        assert isinstance(group, TranslateGroup), "texts are translated"
        if group.is_stream:
            return [self._stepped(*item.value) for item in items]
        texts, rows = zip(*(item.value for item in items), strict=True)
        source = Ragged.of([row.values for row in rows])
        found = self._engine.texts(source, Search(group.beams, group.penalty), lambda done: None)
        return [_record(text, translation) for text, translation in zip(texts, found, strict=True)]

    def _stepped(self, text: str, stream: TranslationStream) -> Any:
        """Generate one token. A failure is the answer: a stream that has failed cannot be tried again."""
        try:
            new = stream.step()
        except Exception as error:
            return error
        return _record(text, stream.text) if new is None else Unfinished(new)


def _record(text: str, translation: str) -> dict[str, Any]:
    return {"text": text, "translation": translation}
