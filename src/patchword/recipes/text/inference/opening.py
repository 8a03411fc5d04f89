"""Opens what embeds texts: a text model with its tokenizer, or an ELMo."""

from typing import Literal

from patchword.models.text.elmo import Elmo
from patchword.recipes.elmo.embedder import ElmoEmbedder
from patchword.recipes.text.inference.embedder import SubwordEmbedder, TextEmbedder
from patchword.recipes.text.inference.reader import folder_of, load_trained, text_reader


def open_embedder(
    name: str, device: str = "auto", precision: Literal["auto", "float32", "bfloat16"] = "float32"
) -> TextEmbedder:
    """Open a run, also by its name in `runs`, or a folder with weights, of a text model or of an ELMo."""
    path = folder_of(name)
    model = load_trained(path)
    if isinstance(model, Elmo):
        return ElmoEmbedder.of(model, path, name, device, precision)
    return SubwordEmbedder(text_reader(model, path, device, precision))
