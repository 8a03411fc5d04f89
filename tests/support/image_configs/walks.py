"""The image configs of transformers whose fields are walked, with tiny sizes and other values of every field."""

from support.image_configs.walk import Walk

_VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "patch_size": 8,
    "image_size": 32,
}
_VIT_CHANGES = {
    "hidden_size": (16,),
    "num_hidden_layers": (1, 3),
    "num_attention_heads": (2, 8),
    "head_dim": (4,),
    "intermediate_size": (64,),
    "hidden_act": ("relu", "gelu_new", "gelu_pytorch_tanh", "gelu_python", "gelu_fast", "quick_gelu", "silu", "tanh"),
    "hidden_dropout_prob": (0.1,),
    "attention_probs_dropout_prob": (0.1,),
    "initializer_range": (0.5,),
    "layer_norm_eps": (1e-6, 0.1),
    "image_size": (48, (32, 48), [48, 32]),
    "patch_size": (4, (8, 4), [16, 8]),
    "num_channels": (1, 4),
    "qkv_bias": (False,),
    "encoder_stride": (8,),
    "pooler_output_size": (7,),
    "pooler_act": ("relu",),
}
_VIT_REFUSED = {"head_dim": (4,), "hidden_act": ("tanh",)}

_SWIN = {
    "image_size": 32,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
}

_CVT = {"embed_dim": [16, 32, 32], "depth": [1, 2, 3], "num_heads": [2, 2, 4]}

_PVT = {
    "image_size": 32,
    "num_encoder_blocks": 2,
    "hidden_sizes": [16, 32],
    "depths": [2, 2],
    "num_attention_heads": [2, 4],
    "mlp_ratios": [4, 2],
    "sequence_reduction_ratios": [4, 1],
}

