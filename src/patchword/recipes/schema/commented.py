"""Writes a recipe as YAML with a comment on every field; what one changes first stands at the top."""

from collections.abc import Collection, Iterator, Mapping
from textwrap import wrap
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from patchword.core.type_names import in_symbols
from patchword.models import REGISTRY
from patchword.models.field_meanings import DENSE_MEANINGS, FIELD_MEANINGS
from patchword.recipes.schema.recipe import ModelChoice, Recipe, model_fields_of

WIDTH = 80
_OWN = "Data and task"  # the group of the fields that only this kind has, unless another group names them
_OTHERS = "Other settings"
# The groups in their order. A field of all kinds that no group names is one of the other settings.
_GROUPS: Mapping[str, Collection[str]] = {
    "Model": ("kind", "model"),
    _OWN: ("data", "train", "text", "validation", "test", "format", "task", "tokenizer", "vectors"),
    "Length of the run": ("epochs", "batch_size", "tokens", "passes", "patience"),
    "Learning rate": (
        *("learning_rate", "schedule", "warmup", "min_lr_ratio", "layer_decay", "backbone_lr_ratio", "freeze"),
    ),
    "Against overfitting": (
        *("augmentation", "weight_decay", "label_smoothing", "dropout", "attention_dropout"),
        *("ema_decay", "average_last_epochs", "sam", "sam_adaptive"),
    ),
    "Rare classes": ("class_weights", "sampling"),
    "Distillation": ("teacher",),
    "Speed and memory": (
        *("device", "precision", "compile", "packed", "gradient_accumulation", "activation_checkpointing"),
        *("sharding", "memory"),
    ),
    "Broken samples": ("on_broken", "max_broken"),
    _OTHERS: ("seed", "bias_correction", "clip_norm", "on_nonfinite", "loss_spike_factor", "save_minutes"),
    "About this recipe": ("about", "expect"),
}


def commented_yaml(recipe: Recipe, only: Collection[str] | None = None, indent: int = 0) -> str:
    """Return the fields as YAML that `read_recipe` reads as the same recipe. only: the fields to write.

    Fields that the kind does not support are left out.
    """
    values, blocks = recipe.model_dump(mode="json"), []
    for title, names in grouped_fields(recipe).items():
        shown = [name for name in names if only is None or name in only]
        lines = [line for name in shown for line in _field(recipe, name, values[name], indent)]
        if lines:
            blocks.append([f"{' ' * indent}# ---- {title} ----", *lines])
    return "\n".join("".join(f"{line}\n" for line in block) for block in blocks)


def grouped_fields(recipe: Recipe) -> dict[str, list[str]]:
    """Return the names of the fields of each group."""
    kind = type(recipe)
    left = [name for name in kind.model_fields if name not in kind.unsupported]
    groups = {title: [name for name in names if name in left] for title, names in _GROUPS.items()}
    named = {name for names in groups.values() for name in names}
    for name in left:
        if name not in named:
            groups[_OTHERS if name in Recipe.model_fields else _OWN].append(name)
    return groups


def _field(recipe: Recipe, name: str, value: Any, indent: int) -> Iterator[str]:
    field = type(recipe).model_fields[name]
    inner = field.annotation
    if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
        yield from _line(name, value, _comment(field, value), indent)
        return
    yield from _line(name, None, field.description or "", indent)
    meanings = FIELD_MEANINGS if value.get("name") in REGISTRY.names() else {**FIELD_MEANINGS, **DENSE_MEANINGS}
    for sub, part in value.items():
        known = inner.model_fields.get(sub)
        comment = meanings.get(sub, "") if known is None else _comment(known, part)
        yield from _line(sub, part, comment, indent + 2)
    others = [sub for sub in model_fields_of(value) if sub not in value] if inner is ModelChoice else []
    if others:
        yield from _wrapped(f"further fields of {value['name']}: {', '.join(others)}", indent + 2)


def _comment(field: FieldInfo, value: Any) -> str:
    """Return the meaning of a field, its choices or limits, and its default if the recipe has another value."""
    limits = in_symbols(field.annotation, field.metadata)
    text = f"{field.description} [{limits}]" if limits else field.description or ""
    default = None if field.is_required() else _plain(field.default)
    return text if default in (None, "", value) else f"{text}; default: {_scalar(default)}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _scalar(value: Any) -> str:
    return yaml.safe_dump([value], default_flow_style=True, width=10**6).strip()[1:-1]


def _line(name: str, value: Any, comment: str, indent: int) -> Iterator[str]:
    """Yield a field with its comment behind it, or above it if the line would be too long. None: inner fields follow"""
    text = f"{name}:" if value is None else _assignment(name, value)
    line = f"{' ' * indent}{text}"
    if comment and len(line) + len(comment) + 4 <= WIDTH:
        yield f"{line}  # {comment}"
        return
    yield from _wrapped(comment, indent)
    yield line


def _assignment(name: str, value: Any) -> str:
    flow = None if isinstance(value, (list, dict)) else False
    return yaml.safe_dump({name: value}, default_flow_style=flow, width=10**6, allow_unicode=True).rstrip("\n")


def _wrapped(comment: str, indent: int) -> list[str]:
    head = f"{' ' * indent}# "
    return wrap(
        comment,
        WIDTH,
        initial_indent=head,
        subsequent_indent=head,
        break_long_words=False,
        break_on_hyphens=False,
    )
