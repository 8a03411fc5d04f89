"""Segmenters: backbone, neck, and a head that classifies every cell of the finest map."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from torch import Tensor, nn

from patchword.layers.dense.segmentation.blocks import ClassOutput
from patchword.layers.dense.segmentation.pixel_logits import PixelLogits, class_map, pad_to_multiple
from patchword.layers.model import ModuleWithCard


class SegmenterOutput(NamedTuple):
    """logits, auxiliary: (batch, classes, rows, columns) in float32; the auxiliary ones may have fewer rows."""

    logits: Tensor
    auxiliary: Tensor | None


class Segmenter(ModuleWithCard):
    """Classifies the pixels of images; `objectives.segmentation` has the loss.

    backbone: returns maps of the images, finest first. neck: maps -> maps, or None. head: maps -> logits at the
    resolution of the finest map, which has a stride of 4 in most backbones.
    auxiliary: a second head, which reads the maps of the backbone and is used in training only, or None.
    """

    def __init__(
        self, backbone: nn.Module, neck: nn.Module | None, head: nn.Module, auxiliary: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.backbone, self.neck, self.head, self.auxiliary = backbone, neck, head, auxiliary

    if TYPE_CHECKING:

        def __call__(self, images: Tensor) -> Tensor:
            """Call `forward` and the hooks."""

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> logits (batch, classes, rows, columns) of the finest map, in float32"""
        return self.outputs(images, auxiliary=False).logits

    def outputs(self, images: Tensor, auxiliary: bool | None = None) -> SegmenterOutput:
        """Return the logits of the heads. auxiliary: run the auxiliary head; None: in training only."""
        return self.on_maps(self.backbone(images), auxiliary)

    def on_maps(self, maps: Sequence[Tensor], auxiliary: bool | None = None) -> SegmenterOutput:
        """Return the logits from the maps of the backbone."""
        asked = self.training if auxiliary is None else auxiliary
        logits = self.head(maps if self.neck is None else self.neck(maps))
        return SegmenterOutput(logits, self.auxiliary(maps) if asked and self.auxiliary is not None else None)

    @property
    def multiple(self) -> int:
        """Pixels that divide height and width of the images that the backbone reads without padding of its own.

        A plain ViT with a simple pyramid needs multiples of its patch size, so that the cells of its maps keep their
        places in the image. Other backbones run at any size: 1.
        """
        return int(getattr(self.backbone, "multiple", 1))

    def pixel_logits(self, images: Tensor) -> PixelLogits:
        """Pad normalized images to what the backbone needs, and return their logits in float32.

        Every label map comes from here: those of `segment`, of recipes, of pipelines and of exported files.
        """
        inputs = pad_to_multiple(images, self.multiple)
        logits = self(inputs).float()
        return PixelLogits(logits, (inputs.shape[-2], inputs.shape[-1]), (images.shape[-2], images.shape[-1]))

    def segment(self, images: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """Return the class of each pixel: (batch, channels, height, width) -> (batch, height, width), int64.

        size: height and width of the result; by default those of the images. The logits are enlarged bilinearly to the
        size of the images, and then to it.
        """
        logits = self.pixel_logits(images)
        return class_map(logits, logits.size if size is None else size)

    def class_outputs(self) -> list[nn.Conv2d]:
        """Return the layers that compute the logits of the classes."""
        heads = [self.head] if self.auxiliary is None else [self.head, self.auxiliary]
        return [cast(ClassOutput, head.class_output).convolution for head in heads]
