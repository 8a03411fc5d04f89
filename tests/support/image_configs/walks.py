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

WALKS = (
    Walk("ViT", _VIT, _VIT_CHANGES, _VIT_REFUSED),
    Walk("DeiT", _VIT, _VIT_CHANGES, _VIT_REFUSED),
    Walk("DeiT", _VIT, _VIT_CHANGES, _VIT_REFUSED, head="ForImageClassificationWithTeacher"),
)
