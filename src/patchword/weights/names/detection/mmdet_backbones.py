"""The names of Swin as the backbone of a detector or segmenter in the repositories of Swin's authors."""

from typing import Any

from patchword.weights.names.detection.detection_layout import backbone_sizes, with_prefix
from patchword.weights.names.name_table import Row, Shapes, rows
from patchword.weights.names.vision import swin
from patchword.weights.names.vision.swin import buffers, official_rows

SWIN = "backbone.layers.0.blocks.0.attn.relative_position_bias_table"
SWIN_BUFFERS = buffers("backbone.layers", "attn_mask", "attn.relative_position_index")
_INNER, _PADDED = ".attention.sublayer.", ".attention.sublayer.attention."


def swin_rows() -> tuple[Row, ...]:
    """Return the rows of Swin, whose attention is inside a module that pads the map."""
    stages = with_prefix(official_rows(merge=0, head="head.{p}"), "backbone.backbone.", "backbone.")
    return padded_rows(stages) + rows(("backbone.norms.{i}.{p}", "backbone.norm{i}.{p}"))


def padded_rows(table: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return the rows of a Swin for one whose attention is inside a module that pads the map."""
    return tuple(Row(row.ours.replace(_INNER, _PADDED), row.theirs) for row in table)


def unpadded_swin(shapes: Shapes) -> Shapes:
    """Return the shapes under the names of a Swin that does not pad."""
    return {name.replace(_PADDED, _INNER): shape for name, shape in shapes.items()}


def swin_sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer the fields `backbone` and `backbone_fields` of a Swin."""
    return backbone_sizes("swin", unpadded_swin(shapes), "backbone.backbone.", swin.sizes)
