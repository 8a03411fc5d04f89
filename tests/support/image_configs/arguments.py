"""The arguments of timm's and the authors' classes, with values whose outcome is known: tiny models, no timm needed."""

from dataclasses import dataclass
from typing import Any

TRAINING = {"num_classes": 5, "drop_rate": 0.1, "drop_path_rate": 0.1, "pretrained": True, "checkpoint_path": "x.pth"}


@dataclass(frozen=True)
class Arguments:
    """The arguments of one class.

    base: our sizes. read: argument -> values, each with the fields of ours that it means. ignored: arguments that
    change no output. refused: values that make another model. signature: all arguments of the class. hidden: those
    in `read` that no shape shows.
    """

    model: str
    layout: str
    base: dict[str, Any]
    read: dict[str, tuple[tuple[Any, dict[str, Any]], ...]]
    ignored: dict[str, tuple[Any, ...]]
    refused: dict[str, tuple[Any, ...]]
    signature: str
    hidden: tuple[str, ...] = ()
    config: dict[str, Any] | None = None  # where the layout cannot write one for tiny sizes

    @property
    def name(self) -> str:
        return f"{self.layout}-{self.model}"


_VIT_SIZES = {"width": 32, "depth": 2, "heads": 4, "hidden": 64, "image": 32, "patch": 8, "classes": 5}
_VIT: dict[str, Any] = {
    "layout": "timm",
    "base": _VIT_SIZES,
    "read": {
        "img_size": ((48, {"image": 48}), ([32, 48], {"image": (32, 48)})),
        "patch_size": ((4, {"patch": 4}), ([8, 4], {"patch": (8, 4)})),
        "in_chans": ((1, {"channels": 1}),),
        "embed_dim": ((16, {"width": 16}),),
        "depth": ((1, {"depth": 1}),),
        "num_heads": ((2, {"heads": 2}),),
        "mlp_ratio": ((1.6, {"hidden": 51}),),
        "qkv_bias": ((False, {"qkv_bias": False}),),
        "act_layer": (
            ("gelu_tanh", {"activation": "gelu-tanh"}),
            ("quick_gelu", {"activation": "quick-gelu"}),
            ("relu", {"activation": "relu"}),
            ("silu", {"activation": "silu"}),
            (None, {}),
        ),
    },
    "ignored": {
        **{name: (value,) for name, value in TRAINING.items()},
        **dict.fromkeys(("pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate"), (0.1,)),
        **{"weight_init": ("jax",), "fix_init": (True,), "dynamic_img_size": (True,), "dynamic_img_pad": (True,)},
        **{"norm_layer": (None,), "init_values": (None,), "fc_norm": (None, False), "qk_norm": (False,)},
    },
    "refused": {
        "global_pool": ("avg", "map", ""),
        "act_layer": ("tanh",),
        "norm_layer": ("layernorm", "rmsnorm"),
        "init_values": (1e-5,),
        "pos_embed": ("", "none"),
        "reg_tokens": (4,),
        **dict.fromkeys(("class_token", "proj_bias", "final_norm"), (False,)),
        **dict.fromkeys(("qk_norm", "scale_attn_norm", "scale_mlp_norm", "no_embed_class", "pre_norm"), (True,)),
        **dict.fromkeys(("fc_norm", "pool_include_prefix"), (True,)),
        **dict.fromkeys(("embed_layer", "embed_norm_layer", "block_fn", "mlp_layer", "attn_layer"), ("other",)),
    },
    "signature": "img_size patch_size in_chans num_classes global_pool embed_dim depth num_heads mlp_ratio qkv_bias "
    "qk_norm scale_attn_norm scale_mlp_norm proj_bias init_values class_token pos_embed no_embed_class reg_tokens "
    "pre_norm final_norm fc_norm pool_include_prefix dynamic_img_size dynamic_img_pad drop_rate pos_drop_rate "
    "patch_drop_rate proj_drop_rate attn_drop_rate drop_path_rate weight_init fix_init embed_layer embed_norm_layer "
    "norm_layer act_layer block_fn mlp_layer attn_layer",
    "hidden": ("num_heads", "act_layer"),
}

