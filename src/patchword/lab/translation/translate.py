"""A translation with its search, its attention and the next words at any step, as JSON."""

import math
from collections.abc import Sequence
from typing import Any

from patchword.core.errors import UserError
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.translation.alignment import END
from patchword.recipes.translation.search import Search, in_words
from patchword.recipes.translation.tracing import worth
from patchword.recipes.translation.translating import Translating

MOST_TOKENS = 80  # of a source: longer texts take seconds, and their search fills no screen


def translation_json(translator: Translating, text: str, search: Search, prefix: Sequence[int]) -> dict[str, Any]:
    """Translate one text. prefix: the tokens with which the translation starts."""
    source = _source(translator, text)
    found, languages = translator.trace(source, search, prefix), translator.languages
    texts = [
        {
            "text": in_words(languages, [(*found.prefix, *one.tokens)])[0],
            "score": one.score,
            "worth": worth(one, search.penalty),
            "ended": one.ended,
        }
        for one in found.texts
    ]
    return {
        "text": text,
        "pieces": languages.source.written(source.values.tolist()[:-1]),
        "prefix": [_piece(languages.target, token) for token in found.prefix],
        "steps": [
            [
                {**_word(translator, one.token), "beam": one.beam, "score": one.score, "fate": one.fate}
                for one in candidates
            ]
            for candidates in found.steps
        ],
        "best": found.best,
        "texts": texts,
        "attention": _attention(translator, source, found.tokens),
    }


def next_words_json(translator: Translating, text: str, prefix: Sequence[int], top: int) -> dict[str, Any]:
    """Return the most probable tokens after a prefix of the translation, with their probabilities."""
    found = translator.next_tokens(_source(translator, text), prefix, top)
    words = [{**_word(translator, token), "probability": math.exp(score)} for token, score in found]
    return {"words": words, "start": in_words(translator.languages, [tuple(prefix)])[0]}


def _source(translator: Translating, text: str) -> Ragged:
    found = translator.sources([TextInput(text, place={"file": "the text"})])
    if len(found.values) > MOST_TOKENS:
        got = f"{len(found.values)} tokens"
        raise UserError("the text is too long for this page", expected=f"at most {MOST_TOKENS} tokens", got=got)
    return found


def _word(translator: Translating, token: int) -> dict[str, Any]:
    if token == translator.languages.end:
        return {"id": token, "piece": END, "begins": True, "end": True}
    return {**_piece(translator.languages.target, token), "end": False}


def _piece(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    """Return a token as it appears in text. begins: whether a word begins with it."""
    return {"id": token, "piece": tokenizer.written([token])[0], "begins": not bool(tokenizer.continues[token])}


def _attention(translator: Translating, source: Ragged, tokens: Sequence[int]) -> dict[str, Any] | None:
    if not translator.has_attention:
        return None
    found = translator.attention(source, tokens)
    weights = [[[round(value, 6) for value in row] for row in layer] for layer in found.weights.tolist()]
    return {"read": found.read, "written": found.written, "weights": weights, "best": found.best}
