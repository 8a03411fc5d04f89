"""DETR: detection as the prediction of a set (Carion et al., 2020).

Initialization as in the authors' code: Xavier for the matrices of encoder and decoder, N(0, 1) for the queries, torch's
default for the heads.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import PositiveInt
from torch import nn

from patchword.core.errors import UserError
from patchword.layers import Attention, Block, Encoder, FeedForward, Norm, Residual
from patchword.layers.dense.backbones import BatchNorms, SimplePyramid
from patchword.layers.dense.queries.detr import Detr, QueryDecoder
from patchword.layers.dense.queries.positioned_attention import PositionedMemoryProjection, PositionedProjection
from patchword.models.dense.backbones import dense_backbone
from patchword.models.detection.config import DetectorConfig
from patchword.models.detection.family import DetectorFamily
from patchword.models.registry import Probability


@dataclass(frozen=True, kw_only=True)
class DetrConfig(DetectorConfig):
    """Sizes of a DETR.

    classes: 91 in the authors' weights, whose labels are the category ids of COCO.
    queries: most objects that an image can have. width: of the tokens of encoder and decoder.
    hidden: width of the feed-forward. dropout: of the output of each sublayer; attention_dropout: of attention weights;
        hidden_dropout: inside the feed-forward.
    auxiliary: all decoder layers learn, not only the last one.
    """

    classes: PositiveInt = 91
    batch_norms: BatchNorms = "buffers"
    queries: PositiveInt = 100
    heads: PositiveInt = 8
    encoder_depth: PositiveInt = 6
    decoder_depth: PositiveInt = 6
    hidden: PositiveInt = 2048
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.1
    hidden_dropout: Probability = 0.1
    auxiliary: bool = True


def build_detr(c: DetrConfig) -> Detr:
    """Build a DETR on the last map of the backbone, which is of stride 16 for a ViT."""
    if c.max_detections > c.queries:
        raise UserError(
            "the detections per image of a DETR",
            expected=f"max_detections of at most {c.queries}, the number of queries",
            got=c.max_detections,
            hint=f"set model.max_detections={c.queries} (max_detections={c.queries} in Python), or more queries",
        )
    backbone = dense_backbone(c)
    if isinstance(backbone, SimplePyramid):
        backbone = backbone.backbone
    encoder = Encoder(encoder_block(c) for _ in range(c.encoder_depth))
    decoder = QueryDecoder([decoder_block(c) for _ in range(c.decoder_depth)], nn.LayerNorm(c.width))
    for part in (encoder, decoder):
        _initialize(part)
    return Detr(
        backbone,
        backbone.widths[-1],
        c.width,
        encoder,
        decoder,
        queries=c.queries,
        classes=c.classes,
        max_detections=c.max_detections,
    )


def encoder_block(c: DetrConfig) -> Block:
    """Return a block over the cells of the map."""
    return Block(attention=_self_attention(c), feed_forward=_feed_forward(c))


def decoder_block(c: DetrConfig) -> Block:
    """Return a block over the queries, which attend to each other, then to the map."""
    return Block(attention=_self_attention(c), memory=_memory_attention(c), feed_forward=_feed_forward(c))


def _self_attention(c: DetrConfig) -> Residual:
    projection = PositionedProjection(c.width)
    return _residual(c, Attention(c.width, c.heads, projection=projection, dropout=c.attention_dropout))


def _memory_attention(c: DetrConfig) -> Residual:
    projection = PositionedMemoryProjection(c.width)
    return _residual(c, Attention(c.width, c.heads, projection=projection, dropout=c.attention_dropout))


def _feed_forward(c: DetrConfig) -> Residual:
    return _residual(c, FeedForward(c.width, c.hidden, nn.ReLU(), c.hidden_dropout))


def _residual(c: DetrConfig, sublayer: nn.Module) -> Residual:
    return Residual(sublayer, nn.LayerNorm(c.width), Norm.POST, dropout=c.dropout)


def _initialize(part: nn.Module) -> None:
    """Xavier matrices: queries, keys and values are one matrix of 3 * width outputs in the authors' code."""
    for module in part.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    for module in part.modules():
        if isinstance(module, Attention):
            nn.init.zeros_(module.output.bias)
            bound = (6 / (4 * module.width)) ** 0.5  # Xavier of width inputs and 3 * width outputs
            for linear in module.projection.children():
                assert isinstance(linear, nn.Linear)
                nn.init.uniform_(linear.weight, -bound, bound)
                nn.init.zeros_(linear.bias)


DETR: Mapping[str, DetectorFamily] = {
    "detr": DetectorFamily("DETR", "arXiv:2005.12872", DetrConfig(), build_detr, 41_524_768, 96_876_544_000)
}
