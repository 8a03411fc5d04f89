"""Registers every verb of the `patchword` command."""

from collections.abc import Callable
from typing import Annotated

import typer

from patchword import __version__
from patchword.cli import doctor
from patchword.cli.data import data
from patchword.cli.help import help_of
from patchword.cli.inspection import (
    attention,
    attention_as_convolution,
    lab,
    landscape,
    panoptic,
    robustness,
    sharpness,
    windows,
)
from patchword.cli.lectures import lecture
from patchword.cli.models import bench, compare, cost, export, get, models, serve, show
from patchword.cli.option_hints import HintingGroup
from patchword.cli.run_folders import runs, sign, verify
from patchword.cli.text import embed, fill, generate, positions, similar, tokenizer, translate, vectors
from patchword.cli.training import demo, evaluate, predict, recipes, train

app = typer.Typer(
    name="patchword",
    cls=HintingGroup,
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


# The panels of `patchword --help`, in their order, as far as verbs are registered in it; groups of verbs come last.
START, USE, MODELS, MEASURE = "Start here", "Train and use", "Models", "Measure"
INSIDE, TEXT = "Look inside", "Text"


def _verb(name: str, callback: Callable[..., None], panel: str, line: str) -> None:
    """Register a verb. line: what it does, on one line of 80 columns beside the longest name."""
    app.command(name, help=help_of(callback), short_help=line, rich_help_panel=panel)(callback)


_verb("demo", demo.demo, START, "Train a small ViT in minutes; count its cost.")
_verb("doctor", doctor.doctor, START, "Check the installation, the GPU and the data.")
_verb("lecture", lecture.lecture, START, "List what the lectures show, with commands.")
_verb("train", train.train, USE, "Train a recipe, test it, write its report.")
_verb("evaluate", evaluate.evaluate, USE, "Evaluate a run on its test set.")
_verb("predict", predict.predict, USE, "Predict classes, objects, maps, tags, answers.")
_verb("serve", serve.serve, USE, "Serve models over HTTP, with limits.")
_verb("export", export.export, USE, "Export a model to ONNX or torch.export.")
_verb("verify", verify.verify, USE, "Check that no file of a run has changed.")
_verb("sign", sign.sign, USE, "Sign a run with a private key.")
_verb("models", models.models, MODELS, "List the models with parameters and MACs.")
_verb("get", get.get, MODELS, "Download a pretrained model.")
_verb("show", show.show, MODELS, "Show the parts of a model as a tree.")
_verb("cost", cost.cost, MEASURE, "Count parameters and MACs, step by step.")
_verb("compare", compare.compare, MEASURE, "Compare models: scores, costs and speed.")
_verb("bench", bench.bench, MEASURE, "Compare the speed with other libraries.")
_verb("robustness", robustness.robustness, MEASURE, "Measure accuracy under image corruptions.")
_verb("panoptic", panoptic.panoptic, MEASURE, "Measure the quality of panoptic segments.")
_verb("lab", lab.lab, INSIDE, "Open the lab: one local page over your models.")
_verb("attention", attention.attention, INSIDE, "Draw what a model attends to.")
_verb("windows", windows.windows, INSIDE, "Draw which tokens attend to which.")
_verb(
    "attention-as-convolution",
    attention_as_convolution.attention_as_convolution,
    INSIDE,
    "Compute a convolution by attention.",
)
_verb("sharpness", sharpness.sharpness, INSIDE, "Measure how sharp the minimum of a run is.")
_verb("landscape", landscape.landscape, INSIDE, "Draw the loss around the weights of runs.")
_verb("fill", fill.fill, TEXT, "Predict the words at [MASK].")
_verb("generate", generate.generate, TEXT, "Continue a text.")
_verb("translate", translate.translate, TEXT, "Translate texts.")
_verb("embed", embed.embed, TEXT, "Turn each text into a vector.")
_verb("similar", similar.similar, TEXT, "Compare one word across sentences.")
_verb("positions", positions.positions, TEXT, "Compare position encodings on longer texts.")
app.add_typer(recipes.app, name="recipes", rich_help_panel=START, short_help="List, print and copy recipes.")
app.add_typer(runs.app, name="runs", rich_help_panel=USE, short_help="List, compare, clean and delete runs.")
app.add_typer(tokenizer.app, name="tokenizer", rich_help_panel=TEXT, short_help="Train a tokenizer, or see its tokens.")
app.add_typer(vectors.app, name="vectors", rich_help_panel=TEXT, short_help="Learn word vectors and query them.")
app.add_typer(data.app, name="data", rich_help_panel="Data", short_help="List, fetch, show, check and split data.")
