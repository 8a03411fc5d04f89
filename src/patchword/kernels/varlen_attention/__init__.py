"""Attention of packed sequences: each sequence attends to itself alone, without padding."""

from patchword.kernels.varlen_attention.operation import has_varlen_attention_kernel, varlen_attention

__all__ = ["has_varlen_attention_kernel", "varlen_attention"]