_SWIN: dict[str, Any] = {
    "model": "swin-mini",
    "base": {"width": 16, "window": 4, "image": 32, "heads": (2, 4), "depths": (2, 2), "classes": 5},
    "read": {
        "img_size": ((64, {"image": 64}), ([32, 64], {"image": (32, 64)}), ([32, 32], {})),
        "patch_size": ((1, {"patch": 1}), ([4, 4], {"patch": 4, "image": 32})),
        "in_chans": ((3, {"channels": 3}),),
        "embed_dim": ((32, {"width": 32}),),
        "depths": (([1, 3], {"depths": (1, 3)}),),
        "num_heads": (([4, 8], {"heads": (4, 8)}),),
        "window_size": ((2, {"window": 2}), ([2, 2], {"window": 2})),
        "mlp_ratio": ((2.3, {"mlp_ratio": 2.3}),),
        "qkv_bias": ((False, {"qkv_bias": False}),),
        "attn_drop_rate": ((0.1, {"attention_dropout": 0.1}),),
    },
    "ignored": {name: (value,) for name, value in TRAINING.items()},
    "refused": {
        "patch_size": ([2, 4],),
        "img_size": (40,),
        "window_size": ([4, 2],),
        "norm_layer": ("layernorm",),
        "act_layer": ("relu",),
        "patch_norm": (False,),
        "ape": (True,),
    },
    "signature": "img_size patch_size in_chans num_classes embed_dim depths num_heads window_size mlp_ratio qkv_bias "
    "drop_rate attn_drop_rate drop_path_rate norm_layer ape patch_norm ",
}

_CVT = {"widths": (16, 32), "heads": (2, 4), "depths": (1, 2), "image": 32, "classes": 5}

