"""Draws initial values. Models on the meta device, which are built to be counted, have none: torch would import its
compiler for them, which takes seconds."""

from torch import Tensor, nn


def normal(weights: Tensor, std: float) -> None:
    """Draw from N(0, std)."""
    if not weights.is_meta:
        nn.init.normal_(weights, std=std)


def kaiming_normal(weights: Tensor) -> None:
    """Draw from a normal distribution by fan_out, for layers before ReLU (He et al., 2015)."""
    if not weights.is_meta:
        nn.init.kaiming_normal_(weights, mode="fan_out", nonlinearity="relu")
