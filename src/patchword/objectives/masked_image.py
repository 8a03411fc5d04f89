"""Masked image modelling (SimMIM, Xie et al., 2021): the pixels of masked patches are predicted from the others."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

from patchword.core.grid import Size
from patchword.layers.convolution.stem import PatchEmbed, cut_patches
from patchword.layers.model import Model
from patchword.layers.pyramid import Pyramid, Stage
from patchword.objectives.classification import Outcome


class MaskedImages(NamedTuple):
    """images: (batch, channels, height, width), normalized. mask: (batch, patches), True for masked patches"""

    images: Tensor
    mask: Tensor


class MaskedImageModel(Model):
    """The encoder of a ViT, a learned mask token, and a linear layer from tokens to pixels (the prediction head).

    The stages and the norm are those of the given model, under the same names; its classifier is left out. Mask tokens
    replace the masked patches after the patch embedding, so the encoder processes all tokens and position encodings are
    those of a classifier.
    """

    def __init__(self, vit: Pyramid) -> None:
        super().__init__()
        self.stages, self.norm = vit.stages, vit.norm
        if hasattr(vit, "card"):
            self.card = vit.card
        stem = cast(PatchEmbed, self.stage.stem)
        self.patch = stem.patch
        self.mask_token = nn.Parameter(torch.zeros(stem.width))
        self.head = nn.Linear(stem.width, stem.weight[0].numel())
        for tensor in (self.mask_token, self.head.weight):
            nn.init.trunc_normal_(tensor, std=0.02)
        nn.init.zeros_(self.head.bias)

    @property
    def stage(self) -> Stage:
        return cast(Stage, self.stages[0])

    def forward(self, inputs: MaskedImages) -> Tensor:
        """Return the predicted pixels of all patches: (batch, patches, channels * patch * patch)"""
        tokens, grid = self.stage.stem(inputs.images)
        tokens = torch.where(inputs.mask[..., None], self.mask_token.to(tokens.dtype), tokens)
        tokens, grid = self.stage.encode(tokens, grid)
        return cast(Tensor, self.head(self.norm(tokens)[:, grid.prefix :]))


class MaskedBatch(Protocol):
    """A batch of masked images, or a micro-batch of one. weight: the number of images"""

    @property
    def masked(self) -> MaskedImages: ...

    @property
    def weight(self) -> int: ...


class MaskedPixels:
    """The mean absolute error (L1) of the normalized pixels of masked patches; visible patches have no loss."""

    def __init__(self, model: Callable[[MaskedImages], Tensor], patch: Size) -> None:
        self.model, self.patch = model, patch

    def __call__(self, piece: MaskedBatch, batch: MaskedBatch) -> Outcome:
        predicted = self.model(piece.masked)
        loss = masked_errors(predicted, piece.masked, self.patch).sum() / batch.weight
        return Outcome(loss, torch.full((), torch.nan, device=predicted.device))


def masked_errors(predicted: Tensor, inputs: MaskedImages, patch: Size) -> Tensor:
    """Return the mean absolute error over the masked pixels of each image, (batch,) float32.

    predicted: (batch, patches, channels * patch * patch), or a shape that broadcasts to it
    """
    of_patches = (predicted.float() - cut_patches(inputs.images, patch)).abs().mean(-1)
    return (of_patches * inputs.mask).sum(1) / inputs.mask.sum(1)
