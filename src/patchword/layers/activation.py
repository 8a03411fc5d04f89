"""What stands between the two matrices of a feed-forward."""

from torch import Tensor, nn

from patchword.kernels.mlp.gelu import gelu


class Gelu(nn.Module):
    """The exact form, by the quickest path there is."""

    def forward(self, tokens: Tensor) -> Tensor:
        return gelu(tokens)


class QuickGelu(nn.Module):
    """x * sigmoid(1.702 x), an approximation that CvT was trained with."""

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * (1.702 * tokens).sigmoid()
