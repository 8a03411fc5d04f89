"""The names of CSWin in the authors' files. No other library has it."""

from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.weights.names.name_table import Layout, Row, rows
from patchword.weights.names.timm import TimmArguments
from patchword.weights.names.vision.pyramids import (
    authors_config,
    block_rows,
    check_sides,
    doubling_sizes,
)

STAGES = 4


def _rows() -> tuple[Row, ...]:
    found = rows(
        ("stages.0.stem.patches.convolution.{p}", "stage1_conv_embed.0.{p}"),
        ("stages.0.stem.norm.{p}", "stage1_conv_embed.2.{p}"),
        ("norm.{p}", "norm.{p}"),
        ("head.linear.{p}", "head.{p}"),
    )
    for stage in range(1, STAGES):
        found += rows(
            (f"stages.{stage}.stem.patches.convolution.{{p}}", f"merge{stage}.conv.{{p}}"),
            (f"stages.{stage}.stem.norm.{{p}}", f"merge{stage}.norm.{{p}}"),
        )
    for stage in range(STAGES):
        ours, theirs = f"stages.{stage}.encoder.blocks.{{i}}.", f"stage{stage + 1}.{{i}}."
        found += block_rows(ours, theirs) + rows(
            (ours + "attention.sublayer.projection.joint.{p}", theirs + "qkv.{p}"),
            (ours + "attention.sublayer.output.{p}", theirs + "proj.{p}"),
            (ours + "attention.sublayer.patterns.0.position.convolution.{p}", theirs + "attns.0.get_v.{p}"),
            (ours + "attention.sublayer.patterns.1.position.convolution.{p}", theirs + "attns.1.get_v.{p}"),
        )
    return found


# Neither the heads nor the stripe widths can be inferred from the shapes.
_FIELDS = {
    "image": "img_size",
    "channels": "in_chans",
    "width": "embed_dim",
    "depths": "depth",
    "heads": "num_heads",
    "stripes": "split_size",
    "mlp_ratio": "mlp_ratio",
    "drop_path": "drop_path_rate",
    "dropout": "drop_rate",
    "attention_dropout": "attn_drop_rate",
}


_ARGUMENTS = TimmArguments(
    "CSWin",
    _FIELDS,
    given=("patch_size", "use_chk"),  # the authors' code does not use the patch size
    fixed={"qkv_bias": (True,), "qk_scale": (None,), "hybrid_backbone": (None,)},
)


def _write(card: Card) -> dict[str, Any]:
    """Write the authors' config.

    Their code has four stages, no padding, and other weights if a stripe covers its map.
    """
    c = card.config
    if len(c["depths"]) != STAGES:
        raise UserError(
            "the authors' CSWin does not support this config", expected=f"{STAGES} stages", got=len(c["depths"])
        )
    check_sides(card, 32, "the authors' CSWin", square=True)
    grids = [sides(c["image"])[0] // (4 * 2**stage) for stage in range(STAGES - 1)]
    if any(grid % stripe or grid == stripe for grid, stripe in zip(grids, c["stripes"], strict=False)):
        raise UserError(
            "the authors' CSWin does not support this config",
            expected=f"stripes that divide their maps, of {', '.join(map(str, grids))}, and do not cover them",
            got=f"stripes {c['stripes']}",
        )
    return authors_config(card, _FIELDS)


LAYOUTS = (
    Layout(
        "authors",
        "cswin",
        _rows(),
        ("stage1_conv_embed.0.weight", "stage1.0.qkv.weight"),
        doubling_sizes,
        read_config=_ARGUMENTS.read,
        write_config=_write,
        needs={"position": "local", "patch": 4, "norm_eps": 1e-5},
    ),
)
