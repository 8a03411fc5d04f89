"""Dynamic convolution (Sun et al., 2021): each query makes the weights that its own features are multiplied by."""

import torch
from torch import Tensor, nn

from patchword.core.scope import Scope


class DynamicConv(nn.Module):
    """Two 1x1 convolutions over the cells of a box, with weights from its query, then one linear layer over all cells.

    width: of queries and features. inner: channels between the two. cells: of the features of a box.
    """

    def __init__(self, width: int, inner: int, cells: int) -> None:
        super().__init__()
        self.width, self.inner = width, inner
        self.weights = nn.Linear(width, 2 * width * inner)
        self.norm_in, self.norm_out = nn.LayerNorm(inner), nn.LayerNorm(width)
        self.output, self.norm = nn.Linear(cells * width, width), nn.LayerNorm(width)

    def forward(self, queries: Tensor, scope: Scope) -> Tensor:
        """(batch, queries, width) -> (batch, queries, width)

        scope.memory: the features of the box of each query, (batch * queries, cells, width).
        """
        assert scope.memory is not None, "a dynamic convolution reads the features of boxes"
        first, second = self.weights(queries).flatten(0, 1).chunk(2, dim=-1)
        found = torch.relu(self.norm_in(scope.memory @ first.unflatten(-1, (self.width, self.inner))))
        found = torch.relu(self.norm_out(found @ second.unflatten(-1, (self.inner, self.width))))
        return torch.relu(self.norm(self.output(found.flatten(1)))).view_as(queries)
