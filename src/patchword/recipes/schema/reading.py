"""Reads a recipe of any kind from plain values or from a YAML file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from patchword.core.errors import UserError
from patchword.core.formats.safe_yaml import parse_yaml
from patchword.core.seal.checking import check_file
from patchword.recipes.kinds import kind_named
from patchword.recipes.schema.older_fields import with_current_names, with_older_hidden
from patchword.recipes.schema.recipe import Recipe, validated


def recipe_from(values: Mapping[str, Any]) -> Recipe:
    """Return the recipe with these field values; its class follows from the field `kind`."""
    recipe: type[Recipe] = kind_named(values.get("kind", "images")).recipe
    return validated(recipe, values)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from a YAML file, such as the one that every run saves; that one must be as it was sealed."""
    check_file(path)
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"cannot read the recipe {path}", got=str(error).replace("\n", " ")[:400]) from None
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a recipe", expected="YAML with fields", got=type(values).__name__)
    values = with_current_names(values)
    if (path.parent / "data.json").is_file():
        values = {**values, "model": with_older_hidden(values.get("model"))}
    return recipe_from(values)
