"""A language model as it is served: words at masks, or continuations of a prompt, one token per batch."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from patchword.core.errors import UserError
from patchword.data.text.formats.text_io import check_characters
from patchword.pipelines.fillings import Fillings
from patchword.pipelines.texts import TextEngine
from patchword.recipes.text.inference.filling import MaskedText, fill_masked, masked_text
from patchword.recipes.text.inference.generation import GenerationOptions, Prompt, prompt_of_news
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.text.inference.token_stream import TokenStream
from patchword.serving.engine.request import Item, Unfinished
from patchword.serving.models.served import FillGroup, GenerateGroup
from patchword.serving.models.texts import MOST_CHARACTERS, ServedTexts, TextTooLongError, check_text

MOST_ANSWER = 8_000_000  # characters of the sentences of an answer: each filling repeats its text
_MEASURED = GenerationOptions(tokens=8, temperature=0)
_PROMPT = "A text of about"


class ServedLanguage(ServedTexts):
    """Fillings as `patchword fill` makes them, or continuations as `patchword generate` does; and vectors.

    token_size: the work of one generated token, in tokens of a full batch: a generated token costs more, because it
    is computed alone.
    """

    def __init__(self, name: str, engine: TextEngine) -> None:
        super().__init__(name, engine)
        self.token_size = 1

    @property
    def abilities(self) -> tuple[str, ...]:
        return ("generate" if self._engine.reader.model.causal else "fill", "embed")

    def measure_token(self, per_second: float) -> None:
        """Measure a generated token; the least of several, since the first ones also prepare.

        per_second: tokens of a full batch
        """
        if "generate" not in self.abilities:
            return
        stream, least = TokenStream(self._engine.reader, self._engine.prompt(_PROMPT), _MEASURED), float("inf")
        while True:
            begin = time.perf_counter()
            if stream.step() is None:
                break
            least = min(least, time.perf_counter() - begin)
        self.token_size = max(1, round(least * per_second)) if least < float("inf") else 1

    def fill_items(self, texts: Sequence[str], group: FillGroup) -> list[Item]:
        """Check texts with masks, and count their tokens."""
        self.require("fill")
        found, answer = [], 0
        for number, text in enumerate(texts):
            check_text(TextInput(text), number)
            try:
                masked = masked_text(self._engine.reader, text)
            except UserError as error:
                what = f"inputs.{number}: {error.what}"
                raise UserError(what, expected=error.expected, got=error.got, hint=error.hint) from None
            answer += len(masked.gaps) * group.top * len(text)
            found.append(Item(masked, len(masked.ids), group))
        if answer > MOST_ANSWER:
            expected = f"masks x top x characters of at most {MOST_ANSWER:,}, as each filling repeats its text"
            raise UserError("the answer would be too long", expected=expected, got=f"{answer:,}", hint="lower top")
        return found

    def prompt(self, text: str, fields: Mapping[str, str], field: str) -> Prompt:
        """Return the prompt of a text, or that of a news article of which one field is generated."""
        self.require("generate")
        if field and text:
            raise UserError("a prompt and fields exclude each other", expected="one or the other")
        if fields and not field:
            raise UserError("no field to generate was named", expected='"field", e.g. "body"')
        for where, one in {"prompt": text, **fields}.items():
            if len(one) > MOST_CHARACTERS:
                expected = f"at most {MOST_CHARACTERS:,} characters"
                raise TextTooLongError(f"{where} is too long", expected=expected, got=f"{len(one):,}")
            check_characters(one, where)
        if not field:
            return self._engine.prompt(text)
        given = {name: one for name, one in fields.items() if one}
        return prompt_of_news(self._engine.reader.tokenizer, given, field)

    def generate_item(self, prompt: Prompt, options: GenerationOptions) -> Item:
        """Return a prompt as the engine takes it: token by token, or in one piece if it is a beam search."""
        most = options.tokens * max(options.samples, options.beams)
        if options.beams:
            return Item((prompt, options), len(prompt.ids) + most * self.token_size, GenerateGroup(True))
        stream = TokenStream(self._engine.reader, prompt, options)
        portion = options.samples * self.token_size
        return Item(stream, len(prompt.ids) + stream.most * portion, GenerateGroup(False), portion)

    def compute(self, items: Sequence[Item]) -> Sequence[Any]:
        group = items[0].group
        if isinstance(group, FillGroup):
            return [self._filled(item.value, group) for item in items]
        if isinstance(group, GenerateGroup):
            one = self._searched if group.is_search else self._stepped
            return [one(item) for item in items]
        return super().compute(items)

    def _filled(self, masked: MaskedText, group: FillGroup) -> dict[str, Any]:
        found = Fillings(masked.text, fill_masked(self._engine.reader, masked, group.top, group.pieces))
        return {"text": masked.text, "filled": found.filled, "gaps": [gap.to_json() for gap in found]}

    def _searched(self, item: Item) -> list[dict[str, Any]]:
        prompt, options = item.value
        return [one.to_json() for one in self._engine.generate(prompt, options)]

    def _stepped(self, item: Item) -> Any:
        """Generate one token. A failure is the answer: a stream that has failed cannot be tried again."""
        stream: TokenStream = item.value
        try:
            new = stream.step()
        except Exception as error:
            return error
        return [one.to_json() for one in stream.continuations()] if new is None else Unfinished(new)
