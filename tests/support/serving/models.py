"""Tiny models with labels and tokenizers, as a server opens them."""

from dataclasses import replace

import patchword
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.pipelines.interface import Pipeline
from support.helpers import tiny, tiny_text

TEXTS = ["The cat sat on the mat.", "Ada lived in London, and the cat ran to the bank in town!", "A mat."]
LABELS = ("bad", "fair", "good")


def tokenizer_of_texts() -> Tokenizer:
    return Tokenizer.train_on(TEXTS * 3, vocabulary=200)


def text_pipeline(head: str, labels: tuple[str, ...] = LABELS, family: str = "bert-tiny") -> Pipeline:
    tokenizer = tokenizer_of_texts()
    fields = {"vocabulary": tokenizer.vocabulary, "max_length": 40, "head": head}
    model = tiny_text(family, **fields | ({"classes": len(labels)} if labels else {}))
    model.card = replace(model.card, labels=labels)
    return patchword.pipeline(model, tokenizer=tokenizer, device="cpu")


def image_pipeline() -> Pipeline:
    images = tiny("vit-tiny-16", image=32, patch=8, classes=len(LABELS))
    images.card = replace(images.card, labels=LABELS)
    return patchword.pipeline(images, device="cpu")
