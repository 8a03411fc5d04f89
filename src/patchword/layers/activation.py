"""Activations of feed-forwards."""

from torch import Tensor, nn

from patchword.kernels.mlp.gelu import Gelu

__all__ = ["Gelu", "QuickGelu"]


class QuickGelu(nn.Module):
    """x * sigmoid(1.702 x), an approximation of GELU that CvT was trained with."""

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * (1.702 * tokens).sigmoid()
