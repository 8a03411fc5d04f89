"""Tiny models as transformers and sentence-transformers save them, for the hub on the loopback."""

import json
from collections.abc import Sequence
from pathlib import Path

import transformers

from support.helpers import randomise

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat"]


def vit(folder: Path) -> transformers.PreTrainedModel:
    """A tiny ViT with the preprocessor settings of another data set."""
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        num_labels=3,
        id2label={0: "ant", 1: "bee", 2: "cow"},
    )
    model = randomise(transformers.ViTForImageClassification(config)).eval()
    model.save_pretrained(folder)
    settings = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "size": {"height": 32, "width": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return model


def bert(folder: Path, words: Sequence[str] = ()) -> transformers.PreTrainedModel:
    """A tiny BERT. words: those that its vocabulary has besides VOCABULARY."""
    vocabulary = list(dict.fromkeys([*VOCABULARY, *words]))
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    model = randomise(transformers.BertForMaskedLM(config)).eval()
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return model


def sentence_encoder(folder: Path, words: Sequence[str] = ()) -> None:
    """A tiny BERT with mean pooling and vectors of length 1, as sentence-transformers saves it."""
    bert(folder, words).bert.save_pretrained(folder)
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds.items()]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
