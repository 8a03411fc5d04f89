"""Weight initialization: one function per method; a family calls the one of its paper."""

import torch
from torch import Tensor, nn

from patchword.layers.attention.position import RelativeTable
from patchword.layers.attention.projection import LinearProjection
from patchword.layers.convolution.stem import PatchEmbed
from patchword.layers.embedding.absolute import LearnedPositions, Prefix
from patchword.layers.heads.image import ClassHead
from patchword.layers.random_values import kaiming_normal


def xavier(model: nn.Module) -> None:
    """ViT (Dosovitskiy et al., 2020): Xavier matrices, N(0, 0.02) positions; zero biases, [CLS] and head."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            _zero_bias(module.bias)
            nn.init.xavier_uniform_(module.weight)
        elif isinstance(module, PatchEmbed):
            _zero_bias(module.bias)
            nn.init.trunc_normal_(module.weight, std=module.weight[0].numel() ** -0.5)
        elif isinstance(module, LearnedPositions):
            nn.init.normal_(module.table, std=0.02)
    for module in model.modules():
        if isinstance(module, LinearProjection):  # three matrices in one weight, initialized separately
            with torch.no_grad():
                for matrix in module.joint.weight.chunk(3):
                    nn.init.xavier_uniform_(matrix)
        elif isinstance(module, ClassHead):
            nn.init.zeros_(module.linear.weight)


def truncated(model: nn.Module) -> None:
    """BERT (Devlin et al., 2018), DeiT (Touvron et al., 2020): N(0, 0.02), truncated at two standard deviations as in
    TensorFlow, for matrices, embeddings, leading tokens and positions; zero biases."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            _cut_normal(module.weight)
        elif isinstance(module, nn.Linear | PatchEmbed):
            _zero_bias(module.bias)
            _cut_normal(module.weight)
        elif isinstance(module, LearnedPositions):
            _cut_normal(module.table)
        elif isinstance(module, Prefix):
            _cut_normal(module.tokens)


def truncated_matrices(model: nn.Module) -> None:
    """Swin, CSWin, CvT, PVT, Pale: N(0, 0.02), truncated, for matrices, leading tokens and tables; zero biases.

    Convolutions keep the default initialization of torch.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            _zero_bias(module.bias)
            nn.init.trunc_normal_(module.weight, std=0.02)
        elif isinstance(module, LearnedPositions | RelativeTable):
            nn.init.trunc_normal_(module.table, std=0.02)
        elif isinstance(module, Prefix):
            nn.init.trunc_normal_(module.tokens, std=0.02)


def lecun(model: nn.Module) -> None:
    """Mixer (Tolstikhin et al., 2021): variance 1 / fan_in; zero biases and head."""
    for module in model.modules():
        if isinstance(module, nn.Linear | PatchEmbed):
            _zero_bias(module.bias)
            nn.init.trunc_normal_(module.weight, std=module.weight[0].numel() ** -0.5)
    for module in model.modules():
        if isinstance(module, ClassHead):
            nn.init.zeros_(module.linear.weight)


def kaiming(model: nn.Module) -> None:
    """ResNet (He et al., 2015): Kaiming normal, by fan_out, for convolutions."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            _zero_bias(module.bias)
            kaiming_normal(module.weight)


def _cut_normal(weights: Tensor, std: float = 0.02) -> None:
    """Normal values, truncated at two standard deviations. Only the values outside are drawn again; trunc_normal_ of
    torch takes sixteen seconds for BERT-base on two cores instead of six."""
    if weights.is_meta:  # no values to draw, and torch would take a millisecond for it
        return
    with torch.no_grad():
        weights.normal_(std=std)
        while (outside := weights.abs() > 2 * std).any():
            weights[outside] = torch.randn(int(outside.sum()), dtype=weights.dtype, device=weights.device) * std


def _zero_bias(bias: Tensor | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)
