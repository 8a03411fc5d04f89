"""Checks that a recipe can run on several processes, before any data is read."""

import hashlib
from typing import Any

from patchword.core.errors import UserError
from patchword.recipes.schema.recipe import Recipe
from patchword.training.parallel.process_group import SingleProcess
from patchword.training.parallel.sharded import Sharded

# Kinds whose models are only called as a whole, as FSDP2 needs.
_SHARDABLE = ("images", "image-pretraining", "text", "pretraining")


def check_group(recipe: Recipe, group: SingleProcess) -> None:
    """Raise an error if the recipe cannot run on these processes."""
    if recipe.batch_size < group.size:
        raise UserError(
            "recipe field 'batch_size'",
            expected=f"at least {group.size}, one sample per process",
            got=recipe.batch_size,
        )
    if recipe.loss_spike_factor and group.size > 1:
        raise UserError(
            "recipe field 'loss_spike_factor' works with one process only",
            expected="loss_spike_factor=0",
            got=recipe.loss_spike_factor,
        )
    if not isinstance(group, Sharded):
        return
    teacher: Any = getattr(recipe, "teacher", None)
    reasons = {
        f"a recipe of {recipe.kind}": recipe.kind not in _SHARDABLE,
        "a teacher": teacher is not None and bool(teacher.name),
        "average_last_epochs": bool(recipe.average_last_epochs),
        "activation_checkpointing": recipe.activation_checkpointing is not False,
    }
    for reason in (name for name, present in reasons.items() if present):
        raise UserError(f"sharding=full does not support {reason}", expected="sharding=none")


def samples_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return the part of data.json that a resumed run and all processes must have in common.

    The skipped samples may be of other splits, and older runs have no record of them and of the class counts.
    """
    return {name: value for name, value in data.items() if name not in ("skipped", "class_counts")}


def check_agreement(data: dict[str, Any], group: SingleProcess) -> None:
    """Raise an error on all processes if they read different training samples, e.g. if one could not read a file."""
    digest = hashlib.sha256(repr(sorted(samples_of(data).items())).encode()).digest()
    bits = [bool(byte >> place & 1) for byte in digest[:8] for place in range(8)]
    reduced = group.any_rank(*bits, *(not bit for bit in bits))
    if any(one and other for one, other in zip(reduced[: len(bits)], reduced[len(bits) :], strict=True)):
        raise UserError(
            f"the processes of the run read different training samples of {data['name']}",
            expected=f"the same {data['samples']} samples on all of them",
            hint="a file may be damaged or missing on one machine: `patchword data check` names it",
        )
