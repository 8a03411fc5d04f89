"""DETR (Carion et al., 2020): an encoder over the map, a decoder whose queries become objects."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from patchword.core.geometry.boxes import clip_boxes
from patchword.core.geometry.objects import Detections, take
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers.activation_checkpointing import CheckpointedBlock
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.full_precision import full_precision
from patchword.layers.dense.queries.box_forms import to_corners, to_pixels
from patchword.layers.dense.queries.positioned_attention import PositionedScope
from patchword.layers.dense.queries.sine_positions import SinePositions, pixels_of_cells, valid_cells
from patchword.layers.encoder import Encoder


class QueryOutput(NamedTuple):
    """Predictions of each decoder layer for each query.

    logits: (layers, batch, queries, classes + 1), "no object" last.
    boxes: (layers, batch, queries, 4), center x, center y, width and height, relative to the image without its padding.
    """

    logits: Tensor
    boxes: Tensor


class QueryDecoder(CheckpointedBlock):
    """Decoder blocks; the norm is applied to the output of each block, but the next block reads it without the norm."""

    def __init__(self, blocks: Iterable[nn.Module], norm: nn.Module) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm

    def forward(self, tokens: Tensor, scope: Scope) -> list[Tensor]:
        """(batch, queries, width) -> the normalized output of each block"""
        found = []
        for block in self.blocks:
            tokens = self.run(block, tokens, scope)
            found.append(self.norm(tokens))
        return found


class Detr(Detector):
    """Detects objects as a set: each query predicts at most one object, and nothing is suppressed afterwards.

    channels: of the last map of the backbone, which is all that is read. max_detections: at most the queries.
    """

    def __init__(
        self,
        backbone: nn.Module,
        channels: int,
        width: int,
        encoder: Encoder,
        decoder: QueryDecoder,
        *,
        queries: int,
        classes: int,
        max_detections: int,
    ) -> None:
        super().__init__()
        self.backbone, self.encoder, self.decoder = backbone, encoder, decoder
        self.neck = nn.Conv2d(channels, width, 1)
        self.positions = SinePositions(width)
        self.queries = nn.Embedding(queries, width)
        self.class_output = nn.Linear(width, classes + 1)
        self.box_output = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )
        self.masks = nn.ModuleList()
        self.max_detections = max_detections

    def features(self, images: Tensor) -> list[Tensor]:
        """Return the last map of the backbone, and the pixel that each of its cells reads (`with_pixels`)."""
        return self.with_pixels(self.backbone(images)[-1], (images.shape[-2], images.shape[-1]))

    @staticmethod
    def with_pixels(feature_map: Tensor, image: tuple[int, int]) -> list[Tensor]:
        """Return a map and the pixels of its cells, (batch, 2, rows, columns), which give the mask of the padding.

        image: height and width of the images of the batch, with their padding.
        """
        cells = feature_map.shape[-2], feature_map.shape[-1]
        pixels = pixels_of_cells(image, cells, feature_map.device)
        return [feature_map, pixels.expand(feature_map.shape[0], *pixels.shape)]

    def detect(self, levels: Sequence[Tensor], sizes: Tensor) -> Detections:
        """Detect objects on the map: the best class of each query, best queries first, boxes clipped to the image."""
        logits, relative = self.predict(self.decode(levels, sizes)[-1:])
        scores, labels = logits[0].softmax(dim=-1)[..., :-1].max(dim=-1)
        best = scores.topk(self.max_detections, dim=1)
        boxes = clip_boxes(to_pixels(to_corners(take(relative[0], best.indices)), sizes), sizes)
        valid = torch.ones_like(best.indices, dtype=torch.bool)
        return Detections(boxes, labels.gather(1, best.indices), valid, sizes, best.values)

    def outputs(self, levels: Sequence[Tensor], sizes: Tensor) -> QueryOutput:
        """Return the predictions of all decoder layers."""
        return self.predict(self.decode(levels, sizes))

    def decode(self, levels: Sequence[Tensor], sizes: Tensor) -> list[Tensor]:
        """Return the queries after each decoder layer: (batch, queries, width) each."""
        feature_map, pixels = levels
        grid, valid = Grid(feature_map.shape[-2], feature_map.shape[-1]), valid_cells(pixels, sizes)
        position, mask = self.positions(valid).to(self.queries.weight.dtype), valid.flatten(1)[:, None, None]
        tokens = self.neck(feature_map).flatten(2).transpose(1, 2)
        memory = self.encoder(tokens, PositionedScope(mask=mask, grid=grid, position=position))
        queries = self.queries.weight.expand(tokens.shape[0], -1, -1)
        scope = PositionedScope(
            memory=memory, memory_mask=mask, position=queries, memory_position=position, memory_grid=grid
        )
        return cast(list[Tensor], self.decoder(torch.zeros_like(queries), scope))

    def predict(self, decoded: Sequence[Tensor]) -> QueryOutput:
        """Return the predictions for queries after some decoder layers."""
        hidden = torch.stack(list(decoded))
        return QueryOutput(full_precision(self.class_output(hidden)), full_precision(self.box_output(hidden)).sigmoid())

    def class_outputs(self) -> list[nn.Module]:
        """Return the layer that computes the logits of the classes."""
        return [self.class_output]
