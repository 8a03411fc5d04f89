"""What the config.json of every family has in common, in Hugging Face's words and in timm's."""

from collections.abc import Mapping
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
    """timm.create_model(architecture, num_classes=num_classes, **model_args) builds this very model.

    architecture: None if timm has the model, but create_model has no name for one of these sizes.
    """
    return {
        **({"architecture": architecture} if architecture else {}),
        "num_classes": card.config["classes"],
        "num_features": features,
        "model_args": dict(arguments),
        **image_config(card),
    }


def image_config(card: Card) -> dict[str, Any]:
    """What goes in and what comes out, as timm writes it."""
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
    """The size of the images, which not all tensors tell; labels and preparation are read by `load`."""
    size = (config.get("pretrained_cfg") or {}).get("input_size")
    return {"image": one_or_two(size[1:])} if size else {}


def read_huggingface_image(config: Mapping[str, Any]) -> dict[str, Any]:
    size = config.get("image_size")
    return {"image": one_or_two(size)} if size else {}


def require(title: str, config: Mapping[str, Any], expected: Mapping[str, tuple[Any, Any]]) -> None:
    """`expected`: fields of another library's config, each with its default there and the one value we know."""
    got = {field: config.get(field, default) for field, (default, _) in expected.items()}
    wrong = {field: wanted for field, (_, wanted) in expected.items() if got[field] != wanted}
    if wrong:
        raise UserError(
            f"this {title} differs from the paper's",
            expected=", ".join(f"{field} {value}" for field, value in wrong.items()),
            got=", ".join(f"{field} {got[field]}" for field in wrong),
        )


def ratio(hidden: int, width: int) -> float:
    """hidden / width, such that int(width * ratio) is `hidden` again, which rounding may prevent."""
    plain = hidden / width
    return plain if int(width * plain) == hidden else (hidden + 0.5) / width


def one_or_two(size: Any) -> Any:
    """The size of an image as our configs have it: one side if it is a square."""
    height, width = (size, size) if isinstance(size, int) else size
    return height if height == width else (height, width)
