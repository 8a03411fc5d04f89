"""Parts of config.json that all families share, in Hugging Face's and in timm's format."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides


def huggingface_config(card: Card, architecture: str, model_type: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    labels = card.labels or tuple(f"LABEL_{index}" for index in range(card.config["classes"]))
    return {
        "architectures": [architecture],
        "model_type": model_type,
        **sizes,
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def timm_config(card: Card, architecture: str | None, features: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write a config from which timm.create_model(architecture, num_classes=num_classes, **model_args) builds the
    model.

    architecture: None if timm has the model, but create_model has no name for these sizes.
    """
    return {
        **({"architecture": architecture} if architecture else {}),
        "num_classes": card.config["classes"],
        "num_features": features,
        "model_args": dict(arguments),
        **image_config(card),
    }


def image_config(card: Card) -> dict[str, Any]:
    """Return labels, input size and normalisation in timm's format."""
    height, width = sides(card.config["image"])
    return {
        "label_names": list(card.labels),
        "pretrained_cfg": {
            "input_size": [card.config["channels"], height, width],
            "mean": list(card.normalization.mean),
            "std": list(card.normalization.std),
        },
    }


def read_timm_image(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read the image size, which not all tensors determine; `load` reads labels and normalisation."""
    size = (config.get("pretrained_cfg") or {}).get("input_size")
    return {"image": one_or_two(size[1:])} if size else {}


def read_huggingface_image(config: Mapping[str, Any]) -> dict[str, Any]:
    size = config.get("image_size")
    return {"image": one_or_two(size)} if size else {}


def require(title: str, config: Mapping[str, Any], expected: Mapping[str, tuple[Any, Any]]) -> None:
    """Raise an error for unsupported values. expected: field -> (default of the other library, supported value)."""
    got = {field: config.get(field, default) for field, (default, _) in expected.items()}
    wrong = {field: wanted for field, (_, wanted) in expected.items() if got[field] != wanted}
    if wrong:
        raise UserError(
            f"this {title} differs from the paper's",
            expected=", ".join(f"{field} {value}" for field, value in wrong.items()),
            got=", ".join(f"{field} {got[field]}" for field in wrong),
        )


def refuse_heads(title: str, config: Mapping[str, Any], unread: Container[str], known: Sequence[str]) -> None:
    """Refuse a class of theirs that is unread here. known: their classes that are read"""
    for architecture in config.get("architectures") or ():
        if architecture in unread:
            raise UserError(f"this {title} has an unsupported head", expected=", ".join(known), got=architecture)


def ratio(hidden: int, width: int) -> float:
    """Return hidden / width, adjusted so that int(width * ratio) equals `hidden` despite rounding."""
    plain = hidden / width
    return plain if int(width * plain) == hidden else (hidden + 0.5) / width


def common_ratio(sizes: Sequence[tuple[int, int]]) -> float | None:
    """Return the mlp_ratio that gives the hidden widths of all stages; None if there is none. sizes: (hidden, width)"""
    candidates = sorted(ratio(hidden, width) for hidden, width in sizes)
    return next((one for one in candidates if all(int(one * width) == hidden for hidden, width in sizes)), None)


def one_or_two(size: Any) -> Any:
    """Convert an image size to our config's form: one number if it is square."""
    height, width = (size, size) if isinstance(size, int) else size
    return height if height == width else (height, width)
