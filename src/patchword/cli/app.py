"""The list of verbs."""

from typing import Annotated

import typer

from patchword import __version__
from patchword.cli import (
    compare,
    cost,
    data,
    demo,
    doctor,
    embed,
    evaluate,
    export,
    fill,
    models,
    predict,
    recipes,
    show,
    similar,
    tokenizer,
    train,
    windows,
)

app = typer.Typer(
    name="patchword",
    help="One encoder library for words and patches: build, train, measure and explain Transformers.",
    epilog="Start with:  patchword demo   |   patchword cost vit-base-16 --block 0 --steps   |   patchword recipes",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"patchword {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


app.command("demo")(demo.demo)
app.command("models")(models.models)
app.command("show")(show.show)
app.command("cost")(cost.cost)
app.command("windows")(windows.windows)
app.command("compare")(compare.compare)
app.add_typer(recipes.app, name="recipes")
app.add_typer(tokenizer.app, name="tokenizer")
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("fill")(fill.fill)
app.command("embed")(embed.embed)
app.command("similar")(similar.similar)
app.command("export")(export.export)
app.add_typer(data.app, name="data")
app.command("doctor")(doctor.doctor)
