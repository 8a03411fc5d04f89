"""The names of the classes of a model."""

from patchword.core.card import Card


def class_names(card: Card) -> tuple[str, ...]:
    """Return the names of the classes; numbers if they have no names."""
    return card.labels or tuple(str(number) for number in range(card.config["classes"]))
