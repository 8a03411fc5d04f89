"""Split a passage into sentences by a small rule, without a model.

A sentence ends at . ! or ? (optionally with closing quotes or brackets) if white space follows, and then a capital
letter or a letter of a script without case. It always ends at the CJK forms of these marks. Abbreviations such as "Mr."
and initials ("J. Smith", "the U.S. Army") do not end a sentence. A sentence of more than 2,000 characters is split at a
space; otherwise lists, tables and texts without punctuation would become one sentence per file.
"""

import re

LONGEST = 2000  # characters

_MARKS = re.compile(r"""([.!?…。！？｡]+)["'”’»)\]_*」』）》】]*""")
_NEXT = re.compile(r"""\s+["'“‘«(\[¿¡_*]*(\w)""")
_LAST_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,7}$")
_SHORTENED = re.compile(  # abbreviations before capitals; "No." and "vol." precede digits, which begin no sentence
    "mr|mrs|ms|dr|prof|st|sr|jr|messrs|mme|mlle|rev|fr|hon|gen|col|maj|capt|lt|sgt|adm|gov|sen|rep|pres|vs|cf|ca|al|mt",
    re.IGNORECASE,
)


def sentences(passage: str) -> list[str]:
    """Return the non-empty sentences of a passage, without surrounding white space."""
    found, start = [], 0
    for marks in _MARKS.finditer(passage):
        if marks[1][0] in "。！？｡" or _ends(passage, marks):
            found.append(passage[start : marks.end()].strip())
            start = marks.end()
    found.append(passage[start:].strip())
    return [piece for sentence in found if sentence for piece in _pieces(sentence)]


def _ends(passage: str, marks: re.Match[str]) -> bool:
    following = _NEXT.match(passage, marks.end())
    if following is None or not following[1].isalpha() or following[1].islower():
        return False
    if marks[1] != ".":
        return True
    word = _LAST_WORD.search(passage[max(0, marks.start() - 8) : marks.start()])
    return word is None or not (_is_initial(word[0]) or _SHORTENED.fullmatch(word[0]))


def _is_initial(word: str) -> bool:
    return len(word) == 1 and word.isupper()


def _pieces(sentence: str) -> list[str]:
    if len(sentence) <= LONGEST:
        return [sentence]
    pieces = []
    while len(sentence) > LONGEST:
        space = sentence.rfind(" ", 1, LONGEST)
        cut = space if space > 0 else LONGEST
        pieces.append(sentence[:cut].rstrip())
        sentence = sentence[cut:].lstrip()
    return [*pieces, sentence] if sentence else pieces
