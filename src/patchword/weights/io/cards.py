"""Cards of models as they are written to config.json."""

from collections.abc import Mapping
from typing import Any

from patchword.core.card import Card, Normalization, Resize
from patchword.core.errors import UserError
from patchword.models.older_fields import rename_older_fields

VERSION = 1  # of config.json


def card_from_dict(described: Mapping[str, Any]) -> Card:
    """Parse a card written by `describe`; raise an error if it is not one."""
    if (version := described.get("version", VERSION)) != VERSION or isinstance(version, bool):
        hint = "a newer patchword may have written it: update patchword"
        raise UserError("config.json has an unknown version", expected=VERSION, got=repr(version), hint=hint)
    try:
        fields = rename_older_fields(described["config"])
        config = {field: _tuples(value) for field, value in fields.items()}
        normalization = described.get("normalization", described.get("preparation"))  # the older name
        means, spreads = (tuple(float(value) for value in normalization[key]) for key in ("mean", "std"))
        labels = tuple(str(label) for label in described["labels"])
        resize = Resize(**described.get("resize", {}))  # older cards have none
        card = Card(str(described["model"]), config, labels, Normalization(means, spreads), resize)
    except UserError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            "config.json is not a patchword card",
            expected="model, config, labels, normalization",
            got=f"{type(error).__name__}: {error}",
        ) from None
    classes = card.config.get("classes")
    if card.labels and isinstance(classes, int) and len(card.labels) != classes:
        raise UserError("labels in config.json", expected=f"one per class ({classes}), or none", got=len(card.labels))
    return card


def _tuples(value: Any) -> Any:
    """Return a value of JSON with tuples instead of lists, also inside of objects."""
    if isinstance(value, dict):
        return {field: _tuples(one) for field, one in value.items()}
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value
