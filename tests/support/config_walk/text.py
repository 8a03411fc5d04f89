"""The text families of transformers, tiny, and their outputs in the form of ours."""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

from patchword.core.text import Text
from support.helpers import randomise

_SIZES = {
    **{"vocab_size": 41, "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2},
    **{"intermediate_size": 17, "max_position_embeddings": 22},
}
_GPT = {"vocab_size": 41, "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 22}
_MOBILE = {"embedding_size": 5, "intra_bottleneck_size": 6, "num_feedforward_networks": 2}
_DISTIL = {"vocab_size": 41, "dim": 12, "n_heads": 3, "n_layers": 2, "hidden_dim": 17, "max_position_embeddings": 22}
_XLM = {"vocab_size": 41, "emb_dim": 12, "n_heads": 3, "n_layers": 2, "max_position_embeddings": 22}
_HEADS = {
    **{"encoder": "Model", "words": "ForMaskedLM", "classes": "ForSequenceClassification"},
    **{"tags": "ForTokenClassification", "span": "ForQuestionAnswering"},
}
_NEXT = {"next": "ForNextSentencePrediction"}
_PAIR = {"pretraining": "ForPreTraining"}
_CAUSAL = {"encoder": "Model", "words": "LMHeadModel", "classes": "ForSequenceClassification"}


@dataclass(frozen=True)
class TheirFamily:
    """A family of transformers.

    stem: of its class names. sizes: of a tiny model. heads: our name -> the end of their class name.
    """

    stem: str
    sizes: dict[str, Any]
    heads: dict[str, str]

    def config(self, **changed: Any) -> Any:
        """Return a config of the tiny sizes, with these fields changed."""
        options = {**self.sizes, "attn_implementation": "eager", **changed}
        return getattr(transformers, f"{self.stem}Config")(**options)

    def model(self, head: str, config: Any) -> Any:
        """Return a model with random weights, ready to evaluate."""
        model = randomise(getattr(transformers, self.stem + self.heads[head])(config)).eval()
        return _without_padding_word(model) if self.stem == "MobileBert" else model


FAMILIES = {
    family.stem: family
    for family in (
        TheirFamily("Bert", _SIZES, {**_HEADS, **_NEXT, **_PAIR}),
        TheirFamily("Roberta", _SIZES, _HEADS),
        TheirFamily("XLMRoberta", _SIZES, _HEADS),
        TheirFamily("Camembert", _SIZES, _HEADS),
        TheirFamily("Albert", {**_SIZES, "embedding_size": 8}, {**_HEADS, **_PAIR}),
        TheirFamily("DistilBert", _DISTIL, _HEADS),
        TheirFamily("MobileBert", {**_SIZES, **_MOBILE}, {**_HEADS, **_NEXT, **_PAIR}),
        TheirFamily("Ernie", _SIZES, {**_HEADS, **_NEXT, **_PAIR}),
        TheirFamily("BigBird", {**_SIZES, "block_size": 2, "num_random_blocks": 1}, {**_HEADS, **_PAIR}),
        TheirFamily("OpenAIGPT", _GPT, _CAUSAL),
        TheirFamily("GPT2", _GPT, {**_CAUSAL, "tags": "ForTokenClassification", "span": "ForQuestionAnswering"}),
        TheirFamily("XLM", _XLM, {**_HEADS, "words": "WithLMHeadModel", "span": "ForQuestionAnsweringSimple"}),
    )
}


def texts(config: Any) -> Text:
    """Return a padded batch of two texts with two segments, without the padding id among the words."""
    tokens = 17 if config.model_type == "big_bird" else 9
    ids = torch.randint(10, 41, (2, tokens), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, tokens, dtype=torch.bool)
    if config.pad_token_id is None:
        return Text(ids[:1], mask=mask[:1])
    mask[1, -3:] = False
    segments = (torch.arange(tokens) > 4).long().expand(2, -1)
    two = getattr(config, "type_vocab_size", 1) > 1
    return Text(ids.where(mask, config.pad_token_id), segments if two else None, mask)


@torch.no_grad()
def our_outputs(model: Any, text: Text) -> list[Tensor]:
    """Return the outputs of our model at the tokens of the texts, without the padding."""
    output = model(text)
    return [_tokens(part, text) for part in (output if isinstance(output, tuple) else (output,))]


@torch.no_grad()
def their_outputs(model: Any, text: Text) -> list[Tensor]:
    """Return the outputs of their model in the order of ours."""
    inputs = {"token_type_ids": text.segments} if text.segments is not None else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output = model(text.ids, attention_mask=text.mask.long(), return_dict=True, **inputs)
    found = dict(output)
    if "start_logits" in found:
        return [_tokens(torch.stack([found["start_logits"], found["end_logits"]], -1), text)]
    if "prediction_logits" in found:
        second = found.get("seq_relationship_logits", found.get("sop_logits"))
        return [_tokens(found["prediction_logits"], text), second]
    for name in ("logits", "pooler_output", "last_hidden_state"):
        if found.get(name) is not None:
            return [_tokens(found[name], text)]
    raise AssertionError(f"unknown outputs {', '.join(found)}")


def _tokens(output: Tensor, text: Text) -> Tensor:
    assert text.mask is not None
    return output[text.mask] if output.ndim == 3 else output


def _without_padding_word(model: Any) -> Any:
    """Make the padding word zero: transformers takes it for the neighbour of the last word, here there is none."""
    with torch.no_grad():
        model.get_input_embeddings().weight[model.config.pad_token_id] = 0
    return model
