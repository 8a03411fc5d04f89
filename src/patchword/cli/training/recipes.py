"""recipes: lists the recipes, prints one, copies one to a file of your own."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import console
from patchword.cli.completion import recipe_names, recipe_or_study_names

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
    from patchword.recipes import RECIPES
    from patchword.recipes.kinds import kind_of
    from patchword.recipes.recipe_kind import TASKS
    from patchword.studies import STUDIES

    groups: dict[str, list[tuple[str, str, str]]] = {task: [] for task in TASKS}
    for name, function in RECIPES.items():
        recipe = function()
        groups[kind_of(recipe).task].append((name, _first_paragraph(function) or recipe.about, _expects(recipe)))
    groups["Studies: several runs that are compared in one table"] = [
        (name, _first_paragraph(making), _of_study(making())) for name, making in STUDIES.items()
    ]
    _print_groups(groups)


def _print_groups(groups: dict[str, list[tuple[str, str, str]]]) -> None:
    """Print names with two texts each, under the title of their group."""
    from rich.markup import escape
    from rich.table import Table

    out, width = console(), max(len(name) for rows in groups.values() for name, _, _ in rows)
    for title, rows in ((title, rows) for title, rows in groups.items() if rows):
        out.print(f"[bold]{escape(title)}[/bold]", highlight=False)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(min_width=width + 2, no_wrap=True)
        table.add_column()
        for name, text, result in rows:
            table.add_row(f"  [cyan]{escape(name)}[/cyan]", escape(text))
            if result:
                table.add_row("", f"[dim]{escape(result)}[/dim]")
        out.print(table, highlight=False)
        out.print()
    out.print(
        "Train one:   patchword train NAME\nIts fields:  patchword recipes cat NAME", highlight=False, markup=False
    )


def _first_paragraph(function: Callable[[], object]) -> str:
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def _of_study(study: "Study") -> str:
    needed = next((f"needs {found}; " for found in map(_needed, study.runs.values()) if found), "")
    return f"{needed}{len(study.runs)} runs; {study.time}"


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
def cat(
    name: Annotated[str, typer.Argument(help="The name of a recipe or a study.", autocompletion=recipe_or_study_names)],
) -> None:
    """Print a recipe as YAML: its fields, each with its meaning and valid values, those that one changes first on top.

    A field that differs from its default states the default. Of a study, the common fields are printed with comments,
    then those that differ, of each run.

    Example:

      patchword recipes cat fashion-mnist-vit
    """
    from patchword.studies import STUDIES, find_recipe

    typer.echo(_study(STUDIES[name]()) if name in STUDIES else _with_head(name, find_recipe(name)), nl=False)


def _with_head(name: str, recipe: "Recipe") -> str:
    """Return a recipe as YAML with comments, below a line that says how to use the file."""
    from patchword.recipes.schema.commented import commented_yaml

    words = " ".join(["patchword train", f"{name}.yaml", _needed(recipe)]).strip()
    return (
        f"# A copy of the recipe {name}; train it with: {words}\n"
        f"# [limits of a value]; default: where this recipe has another value\n\n{commented_yaml(recipe)}"
    )


def _study(study: "Study") -> str:
    """Return the fields that the runs of a study share, with comments, and those of each run."""
    import yaml

    from patchword.recipes.schema.commented import commented_yaml

    runs = {label: recipe.model_dump(mode="json") for label, recipe in study.runs.items()}
    recipe = next(iter(study.runs.values()))
    first = next(iter(runs.values()))
    shared = {field for field in first if all(run.get(field) == first[field] for run in runs.values())}
    own = {
        label: {field: value for field, value in run.items() if field not in shared | study.runs[label].unsupported}
        for label, run in runs.items()
    }
    parts = [
        yaml.safe_dump({"about": study.about, "time": study.time}, sort_keys=False, allow_unicode=True),
        f"shared:\n{commented_yaml(recipe, shared, 2)}",
        yaml.safe_dump({"runs": own}, sort_keys=False, allow_unicode=True),
    ]
    return "\n".join(parts)


@app.command("copy")
def copy(
    name: Annotated[str, typer.Argument(help="The name of the recipe.", autocompletion=recipe_names)],
    file: Annotated[Path | None, typer.Argument(help="The new file; by default NAME.yaml in this folder.")] = None,
) -> None:
    """Copy a recipe with its comments to a YAML file of your own, to edit it and run it with `patchword train FILE`.

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
    write_text(target, _with_head(name, recipe))
    words = " ".join(["patchword train", str(target), _needed(recipe)]).strip()
    console().print(f"{target}\ntrain it with: {words}", highlight=False, markup=False)
