"""Tokenizes the texts of a pretraining recipe."""

import hashlib
import time
from pathlib import Path

from rich.console import Console

from patchword.data.faults import collect_faults
from patchword.data.image.named_datasets import data_folder
from patchword.data.shards.manifest import is_sharded
from patchword.data.shards.sharded_corpus import build_sharded_corpus
from patchword.data.text.corpus.documents import examine, text_files
from patchword.data.text.corpus.token_cache import build_cache
from patchword.data.text.corpus.tokenized_corpus import Corpus
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.notes import print_notes
from patchword.recipes.pretraining.recipe import PretrainingRecipe


def tokenised(recipe: PretrainingRecipe, tokenizer: Tokenizer, console: Console) -> Corpus:
    """Return the tokenized texts, from the cache if they are there."""
    names = "\n".join([*recipe.text, recipe.documents, tokenizer.fingerprint()])
    default = data_folder() / "tokens" / hashlib.sha256(names.encode()).hexdigest()[:16]
    with collect_faults() as report:
        files = text_files(recipe.files())
        if report.faults:  # report the faults of the existing files as well
            examine(files, recipe.documents)
    print_notes(report.doubts, console)
    began = time.monotonic()
    with console.status("tokenising") as status:

        def show(done: int, total: int) -> None:
            left = (time.monotonic() - began) * (total - done) / max(1, done)
            status.update(f"tokenising: {done / 2**20:,.0f} of {total / 2**20:,.0f} MB, {left:,.0f} s left")

        given = recipe.files()
        if not recipe.cache and len(given) == 1 and is_sharded(given[0]):
            corpus = build_sharded_corpus(given[0], tokenizer, show)
        else:
            folder = Path(recipe.cache) if recipe.cache else default
            corpus = build_cache(given, tokenizer, folder, recipe.documents, show)
    manifest = corpus.manifest
    console.print(
        f"{manifest.tokens:,} tokens in {manifest.sentences:,} sentences of {manifest.documents:,} documents "
        f"({corpus.size / 2**20:,.0f} MB, tokenised in {manifest.seconds:.0f} s, "
        f"{corpus.unknown_fraction:.2%} unknown)",
        highlight=False,
    )
    return corpus
