"""The texts of a pretraining recipe as tokens."""

import hashlib
import time
from pathlib import Path

from rich.console import Console

from patchword.data.named import data_folder
from patchword.data.text.cache import build_cache
from patchword.data.text.stored import Corpus
from patchword.data.text.tokenizer import Tokenizer
from patchword.recipes.pretraining.recipe import PretrainingRecipe


def tokenised(recipe: PretrainingRecipe, tokenizer: Tokenizer, console: Console) -> Corpus:
    """The texts as tokens, from the cache if they are there."""
    names = "\n".join([*recipe.text, recipe.documents, tokenizer.fingerprint()])
    default = data_folder() / "tokens" / hashlib.sha256(names.encode()).hexdigest()[:16]
    began = time.monotonic()
    with console.status("tokenising") as status:

        def told(done: int, total: int) -> None:
            left = (time.monotonic() - began) * (total - done) / max(1, done)
            status.update(f"tokenising: {done / 2**20:,.0f} of {total / 2**20:,.0f} MB, {left:,.0f} s left")

        folder = Path(recipe.cache) if recipe.cache else default
        corpus = build_cache(recipe.files(), tokenizer, folder, recipe.documents, told)
    manifest = corpus.manifest
    console.print(
        f"{manifest.tokens:,} tokens in {manifest.sentences:,} sentences of {manifest.documents:,} documents "
        f"({corpus.size / 2**20:,.0f} MB, tokenised in {manifest.seconds:.0f} s, {corpus.unknown_share:.2%} unknown)",
        highlight=False,
    )
    return corpus
