"""Registers every verb of the `patchword` command."""

from typing import Annotated

import typer

from patchword import __version__
from patchword.cli import doctor
from patchword.cli.data import data
from patchword.cli.help import help_of
from patchword.cli.inspection import (
    attention,
    attention_as_convolution,
    landscape,
    panoptic,
    robustness,
    sharpness,
    windows,
)
from patchword.cli.models import bench, compare, cost, export, get, models, show
from patchword.cli.text import embed, fill, generate, positions, similar, tokenizer, translate, vectors
from patchword.cli.training import demo, evaluate, predict, recipes, train

app = typer.Typer(
    name="patchword",
    help="One encoder library for words and patches: build, train, measure and explain Transformers.",
    epilog="Start with:\n\n  patchword demo\n  patchword cost vit-base-16 --block 1 --steps\n  patchword recipes",
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command("demo", help=help_of(demo.demo))(demo.demo)
app.command("models", help=help_of(models.models))(models.models)
app.command("get", help=help_of(get.get))(get.get)
app.command("show", help=help_of(show.show))(show.show)
app.command("cost", help=help_of(cost.cost))(cost.cost)
app.command("windows", help=help_of(windows.windows))(windows.windows)
app.command("attention-as-convolution", help=help_of(attention_as_convolution.attention_as_convolution))(
    attention_as_convolution.attention_as_convolution
)
app.command("attention", help=help_of(attention.attention))(attention.attention)
app.command("positions", help=help_of(positions.positions))(positions.positions)
app.command("compare", help=help_of(compare.compare))(compare.compare)
app.command("bench", help=help_of(bench.bench))(bench.bench)
app.add_typer(recipes.app, name="recipes")
app.add_typer(tokenizer.app, name="tokenizer")
app.add_typer(vectors.app, name="vectors")
app.command("train", help=help_of(train.train))(train.train)
app.command("evaluate", help=help_of(evaluate.evaluate))(evaluate.evaluate)
app.command("sharpness", help=help_of(sharpness.sharpness))(sharpness.sharpness)
app.command("landscape", help=help_of(landscape.landscape))(landscape.landscape)
app.command("robustness", help=help_of(robustness.robustness))(robustness.robustness)
app.command("panoptic", help=help_of(panoptic.panoptic))(panoptic.panoptic)
app.command("predict", help=help_of(predict.predict))(predict.predict)
app.command("fill", help=help_of(fill.fill))(fill.fill)
app.command("generate", help=help_of(generate.generate))(generate.generate)
app.command("translate", help=help_of(translate.translate))(translate.translate)
app.command("embed", help=help_of(embed.embed))(embed.embed)
app.command("similar", help=help_of(similar.similar))(similar.similar)
app.command("export", help=help_of(export.export))(export.export)
app.add_typer(data.app, name="data")
app.command("doctor", help=help_of(doctor.doctor))(doctor.doctor)
