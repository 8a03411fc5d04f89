"""The names of RoBERTa, XLM-R and CamemBERT in Hugging Face's files."""

from collections.abc import Mapping
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.weights.names.text.bert_parts import EMBEDDING_ROWS, block_rows
from patchword.weights.names.text.huggingface_text import Head, TextNames

_PADDING = 1  # their default


class RobertaNames(TextNames):
    """The padding id decides where positions start, so the length of the position table depends on it."""

    def read_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        values, padding = super().read_config(config), config.get("pad_token_id", _PADDING)
        if padding is None:
            raise UserError("this RoBERTa has no padding id, which its positions need", expected="pad_token_id")
        if "max_length" in values:
            values["max_length"] += _PADDING - padding
        return values | {"padding": padding}

    def write_config(self, card: Card) -> dict[str, Any]:
        values, padding = super().write_config(card), card.config["padding"]
        positions = values["max_position_embeddings"] + padding - _PADDING
        return values | {"pad_token_id": padding, "max_position_embeddings": positions}


NAMES = RobertaNames(
    "roberta",
    "RoBERTa",
    ("roberta", "xlm-roberta", "camembert"),
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
    first=_PADDING + 1,
    expected={"position_embedding_type": ("absolute", "absolute"), "is_decoder": (False, False)},
    written={"bos_token_id": 0, "eos_token_id": 2},
    unread=tuple(
        f"{stem}ForMultipleChoice" for stem in ("Roberta", "XLMRoberta", "Camembert")
    ),  # their pooler is dropped under these names
)
LAYOUTS = NAMES.layouts()
