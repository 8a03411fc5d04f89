"""The names of ERNIE in Hugging Face's files."""

from patchword.weights.text_names import BERT_TWICE, BERT_WORDS, EMBEDDING_ROWS, TextNames, bert_heads, block_rows

NAMES = TextNames(
    "ernie",
    "ERNIE",
    ("ernie",),
    "ernie.",
    "ErnieModel",
    encoder=EMBEDDING_ROWS + block_rows(),
    words=BERT_WORDS,
    heads=bert_heads("Ernie", "ernie."),
    twice=BERT_TWICE,
    expected={"use_task_id": (False, False), "is_decoder": (False, False)},
)
LAYOUTS = NAMES.layouts()
