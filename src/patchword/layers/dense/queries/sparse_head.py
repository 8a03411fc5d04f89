"""A head of Sparse R-CNN: queries attend to each other, read the features of their boxes, and refine them."""

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.layers.attention.attention import Attention
from patchword.layers.block import Norm, Residual
from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.full_precision import full_precision
from patchword.layers.dense.queries.dynamic_conv import DynamicConv
from patchword.layers.dense.roi_heads import RoiPool
from patchword.layers.feed_forward import FeedForward

_PRIOR = 0.01  # probability of each class at the start of training


class SparseOutput(NamedTuple):
    """logits: (batch, queries, classes). boxes: (batch, queries, 4) in pixels. queries: (batch, queries, width)."""

    logits: Tensor
    boxes: Tensor
    queries: Tensor


class SparseHead(nn.Module):
    """Self-attention, dynamic convolution and feed-forward over the queries, then a tower each for classes and boxes.

    pool: features of boxes. coder: boxes as deltas to the boxes before. width: of queries and maps.
    heads, hidden: of attention and feed-forward. inner: channels inside the dynamic convolution.
    class_layers, box_layers: linear layers of the towers, each with a norm and ReLU. dropout: after each sublayer.
    """

    if TYPE_CHECKING:

        def __call__(self, maps: Sequence[Tensor], boxes: Tensor, queries: Tensor) -> SparseOutput:
            """Call `forward` and the hooks."""

    def __init__(
        self,
        pool: RoiPool,
        coder: BoxCoder,
        width: int,
        classes: int,
        *,
        heads: int,
        hidden: int,
        inner: int,
        class_layers: int,
        box_layers: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.pool, self.coder = pool, coder
        self.attention = Residual(
            Attention(width, heads, dropout=dropout), nn.LayerNorm(width), Norm.POST, dropout=dropout
        )
        self.dynamic = Residual(
            DynamicConv(width, inner, pool.size**2), nn.LayerNorm(width), Norm.POST, dropout=dropout
        )
        self.feed_forward = Residual(
            FeedForward(width, hidden, nn.ReLU(), dropout), nn.LayerNorm(width), Norm.POST, dropout=dropout
        )
        self.class_tower, self.box_tower = _tower(width, class_layers), _tower(width, box_layers)
        self.class_output, self.box_output = nn.Linear(width, classes), nn.Linear(width, 4)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform matrices, and the prior of the classes. Biases keep the initial values of torch.

        The authors' code gives the prior to all parameters whose last size is the number of classes, which harms others
        if there are as many classes as channels. Here it is the bias of the class layer alone.
        """
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
        nn.init.constant_(self.class_output.bias, -log((1 - _PRIOR) / _PRIOR))

    def forward(self, maps: Sequence[Tensor], boxes: Tensor, queries: Tensor) -> SparseOutput:
        """boxes: (batch, queries, 4) in pixels. queries: (batch, queries, width). The boxes get no gradient."""
        features = self.pool(maps, boxes).flatten(2).transpose(1, 2)
        queries = self.attention(queries, Scope())
        queries = self.dynamic(queries, Scope(memory=features))
        queries = self.feed_forward(queries, Scope())
        logits = full_precision(self.class_output(self.class_tower(queries)))
        deltas = full_precision(self.box_output(self.box_tower(queries)))
        return SparseOutput(logits, self.coder.decode(boxes, deltas), queries)


def _tower(width: int, layers: int) -> nn.Sequential:
    """Return linear layers without bias, each with a norm and ReLU."""
    found: list[nn.Module] = []
    for _ in range(layers):
        found += [nn.Linear(width, width, bias=False), nn.LayerNorm(width), nn.ReLU()]
    return nn.Sequential(*found)
