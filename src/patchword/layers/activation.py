"""What stands between the two matrices of a feed-forward."""

from torch import Tensor, nn

from patchword.kernels.gelu import gelu


class Gelu(nn.Module):
    """The exact form, by the quickest path there is."""

    def forward(self, tokens: Tensor) -> Tensor:
        return gelu(tokens)
