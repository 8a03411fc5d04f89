"""The names of RoBERTa and XLM-R in Hugging Face's files."""

from patchword.models.text.roberta import FIRST
from patchword.weights.names.text.bert_parts import EMBEDDING_ROWS, block_rows
from patchword.weights.names.text.huggingface_text import Head, TextNames

NAMES = TextNames(
    "roberta",
    "RoBERTa",
    ("roberta", "xlm-roberta"),
    "roberta.",
    "RobertaModel",
    encoder=EMBEDDING_ROWS + block_rows(),
    words=(
        ("head.words.transform.{p}", "lm_head.dense.{p}"),
        ("head.words.norm.{p}", "lm_head.layer_norm.{p}"),
        ("head.words.output.bias", "lm_head.bias"),
    ),
    heads=(
        Head("words", "RobertaForMaskedLM", ("lm_head.bias",)),
        Head("span", "RobertaForQuestionAnswering", ("qa_outputs.weight",), "qa_outputs"),
        Head(
            "classes",
            "RobertaForSequenceClassification",
            ("classifier.dense.weight",),
            "classifier.out_proj",
            "classifier.dense",
        ),
        Head("tags", "RobertaForTokenClassification", ("classifier.weight",), "classifier"),
    ),
    duplicates=("lm_head.decoder.weight", "lm_head.decoder.bias"),
    first=FIRST,
    expected={"position_embedding_type": ("absolute", "absolute"), "is_decoder": (False, False)},
    written={"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
)
LAYOUTS = NAMES.layouts()
