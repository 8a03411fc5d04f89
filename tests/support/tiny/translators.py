"""Tiny translators with random weights, saved as model folders with a tokenizer."""

from pathlib import Path

from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.models import REGISTRY
from patchword.recipes.translation.run import save_tokenizers
from patchword.weights import save
from support.helpers import randomise

WORDS = "ba ce di fo gu ha"
KINDS = {
    "transformer": ("transformer-small", {"heads": 2, "hidden": 32}),
    "attention": ("lstm-translation-small", {"attention": "dot"}),
    "none": ("lstm-translation-small", {"attention": "none"}),
}


def tiny_translator(folder: Path, kind: str = "transformer", seed: int = 3) -> Path:
    """Save a translator. kind: transformer, or an LSTM with attention or with none."""
    name, options = KINDS[kind]
    tokenizer = Tokenizer.train_on([WORDS] * 20, 300, least=1, kind="bytes")
    sizes = {"vocabulary": tokenizer.vocabulary, "target_vocabulary": 0, "width": 32, "depth": 2, "max_length": 24}
    model = randomise(REGISTRY.create(name, **sizes, dropout=0.0, **options), seed)
    folder.mkdir(parents=True)
    save_tokenizers(tokenizer, tokenizer, folder)
    save(model, folder)
    return folder
