"""The names of activations in Hugging Face's and timm's configs; the first one of ours is written."""

from collections.abc import Mapping
from typing import Any

from patchword.core.errors import UserError

HUGGINGFACE_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "quick_gelu": "quick-gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
TIMM_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_tanh": "gelu-tanh",
    "quick_gelu": "quick-gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def read_activation(
    title: str,
    config: Mapping[str, Any],
    names: Mapping[str, str] = HUGGINGFACE_ACTIVATIONS,
    field: str = "hidden_act",
) -> str:
    """Return our name of the activation in another library's config, by default GELU."""
    given = config.get(field, "gelu")
    if given not in names:
        expected = f"{field} {', '.join(list(names)[:-1])} or {list(names)[-1]}"
        raise UserError(f"this {title} has an activation that is unknown here", expected=expected, got=given)
    return names[given]


def activation_name(ours: str, names: Mapping[str, str] = HUGGINGFACE_ACTIVATIONS) -> str:
    """Return another library's name of one of our activations."""
    return next(theirs for theirs, name in names.items() if name == ours)