WALKS = (
    Walk("ViT", _VIT, _VIT_CHANGES, _VIT_REFUSED),
    Walk("DeiT", _VIT, _VIT_CHANGES, _VIT_REFUSED),
    Walk("DeiT", _VIT, _VIT_CHANGES, _VIT_REFUSED, head="ForImageClassificationWithTeacher"),
    Walk(
        "Swin",
        _SWIN,
        {
            "image_size": (64, (32, 64), (64, 32), 40, (64, 96), (32, 16)),
            "patch_size": (1, 4, (2, 4)),
            "num_channels": (1,),
            "embed_dim": (32,),
            "depths": ([1, 3],),
            "num_heads": ([4, 8], [2, 2]),
            "window_size": (2, 8),
            "mlp_ratio": (2.0, 1.5, 2.3),
            "qkv_bias": (False,),
            "hidden_dropout_prob": (0.1,),
            "attention_probs_dropout_prob": (0.1,),
            "drop_path_rate": (0.3,),
            "hidden_act": ("relu", "gelu_new", "gelu_python", "quick_gelu", "silu", "tanh"),
            "use_absolute_embeddings": (True,),
            "initializer_range": (0.5,),
            "layer_norm_eps": (1e-6, 0.1),
            "encoder_stride": (8,),
            "_out_features": (),
            "_out_indices": (),
            "out_features": (["stage1"],),
            "out_indices": ([1],),
        },
        {"image_size": (40, (32, 16)), "patch_size": ((2, 4),), "hidden_act": ("tanh",)},
    ),
    *(
        Walk(
            "ResNet",
            {"hidden_sizes": sizes, "depths": [2, 1, 3], "embedding_size": 8, "layer_type": kind},
            {
                "num_channels": (1,),
                "embedding_size": (16,),
                "hidden_sizes": ([16, 24, 40], [8, 8, 8], [32, 32, 64]),
                "depths": ([1, 2, 1],),
                "layer_type": ({"basic": "bottleneck", "bottleneck": "basic"}[kind],),
                "hidden_act": ("gelu", "silu"),
                "downsample_in_first_stage": (True,),
                "downsample_in_bottleneck": (True,),
                "_out_features": (),
                "_out_indices": (),
                "out_features": (["stage1"],),
                "out_indices": ([1],),
            },
            {
                "hidden_act": ("gelu", "silu"),
                "downsample_in_first_stage": (True,),
                "downsample_in_bottleneck": (True,) if kind == "bottleneck" else (),
            },
        )
        for kind, sizes in (("basic", [8, 16, 32]), ("bottleneck", [32, 64, 128]))
    ),
    *(
        Walk(
            "RegNet",
            {"hidden_sizes": [16, 40, 48], "depths": [2, 1, 3], "embedding_size": 12, "groups_width": 8}
            | {"layer_type": kind},
            {
                "num_channels": (1,),
                "embedding_size": (16,),
                "hidden_sizes": ([16, 24, 32], [8, 8, 8]),
                "depths": ([1, 2, 1],),
                "groups_width": (4, 16),
                "layer_type": ({"x": "y", "y": "x"}[kind],),
                "hidden_act": ("gelu", "silu"),
                "downsample_in_first_stage": (False,),
            },
            {"hidden_act": ("gelu", "silu"), "downsample_in_first_stage": (False,)},
        )
        for kind in "xy"
    ),
    Walk(
        "Cvt",
        _CVT,
        {
            "num_channels": (1,),
            "patch_sizes": ([3, 3, 3], [7, 5, 3], [4, 3, 3]),
            "patch_stride": ([2, 2, 2], [4, 1, 2], [4, 2, 1]),
            "patch_padding": ([3, 1, 1], [2, 1, 0]),
            "embed_dim": ([16, 16, 32],),
            "num_heads": ([1, 4, 2],),
            "depth": ([2, 2, 4],),
            "mlp_ratio": ([2.0, 2.0, 2.0], [4.0, 2.0, 3.0], [2.3, 2.3, 2.3]),
            "attention_drop_rate": ([0.1, 0.1, 0.1], [0.0, 0.1, 0.0]),
            "drop_rate": ([0.1, 0.1, 0.1], [0.0, 0.1, 0.0]),
            "drop_path_rate": ([0.0, 0.0, 0.3], [0.1, 0.1, 0.1]),
            "qkv_bias": ([False, False, False], [True, False, True]),
            "cls_token": (),  # transformers runs no other place of the token
            "qkv_projection_method": (),  # transformers runs "dw_bn" only
            "kernel_qkv": (),  # with another kernel alone, the keys lose their grid
            "padding_kv": ([0, 1, 1],),
            "stride_kv": ([1, 1, 1], [2, 1, 2]),
            "padding_q": (),
            "stride_q": (),
            "initializer_range": (0.5,),
            "layer_norm_eps": (1e-6, 0.1),
        },
        {
            "attention_drop_rate": ([0.0, 0.1, 0.0],),
            "drop_rate": ([0.0, 0.1, 0.0],),
            "drop_path_rate": ([0.1, 0.1, 0.1],),
            "padding_kv": ([0, 1, 1],),
        },
        reading={"activation": "gelu"},
    ),
    Walk(
        "Pvt",
        _PVT,
        {
            "image_size": (64,),
            "num_channels": (1,),
            "num_encoder_blocks": (),  # the last norm has the last width of hidden_sizes
            "depths": ([1, 3],),
            "sequence_reduction_ratios": ([2, 1], [1, 1]),
            "hidden_sizes": ([32, 16],),
            "patch_sizes": ([4, 4],),
            "strides": ([2, 2], [4, 1], [3, 2]),
            "num_attention_heads": ([4, 8],),
            "mlp_ratios": ([2, 3],),
            "hidden_act": ("relu", "gelu_new", "quick_gelu", "tanh"),
            "hidden_dropout_prob": (0.1,),
            "attention_probs_dropout_prob": (0.1,),
            "initializer_range": (0.5,),
            "drop_path_rate": (0.3,),
            "layer_norm_eps": (1e-5, 0.1),
            "qkv_bias": (False,),
            "num_labels": (3,),
        },
        {"patch_sizes": ([4, 4],), "strides": ([2, 2], [4, 1], [3, 2]), "hidden_act": ("tanh",)},
    ),
)
