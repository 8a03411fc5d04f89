"""How much longer a tokenizer.json may make a text: nine replacements of one letter by ten fill any memory."""

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError

_MOST = 100  # times


def check_growth(path: Path, settings: Any) -> None:
    """Raise an error if the replacements of a tokenizer can make a text very much longer."""
    factor = prod(_factors(settings.get("normalizer")) if isinstance(settings, Mapping) else ())
    if factor > _MOST:
        raise UserError(
            f"the normalizers of {path} can make a text {factor:,.0f} times longer", expected=f"at most {_MOST} times"
        )


def _factors(normalizer: Any) -> Iterator[float]:
    if not isinstance(normalizer, Mapping):
        return
    if isinstance(inner := normalizer.get("normalizers"), list):
        for one in inner:
            yield from _factors(one)
    content, pattern = normalizer.get("content"), normalizer.get("pattern")
    if isinstance(content, str):
        found = pattern.get("String") if isinstance(pattern, Mapping) else None
        yield max(1.0, len(content) / (len(found) or 1)) if isinstance(found, str) else 1.0 + len(content)
