"""The convolution of enlarged and concatenated maps, computed from the small maps.

A 3x3 convolution is a sum over its nine taps. Each tap mixes channels, which commutes with enlarging: enlarging mixes
cells of one channel. So the taps mix the channels of the small map, and the results are enlarged, shifted and added.
With an enlargement by s, the taps need 1 / s^2 of the products, and the result is the same up to rounding.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.tracing import is_exporting
from patchword.kernels.common.hooks import has_hooks

_TAPS = 3  # per side of the kernel


def convolve_enlarged(convolution: nn.Conv2d, maps: Sequence[Tensor]) -> Tensor:
    """Enlarge all maps to the size of the first, concatenate their channels and apply a 3x3 convolution.

    The convolution has a padding of one cell and no bias: (batch, channels, rows, columns) per map -> (batch, outputs,
    rows, columns) of the first. Maps for which it needs fewer products are not enlarged.
    """
    size = maps[0].shape[-2:]
    is_small = [number > 0 and _saves(one, size) for number, one in enumerate(maps)]
    if not any(is_small) or _needs_module(convolution, maps[0]):
        found: Tensor = convolution(torch.cat([enlarge(one, size) for one in maps], dim=1))
        return found
    weights = convolution.weight.split([one.shape[1] for one in maps], dim=1)
    large = [number for number, apart in enumerate(is_small) if not apart]
    joined = _joined([enlarge(maps[number], size) for number in large])
    total = F.conv2d(joined, _joined([weights[number] for number in large]), padding=1)
    for one, weight, apart in zip(maps, weights, is_small, strict=True):
        if apart:
            total = total + _from_small_map(one, weight, size)
    return total


def enlarge(feature_map: Tensor, size: Sequence[int]) -> Tensor:
    """Interpolate a map bilinearly to a number of rows and columns. Corners are not aligned, as in mmseg."""
    if tuple(feature_map.shape[-2:]) == tuple(size):
        return feature_map
    return F.interpolate(feature_map, size=tuple(size), mode="bilinear", align_corners=False)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)


def _needs_module(convolution: nn.Conv2d, feature_map: Tensor) -> bool:
    """Return whether the module itself must run: for its hooks, to count it, and in an exported file."""
    return has_hooks(convolution) or is_exporting() or feature_map.is_meta


def _saves(feature_map: Tensor, size: Sequence[int]) -> bool:
    """Return whether the products per output value are fewer: of the taps, then of enlarging columns and rows."""
    _, channels, rows, columns = feature_map.shape
    plain = _TAPS * _TAPS * channels
    share = rows * columns / (size[0] * size[1])
    return plain * share + _TAPS * columns * rows / size[0] + _TAPS * rows < plain


def _from_small_map(feature_map: Tensor, weight: Tensor, size: Sequence[int]) -> Tensor:
    """Convolve one enlarged map: (batch, channels, rows, columns) -> (batch, outputs, *size).

    weight: (outputs, channels, 3, 3). Values are in the order (batch, row, column, channel), so that both enlargements
    are products with small matrices.
    """
    batch, channels, rows, columns = feature_map.shape
    outputs, values = weight.shape[0], feature_map.permute(0, 2, 3, 1)
    down, across = _shifted(rows, size[0], feature_map), _shifted(columns, size[1], feature_map)
    across = across.permute(1, 2, 0).reshape(size[1], columns * _TAPS)  # taps of a column next to each other
    widened = []
    for tap in range(_TAPS):
        kernel = weight[:, :, tap].permute(2, 0, 1).reshape(_TAPS * outputs, channels)
        mixed = F.linear(values, kernel).reshape(batch * rows, columns * _TAPS, outputs)
        widened.append(torch.matmul(across, mixed).reshape(batch, rows, size[1] * outputs))
    down = down.permute(1, 0, 2).reshape(size[0], _TAPS * rows)
    found = torch.matmul(down, torch.cat(widened, dim=1))
    return found.reshape(batch, size[0], size[1], outputs).permute(0, 3, 1, 2)


def _shifted(cells: int, size: int, like: Tensor) -> Tensor:
    """Return the weights of the cells at the places of each tap: (taps, size, cells); zeros beyond the border."""
    dtype = torch.get_autocast_dtype(like.device.type) if _is_autocast(like) else like.dtype
    if torch.compiler.is_compiling():
        return _compute(cells, size, dtype, like.device)
    return _cached(cells, size, dtype, like.device)


def _is_autocast(like: Tensor) -> bool:
    return torch.is_autocast_enabled(like.device.type) and like.dtype != torch.float64


def _compute(cells: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    wide = torch.promote_types(dtype, torch.float32)
    each = torch.eye(cells, dtype=wide, device=device)[None, None]
    enlarged = F.interpolate(each, size=(size, cells), mode="bilinear", align_corners=False)[0, 0]
    padded = F.pad(enlarged, (0, 0, 1, 1))
    return torch.stack([padded[tap : tap + size] for tap in range(_TAPS)]).to(dtype)


@lru_cache(maxsize=256)
def _cached(cells: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
        return _compute(cells, size, dtype, device)
