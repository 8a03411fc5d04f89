"""Find the words of a raw text, and the positions of a given word."""

import re
from functools import cache

from tokenizers import Regex, pre_tokenizers

from patchword.data.text.corpus.word_counts import WordSplitting, word_splitter
from patchword.data.text.tokenizers.encoding import SPACE_BREAK, repair_surrogates, split_text

Span = tuple[int, int]  # characters [start, end)
_CHINESE = "㐀-䶿一-鿿豈-﫿"  # each of these characters is a word
_LETTER = re.compile(rf"[^\W{_CHINESE}]")
_SPLIT_OFF = "|".join(
    (
        rf"[{_CHINESE}]",
        r"(?:\b\p{L}\.){2,}",  # U.S.
        r"\d+(?:[.,:]\d+)+",  # 3.14
        r"(?<=\p{L})(?i:n['’]t)\b",  # does n't, as treebanks write it
        r"(?<=\w)(?i:['’](?:s|re|ve|ll|d|m))\b",
        r"[!-/:-@\[-`{-~\p{P}]",
    )
)


def word_spans(text: str) -> list[Span]:
    """Split at white space; punctuation marks and Chinese characters are words of their own.

    As in the treebanks that taggers are trained on, numbers and abbreviations stay whole; "it's" becomes "it", "'s".
    """
    found: list[Span] = []
    for shift, part in split_text(repair_surrogates(text), SPACE_BREAK):
        found += [(shift + start, shift + end) for _, (start, end) in _splitter().pre_tokenize_str(part)]
    return found


def located_words(text: str, cut: WordSplitting) -> tuple[list[str], list[Span]]:
    """Return the words of a text, as `word_splitter` cuts it, and the span of each."""
    lower = cut == "words"
    words, read = word_splitter(cut)(text), text.lower() if lower else text
    origin = [place for place, letter in enumerate(text) for _ in (letter.lower() if lower else letter)]
    spans: list[Span] = []
    end = 0
    for word in words:
        start = read.index(word, end)
        end = start + len(word)
        spans.append((origin[start], origin[end - 1] + 1))
    return words, spans


def find_word(word: str, text: str) -> list[Span]:
    """Return the spans of a word, ignoring case; a match inside a longer word does not count."""
    found = (match.span() for match in re.finditer(re.escape(word), text, re.IGNORECASE))
    return [place for place in found if is_whole_word(text, *place)]


def is_whole_word(text: str, start: int, end: int) -> bool:
    """True if the span is not part of a longer word; a Chinese character is a word."""
    return not _inside_word(text, start) and not _inside_word(text, end)


def _inside_word(text: str, place: int) -> bool:
    """True if letters on both sides of the position belong to one word."""
    around = text[max(0, place - 1) : place + 1]
    return 0 < place < len(text) and all(_LETTER.fullmatch(letter) for letter in around)


@cache
def _splitter() -> pre_tokenizers.PreTokenizer:
    apart = pre_tokenizers.Split(Regex(_SPLIT_OFF), "isolated")
    return pre_tokenizers.Sequence([apart, pre_tokenizers.Split(Regex(r"\s+"), "removed")])
