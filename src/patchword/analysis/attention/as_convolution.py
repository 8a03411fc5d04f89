"""Builds an attention layer that computes a given convolution (Cordonnier et al., 2020; Li et al., 2021).

Every head attends to one offset: its relative bias is so high there that the softmax puts all weight on it. Its values
are the tokens themselves, and the output matrix, which reads the heads side by side, is the kernel.

- pixels as tokens: one head per position of the kernel, K^2.
- patches of P x P as tokens: an output pixel depends on (K - 1) / 2 pixels to each side, which are up to
  ceil((K - 1) / 2 / P) patches away; so (2 ceil((K - 1) / (2P)) + 1)^2 heads. The division comes before the ceiling.

Zero padding is one leading token of zeros. It has no bias, so heads whose offset is outside the image attend to it,
because all other tokens have a very low bias there; its value is zero, and zero is what padding adds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid, Size, sides
from patchword.core.scope import Scope
from patchword.layers import Attention, LinearProjection, Pattern, RelativeTable, record_attention

STRONG = 200.0  # a bias: exp(-200) is zero in float32, so that all weight goes to exactly one token
MOST = 2**28  # elements in one matrix of a layer: a gigabyte


def heads_needed(kernel: int, patch: int = 1) -> int:
    """Return the number of heads; K^2 for pixels and an odd kernel."""
    return (2 * math.ceil((kernel - 1) / (2 * patch)) + 1) ** 2


@dataclass(frozen=True)
class ConvolutionByAttention:
    """An attention layer over pixels or patches that is a convolution. offsets: (row, column) of each head."""

    attention: Attention
    grid: Grid
    patch: int
    offsets: tuple[tuple[int, int], ...]

    def __call__(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, outputs, height, width)"""
        answer = self.attention(self.tokens(images), Scope(grid=self.grid))
        return F.pixel_shuffle(self.grid.to_map(answer)[1], self.patch)

    def tokens(self, images: Tensor) -> Tensor:
        """(batch, 1 + tokens, channels of a patch): the token of zeros, then the patches."""
        patches = F.pixel_unshuffle(images, self.patch)
        if patches.shape[2:] != (self.grid.height, self.grid.width):
            size = f"{self.grid.height * self.patch} x {self.grid.width * self.patch}"
            raise UserError("this layer was built for another image size", expected=size, got=f"{images.shape[2:]}")
        return self.grid.to_tokens(patches.new_zeros(len(patches), 1, patches.shape[1]), patches)

    @torch.no_grad()
    def attention_weights(self, images: Tensor) -> Tensor:
        """Return the attention weights of the first image, (heads, tokens, tokens)."""
        with record_attention(self.attention) as maps:
            self(images[:1])
        return maps[0].dense()[0]

    @property
    def idle(self) -> int:
        """The number of heads that do not affect the output; none for an odd kernel without zeros."""
        matrices: Tensor = self.attention.output.weight.unflatten(1, (len(self.offsets), -1))
        return int((matrices == 0).all(-1).all(0).sum())


@torch.no_grad()
def attention_for(
    weight: Tensor, bias: Tensor | None, image: Size, patch: int = 1, strength: float = STRONG
) -> ConvolutionByAttention:
    """Build the layer for a kernel (outputs, channels, K, K) with stride 1 and zero padding, on images of one size.

    strength: the bias of each head at its offset, and minus that of the others. The layer is a convolution only if it
    is large; with a small one the heads attend to other tokens, too.
    """
    check_sizes(weight, sides(image), patch)
    outputs, channels, kernel, _ = weight.shape
    height, width = sides(image)
    grid = Grid(height // patch, width // patch, prefix=1)
    steps = range(-math.ceil((kernel - 1) // 2 / patch), math.ceil(kernel // 2 / patch) + 1)
    offsets = tuple((row, column) for row in steps for column in steps)
    heads, inner = len(offsets), channels * patch * patch

    position = RelativeTable(heads, grid)
    _attend_to_offsets(position, offsets, strength)
    projection = LinearProjection(1)
    projection.joint = nn.Linear(inner, 3 * heads * inner, bias=False)
    nn.init.zeros_(projection.joint.weight)  # queries and keys are zero; only the position decides
    projection.joint.weight[2 * heads * inner :] = torch.eye(inner).repeat(heads, 1)
    attention = Attention(heads * inner, heads, projection=projection, patterns=[Pattern(position=position)])
    attention.output = nn.Linear(heads * inner, outputs * patch * patch)
    attention.output.weight.copy_(torch.cat([_part_of_kernel(weight, patch, *offset) for offset in offsets], 1))
    attention.output.bias.copy_(torch.zeros(()) if bias is None else bias.repeat_interleave(patch * patch))
    return ConvolutionByAttention(attention.to(weight.dtype).eval(), grid, patch, offsets)


def _attend_to_offsets(position: RelativeTable, offsets: Sequence[tuple[int, int]], strength: float) -> None:
    """Put the highest bias on the token at the head's offset. The table is indexed by query minus key position."""
    height, width = position.window.height, position.window.width
    table = position.table.fill_(-strength).unflatten(0, (2 * height - 1, 2 * width - 1))
    for head, (row, column) in enumerate(offsets):
        if abs(row) < height and abs(column) < width:  # else the offset is outside the image for every token
            table[height - 1 - row, width - 1 - column, head] = strength


def _part_of_kernel(weight: Tensor, patch: int, row: int, column: int) -> Tensor:
    """(outputs * P * P, channels * P * P): the kernel's weights from the patch at an offset to a patch."""
    kernel, before = weight.shape[-1], (weight.shape[-1] - 1) // 2
    place = torch.arange(patch)
    index = [offset * patch + place[None] - place[:, None] + before for offset in (row, column)]  # (output, input)
    inside = [(where >= 0) & (where < kernel) for where in index]
    rows, columns = (where.clamp(0, kernel - 1) for where in index)
    pairs = weight[:, :, rows[:, :, None, None], columns] * (inside[0][:, :, None, None] & inside[1])
    return pairs.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(0, 2)


@torch.no_grad()
def largest_error(layer: ConvolutionByAttention, weight: Tensor, bias: Tensor | None, images: Tensor) -> float:
    """Return the largest difference to torch's convolution, relative to its largest output; borders included."""
    before, after = (weight.shape[-1] - 1) // 2, weight.shape[-1] // 2
    expected = F.conv2d(F.pad(images, (before, after, before, after)), weight, bias)
    return float((layer(images) - expected).abs().max() / expected.abs().max())


def check_sizes(weight: Tensor, image: tuple[int, int], patch: int = 1) -> None:
    """Check that the kernel is square, that patches divide the image, and that the layer fits into memory."""
    if weight.ndim != 4 or weight.shape[2] != weight.shape[3]:
        raise UserError("the kernel has the wrong shape", expected="(outputs, channels, K, K)", got=tuple(weight.shape))
    size = f"{image[0]} x {image[1]}"
    if any(side % patch for side in image):
        raise UserError("patches do not divide the image", expected=f"sides that are multiples of {patch}", got=size)
    width = heads_needed(weight.shape[-1], patch) * weight.shape[1] * patch * patch
    tokens = image[0] * image[1] // patch**2
    numbers = max(width**2, heads_needed(weight.shape[-1], patch) * tokens**2)
    if numbers > MOST:
        got = f"{numbers:,} in one matrix"
        raise UserError("this layer would be too large", expected=f"at most {MOST:,} elements", got=got)
