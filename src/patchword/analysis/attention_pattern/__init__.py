"""Attention patterns: which tokens attend to which in a model, from the indices that the model itself uses."""

from patchword.analysis.attention_pattern.find import (
    attention_patterns,
    block_receptive_fields,
    by_stage,
    computed_density,
    density,
    receptive_fields,
)
from patchword.analysis.attention_pattern.pattern import AttentionPattern
from patchword.analysis.attention_pattern.receptive_field import KeyReceptiveField
from patchword.analysis.attention_pattern.text import TextPattern, by_part, text_patterns, text_receptive_fields

__all__ = [
    "AttentionPattern",
    "KeyReceptiveField",
    "TextPattern",
    "attention_patterns",
    "block_receptive_fields",
    "by_part",
    "by_stage",
    "computed_density",
    "density",
    "receptive_fields",
    "text_patterns",
    "text_receptive_fields",
]
