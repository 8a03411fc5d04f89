"""Options of `train` for the fields that are changed most: `--epochs 5` is `epochs=5`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.completion import data_names, model_names
from patchword.core.errors import UserError

if TYPE_CHECKING:
    from patchword.recipes import Recipe

PANEL = "Fields of the recipe, as options"
# The option -> the field that it means; SIMILAR of the aliases has the fields of recipes without it.
FIELDS: Mapping[str, str] = {
    "--model": "model",
    "--data": "data",
    "--epochs": "epochs",
    "--batch-size": "batch_size",
    "--learning-rate": "learning_rate",
    "--image-size": "model.image",
    "--seed": "seed",
    "--device": "device",
}


def _option(
    name: str, metavar: str, text: str, completes: Callable[..., list[str]] | None = None
) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(
        name, metavar=metavar, help=text, rich_help_panel=PANEL, autocompletion=completes
    )
    return found


Epochs = Annotated[str | None, _option("--epochs", "NUMBER", "Passes over the training data.")]
LearningRate = Annotated[str | None, _option("--learning-rate", "NUMBER", "Peak learning rate.")]
BatchSize = Annotated[str | None, _option("--batch-size", "NUMBER", "Samples per optimizer step.")]
ImageSize = Annotated[str | None, _option("--image-size", "PIXELS", "Image side (model.image, min_size or crop).")]
Data = Annotated[str | None, _option("--data", "PATH", "Training data (data, train or text).", data_names)]
ModelName = Annotated[str | None, _option("--model", "MODEL", "A model name, a run or a file of weights.", model_names)]
Seed = Annotated[str | None, _option("--seed", "NUMBER", "Seed of all random numbers.")]
DeviceName = Annotated[str | None, _option("--device", "DEVICE", "auto, cpu, cuda, cuda:1 or mps.")]


def as_settings(recipe: "Recipe", options: Mapping[str, str | None], typed: Sequence[str]) -> list[str]:
    """Return the options that are given as FIELD=VALUE.

    options: values by the name of the option; FIELDS has the field that it means. Another field of the recipe may mean
        the same, such as `crop` instead of `model.image`.
    typed: settings that were given as FIELD=VALUE, which must not contradict the options.
    """
    from patchword.recipes.schema.aliases import meant_field
    from patchword.recipes.schema.recipe import known_fields

    before = dict(_parts(setting) for setting in typed)
    known = known_fields(type(recipe), before.get("model") or options.get("model") or recipe.model)
    found = []
    for option, value in options.items():
        if value is None:
            continue
        field = meant_field(FIELDS[option], known)
        if not field:
            hint = "`patchword recipes cat NAME` prints the fields of a recipe"
            raise UserError(f"a recipe of the kind {recipe.kind} has no field for {option} {value}", hint=hint)
        if before.get(field, value) != value:
            raise UserError(
                f"{option} {value} contradicts {field}={before[field]}",
                expected="one of them",
                hint=f"{option} is another way to write {field}=VALUE",
            )
        found.append(f"{field}={value}")
    return found


def _parts(setting: str) -> tuple[str, str]:
    field, _, value = setting.partition("=")
    return field.strip(), value.strip()
