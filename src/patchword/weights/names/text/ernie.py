"""The names of ERNIE in Hugging Face's files."""

from patchword.weights.names.text.bert_parts import BERT_TWICE, BERT_WORDS, EMBEDDING_ROWS, bert_heads, block_rows
from patchword.weights.names.text.huggingface_text import TextNames

NAMES = TextNames(
    "ernie",
    "ERNIE",
    ("ernie",),
    "ernie.",
    "ErnieModel",
    encoder=EMBEDDING_ROWS + block_rows(),
    words=BERT_WORDS,
    heads=bert_heads("Ernie", "ernie."),
    duplicates=BERT_TWICE,
    expected={"use_task_id": (False, False), "is_decoder": (False, False)},
)
LAYOUTS = NAMES.layouts()
