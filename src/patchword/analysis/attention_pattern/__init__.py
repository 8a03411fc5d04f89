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

__all__ = [
    "AttentionPattern",
    "KeyReceptiveField",
    "attention_patterns",
    "block_receptive_fields",
    "by_stage",
    "computed_density",
    "density",
    "receptive_fields",
]
