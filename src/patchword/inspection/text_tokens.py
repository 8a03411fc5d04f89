"""The tokens of a text as a model reads them, with their places in the text."""

from dataclasses import asdict, dataclass
from typing import Any

from patchword.data.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextToken:
    """One token of a model's input.

    name: its entry in the vocabulary. word: as a figure names it, with ## before the continuation of a word.
    start, end: its characters [start, end) of the text; None for a token that the tokenizer adds, which is `special`.
    """

    id: int
    name: str
    word: str
    start: int | None
    end: int | None
    special: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def text_tokens(tokenizer: Tokenizer, text: str) -> tuple[TextToken, ...]:
    """Return the tokens of a text, with the special tokens around it."""
    found = tokenizer.encode([text])[0]
    ids, _ = tokenizer.frame.around(found.ids)
    first = len(tokenizer.frame.before)
    tokens = []
    for place, (id, name, written) in enumerate(
        zip(ids.tolist(), tokenizer.tokens(ids), tokenizer.written(ids), strict=True)
    ):
        inside = place - first
        if 0 <= inside < len(found):
            start, end = int(found.starts[inside]), int(found.ends[inside])
            goes_on = inside > 0 and start == found.ends[inside - 1] and text[start - 1 : start + 1].isalnum()
            word = written.strip() or "\N{OPEN BOX}"
            tokens.append(TextToken(id, name, f"##{word}" if goes_on else word, start, end, False))
        else:
            tokens.append(TextToken(id, name, name, None, None, True))
    return tuple(tokens)
