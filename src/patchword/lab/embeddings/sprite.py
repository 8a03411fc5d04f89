"""All images of a set as one PNG, in rows of tiles."""

import io
from math import ceil, sqrt

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

LARGEST_TILE = 48  # pixels


def tile_of(images: Tensor) -> int:
    """Return the side of a tile in pixels."""
    return min(max(images.shape[2:]), LARGEST_TILE)


def columns_of(count: int) -> int:
    """Return the number of tiles per row."""
    return ceil(sqrt(count))


def sprite(images: Tensor) -> bytes:
    """Return (count, channels, height, width) uint8 images as the tiles of one PNG. Tiles are square."""
    tile, columns = tile_of(images), columns_of(len(images))
    small = images.float()
    if tuple(images.shape[2:]) != (tile, tile):
        small = F.interpolate(small, size=(tile, tile), mode="bicubic", antialias=True).round().clamp(0, 255)
    rows = ceil(len(images) / columns)
    sheet = torch.zeros(rows * columns, images.shape[1], tile, tile)
    sheet[: len(images)] = small
    pixels = sheet.view(rows, columns, -1, tile, tile).permute(0, 3, 1, 4, 2).reshape(rows * tile, columns * tile, -1)
    array = pixels.to(torch.uint8).numpy()
    content = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[2] == 1 else array).save(content, "png")
    return content.getvalue()
