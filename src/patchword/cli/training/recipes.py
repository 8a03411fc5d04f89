"""recipes: lists the recipes, prints one, copies one to a file of your own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import console

if TYPE_CHECKING:
    from patchword.recipes import Recipe
    from patchword.studies import Study

app = typer.Typer(
    help="List the recipes; print one with `cat`, copy one to a file of your own with `copy`.",
    invoke_without_command=True,
)


@app.callback()
def listing(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        _list()


def _list() -> None:
    from rich.table import Table

    from patchword.recipes import RECIPES
    from patchword.studies import STUDIES

    table = Table("recipe", "what it does", "needs / expected result")
    for name, function in RECIPES.items():
        recipe = function()
        table.add_row(name, (function.__doc__ or recipe.about).strip(), _expects(recipe))
    table.add_section()
    for name, making in STUDIES.items():
        study = making()
        needed = next((f"needs {found}; " for found in map(_needed, study.runs.values()) if found), "")
        table.add_row(name, (making.__doc__ or "").strip(), f"{needed}{len(study.runs)} runs; {study.time}")
    console().print(table)


def _expects(recipe: "Recipe") -> str:
    """Return what the user has to give, and the expected result if it was measured."""
    needed = _needed(recipe)
    parts = [f"needs {needed}"] if needed else []
    if recipe.expect.accuracy:
        parts.append(f"{recipe.expect.accuracy:.0%} {_measure(recipe)}; {recipe.expect.time}")
    return "; ".join(parts)


def _measure(recipe: "Recipe") -> str:
    from patchword.recipes.kinds import kind_of

    return kind_of(recipe).metric(recipe)


def _needed(recipe: "Recipe") -> str:
    """Return the settings that the user has to give, as they are typed."""
    from patchword.recipes.kinds import kind_of

    return kind_of(recipe).required_settings(recipe)


@app.command("list")
def list_recipes() -> None:
    """List the recipes.

    Example:

      patchword recipes list
    """
    _list()


@app.command("cat")
def cat(name: Annotated[str, typer.Argument(help="The name of a recipe or a study.")]) -> None:
    """Print a recipe as YAML with all its fields; for a study, the common fields, then those of each run.

    Example:

      patchword recipes cat fashion-mnist-vit
    """
    from patchword.studies import STUDIES, find_recipe

    typer.echo(_study(STUDIES[name]()) if name in STUDIES else find_recipe(name).to_yaml(), nl=False)


def _study(study: "Study") -> str:
    import yaml

    runs = {label: recipe.model_dump(mode="json") for label, recipe in study.runs.items()}
    first = next(iter(runs.values()))
    shared = {field for field in first if all(run.get(field) == first[field] for run in runs.values())}
    document = {
        "about": study.about,
        "time": study.time,
        "shared": {field: value for field, value in first.items() if field in shared},
        "runs": {
            label: {field: value for field, value in run.items() if field not in shared} for label, run in runs.items()
        },
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


@app.command("copy")
def copy(
    name: Annotated[str, typer.Argument(help="The name of the recipe.")],
    file: Annotated[Path | None, typer.Argument(help="The new file; by default NAME.yaml in this folder.")] = None,
) -> None:
    """Copy a recipe to a YAML file of your own, to edit it and run it with `patchword train FILE`.

    Example:

      patchword recipes copy fashion-mnist-vit mine.yaml
    """
    from patchword.core.errors import UserError
    from patchword.core.files import write_text
    from patchword.studies import find_recipe

    target = file or Path(f"{name}.yaml")
    recipe = find_recipe(name)
    if target.exists():
        raise UserError(f"{target} already exists", hint="choose another name, or remove it first")
    write_text(target, recipe.to_yaml())
    words = " ".join(["patchword train", str(target), _needed(recipe)]).strip()
    console().print(f"{target}\ntrain it with: {words}", highlight=False, markup=False)
