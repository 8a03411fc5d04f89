"""Relevance of patches for a class: attention weighted by its gradient (Chefer et al., 2021).

For each layer, the mean over the heads of the positive part of (gradient of the class score x attention), accumulated
through the residuals as R <- R + A R from the identity. Here only the rows of the readout tokens are propagated back,
r <- r + r A, which gives the same rows. The contribution of the identity alone is subtracted at the end.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import Layer, layers, patches, readout_row, require_attention
from patchword.analysis.attention.rollout import on_tokens, propagate_back
from patchword.core.grid import Grid
from patchword.core.text import Text
from patchword.layers import DistilledHead, follow_attention


def relevance(model: nn.Module, images: Tensor, classes: Tensor, geometry: Geometry | None = None) -> Tensor:
    """Return (batch, rows, columns), 0 or more: the relevance of each patch of the first stage for a class.

    classes: (batch,) the class of each image. The model must be in evaluation mode.
    """
    geometry = geometry or Geometry(model)
    found = layers(model, images, geometry)
    require_attention(model, found)
    readers = _both(found[-1].grid) if isinstance(model.head, DistilledHead) else readout_row(found[-1].grid)
    rows = relevance_rows(model, images, classes, found, geometry, readers.to(images.device))
    return patches(rows, found[0].grid)[:, 0]


def relevance_rows(
    model: nn.Module,
    inputs: Tensor | Text,
    classes: Tensor,
    found: Sequence[Layer],
    geometry: Geometry,
    readers: Tensor,
) -> Tensor:
    """(1, rows, tokens of the last layer) -> (batch, rows, tokens of the first layer)"""
    positive = _positive(model, inputs, classes, found)

    def step(number: int, rows: Tensor) -> Tensor:
        layer = positive[number]
        return rows + on_tokens(layer, layer.mean_attended_by(rows), geometry)

    alone = propagate_back(found, geometry, readers, lambda number, rows: rows)
    return propagate_back(found, geometry, readers, step) - alone


def _positive(model: nn.Module, inputs: Tensor | Text, classes: Tensor, found: Sequence[Layer]) -> list[Layer]:
    """Return the layers with the positive part of gradient x attention in place of their weights."""
    with torch.enable_grad(), follow_attention(model) as calls:
        own = inputs.detach().requires_grad_() if isinstance(inputs, Tensor) and inputs.is_floating_point() else inputs
        scores = model(own)
        chosen = scores.gather(1, classes.to(scores.device)[:, None]).sum()
        weights = [call.weights for call in calls]
        gradients = torch.autograd.grad(chosen, weights, allow_unused=True)
    products = [
        torch.zeros_like(weight) if gradient is None else (gradient * weight).clamp(min=0).detach()
        for weight, gradient in zip(weights, gradients, strict=True)
    ]
    changed = []
    for layer in found:
        own_products, products = products[: len(layer.calls)], products[len(layer.calls) :]
        calls_now = [replace(call, weights=new) for call, new in zip(layer.calls, own_products, strict=True)]
        changed.append(replace(layer, calls=tuple(calls_now)))
    return changed


def _both(grid: Grid) -> Tensor:
    """DeiT predicts from [CLS] and the distillation token."""
    row = torch.zeros(1, 1, grid.tokens)
    row[..., :2] = 0.5
    return row
