"""Older names of recipe fields, which saved run folders may hold."""

from collections.abc import Mapping
from typing import Any

from patchword.recipes.schema.aliases import ALIASES

_EVERY_KIND = {
    "rate": "learning_rate",
    "decay": "weight_decay",
    "floor": "min_lr_ratio",
    "corrected": "bias_correction",
    "clip": "clip_norm",
    "average": "ema_decay",
    "averaged_epochs": "average_last_epochs",
    "on_bad": "on_nonfinite",
    "rewind": "loss_spike_factor",
    "recompute": "activation_checkpointing",
    "smoothing": "label_smoothing",
    "batch": "batch_size",
    "accumulate": "gradient_accumulation",
    "rows": "packed",
}
_AUGMENTATION = {
    "erase": "random_erasing",
    "erasing": "erasing_fill",
    "three": "three_augment",
    "jitter": "color_jitter",
    "mixed": "mix_probability",
    "switch": "mix_switch_probability",
    "spread": "randaugment_std",
}
# The key is the field that holds the inner fields; "" is the recipe itself.
OLDER_FIELDS: Mapping[str, Mapping[str, str]] = {
    "": _EVERY_KIND,
    "augmentation": _AUGMENTATION,
    "model": {"fresh": "from_scratch"},
    "teacher": {"smoothing": "label_smoothing"},
}


def with_current_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a recipe file with every older field name replaced by the current one.

    A name whose replacement is also given stays, so that validation reports it.
    """
    renamed = _renamed(values, OLDER_FIELDS[""])
    for field in OLDER_FIELDS.keys() - {""}:
        if isinstance(renamed.get(field), Mapping):
            renamed[field] = _renamed(renamed[field], OLDER_FIELDS[field])
    if isinstance(renamed.get("weights"), bool):
        renamed["class_weights"] = "balanced" if renamed.pop("weights") else "none"
    if renamed.get("augmentation") == "three":
        renamed["augmentation"] = "3-augment"
    return renamed


def with_older_hidden(model: Any) -> Any:
    """Return the model of a run's recipe with its hidden width.

    Earlier versions kept the variant's hidden width if only the width was changed, and did not write it to the file.
    """
    if not isinstance(model, Mapping) or "width" not in model or "hidden" in model:
        return model
    from patchword.models import REGISTRY

    config = vars(REGISTRY.find(model["name"])[1].config) if model.get("name") in REGISTRY.names() else {}
    return {**model, "hidden": config["hidden"]} if "hidden" in config else model


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        names[name] if name in names and names[name] not in values else name: value for name, value in values.items()
    }


def current_name(path: str) -> str | None:
    """Return the field that an older name or a name of other libraries means, e.g. `lr`; None for any other word.

    path: of the field, e.g. `augmentation.erase`
    """
    outer, _, inner = path.rpartition(".")
    found = OLDER_FIELDS.get(outer, {}).get(inner) or ("" if outer else ALIASES.get(inner, ""))
    return (f"{outer}.{found}" if outer else found) if found else None
