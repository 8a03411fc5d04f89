"""recipes: list them, read one, copy one to make it yours."""

from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.common import console

app = typer.Typer(help="List the recipes; read one with `cat`, make it yours with `copy`.", invoke_without_command=True)


@app.callback()
def listing(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        _list()


def _list() -> None:
    from rich.table import Table

    from patchword.recipes import RECIPES, STUDIES

    table = Table("recipe", "what it does", "expects")
    for name, function in RECIPES.items():
        recipe = function()
        expects = f"{recipe.expect.accuracy:.0%} test accuracy; {recipe.expect.time}" if recipe.expect.accuracy else ""
        table.add_row(name, (function.__doc__ or "").strip(), expects)
    table.add_section()
    for name, making in STUDIES.items():
        study = making()
        table.add_row(name, (making.__doc__ or "").strip(), f"{len(study.runs)} runs; {study.time}")
    console().print(table)


@app.command("list")
def list_recipes() -> None:
    """List the recipes."""
    _list()


@app.command("cat")
def cat(name: Annotated[str, typer.Argument(help="The recipe's name.")]) -> None:
    """Print a recipe as YAML, every field with its value."""
    from patchword.recipes import find_recipe

    typer.echo(find_recipe(name).to_yaml(), nl=False)


@app.command("copy")
def copy(
    name: Annotated[str, typer.Argument(help="The recipe's name.")],
    file: Annotated[Path | None, typer.Argument(help="Where to; by default NAME.yaml here.")] = None,
) -> None:
    """Write a recipe to a YAML file of your own; `patchword train FILE` runs it."""
    from patchword.core.errors import UserError
    from patchword.core.files import write_text
    from patchword.recipes import find_recipe

    target = file or Path(f"{name}.yaml")
    text = find_recipe(name).to_yaml()
    if target.exists():
        raise UserError(f"{target} is there already", hint="give another name, or remove it first")
    write_text(target, text)
    console().print(f"{target}\ntrain it with: patchword train {target}", highlight=False, markup=False)
