"""Makes cheap what nearly every test does: seeding, flushing to the disk, and building the parsers of all verbs."""

import os
from collections.abc import Callable
from typing import Any


def seed_without_devices() -> None:
    """Let seeds skip devices that are not there: torch notes the whole stack for each, in case one appears later."""
    import torch

    for kind in (torch.cuda, torch.xpu):
        if not kind.is_available():
            kind.manual_seed_all = _no_seed


def _no_seed(seed: int) -> None:
    pass


def flush_without_waiting() -> None:
    """Let fsync only check the descriptor: no file of a test must outlast a power cut. Other processes do flush."""
    os.fsync = _checked


def _checked(descriptor: Any) -> None:
    os.fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno())


def keep_parsers() -> None:
    """Build the parsers of an app once for the same verbs; typer builds those of all verbs for each command."""
    from typer import main, testing

    first: Callable[..., Any] = main.get_command
    kept: dict[tuple[int, ...], tuple[list[Any], Any]] = {}

    def get_command(app: Any) -> Any:
        parts = _parts(app)
        key = tuple(map(id, parts))
        if key not in kept:
            kept[key] = parts, first(app)  # with the parts, so that nothing else gets their ids
        return kept[key][1]

    main.get_command = testing._get_command = get_command


def _parts(app: Any) -> list[Any]:
    """Return all that an app was given: itself, its verbs, and its groups with theirs."""
    groups = [part for group in app.registered_groups for part in (group, *_parts(group.typer_instance))]
    return [app, app.registered_callback, *app.registered_commands, *groups]
