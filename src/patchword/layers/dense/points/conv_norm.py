"""A convolution with group normalization, which all parts of RepPoints v2 are made of."""

from torch import nn


def conv_norm(width: int, outputs: int, kernel: int, groups: int, *, relu: bool = True) -> nn.Sequential:
    """Return a convolution without bias, its norm, and ReLU if asked for. The size of the map stays the same."""
    layers: list[nn.Module] = [nn.Conv2d(width, outputs, kernel, padding=kernel // 2, bias=False)]
    layers.append(nn.GroupNorm(groups, outputs))
    return nn.Sequential(*layers, nn.ReLU()) if relu else nn.Sequential(*layers)
