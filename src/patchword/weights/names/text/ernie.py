"""The names of ERNIE in Hugging Face's files."""

from collections.abc import Mapping
from typing import Any

from patchword.core.card import Card
from patchword.weights.names.text.bert_parts import BERT_TWICE, BERT_WORDS, EMBEDDING_ROWS, bert_heads, block_rows
from patchword.weights.names.text.huggingface_text import SIZES, TextNames

_TASKS = 3  # their default; a table exists only with use_task_id


class ErnieNames(TextNames):
    """Newer checkpoints have an embedding of the pretraining task."""

    def read_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        tasks = config.get("task_type_vocab_size", _TASKS) if config.get("use_task_id", False) else 0
        return super().read_config(config) | {"tasks": tasks}

    def write_config(self, card: Card) -> dict[str, Any]:
        tasks = card.config["tasks"]
        return super().write_config(card) | {"use_task_id": bool(tasks), "task_type_vocab_size": tasks or _TASKS}


NAMES = ErnieNames(
    "ernie",
    "ERNIE",
    ("ernie",),
    "ernie.",
    "ErnieModel",
    encoder=(
        *EMBEDDING_ROWS,
        ("embedding.gather.tasks.weight", "embeddings.task_type_embeddings.weight"),
        *block_rows(),
    ),
    words=BERT_WORDS,
    heads=bert_heads("Ernie", "ernie."),
    duplicates=BERT_TWICE,
    sizes={**SIZES, "embedding.gather.tasks.weight": ("tasks",)},
    expected={"is_decoder": (False, False)},
)
LAYOUTS = NAMES.layouts()
