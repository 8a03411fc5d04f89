"""Mean attention distance: how far heads look, as in the ViT paper (Dosovitskiy et al., 2021, figure 7)."""

import torch
from torch import Tensor

from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import Layer, key_groups
from patchword.core.grid import Grid


def distances(layer: Layer, geometry: Geometry) -> Tensor:
    """(batch, heads): the distance from a token to what it looks at, weighed by how much; the mean over all tokens.

    In pixels, between the middles of patches; of a text, in tokens. A reduced key lies in the middle of the tokens it
    is made of. Leading tokens lie nowhere: they do not ask, and what they are given is left out.
    """
    return torch.cat([_call(layer, index, geometry) for index in range(len(layer.calls))], dim=1)


def _call(layer: Layer, index: int, geometry: Geometry) -> Tensor:
    call = layer.calls[index]
    spread = geometry.keys(layer.name, layer.grid, layer.key_grid)
    tokens = _middles(layer.grid)
    keys = tokens
    if spread is not None:
        rows = spread.rows @ (torch.arange(layer.grid.height) + 0.5)
        columns = spread.columns @ (torch.arange(layer.grid.width) + 0.5)
        keys = _placed(rows, columns, layer.key_grid.prefix)
    scale, device = torch.tensor(layer.cell), call.weights.device
    queries, met = call.groups(), key_groups(call)
    asking, asked = (_grouped(part * scale, groups) for part, groups in ((tokens, queries), (keys, met)))
    far = torch.cdist(asking.nan_to_num(), asked.nan_to_num(), compute_mode="donot_use_mm_for_euclid_dist").to(device)
    real, there = (~part.isnan().any(-1).to(device) for part in (asking, asked))
    weights: Tensor = call.weights.unflatten(0, (-1, len(queries))).float()  # (batch, groups, heads, size, keys)
    seen = weights * there[:, None, None]
    mean = (seen * far[:, None]).sum(-1) / seen.sum(-1).clamp(min=1e-12)
    return (mean * real[:, None]).sum((1, 3)) / real.sum()


def _middles(grid: Grid) -> Tensor:
    """(tokens, 2): where each lies, in tokens from the upper left corner; leading ones are not a number"""
    return _placed(torch.arange(grid.height) + 0.5, torch.arange(grid.width) + 0.5, grid.prefix)


def _placed(rows: Tensor, columns: Tensor, prefix: int) -> Tensor:
    places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), dim=-1).flatten(0, 1)
    return torch.cat([torch.full((prefix, 2), torch.nan), places])


def _grouped(places: Tensor, groups: Tensor) -> Tensor:
    """(groups, size, 2); padding is not a number"""
    return torch.where((groups < 0)[..., None], torch.nan, places[groups])
