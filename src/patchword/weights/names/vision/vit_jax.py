"""The names of ViT in the authors' own .npz files (Dosovitskiy et al., 2020; Steiner et al., 2021)."""

from patchword.weights.names.configs import image_config
from patchword.weights.names.jax import JaxLayout
from patchword.weights.names.name_table import Row, rows
from patchword.weights.names.timm import TimmArguments
from patchword.weights.names.vision.vit import sizes

_BLOCK = "stages.0.encoder.blocks.{i}."


def _rows(first: str, attention: str, second: str, feed_forward: str) -> tuple[Row, ...]:
    """Return the name table. The other arguments name the parts of a block, which changed with the authors' library."""
    block = "Transformer/encoderblock_{i}/"
    joint = tuple(f"{block}{attention}/{part}.{{p}}" for part in ("query", "key", "value"))
    return rows(
        ("stages.0.stem.{p}", "embedding.{p}"),
        ("stages.0.prefix.tokens", "cls"),
        ("stages.0.positions.table", "Transformer/posembed_input/pos_embedding"),
        (_BLOCK + "attention.norm.{p}", f"{block}{first}.{{p}}"),
        (_BLOCK + "attention.sublayer.projection.joint.{p}", joint),
        (_BLOCK + "attention.sublayer.output.{p}", f"{block}{attention}/out.{{p}}"),
        (_BLOCK + "feed_forward.norm.{p}", f"{block}{second}.{{p}}"),
        (_BLOCK + "feed_forward.sublayer.up.{p}", f"{block}{feed_forward}/Dense_0.{{p}}"),
        (_BLOCK + "feed_forward.sublayer.down.{p}", f"{block}{feed_forward}/Dense_1.{{p}}"),
        ("norm.{p}", "Transformer/encoder_norm.{p}"),
        ("head.linear.{p}", "head.{p}"),
    )


def _layout(first: str, attention: str, second: str, feed_forward: str) -> JaxLayout:
    return JaxLayout(
        "authors",
        "vit",
        _rows(first, attention, second, feed_forward),
        ("embedding/kernel", f"Transformer/encoderblock_0/{attention}/query/kernel"),
        sizes,
        implied={"activation": "gelu-tanh"},
        read_config=TimmArguments("ViT").read,
        write_config=image_config,
        dropped=("pre_logits.{p}",),
        needs={
            "activation": "gelu-tanh",
            "norm_eps": 1e-6,
            "position": "learned",
            "distilled": False,
            "qkv_bias": True,
        },
        also_for=("deit",),
    )


# The published files have the first names, which we also write; files of the authors' current code have the second.
LAYOUTS = (
    _layout("LayerNorm_0", "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3"),
    _layout("LayerNorm_0", "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0"),
)
