"""Bounds on the config fields that a request may set: the time and the memory of a count depend on them."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.recipes.schema.fields import read_value

MOST_CHARACTERS = 100
LARGEST = 16_384
LARGEST_OF: Mapping[str, int] = {
    "depth": 48,
    "depths": 56,  # the sum over the stages
    **dict.fromkeys(("feed_forwards", "highways"), 4),
    "image": 2_048,
    "max_length": 8_192,
    **dict.fromkeys(("classes", "vocabulary", "target_vocabulary"), 1_000_000),
}
MOST_RECURRENT_LAYERS = 4  # an LSTM runs once per token
MOST_TOKENS_PER_SIDE = 256
HINT = "`patchword cost` counts larger models"
SMALLEST_OF: Mapping[str, int] = {"block": 16}  # of Big Bird, which visits each block
_ALLOWED = re.compile(r"[\w .,+\-\[\]]*")  # YAML without anchors, tags and mappings


def read_fields(pairs: Iterable[tuple[str, str]], config: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a request with their values, each within its bounds.

    pairs: the names and the values as they are in the address. config: the config of the model, whose fields bound
    some others.
    """
    found: dict[str, Any] = {}
    for name, text in pairs:
        if name in found:
            raise UserError(f"the field {name[:80]!r} is given twice")
        found[name] = _bounded(name, text, config)
    return found


def check_tokens(config: Mapping[str, Any]) -> None:
    """Refuse a map of very many tokens: the size of an image and of a patch are bounded together."""
    if "image" in config and "patch" in config:
        side = max(sides(config["image"])) // min(sides(config["patch"]))
        if side > MOST_TOKENS_PER_SIDE:
            expected = f"at most {MOST_TOKENS_PER_SIDE} patches per side in the lab"
            raise UserError("the image has too many patches", expected=expected, got=side, hint=HINT)


def _bounded(name: str, text: str, config: Mapping[str, object]) -> Any:
    what = f"field {name[:80]!r}"
    if len(name) > MOST_CHARACTERS:
        raise UserError(what, expected="a field of the model")
    if len(text) > MOST_CHARACTERS or not _ALLOWED.fullmatch(text):
        expected = f"a number, a word or a list such as [7, 7], of at most {MOST_CHARACTERS} characters"
        raise UserError(what, expected=expected, got=repr(text[:40]))
    try:
        value = read_value(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(what, expected="a number, a word or a list such as [7, 7]", got=repr(text)) from None
    largest = LARGEST_OF.get(name, LARGEST)
    if name == "depth" and not config.keys() & {"heads", "image"}:
        largest = MOST_RECURRENT_LAYERS
    numbers = [one for one in _flat(value) if isinstance(one, int | float)]
    is_sum = name == "depths"
    sizes = [sum(numbers)] if is_sum else numbers
    if any(not math.isfinite(one) or abs(one) > largest for one in [*sizes, *numbers]):
        expected = f"{'a sum of ' if is_sum else ''}at most {largest:,} in the lab"
        raise UserError(what, expected=expected, got=text, hint=HINT)
    if isinstance(config.get(name), int) and any(one < SMALLEST_OF.get(name, one) for one in numbers):
        expected = f"at least {SMALLEST_OF[name]} in the lab"
        raise UserError(what, expected=expected, got=text, hint=HINT)
    return value


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _flat(one)
    else:
        yield value
