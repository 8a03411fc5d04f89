"""Generates text one token at a time: to show it while it grows, or to do other work between two tokens."""

from collections.abc import Iterator
from typing import NamedTuple

from patchword.core.errors import UserError
from patchword.objectives.generation.sampling import NOTHING, stream
from patchword.recipes.text.inference.generation import (
    Continuation,
    GenerationOptions,
    Prompt,
    behind,
    decoding_steps,
)
from patchword.recipes.text.inference.reader import Reader

HALF = "\ufffd"  # replacement character of an incomplete UTF-8 sequence


class NewText(NamedTuple):
    """What a token adds to a text; nothing if it ends inside a character. sample: the index of the text."""

    sample: int
    text: str


class TokenStream:
    """Continuations of a prompt that grow by one token per step; in the end those of `continue_text`.

    Nothing is computed before the first step.

    >>> stream = TokenStream(reader, prompt, GenerationOptions(tokens=20))
    >>> while (new := stream.step()) is not None:
    ...     print(new[0].text, end="")
    >>> stream.continuations()[0].ended
    """

    def __init__(self, reader: Reader, prompt: Prompt, wish: GenerationOptions) -> None:
        if wish.beams:
            raise UserError("a beam search has no text before its end", expected="sampling, or temperature 0")
        self._tokenizer, self._prompt = reader.tokenizer, prompt
        steps = decoding_steps(reader, prompt, wish.samples)
        self.most = min(wish.tokens, int(steps.room.max()))  # new tokens per text
        self._steps = stream(steps, wish.choice(), wish.tokens, prompt.ends)
        self._tokens: list[list[int]] = [[] for _ in range(wish.samples)]
        self._scores, self._ended = [0.0] * wish.samples, [False] * wish.samples
        self._shown = [0] * wish.samples
        self._is_flushed = False

    def step(self) -> list[NewText] | None:
        """Generate a token per text and return what it adds; None after the end."""
        found = next(self._steps, None)
        if found is None:
            return self._rest()
        new = []
        for sample, (token, chance) in enumerate(zip(*found, strict=True)):
            if token == NOTHING:
                continue
            self._scores[sample] += chance
            if token in self._prompt.ends:
                self._ended[sample] = True
                continue
            self._tokens[sample].append(token)
            new.append(NewText(sample, self._new(sample, self._text(sample).rstrip(HALF))))
        return new

    def continuations(self) -> list[Continuation]:
        """Return the texts, as far as they are."""
        return [
            Continuation(self._text(sample), len(self._tokens[sample]), self._scores[sample], self._ended[sample])
            for sample in range(len(self._tokens))
        ]

    def _rest(self) -> list[NewText] | None:
        """Return, once, the incomplete characters at the ends of texts."""
        if self._is_flushed:
            return None
        self._is_flushed = True
        rest = [NewText(sample, self._new(sample, self._text(sample))) for sample in range(len(self._tokens))]
        return [one for one in rest if one.text] or None

    def _new(self, sample: int, text: str) -> str:
        before, self._shown[sample] = self._shown[sample], max(self._shown[sample], len(text))
        return text[before:]

    def _text(self, sample: int) -> str:
        return behind(self._tokenizer, self._prompt.ids, self._tokens[sample])


def stream_text(reader: Reader, prompt: Prompt, wish: GenerationOptions) -> Iterator[str]:
    """Yield one continuation in parts, as its tokens are generated."""
    growing = TokenStream(reader, prompt, wish)
    while (new := growing.step()) is not None:
        yield from (one.text for one in new)
