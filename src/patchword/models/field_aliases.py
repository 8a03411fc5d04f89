"""Names that other libraries have for the fields of our model configs. A message names ours; theirs is not accepted."""

from collections.abc import Collection, Mapping

from patchword.core.errors import nearest

# The other name -> our field.
FIELD_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("img_size", "imgsz", "image_size", "input_size", "resolution"), "image"),
    "patch_size": "patch",
    **dict.fromkeys(("in_chans", "num_channels", "in_channels"), "channels"),
    **dict.fromkeys(("num_classes", "nb_classes", "num_labels"), "classes"),
    **dict.fromkeys(("embed_dim", "hidden_size", "d_model", "dim"), "width"),
    **dict.fromkeys(("intermediate_size", "mlp_dim"), "hidden"),
    **dict.fromkeys(("num_heads", "num_attention_heads", "n_head", "nhead"), "heads"),
    **dict.fromkeys(("num_layers", "num_hidden_layers", "n_layer"), "depth"),
    **dict.fromkeys(("dropout_rate", "drop_rate", "hidden_dropout_prob"), "dropout"),
    "drop_path_rate": "drop_path",
    "vocab_size": "vocabulary",
    "window_size": "window",
    "max_position_embeddings": "max_length",
}
# Fields that mean the same in models without the field, e.g. in detectors.
SIMILAR: Mapping[str, tuple[str, ...]] = {"image": ("crop", "min_size"), "depth": ("depths",), "width": ("widths",)}


def field_hint(name: str, known: Collection[str]) -> str:
    """Return a hint for the name of a field that a model does not have."""
    meant = FIELD_ALIASES.get(name, "")
    found = next((field for field in (meant, *SIMILAR.get(meant, ())) if field in known), "")
    return f"did you mean {found!r}?" if found else nearest(name, known)
