"""Cards of models of the zoo, for tests."""

from pathlib import Path
from typing import Any

from patchword.core.files import write_json
from patchword.zoo.entries import CARD


def card_values(name: str) -> dict[str, Any]:
    """Return the content of a complete card."""
    score = {"metric": "accuracy", "part": "test", "value": 0.9, "before": 0.91, "examples": 100}
    sample = {"metric": "accuracy", "value": 0.875, "examples": 8, "settings": {"data": "sample"}}
    texts = ("task", "model", "dtype", "data", "data_licence", "licence", "command", "made", "patchword", "limits")
    return {
        "name": name,
        "kind": "images",
        **{text: f"the {text}" for text in texts},
        "parameters": 1000,
        "size": 2000,
        "seed": 0,
        "uses": [f"patchword predict zoo:{name} photo.png"],
        "score": score,
        "sample": {**sample, "licence": "MIT", "source": "a test"},
    }


def write_card_file(folder: Path, **changes: Any) -> None:
    """Write the card of an entry. changes: fields with other values; None leaves a field out"""
    values = {**card_values(folder.name), **changes}
    write_json(folder / CARD, {name: value for name, value in values.items() if value is not None})
