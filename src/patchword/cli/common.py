"""Shared by several verbs: common options, and how a MODEL or RUN argument is resolved."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from patchword.cli.completion import model_names, model_settings, recipe_settings, run_names

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.core.card import Card
    from patchword.models.registry import Model as AnyModel
    from patchword.recipes.run import Run

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model name of `patchword models`, a run folder, a checkpoint, zoo:NAME, or hf:OWNER/REPO.",
        autocompletion=model_names,
    ),
]


def _fields(help: str, complete: Callable[..., Any]) -> Any:
    return typer.Argument(metavar="[FIELD=VALUE]...", help=help, autocompletion=complete)


def _setting(help: str, complete: Callable[..., Any]) -> Any:
    return typer.Option("--set", metavar="FIELD=VALUE", help=f"{help} Repeatable.", autocompletion=complete)


Settings = Annotated[list[str] | None, _setting("Change a field of the model, e.g. --set image=384.", model_settings)]
Fields = Annotated[
    list[str] | None, _fields("Fields of the model to change, as --set does, e.g. image=384.", model_settings)
]
RecipeFields = Annotated[
    list[str] | None, _fields("Fields of the recipe to change, as --set does, e.g. epochs=3.", recipe_settings)
]
RecipeSettings = Annotated[
    list[str] | None, _setting("Change a field of the recipe, e.g. --set epochs=3.", recipe_settings)
]
DataFields = Annotated[
    list[str] | None,
    _fields("Fields of the recipe that name the data, e.g. data=FOLDER or test=FILE.", recipe_settings),
]
DataSettings = Annotated[list[str] | None, _setting("The same, as an option, e.g. --set test=FILE.", recipe_settings)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder that holds the runs.")]
Device = Annotated[
    str,
    typer.Option(
        "--device", callback=lambda name: _device(name), help="auto (a GPU if there is one), cpu, cuda, cuda:1 or mps."
    ),
]
Precision = Annotated[
    Literal["auto", "float32", "bfloat16"],
    typer.Option("--precision", help="auto: bfloat16 on a GPU with bfloat16 units, else float32."),
]
Download = Annotated[
    bool, typer.Option("--download", help="Fetch a model of the hub (hf:OWNER/REPO) that is not on this machine.")
]
RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run folder, the name of one inside `runs`, or zoo:NAME.", autocompletion=run_names
    ),
]


def _device(name: str) -> str:
    """Check the name of a device; the default needs no import."""
    if name == "auto":
        return name
    from patchword.recipes.schema.fields import check_device

    return check_device(name)


def console(least: int = 0, quiet: bool = False) -> "Console":
    """Return the console for results, at least `least` columns wide so that wide tables keep all columns."""
    from patchword.training.console import PrintableConsole

    if quiet:
        return PrintableConsole(quiet=True)
    found = PrintableConsole(soft_wrap=True)
    return PrintableConsole(soft_wrap=True, width=least) if found.width < least else found


def run_output(quiet: bool = False) -> "Console":
    """Return the console of a training, which goes on when its lines are no longer read."""
    import sys
    from typing import IO, cast

    from patchword.training.console import OutlivedStream

    found = console(quiet=quiet)
    if not quiet:
        found.file = cast(IO[str], OutlivedStream(sys.stdout))
    return found


def print_lines(values: Iterable[object]) -> None:
    """Print each value, such as a path, on a line of its own."""
    for value in values:
        typer.echo(value)


def fetch_model(model: str, download: bool) -> None:
    """Fetch a model of the hub into the cache if it is not there. download: False fetches nothing."""
    if not download:
        return
    from patchword.weights.hub.download import fetch_all

    fetch_all([model])


def card_of(model: str, settings: Iterable[str] | None) -> "Card":
    """Return the card of a registry name, a run or a checkpoint, with some fields changed."""
    import torch

    from patchword.models import REGISTRY
    from patchword.weights import load
    from patchword.weights.local_path import local_path

    overrides = fields_of(settings or ())
    if local_path(model).exists() and model not in REGISTRY.names():
        card = load(model, **overrides).card
        with torch.device("meta"):
            return replace(card, config=REGISTRY.create(card.model, **card.config | overrides).card.config)
    with torch.device("meta"):
        return REGISTRY.create(model, **overrides).card


def model_of(model: str, settings: Iterable[str] | None) -> "AnyModel":
    """Return a model in evaluation mode: of a run or a checkpoint, or of a registry name with random weights."""
    from patchword.models import REGISTRY
    from patchword.weights.local_path import local_path

    overrides, path = fields_of(settings or ()), local_path(model)
    if model in REGISTRY.names() or not (path.exists() or (Path("runs") / path).exists()):
        return REGISTRY.create(model, **overrides).eval()
    return trained_model(path, **overrides)


def settings_of(settings: Iterable[str] | None, fields: Iterable[str] | None) -> list[str]:
    """Return all settings of a command: `--set a=1 --set b=2`, `--set a=1 b=2` and `a=1 b=2` are the same."""
    return [*(settings or ()), *(fields or ())]


def fields_of(settings: Iterable[str]) -> dict[str, Any]:
    """Parse FIELD=VALUE arguments."""
    import yaml

    from patchword.core.errors import UserError
    from patchword.recipes.schema.fields import read_value

    fields = {}
    for setting in settings:
        field, equals, value = setting.partition("=")
        if not equals:
            raise UserError(f"cannot set {setting!r}", expected="field=value, e.g. image=384")
        try:
            fields[field.removeprefix("model.")] = read_value(value)
        except yaml.YAMLError:
            raise UserError(
                f"cannot read the value of {setting!r}", expected="a number, a word or a list such as [7, 7]"
            ) from None
    return fields


def find_run(path: Path) -> "Run":
    """Return a run by its folder, or by its name inside `runs`."""
    from patchword.api.run import Run

    return Run(path)


def find_writable_run(path: Path) -> "Run":
    """Return a run as `find_run` does, for a verb that saves its result in it; a model of the zoo is an error."""
    found = find_run(path)
    found.check_writable()
    return found


def trained_model(path: Path, **overrides: Any) -> "AnyModel":
    """Return the model of a run, or of a folder or file that `load` reads, with some fields changed."""
    from patchword.weights import load
    from patchword.weights.local_path import local_path

    path = local_path(path)
    is_saved = path.is_file() or (path / "config.json").is_file()
    is_model = is_saved and not (path / "recipe.yaml").is_file()
    return load(path, **overrides) if is_model else find_run(path).model(**overrides)


def stopped(folder: Path, out: "Console") -> NoReturn:
    """Print how to resume a stopped run, and exit."""
    from patchword.recipes.run import resume_command
    from patchword.training.signals import stop_exit_code

    begun = (folder / "recipe.yaml").is_file()
    message = f"everything is saved. Resume with:\n  {resume_command(folder)}" if begun else "nothing was written yet"
    out.print(f"\nstopped; {message}", highlight=False, markup=False)
    raise typer.Exit(stop_exit_code())
