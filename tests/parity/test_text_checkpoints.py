"""The configs of published text checkpoints: their sizes on the meta device, their outputs at a small width."""

from typing import Any

import pytest
import torch
import transformers

import patchword
from patchword.core.device import shapes_only
from patchword.weights.names.layouts import LAYOUTS
from support.config_walk.text import our_outputs, texts, their_outputs
from support.helpers import difference, randomise

_ROBERTA = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_ALBERT = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
_ERNIE = {"vocab_size": 18000, "max_position_embeddings": 513, "hidden_act": "relu", "layer_norm_eps": 1e-5}
_XNLI = {"vocab_size": 95000, "emb_dim": 1024, "n_layers": 12, "n_heads": 8, "n_langs": 15}
_ENDE = {"vocab_size": 64699, "emb_dim": 1024, "n_layers": 6, "n_heads": 8, "n_langs": 2}
_XLM_1280 = {"vocab_size": 200000, "emb_dim": 1280, "n_layers": 16, "n_heads": 16, "use_lang_emb": False}


def _bert(layers: int, width: int, heads: int, hidden: int, vocabulary: int = 30522) -> dict[str, int]:
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
    return {**sizes, "intermediate_size": hidden, "vocab_size": vocabulary}


# name: (their classes, fields of config.json unlike their defaults, parameters of their model without a head)
CHECKPOINTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "bert-base-uncased": ("Bert", {}, 109_482_240),
    "bert-base-cased": ("Bert", {"vocab_size": 28996}, 108_310_272),
    "bert-large-cased": ("Bert", {**_LARGE, "vocab_size": 28996}, 333_579_264),
    "bert-base-multilingual-uncased": ("Bert", {"vocab_size": 105879}, 167_356_416),
    "bert-tiny": ("Bert", _bert(2, 128, 2, 512), 4_385_920),
    "bert-mini": ("Bert", _bert(4, 256, 4, 1024), 11_170_560),
    "bert-small": ("Bert", _bert(4, 512, 8, 2048), 28_763_648),
    "bert-medium": ("Bert", _bert(8, 512, 8, 2048), 41_373_184),
    "all-MiniLM-L6-v2": ("Bert", _bert(6, 384, 12, 1536), 22_713_216),
    "TinyBERT_General_4L_312D": ("Bert", _bert(4, 312, 12, 1200), 14_350_248),
    "TinyBERT_General_6L_768D": ("Bert", _bert(6, 768, 12, 3072), 66_955_008),
    "bert-base-chinese": ("Bert", {"vocab_size": 21128}, 102_267_648),
    "bert-base-multilingual-cased": ("Bert", {"vocab_size": 119547}, 177_853_440),
    "bert-large-uncased": ("Bert", _LARGE, 335_141_888),
    "roberta-base": ("Roberta", _ROBERTA, 124_645_632),
    "roberta-large": ("Roberta", {**_ROBERTA, **_LARGE}, 355_359_744),
    "xlm-roberta-base": ("XLMRoberta", {**_ROBERTA, "vocab_size": 250002}, 278_043_648),
    "xlm-roberta-large": ("XLMRoberta", {**_ROBERTA, **_LARGE, "vocab_size": 250002}, 559_890_432),
    "distilroberta-base": ("Roberta", {**_ROBERTA, "num_hidden_layers": 6}, 82_118_400),
    "distilbert-base-uncased": ("DistilBert", {}, 66_362_880),
    "distilbert-base-multilingual-cased": ("DistilBert", {"vocab_size": 119547}, 134_734_080),
    "albert-base-v2": ("Albert", _ALBERT, 11_683_584),
    "albert-large-v2": (
        "Albert",
        {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096},
        17_683_968,
    ),
    "albert-xlarge-v2": (
        "Albert",
        {"hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 8192},
        58_724_864,
    ),
    "albert-xxlarge-v2": ("Albert", {}, 222_595_584),
    "mobilebert-uncased": ("MobileBert", {"classifier_activation": False}, 24_581_888),
    "ernie-1.0-base-zh": ("Ernie", _ERNIE, 99_866_112),
    "bigbird-roberta-base": ("BigBird", {}, 127_468_800),
    "bigbird-roberta-large": ("BigBird", _LARGE, 359_123_968),
    "openai-gpt": ("OpenAIGPT", {}, 116_534_784),
    "gpt2": ("GPT2", {}, 124_439_808),
    "gpt2-medium": ("GPT2", {"n_embd": 1024, "n_layer": 24, "n_head": 16}, 354_823_168),
    "gpt2-large": ("GPT2", {"n_embd": 1280, "n_layer": 36, "n_head": 20}, 774_030_080),
    "gpt2-xl": ("GPT2", {"n_embd": 1600, "n_layer": 48, "n_head": 25}, 1_557_611_200),
    "xlm-mlm-en-2048": ("XLM", {}, 667_088_896),
    "xlm-mlm-tlm-xnli15-1024": ("XLM", _XNLI, 248_976_384),
    "xlm-mlm-ende-1024": ("XLM", _ENDE, 142_357_504),
    "xlm-mlm-17-1280": ("XLM", {**_XLM_1280, "n_langs": 17}, 571_496_960),
    "xlm-mlm-100-1280": ("XLM", {**_XLM_1280, "n_langs": 100}, 571_496_960),
}

