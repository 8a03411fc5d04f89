"""All checks of the fuzzer, by their names."""

from support.fuzz import reference, transformers_images, transformers_texts
from support.fuzz.case import Check


def all_checks(compiled: bool = False) -> dict[str, Check]:
    """Against transformers under a family's name; against our own reference paths under NAME-alone."""
    return {**transformers_texts.CHECKS, **transformers_images.CHECKS, **reference.checks(compiled)}
