"""Tiny fine-tuned text models in folders: one that tags, one that answers questions, one that classifies."""

from dataclasses import replace
from pathlib import Path

import patchword
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from support.helpers import tiny_text

HEADS = {"tags": ("O", "B-animal", "I-animal"), "span": (), "classes": ("dull", "good")}


def write_tuned(folder: Path) -> list[Path]:
    """Write the models, each into a folder with the name of its head."""
    tokenizer = Tokenizer.train_on(["The cat sat on the mat and the dog ran."] * 3, vocabulary=100)
    for head, labels in HEADS.items():
        fields = {"vocabulary": tokenizer.vocabulary, "max_length": 40, "head": head}
        model = tiny_text("bert-tiny", **fields | ({"classes": len(labels)} if labels else {}))
        model.card = replace(model.card, labels=labels)
        patchword.save(model, folder / head)
        tokenizer.save(folder / head)
    return [folder / head for head in HEADS]
