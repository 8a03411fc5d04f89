"""Text families of transformers: random configs and heads; their weights here, and back again."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
import transformers
from torch import Tensor, nn

import patchword
from patchword.core.text import Text
from patchword.layers import reference_attention
from support.fuzz.case import SINGLE, Check, Outcome
from support.helpers import one_row, randomise

_SUFFIX = {
    "words": "ForMaskedLM",
    "classes": "ForSequenceClassification",
    "tags": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}
_BERT = {
    "vocabulary": "vocab_size",
    "length": "max_position_embeddings",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "activation": "hidden_act",
    "eps": "layer_norm_eps",
}
_DISTILBERT = {
    **{"vocabulary": "vocab_size", "length": "max_position_embeddings", "width": "dim", "depth": "n_layers"},
    **{"heads": "n_heads", "hidden": "hidden_dim", "activation": "activation"},
}
_GPT = {
    **{"vocabulary": "vocab_size", "length": "n_positions", "width": "n_embd", "depth": "n_layer", "heads": "n_head"},
    "eps": "layer_norm_epsilon",
}
_XLM = {
    **{"vocabulary": "vocab_size", "length": "max_position_embeddings", "width": "emb_dim", "depth": "n_layers"},
    **{"heads": "n_heads", "eps": "layer_norm_eps"},
}


@dataclass(frozen=True)
class Peer:
    """fields: our words for a size -> their fields. more: their fields -> the values to draw from."""

    stem: str
    fields: dict[str, str]
    more: dict[str, tuple[Any, ...]]
    heads: tuple[str, ...] = ("words", "classes", "tags", "span")
    words: str = "ForMaskedLM"
    segments: bool = False

    def kind(self, head: str) -> Any:
        return getattr(transformers, self.stem + (self.words if head == "words" else _SUFFIX[head]))


_SEGMENTS = {"type_vocab_size": (2, 3)}
_NO_ENDS = {"bos_token_id": (None,), "eos_token_id": (None,), "pad_token_id": (0, 3)}
_PADDING = {"pad_token_id": (0, 1, 5)}
PEERS = {
    "bert": Peer("Bert", _BERT, _SEGMENTS, segments=True),
    "ernie": Peer("Ernie", _BERT, _SEGMENTS, segments=True),
    "albert": Peer(
        "Albert",
        _BERT,
        {
            **_SEGMENTS,
            "embedding_size": (6, 11, 32),
            "num_hidden_groups": (1, 1, 1, 2),
            "inner_group_num": (1, 1, 1, 2),
        },
        segments=True,
    ),
    "roberta": Peer("Roberta", _BERT, _PADDING),
    "xlm-roberta": Peer("XLMRoberta", _BERT, _PADDING),
    "distilbert": Peer("DistilBert", _DISTILBERT, {"sinusoidal_pos_embds": (False, False, True)}),
    "mobilebert": Peer(
        "MobileBert",
        {name: field for name, field in _BERT.items() if name not in ("activation", "eps")},
        {"intra_bottleneck_size": (12, 24), "embedding_size": (1, 2), "num_feedforward_networks": (1, 2, 4)},
        segments=True,
    ),
    "bigbird": Peer("BigBird", _BERT, {**_SEGMENTS, "block_size": (2, 4), "num_random_blocks": (1, 2)}, segments=True),
    "gpt": Peer("OpenAIGPT", _GPT, {**_NO_ENDS, "afn": ("gelu", "relu")}, ("words", "classes"), "LMHeadModel"),
    "gpt2": Peer(
        "GPT2",
        _GPT,
        {
            **_NO_ENDS,
            "n_inner": (None, 17, 48),
            "activation_function": ("gelu_new", "gelu", "relu"),
            "scale_attn_by_inverse_layer_idx": (False, False, False, True),
        },
        words="LMHeadModel",
    ),
    "xlm": Peer("XLM", _XLM, {"gelu_activation": (True, True, False)}, ("words", "tags"), "WithLMHeadModel"),
}


def check(peer: Peer, draw: random.Random, outcome: Outcome) -> None:
    """transformers against ours; ours packed, with the formula of attention, in float32; saved for transformers."""
    head, config = draw.choice(peer.heads), _config(peer, draw)
    sparse = "block_size" in config
    labels = {"num_labels": draw.randint(1, 5)} if head in ("classes", "tags") else {}
    outcome.config |= {"head": head, **config, **labels}
    kind = peer.kind(head)
    theirs = randomise(kind(kind.config_class(**config, **labels)), draw.randint(0, 999)).eval().double()
    padding = theirs.config.pad_token_id or 0
    if peer.stem == "MobileBert":  # a text's last vector depends on the padding after it if its embedding is not zero
        theirs.get_input_embeddings().weight[padding] = 0
    longest = config[peer.fields["length"]] - padding - 1
    if sparse:  # transformers pads to whole blocks, which must have positions
        longest -= longest % config["block_size"]
    text = _texts(draw, theirs.config.vocab_size, longest, padding)
    if not peer.segments:
        text = text._replace(segments=None)
    outcome.config["lengths"] = text.mask.sum(1).tolist()
    with TemporaryDirectory() as folder:
        theirs.float().save_pretrained(folder)
        ours = patchword.load(folder, **({"random": "huggingface"} if sparse else {}))
        expected = _answer(theirs.double(), text)
        _ours(ours, text, expected, outcome)
        again = kind.from_pretrained(patchword.save(ours.float(), Path(folder) / "back", layout="huggingface"))
        outcome.compare(
            "saved for transformers", _real(_answer(again.eval().double(), text), text), _real(expected, text)
        )


def _ours(model: nn.Module, text: Text, expected: Tensor, outcome: Outcome) -> None:
    single = model(text)
    model.double()
    found = _real(model(text), text)
    outcome.compare("loaded from transformers", found, _real(expected, text))
    outcome.compare("float32", _real(single, text), found, SINGLE)
    with reference_attention(model):
        outcome.compare("reference attention", _real(model(text), text), found)
    row = model(one_row(text))
    outcome.compare("packed", row[0] if expected.ndim == 3 else row, found)


def _config(peer: Peer, draw: random.Random) -> dict[str, Any]:
    heads = draw.choice((1, 2, 3, 4))
    sizes = {
        "vocabulary": draw.randint(12, 90),
        "length": draw.randint(20, 70),
        "width": heads * draw.choice((2, 4, 6, 8)),
        "depth": draw.randint(1, 3),
        "heads": heads,
        "hidden": draw.randint(5, 70),
        "activation": draw.choice(("gelu", "gelu_new", "relu") if peer.stem != "DistilBert" else ("gelu", "relu")),
        "eps": draw.choice((1e-12, 1e-5, 1e-3)),
    }
    drawn = {field: sizes[name] for name, field in peer.fields.items()}
    return drawn | {field: draw.choice(values) for field, values in sorted(peer.more.items())}


def _texts(draw: random.Random, vocabulary: int, longest: int, padding: int) -> Text:
    """One to four texts, of one token at least; the padding is on the right, and no token of a text has its id."""
    lengths = [draw.randint(1, longest) for _ in range(draw.randint(1, 4))]
    place, count = torch.arange(max(lengths)), torch.tensor(lengths)[:, None]
    ids = torch.randint(0, vocabulary - 1, (len(lengths), max(lengths)))
    mask = place < count
    return Text((ids + (ids >= padding)).where(mask, padding), ((place >= count // 2) & mask).long(), mask)


def _answer(model: Any, text: Text) -> Tensor:
    inputs = {} if text.segments is None else {"token_type_ids": text.segments}
    if isinstance(model, transformers.BigBirdForQuestionAnswering):
        # It takes the tokens up to the first `sep_token_id` (66) for a question and lowers their logits by a million.
        inputs["question_lengths"] = torch.zeros(len(text.ids), 1)
    with _float64():
        found = model(text.ids, attention_mask=text.mask.long(), **inputs)
    if hasattr(found, "logits"):
        return found.logits
    return torch.stack([found.start_logits, found.end_logits], -1)


@contextmanager
def _float64() -> Iterator[None]:
    """Keep float64 where transformers casts to float32 whatever the model's dtype: XLM, before its softmax."""
    single = Tensor.float
    with patch.object(Tensor, "float", lambda values: values if values.dtype == torch.float64 else single(values)):
        yield


def _real(found: Tensor, text: Text) -> Tensor:
    return found[:, : text.ids.shape[1]][text.mask] if found.ndim == 3 else found


CHECKS: dict[str, Check] = {name: partial(check, peer) for name, peer in PEERS.items()}
