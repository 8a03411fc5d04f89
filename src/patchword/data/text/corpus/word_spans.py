"""The words of a text that nobody has cut, and where a given word stands in it."""

import re
from functools import cache

from tokenizers import Regex, pre_tokenizers

from patchword.data.text.tokenizers.encoding import SPACES, mended, parts_of

Place = tuple[int, int]  # characters [start, end)
_CHINESE = "㐀-䶿一-鿿豈-﫿"  # characters that are words by themselves
_LETTER = re.compile(rf"[^\W{_CHINESE}]")
_APART = "|".join(
    (
        rf"[{_CHINESE}]",
        r"(?:\b\p{L}\.){2,}",  # U.S.
        r"\d+(?:[.,:]\d+)+",  # 3.14
        r"(?<=\p{L})(?i:n['’]t)\b",  # does n't, as treebanks write it
        r"(?<=\w)(?i:['’](?:s|re|ve|ll|d|m))\b",
        r"[!-/:-@\[-`{-~\p{P}]",
    )
)


def word_places(text: str) -> list[Place]:
    """Between white space, with marks and Chinese characters as words by themselves.

    As in treebanks, which taggers learn from, numbers and abbreviations stay whole, and it's is it and 's.
    """
    found: list[Place] = []
    for shift, part in parts_of(mended(text), SPACES):
        found += [(shift + start, shift + end) for _, (start, end) in _splitter().pre_tokenize_str(part)]
    return found


def places_of(word: str, text: str) -> list[Place]:
    """Where a word stands, whatever its capitals; as a part of a longer word it does not count."""
    found = (match.span() for match in re.finditer(re.escape(word), text, re.IGNORECASE))
    return [place for place in found if stands_alone(text, *place)]


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether what is there is no part of a longer word; Chinese characters are words by themselves."""
    return not _joined(text, start) and not _joined(text, end)


def _joined(text: str, place: int) -> bool:
    """Letters on both sides belong to one word."""
    around = text[max(0, place - 1) : place + 1]
    return 0 < place < len(text) and all(_LETTER.fullmatch(letter) for letter in around)


@cache
def _splitter() -> pre_tokenizers.PreTokenizer:
    apart = pre_tokenizers.Split(Regex(_APART), "isolated")
    return pre_tokenizers.Sequence([apart, pre_tokenizers.Split(Regex(r"\s+"), "removed")])
