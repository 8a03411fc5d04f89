"""Write what editors complete: the names of all models, and the fields of each family as arguments of `create`.

`make stubs` runs this file after a model or a field was added. It writes three files of the package:

names.py      a constant per model: patchword.names.swin_tiny
cli/completion.json  what shells complete: recipes, models, their fields and choices
__init__.pyi  the types of the public functions, with one signature of `create` per family
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel

import patchword
from patchword.data.image.named_datasets import DATASETS
from patchword.models import REGISTRY
from patchword.models.catalogue import config_types, field_types
from patchword.models.detection import DETECTORS
from patchword.models.registry import Family
from patchword.models.segmentation import SEGMENTERS
from patchword.recipes import RECIPES
from patchword.recipes.kinds import KINDS
from patchword.recipes.schema.recipe import ModelChoice
from patchword.studies import STUDIES

PACKAGE = Path(patchword.__file__).parent
FEATURES = {False: "features: Literal[False] = False", True: "features: Literal[True]"}
WEIGHTS = "pretrained: bool = False, download: bool = False"


def names() -> str:
    """Return the content of names.py."""
    constants = [f'{name.replace("-", "_")}: Final = "{name}"' for name in (*REGISTRY.names(), *DETECTORS, *SEGMENTERS)]
    head = '"""The names of all models, for completion in an editor. `make stubs` writes this file."""'
    return "\n".join([head, "", "from typing import Final", "", *constants, ""])


def stub() -> str:
    """Return the content of __init__.pyi, formatted."""
    others = {name: home for name, home in patchword._HOMES.items() if name != "create"}
    imports = [
        "from patchword import models as models",
        "from patchword import names as names",
        "from patchword.core.card import ConfigValue",
        "from patchword.layers.dense.detector import Detector",
        "from patchword.layers.dense.segmentation.segmenter import Segmenter",
        "from patchword.layers.model import Model",
        "from patchword.layers.pyramid import Backbone",
        *sorted({f"from {kind.__module__} import {kind.__name__}" for kind in map(_model, REGISTRY.families)}),
        *(f"from patchword.{home} import {name} as {name}" for name, home in others.items()),
    ]
    text = "\n".join(
        [
            "# Types of the public functions. `make stubs` writes this file from the registry of models.",
            '# mypy: disable-error-code="overload-overlap"',  # detectors and segmenters are no Model
            "from collections.abc import Mapping",
            "from typing import TYPE_CHECKING, Any, Literal, overload",
            "if TYPE_CHECKING:  # so that mypy resolves the modules before the package that imports them all",
            *(f"    {line}" for line in imports),
            "__version__: str",
            *(line for family in REGISTRY.families for line in _overloads(family)),
            *_dense(DETECTORS, "Detector"),
            *_dense(SEGMENTERS, "Segmenter"),
            *_any_name(),
        ]
    )
    return _formatted(text)


def _overloads(family: Family) -> Iterator[str]:
    """Yield the signatures of `create` for a family: of its models and, for images, of their feature maps."""
    names = f"Literal[{', '.join(map(repr, family.names()))}]"
    own = ", ".join(f"{name}: {kind} = ..." for name, kind in field_types(family).items())
    results = {False: _model(family).__name__} | ({True: "Backbone"} if family.reads == "images" else {})
    for features, result in results.items():
        yield "@overload"
        yield f"def create(name: {names}, /, *, {FEATURES[features]}, {WEIGHTS}, {own}) -> {result}: ..."


def _dense(families: Mapping[str, Any], result: str) -> Iterator[str]:
    """Yield the signatures for detectors or segmenters, one per class of config. result: their class."""
    for config in dict.fromkeys(type(family.config) for family in families.values()):
        names = [name for name, family in families.items() if type(family.config) is config]
        own = ", ".join(f"{name}: {kind} = ..." for name, kind in config_types(config).items())
        yield "@overload"
        yield f"def create(name: Literal[{', '.join(map(repr, names))}], /, *, {own}) -> {result}: ..."


def _any_name() -> Iterator[str]:
    """Yield the signatures for a name that is not known before the program runs."""
    for features, result in {False: "Model", True: "Backbone"}.items():
        yield "@overload"
        yield f"def create(name: str, /, *, {FEATURES[features]}, {WEIGHTS}, **overrides: ConfigValue) -> {result}: ..."


def _model(family: Family) -> type:
    found = signature(family.build).return_annotation
    assert isinstance(found, type), f"the return type of {family.name}'s build function is not a class"
    return found


def _formatted(text: str) -> str:
    for command in (["check", "--quiet", "--select", "I", "--fix"], ["format"]):
        words = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PACKAGE / "__init__.pyi"), "-"]
        text = subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout
    return text


def completion() -> str:
    """Return the content of completion.json: names, and fields with their choices; [] is any value."""
    recipes = {name: function() for name, function in RECIPES.items()}
    content = {
        "recipes": {name: [recipe.kind, recipe.model.name] for name, recipe in recipes.items()},
        "studies": list(STUDIES),
        "kinds": {kind.name: dict(_recipe_fields(kind.recipe)) for kind in KINDS},
        "models": {name: family.name for family in REGISTRY.families for name in family.names()}
        | {name: name for name in (*DETECTORS, *SEGMENTERS)},
        "families": {
            family.name: _model_fields(next(iter(family.names().values())).config) for family in REGISTRY.families
        }
        | {name: _model_fields(family.config) for name, family in {**DETECTORS, **SEGMENTERS}.items()},
        "data": [*DATASETS, "digits"],
    }
    lines = [f"{json.dumps(part)}: {json.dumps(value)}" for part, value in content.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _recipe_fields(kind: type[BaseModel], outer: str = "") -> Iterator[tuple[str, list[str]]]:
    for name, field in kind.model_fields.items():
        if name in getattr(kind, "unsupported", ()) or (name in ("kind", "about", "expect") and not outer):
            continue
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield f"{outer}{name}", []
            if inner is not ModelChoice:
                yield from _recipe_fields(inner, f"{outer}{name}.")
        else:
            yield f"{outer}{name}", _choices(inner)


def _model_fields(config: Any) -> dict[str, list[str]]:
    hints = get_type_hints(type(config))
    return {field: _choices(hints[field]) for field in vars(config)}


def _choices(kind: Any) -> list[str]:
    if kind is bool:
        return ["true", "false"]
    return [str(choice) for choice in get_args(kind) if choice != ""] if get_origin(kind) is Literal else []


def files() -> dict[Path, str]:
    """Return the files with what they should contain."""
    return {
        PACKAGE / "names.py": names(),
        PACKAGE / "__init__.pyi": stub(),
        PACKAGE / "cli" / "completion.json": completion(),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
        print(path.name)
