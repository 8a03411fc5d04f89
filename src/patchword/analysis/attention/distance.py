"""Mean attention distance of heads, as in the ViT paper (Dosovitskiy et al., 2021, figure 7)."""

import torch
from torch import Tensor

from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import Layer, key_groups
from patchword.core.grid import Grid


def distances(layer: Layer, geometry: Geometry) -> Tensor:
    """Return (batch, heads): the mean distance from a query to its keys, weighted by attention, over all queries.

    Images: in pixels, between the centres of patches; texts: in tokens. A reduced key is at the centre of the tokens it
    is made of. Leading tokens have no position: they are left out, as queries and as keys.
    """
    return torch.cat([_call(layer, index, geometry) for index in range(len(layer.calls))], dim=1)


def _call(layer: Layer, index: int, geometry: Geometry) -> Tensor:
    call = layer.calls[index]
    spread = geometry.keys(layer.name, layer.grid, layer.key_grid)
    tokens = _centres(layer.grid)
    keys = tokens
    if spread is not None:
        rows = spread.rows @ (torch.arange(layer.grid.height) + 0.5)
        columns = spread.columns @ (torch.arange(layer.grid.width) + 0.5)
        keys = _positions(rows, columns, layer.key_grid.prefix)
    scale, device = torch.tensor(layer.cell), call.weights.device
    groups, keys_of = call.groups(), key_groups(call)
    query_at, key_at = (_grouped(part * scale, members) for part, members in ((tokens, groups), (keys, keys_of)))
    far = torch.cdist(query_at.nan_to_num(), key_at.nan_to_num(), compute_mode="donot_use_mm_for_euclid_dist")
    valid_query, valid_key = (~part.isnan().any(-1).to(device) for part in (query_at, key_at))
    weights: Tensor = call.weights.unflatten(0, (-1, len(groups))).float()  # (batch, groups, heads, size, keys)
    used = weights * valid_key[:, None, None]
    mean = (used * far.to(device)[:, None]).sum(-1) / used.sum(-1).clamp(min=1e-12)
    return (mean * valid_query[:, None]).sum((1, 3)) / valid_query.sum()


def _centres(grid: Grid) -> Tensor:
    """(tokens, 2): the position of each token, in tokens from the upper left corner; NaN for leading tokens."""
    return _positions(torch.arange(grid.height) + 0.5, torch.arange(grid.width) + 0.5, grid.prefix)


def _positions(rows: Tensor, columns: Tensor, prefix: int) -> Tensor:
    places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), dim=-1).flatten(0, 1)
    return torch.cat([torch.full((prefix, 2), torch.nan), places])


def _grouped(places: Tensor, groups: Tensor) -> Tensor:
    """(groups, size, 2); NaN for padding."""
    return torch.where((groups < 0)[..., None], torch.nan, places[groups])
