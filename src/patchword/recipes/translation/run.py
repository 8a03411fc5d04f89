"""Opens a trained translator with its source and target tokenizers."""

from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from patchword.core.errors import UserError
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers import Translator
from patchword.models import REGISTRY
from patchword.recipes.run_folder import RunFolder
from patchword.weights import load

TARGET = "target"  # sub-folder of the target tokenizer, if there are two


class OpenTranslator(NamedTuple):
    """A loaded translator. source, target: tokenizers, the same one if both languages have one vocabulary."""

    model: Translator
    source: Tokenizer
    target: Tokenizer


def open_translator(folder: Path, **overrides: Any) -> OpenTranslator:
    """Open the folder of a run or a saved translator, on the CPU, in evaluation mode."""
    is_run = (folder / "recipe.yaml").is_file()
    model = RunFolder(folder).model(**overrides) if is_run else load(folder, **overrides)
    return OpenTranslator(as_translator(model, str(folder)), *open_tokenizers(folder))


def open_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    source = Tokenizer.read(folder)
    return source, Tokenizer.read(folder / TARGET) if (folder / TARGET).is_dir() else source


def save_tokenizers(source: Tokenizer, target: Tokenizer, folder: Path) -> None:
    source.save(folder)
    if target is not source:
        (folder / TARGET).mkdir(exist_ok=True)
        target.save(folder / TARGET)


def as_translator(model: nn.Module, name: str) -> Translator:
    if not isinstance(model, Translator):
        known = [other for other in REGISTRY.names() if REGISTRY.reads(other) == "pairs"]
        raise UserError(f"{name} is not a translator", expected=f"a run of {', '.join(known[:3])} or the like")
    return model
