"""FAMILIES: every architecture is a short composition of layers, listed here."""

from typing import Any

from patchword.layers.pyramid import Pyramid
from patchword.models.registry import Registry
from patchword.models.vision import deit, vit

REGISTRY = Registry((vit.FAMILY, deit.FAMILY))


def list_models(pattern: str = "*") -> list[str]:
    """Names of the models that match a shell pattern, e.g. "vit-*-16"."""
    return REGISTRY.names(pattern)


def create(name: str, /, **overrides: Any) -> Pyramid:
    """A model with fresh weights; any size can be overridden.

    >>> create("vit-base-16", image=384, classes=10)
    """
    return REGISTRY.create(name, **overrides)
