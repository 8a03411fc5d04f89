"""Adds a hint to the message about an unknown option whose name other libraries use, such as --lr or --imgsz."""

import sys
from typing import Any

import typer
from typer.core import TyperGroup

# typer brings its own copy of click in newer versions; both define the error beside the one that typer exports.
_NoSuchOption: type[Exception] = sys.modules[typer.BadParameter.__module__].NoSuchOption


class HintingGroup(TyperGroup):
    """A group of verbs whose messages about unknown options name ours."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _NoSuchOption as error:
            _add_hint(error)
            raise


def _add_hint(error: Any) -> None:
    """Name the option or the field that is meant; click's own guesses stay if none is."""
    from patchword.recipes.schema.aliases import ADVICE, ALIASES

    name = error.option_name.lstrip("-").replace("-", "_")
    options = [option for one in error.ctx.command.params for option in one.opts if option.startswith("--")]
    meant = ALIASES.get(name, name)
    found = [option for option in options if _meaning(option) == meant]
    takes_fields = any(one.name == "fields" and "recipe" in one.help for one in error.ctx.command.params)
    if found:
        error.possibilities = found
    elif takes_fields and (name in ALIASES or name in ADVICE):
        error.possibilities = []
        error.message += f": {ADVICE.get(name) or f'give it as a field: {meant}=VALUE'}"
    elif "--set" in options and meant.startswith("model."):
        error.possibilities = []
        error.message += f": give it as a field: --set {meant.removeprefix('model.')}=VALUE"


def _meaning(option: str) -> str:
    """Return our field that an option of ours means, e.g. `batch_size` for --batch."""
    from patchword.recipes.schema.aliases import ALIASES

    name = option.removeprefix("--").replace("-", "_")
    return ALIASES.get(name, name)
