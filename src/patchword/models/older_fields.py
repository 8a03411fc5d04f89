"""Config fields under the names that earlier versions wrote into config.json and recipes."""

from collections.abc import Mapping
from typing import Any

RENAMED = {"scheme": "position", "expansion": "mlp_ratio", "expansions": "mlp_ratios"}


def rename_older_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a model's config under their current names; current names are left as they are.

    `positions` meant two things: the maximum length of a text, which is a number, and the position encoding of an
    image model, which is a name.

    >>> rename_older_fields({"positions": 512, "scheme": "learned"})
    {'max_length': 512, 'position': 'learned'}
    >>> rename_older_fields({"positions": "relative", "expansion": 4})
    {'position': 'relative', 'mlp_ratio': 4}
    """
    return {_current_name(field, value): value for field, value in config.items()}


def _current_name(field: str, value: object) -> str:
    if field == "positions":
        return "max_length" if str(value).isdigit() else "position"
    return RENAMED.get(field, field)
