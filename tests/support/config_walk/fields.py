"""For every field of the text configs of transformers: another value of it, to see whether it is read."""

from typing import Any

LABELS = {index: f"L{index}" for index in range(3)}
# Written by transformers itself, or naming the class: not fields that a checkpoint chooses.
OWN = ("_name_or_path", "architectures", "model_type", "transformers_version", "true_hidden_size")
# Values that matter where "one more", "twice" or "not" does not: names, and sizes that others depend on.
OTHER_VALUES: dict[str, Any] = {
    **{"id2label": LABELS, "label2id": {label: index for index, label in LABELS.items()}},
    **{"problem_type": "regression", "dtype": "float32", "chunk_size_feed_forward": 1},
    **{"hidden_size": 18, "dim": 18, "n_embd": 18, "emb_dim": 18, "intra_bottleneck_size": 9},
    **{"num_attention_heads": 2, "n_heads": 2, "n_head": 2, "n_inner": 19},
    **{"hidden_act": "relu", "activation": "relu", "activation_function": "relu", "afn": "relu"},
    **{"layer_norm_eps": 0.3, "layer_norm_epsilon": 0.3, "normalization_type": "layer_norm"},
    **{"num_hidden_groups": 2, "inner_group_num": 2, "n_langs": 3, "block_size": 3, "num_random_blocks": 2},
    **{"summary_type": "mean", "summary_activation": "tanh", "attention_type": "original_full"},
    **{"classifier_dropout": 0.3, "pad_token_id": 5, "bos_token_id": 7, "eos_token_id": 8, "sep_token_id": 9},
}
# Values that have a choice of names: each is tried.
CHOICES: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("gelu", "gelu_new", "relu", "silu", "mish"),
    "summary_type": ("first", "last", "mean", "cls_index"),
    "n_langs": (2, 3),
}
CHOICES |= {"activation": CHOICES["hidden_act"], "activation_function": CHOICES["hidden_act"]}
CHOICES |= {"afn": ("gelu", "relu", "silu")}
# Fields that another field needs.
COMPANIONS: dict[str, dict[str, Any]] = {
    "asm": {"asm_cutoffs": [11, 29], "asm_div_value": 1.0},
    "add_cross_attention": {"is_decoder": True},
}
# The head whose outputs a field changes, where it is not the language model's.
HEADS_OF_FIELDS = {
    **dict.fromkeys(("id2label", "label2id", "problem_type", "classifier_dropout"), "classes"),
    **dict.fromkeys(("classifier_dropout_prob", "seq_classif_dropout", "classifier_activation"), "classes"),
    **dict.fromkeys((f"summary_{end}" for end in ("type", "use_proj", "activation", "proj_to_labels")), "classes"),
    **{"summary_first_dropout": "classes", "qa_dropout": "span"},
}


def other_values(field: str, value: Any) -> tuple[Any, ...]:
    """Return values of a field unlike the usual one; an unknown field without an obvious other value is an error."""
    if field in CHOICES:
        return tuple(other for other in CHOICES[field] if other != value)
    if field in OTHER_VALUES:
        return (OTHER_VALUES[field],)
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1,)
    if isinstance(value, float):
        return (value + 0.1,)
    raise AssertionError(f"a new field, {field}={value!r}: give it another value in config_walk/fields.py")
