"""Texts that are the same but for case, spaces, punctuation and Unicode forms."""

import re
import unicodedata
from collections.abc import Hashable

_BETWEEN = re.compile(r"[\W_]+")
_SHORTEST = 20  # characters; shorter texts are often equal by chance


def normalized_text(key: Hashable) -> str:
    """Return what is left of a text, or of several, in lower case without spaces and punctuation; "" if it is short.

    >>> normalized_text(("A film to see -- twice!",)), normalized_text("Good!")
    ('afilmtoseetwice', '')
    """
    parts = key if isinstance(key, tuple) else (key,)
    joined = " ".join(str(part) for part in dict.fromkeys(parts))
    if len(joined) < _SHORTEST:
        return ""
    return _BETWEEN.sub("", unicodedata.normalize("NFKC", joined).casefold())
