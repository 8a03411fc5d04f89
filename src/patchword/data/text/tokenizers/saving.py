"""Save tokenizers in the file formats of other libraries."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patchword.core.files import write_json, write_text
from patchword.data.text.tokenizers.byte_pair import merges_of
from patchword.data.text.tokenizers.vocabulary_training import Casing
from patchword.data.text.tokenizers.word_boundaries import Marks


def save_wordpiece(
    folder: Path, names: Mapping[str, str], entries: Sequence[str], rules: Mapping[str, Any], casing: Casing
) -> None:
    """Write vocab.txt and tokenizer_config.json of a BERT tokenizer. rules: the normalizer's settings."""
    settings = {
        "do_lower_case": casing == "uncased",
        "tokenize_chinese_chars": rules.get("handle_chinese_chars"),
        "strip_accents": rules.get("strip_accents"),
    }
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", **names, **settings})
    write_text(folder / "vocab.txt", "".join(f"{token}\n" for token in entries))


def save_other(
    folder: Path, names: Mapping[str, str], entries: Mapping[str, int], model: Mapping[str, Any], marks: Marks
) -> None:
    """Write tokenizer_config.json, whose class reads tokenizer.json as it is; for byte-pair also GPT-2's two files."""
    pairs = model["type"] == "BPE"
    settings = {"add_prefix_space": marks.prefix} if pairs and marks.spaced else {}
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **names, **settings})
    if pairs:
        ordered = dict(sorted(entries.items(), key=lambda entry: entry[1]))
        write_text(folder / "vocab.json", json.dumps(ordered, ensure_ascii=False))
        lines = (f"{first} {second}\n" for first, second in merges_of(model))
        write_text(folder / "merges.txt", "".join(["#version: 0.2\n", *lines]))
