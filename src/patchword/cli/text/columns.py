"""The columns of input tables that the model does not read; output files repeat them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchword.data.text.formats.other_columns import Cells
    from patchword.recipes.text.inference.input import TextInput
    from patchword.recipes.text.inference.requests import TypedOptions
    from patchword.recipes.text.recipe import TextRecipe


def others_of(
    recipe: "TextRecipe", texts: "Sequence[TextInput]", words: "TypedOptions"
) -> "dict[str, dict[int, Cells]]":
    """Return file -> line -> cells by column name."""
    from patchword.data.text.formats.other_columns import other_columns
    from patchword.recipes.text.inference.input import TABLES
    from patchword.recipes.text.tasks.all_tasks import task_spec_of

    files = dict.fromkeys(str(one.place.get("file", "")) for one in texts)
    columns = task_spec_of(recipe).columns(words)
    tables = [Path(file) for file in files if Path(file).suffix.lower() in TABLES]
    return {str(path): other_columns(path, (columns.text, columns.pair), columns.form(path)) for path in tables}
