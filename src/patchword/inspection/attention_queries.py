"""Attention of an image model over one image from every query, for figures whose query moves."""

from typing import NamedTuple

import torch
from torch import Tensor

from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import layers, patches, require_attention
from patchword.analysis.attention.rollout import on_tokens, rollout_rows
from patchword.data.augmentation.augmentation import normalize
from patchword.layers import Pyramid


class QueryMaps(NamedTuple):
    """What every query attends to.

    layers: (heads, queries, tokens) of each layer, the leading tokens in front; the weight of a reduced key is split
        over the tokens it is made of
    rollout: (queries of the last layer, rows, columns) of the first stage
    """

    layers: tuple[Tensor, ...]
    rollout: Tensor


@torch.no_grad()
def query_maps(model: Pyramid, pixels: Tensor) -> QueryMaps:
    """Compute the maps that `look` computes for one query, for all of them. The model must be in evaluation mode.

    The memory grows with the square of the number of tokens. pixels: (channels, height, width) uint8
    """
    device, geometry = next(model.parameters()).device, Geometry(model)
    found = layers(model, normalize(pixels[None].to(device), model.card.normalization), geometry)
    require_attention(model, found)
    every = torch.eye(found[-1].grid.tokens, device=device)[None]
    rollout = patches(rollout_rows(found, geometry, every), found[0].grid)[0]
    weights = (on_tokens(layer, layer.summed(), geometry) for layer in found)
    return QueryMaps(tuple(one.float().cpu() for one in weights), rollout.float().cpu())