# The fields of sizes, and what they become for the outputs: two layers of a small width.
_SMALL = {
    **{"vocab_size": 41, "embedding_size": 8, "intra_bottleneck_size": 8, "n_langs": 3},
    **dict.fromkeys(("hidden_size", "dim", "n_embd", "emb_dim"), 24),
    **dict.fromkeys(("num_hidden_layers", "n_layers", "n_layer"), 2),
    **dict.fromkeys(("num_attention_heads", "n_heads", "n_head"), 4),
    **dict.fromkeys(("intermediate_size", "hidden_dim"), 32),
}


def published(name: str) -> tuple[str, Any, int]:
    stem, options, parameters = CHECKPOINTS[name]
    return stem, getattr(transformers, f"{stem}Config")(**options), parameters


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_published_config_has_the_parameters_of_its_checkpoint(name):
    stem, config, parameters = published(name)
    with torch.device("meta"):
        theirs = getattr(transformers, f"{stem}Model")(config)
    assert sum(part.numel() for part in theirs.parameters()) == parameters
    layout = next(one for one in LAYOUTS if one.fits(theirs.state_dict(), config.model_type))
    named = config.to_dict() | {"architectures": [f"{stem}Model"]}
    fields = {**layout.implied, **layout.read_config(named)}
    if stem == "XLM":
        fields["hidden"] = 4 * config.emb_dim
    if "GPT" in stem:
        fields["hidden"] = 4 * config.n_embd
    with shapes_only():
        ours = patchword.create(_smallest(layout.family), **fields)
    assert sum(part.numel() for part in ours.parameters()) == parameters


def _smallest(family: str) -> str:
    return next(name for name in patchword.models.REGISTRY.names() if name.split("-")[0] == family)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_small_model_of_a_published_config_is_equal(name, tmp_path):
    stem, options, _ = CHECKPOINTS[name]
    kind = getattr(transformers, f"{stem}Config")
    usual = kind().to_dict()
    small = {field: value for field, value in _SMALL.items() if field in usual}
    kept = small if options.get("n_langs", 1) > 1 else {k: v for k, v in small.items() if k != "n_langs"}
    theirs = randomise(getattr(transformers, f"{stem}Model")(kind(**{**options, **kept}))).eval()
    if stem == "MobileBert":
        theirs.embeddings.word_embeddings.weight.data[0] = 0  # the padding word: here it is no neighbour
    theirs.save_pretrained(tmp_path)
    text = texts(theirs.config)
    (ours,), (expected,) = our_outputs(patchword.load(tmp_path), text), their_outputs(theirs, text)
    assert difference(ours, expected) < 1e-5
