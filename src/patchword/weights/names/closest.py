"""The variant of a family that fits inferred sizes best."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from patchword.models import REGISTRY


def closest(family: str, fields: Mapping[str, Any]) -> str:
    """Return the variant of the family that has the most fields in common."""

    def shared(name: str) -> int:
        config = asdict(REGISTRY.find(name)[1].config)
        return sum(config.get(field) == value for field, value in fields.items())

    return max((name for name in REGISTRY.names() if REGISTRY.find(name)[0].name == family), key=shared)