ARGUMENTS = (
    Arguments("vit-tiny-16", **_VIT),
    Arguments("deit-tiny-distilled", **_VIT),
    Arguments(
        **_SWIN
        | {
            "layout": "timm",
            "read": _SWIN["read"] | {"proj_drop_rate": ((0.1, {"dropout": 0.1}),)},
            "ignored": _SWIN["ignored"] | {"weight_init": ("jax",), "strict_img_size": (False,), "head_dim": (None,)},
            "refused": _SWIN["refused"]
            | {"global_pool": ("",), "head_dim": (4,), "always_partition": (True,), "embed_layer": ("other",)}
            | {"img_size": (40, 8)},
            "signature": _SWIN["signature"] + "global_pool head_dim proj_drop_rate embed_layer weight_init "
            "always_partition strict_img_size",
        }
    ),
    Arguments(
        **_SWIN
        | {
            "layout": "authors",
            "ignored": _SWIN["ignored"] | {"use_checkpoint": (True,), "fused_window_process": (True,)},
            "refused": _SWIN["refused"] | {"img_size": (40, [16, 32]), "qk_scale": (0.1,)},
            "signature": _SWIN["signature"] + "qk_scale use_checkpoint fused_window_process",
        }
    ),
    Arguments(
        "mixer-mini",
        "timm",
        {"width": 32, "depth": 2, "token_hidden": 16, "hidden": 64, "patch": 4, "image": 16, "classes": 5},
        {
            "img_size": ((32, {"image": 32}), ([8, 32], {"image": (8, 32)})),
            "patch_size": ((8, {"patch": 8, "image": 16}),),
            "in_chans": ((3, {"channels": 3}),),
            "num_blocks": ((1, {"depth": 1}),),
            "embed_dim": ((48, {"width": 48}),),
            "mlp_ratio": (([0.7, 2.1], {"token_hidden": 22, "hidden": 67}),),
            "act_layer": (("gelu_tanh", {"activation": "gelu-tanh"}), ("gelu", {}), (None, {})),
        },
        {**{name: (value,) for name, value in TRAINING.items()}, "proj_drop_rate": (0.1,), "nlhb": (True,)},
        {
            "patch_size": ([4, 2],),
            "act_layer": ("relu", "silu"),
            "stem_norm": (True,),
            "global_pool": ("",),
            **dict.fromkeys(("block_layer", "mlp_layer", "norm_layer"), ("other",)),
        },
        "num_classes img_size in_chans patch_size num_blocks embed_dim mlp_ratio block_layer mlp_layer norm_layer "
        "act_layer drop_rate proj_drop_rate drop_path_rate nlhb stem_norm global_pool",
        hidden=("act_layer",),
    ),
    Arguments(
        "resnet-18",
        "timm",
        {"depths": (1, 1, 1, 1), "image": 32, "classes": 5, "width": 64, "widths": (8, 16, 24, 32)},
        {
            "layers": (([1, 2, 1, 1], {"depths": (1, 2, 1, 1)}),),
            "channels": (([8, 8, 8, 8], {"widths": (8, 8, 8, 8)}),),
            "in_chans": ((1, {"channels": 1}),),
        },
        {
            **{name: (value,) for name, value in TRAINING.items()},
            **{"zero_init_last": (False,), "drop_block_rate": (0.1,), "act_layer": ("relu",), "stem_type": ("",)},
        },
        {
            **{"block": ("bottleneck",), "output_stride": (16, 8), "global_pool": ("max", "catavgmax")},
            **{"cardinality": (2,), "base_width": (128,), "stem_width": (32,), "stem_type": ("deep", "deep_tiered")},
            **{"replace_stem_pool": (True,), "block_reduce_first": (2,), "down_kernel_size": (3,), "avg_down": (True,)},
            **{"act_layer": ("silu",), "norm_layer": ("groupnorm",), "aa_layer": ("blur",)},
            **{"block_args": ({"attn_layer": "se"},)},
        },
        "block layers num_classes in_chans output_stride global_pool cardinality base_width stem_width stem_type "
        "replace_stem_pool block_reduce_first down_kernel_size avg_down channels act_layer norm_layer aa_layer "
        "drop_rate drop_path_rate drop_block_rate zero_init_last block_args",
        config={"architecture": "resnet18", "model_args": {}},
    ),
    *(
        Arguments(
            "regnety-mini",
            "timm",
            {"widths": (8, 32, 48), "depths": (1, 2, 1), "group": 16, "stem": 12, "image": 32, "classes": 5}
            | {"squeeze_excite": squeezes},
            {
                "in_chans": ((3, {"channels": 3}),),
                "stem_width": ((16, {"stem": 16}),),
                "depth": ((5, {"depths": (1, 3, 1)}),),
                "group_size": ((8, {"group": 8}),),
                **{name: ((8, {"widths": (16, 32, 64)}),) for name in ("w0", "wa", "wm")},
            },
            {
                **{name: (value,) for name, value in TRAINING.items()},
                **{"zero_init_last": (False,), "bottle_ratio": (1.0,), "group_min_ratio": (0.0,)},
                **{"se_ratio": (0.25,) if squeezes else (0.0,), "act_layer": ("relu",)},
            },
            {
                **{"output_stride": (16,), "global_pool": ("max",), "bottle_ratio": (4.0,), "se_ratio": (0.5,)},
                **{"downsample": ("avg", None), "linear_out": (True,), "preact": (True,), "num_features": (64,)},
                **{"act_layer": ("silu",), "norm_layer": ("groupnorm",)},
            },
            "in_chans num_classes output_stride global_pool drop_rate drop_path_rate zero_init_last depth w0 wa wm "
            "group_size group_min_ratio bottle_ratio se_ratio stem_width downsample linear_out preact num_features "
            "act_layer norm_layer",
            config={"architecture": "regnety_002" if squeezes else "regnetx_002", "model_args": {}},
        )
        for squeezes in (True, False)
    ),
    Arguments(
        "cswin-tiny",
        "authors",
        {"width": 8, "depths": (1, 1, 1, 1), "heads": (2, 2, 4, 4), "stripes": (1, 2, 2, 7), "image": 64, "classes": 5},
        {
            "img_size": ((128, {"image": 128}),),
            "in_chans": ((1, {"channels": 1}),),
            "embed_dim": ((16, {"width": 16}),),
            "depth": (([1, 2, 1, 1], {"depths": (1, 2, 1, 1)}),),
            "split_size": (([2, 2, 1, 7], {"stripes": (2, 2, 1, 7)}),),
            "num_heads": (([4, 4, 4, 8], {"heads": (4, 4, 4, 8)}),),
            "mlp_ratio": ((2.3, {"mlp_ratio": 2.3}),),
            "attn_drop_rate": ((0.1, {"attention_dropout": 0.1}),),
        },
        {**{name: (value,) for name, value in TRAINING.items()}, "patch_size": (16,), "use_chk": (True,)},
        {"qkv_bias": (False,), "qk_scale": (0.1,), "hybrid_backbone": ("x",), "norm_layer": ("other",)},
        "img_size patch_size in_chans num_classes embed_dim depth split_size num_heads mlp_ratio qkv_bias qk_scale "
        "drop_rate attn_drop_rate drop_path_rate hybrid_backbone norm_layer use_chk",
        hidden=("num_heads", "split_size"),
    ),
    Arguments(
        "pvt-tiny",
        "authors",
        {"widths": (8, 16), "heads": (2, 4), "depths": (2, 1), "mlp_ratios": (2, 3), "reductions": (4, 1)}
        | {"image": 32, "classes": 5},
        {
            "img_size": ((64, {"image": 64}),),
            "patch_size": ((2, {"patch": 2, "image": 32}),),
            "in_chans": ((1, {"channels": 1}),),
            "embed_dims": (([16, 32], {"widths": (16, 32)}),),
            "num_heads": (([1, 2], {"heads": (1, 2)}),),
            "mlp_ratios": (([4, 2], {"mlp_ratios": (4, 2)}),),
            "qkv_bias": ((False, {"qkv_bias": False}),),
            "depths": (([1, 2], {"depths": (1, 2)}),),
            "sr_ratios": (([2, 1], {"reductions": (2, 1)}),),
            "attn_drop_rate": ((0.1, {"attention_dropout": 0.1}),),
        },
        {**{name: (value,) for name, value in TRAINING.items()}, "num_stages": (2,)},
        {"qk_scale": (0.1,), "norm_layer": ("other",), "F4": (True,), "patch_size": ([4, 2],)},
        "img_size patch_size in_chans num_classes embed_dims num_heads mlp_ratios qkv_bias qk_scale drop_rate "
        "attn_drop_rate drop_path_rate norm_layer depths sr_ratios num_stages F4",
        hidden=("num_heads",),
    ),
    Arguments(
        "cvt-mini",
        "authors",
        _CVT,
        {
            "PATCH_SIZE": (([5, 3], {"stems": ((5, 2, 1), (3, 2, 1))}),),
            "DIM_EMBED": (([16, 16], {"widths": (16, 16)}),),
            "NUM_HEADS": (([4, 2], {"heads": (4, 2)}),),
            "DEPTH": (([2, 1], {"depths": (2, 1)}),),
            "MLP_RATIO": (([2.0, 3.0], {"mlp_ratio": (2.0, 3.0)}),),
            "QKV_BIAS": (([False, True], {"qkv_bias": (False, True)}),),
            "STRIDE_KV": (([1, 2], {"stride": (1, 2)}),),
            "DROP_RATE": (([0.1, 0.1], {"dropout": 0.1}),),
            "ATTN_DROP_RATE": (([0.1, 0.1], {"attention_dropout": 0.1}),),
            "DROP_PATH_RATE": (([0.0, 0.1], {"drop_path": 0.1}),),
            "PATCH_STRIDE": (([4, 2], {"stems": ((3, 4, 1), (3, 2, 1)), "patch": 4}),),
            "PATCH_PADDING": (([0, 1], {"stems": ((3, 2, 0), (3, 2, 1))}),),
        },
        {**{name: (value,) for name, value in TRAINING.items()}, "INIT": ("trunc_norm",), "NUM_STAGES": (2,)}
        | {"POS_EMBED": ([False, False],)},
        {
            **{"CLS_TOKEN": ([True, True],), "QKV_PROJ_METHOD": (["avg", "avg"],), "KERNEL_QKV": ([5, 5],)},
            **{"PADDING_Q": ([0, 0],), "PADDING_KV": ([0, 0],), "STRIDE_Q": ([2, 2],)},
            **{"ATTN_DROP_RATE": ([0.0, 0.1],), "DROP_RATE": ([0.0, 0.1],), "DROP_PATH_RATE": ([0.1, 0.1],)},
        },
        "INIT NUM_STAGES PATCH_SIZE PATCH_STRIDE PATCH_PADDING DIM_EMBED NUM_HEADS DEPTH MLP_RATIO ATTN_DROP_RATE "
        "DROP_RATE DROP_PATH_RATE QKV_BIAS CLS_TOKEN POS_EMBED QKV_PROJ_METHOD KERNEL_QKV PADDING_KV STRIDE_KV "
        "PADDING_Q STRIDE_Q",
        hidden=("NUM_HEADS", "STRIDE_KV"),
    ),
    Arguments("vit-tiny-16", "authors", _VIT_SIZES | {"activation": "gelu-tanh"}, {}, {}, {}, ""),
    Arguments(
        "mixer-mini", "authors", {"width": 32, "depth": 1, "classes": 5, "activation": "gelu-tanh"}, {}, {}, {}, ""
    ),
)
