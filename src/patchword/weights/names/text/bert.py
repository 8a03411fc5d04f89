"""The names of BERT in the files of Hugging Face and sentence-transformers."""

from patchword.weights.names.text.bert_parts import BERT_TWICE, BERT_WORDS, EMBEDDING_ROWS, bert_heads, block_rows
from patchword.weights.names.text.huggingface_text import TextNames

NAMES = TextNames(
    "bert",
    "BERT",
    ("bert",),
    "bert.",
    "BertModel",
    encoder=EMBEDDING_ROWS + block_rows(),
    words=BERT_WORDS,
    heads=bert_heads("Bert", "bert."),
    duplicates=BERT_TWICE,
    also_for=("tinybert",),
    expected={"position_embedding_type": ("absolute", "absolute"), "is_decoder": (False, False)},
)
LAYOUTS = NAMES.layouts()
