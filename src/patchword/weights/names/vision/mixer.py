"""The names of Mixer in timm's and the authors' (JAX) files."""

from typing import Any

from patchword.core.card import Card
from patchword.core.grid import sides
from patchword.weights.names.configs import image_config, ratio, timm_config
from patchword.weights.names.jax import JaxLayout
from patchword.weights.names.name_table import Layout, Row, Shapes, rows
from patchword.weights.names.timm import TimmArguments

_BLOCK = "stages.0.encoder.blocks.{i}."
_TOKENS = _BLOCK + "token_mixing.sublayer.feed_forward."
_CHANNELS = _BLOCK + "feed_forward.sublayer."


def _rows(stem: str, block: str, names: tuple[str, ...], norm: str) -> tuple[Row, ...]:
    """Return the name table. names: of the two norms of a block, and of the linear layers of both MLPs."""
    first, up_tokens, down_tokens, second, up, down = (f"{block}{name}.{{p}}" for name in names)
    return rows(
        ("stages.0.stem.{p}", f"{stem}.{{p}}"),
        (_BLOCK + "token_mixing.norm.{p}", first),
        (_TOKENS + "up.{p}", up_tokens),
        (_TOKENS + "down.{p}", down_tokens),
        (_BLOCK + "feed_forward.norm.{p}", second),
        (_CHANNELS + "up.{p}", up),
        (_CHANNELS + "down.{p}", down),
        ("norm.{p}", f"{norm}.{{p}}"),
        ("head.linear.{p}", "head.{p}"),
    )


def _names(norms: tuple[str, str], tokens: str, channels: str, layers: tuple[str, str]) -> tuple[str, ...]:
    up, down = layers
    return (norms[0], tokens + up, tokens + down, norms[1], channels + up, channels + down)


_TIMM = _names(("norm1", "norm2"), "mlp_tokens.", "mlp_channels.", ("fc1", "fc2"))
_JAX = _names(("LayerNorm_0", "LayerNorm_1"), "token_mixing/", "channel_mixing/", ("Dense_0", "Dense_1"))


def sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer sizes; the patches are assumed to form a square."""
    values: dict[str, Any] = {"depth": sum(name.endswith("feed_forward.sublayer.up.weight") for name in shapes)}
    if stem := shapes.get("stages.0.stem.weight"):
        values |= {"width": stem[0], "channels": stem[1], "patch": stem[2]}
    if up := shapes.get(_TOKENS.format(i=0) + "up.weight"):
        values["token_hidden"] = up[0]
        values |= {"image": round(up[1] ** 0.5) * values["patch"]} if stem else {}
    if up := shapes.get(_CHANNELS.format(i=0) + "up.weight"):
        values["hidden"] = up[0]
    if head := shapes.get("head.linear.weight"):
        values["classes"] = head[0]
    return values


_NAMED = {(512, 8): "s", (768, 12): "b", (1024, 24): "l"}  # timm's letter for a width and depth


_ARGUMENTS = TimmArguments(
    "Mixer",
    {"image": "img_size", "patch": "patch_size"},
    given=("in_chans", "num_blocks", "embed_dim", "mlp_ratio"),
    fixed={"global_pool": ("avg",), "stem_norm": (False,)},
    architectures=r"mixer_[sbl]\d+_\d+(_in21k|_miil|_miil_in21k)?",
    activations={"gelu": "gelu", "gelu_tanh": "gelu-tanh"},
)


def _write_timm(card: Card) -> dict[str, Any]:
    """Write timm's config. timm.create_model sets width, depth and patch only by name; timm's class takes arguments."""
    c = card.config
    letter, patch = _NAMED.get((c["width"], c["depth"])), c["patch"]
    architecture = f"mixer_{letter}{patch}_224" if letter and patch in (16, 32) else None
    arguments = {
        "img_size": list(sides(c["image"])),
        "in_chans": c["channels"],
        "mlp_ratio": [ratio(c["token_hidden"], c["width"]), ratio(c["hidden"], c["width"])],
    }
    if architecture is None:
        arguments |= {"patch_size": patch, "num_blocks": c["depth"], "embed_dim": c["width"]}
    return timm_config(card, architecture, c["width"], arguments)


LAYOUTS = (
    Layout(
        "timm",
        "mixer",
        _rows("stem.proj", "blocks.{i}.", _TIMM, "norm"),
        ("stem.proj.weight", "blocks.0.mlp_tokens.fc1.weight"),
        sizes,
        read_config=_ARGUMENTS.read,
        write_config=_write_timm,
        needs={"norm_eps": 1e-6, "activation": "gelu"},
    ),
    JaxLayout(
        "authors",
        "mixer",
        _rows("stem", "MixerBlock_{i}/", _JAX, "pre_head_layer_norm"),
        ("stem/kernel", "MixerBlock_0/token_mixing/Dense_0/kernel"),
        sizes,
        implied={"activation": "gelu-tanh"},
        read_config=TimmArguments("Mixer").read,
        write_config=image_config,
        needs={"norm_eps": 1e-6, "activation": "gelu-tanh"},
    ),
)
