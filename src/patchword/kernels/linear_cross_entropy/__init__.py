"""The output projection of a language model and its cross-entropy as one operation."""

from patchword.kernels.linear_cross_entropy.operation import linear_cross_entropy
from patchword.kernels.linear_cross_entropy.reference import TokenLosses, token_losses

__all__ = ["TokenLosses", "linear_cross_entropy", "token_losses"]
