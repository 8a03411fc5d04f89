"""Tokens, attention and the walk of one token, as arrays with JSON beside them."""

from typing import Any

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.inspection.attention_options import AttentionOptions
from patchword.inspection.attention_texts import text_attention
from patchword.inspection.text_tokens import text_tokens
from patchword.inspection.token_walk import token_walk
from patchword.lab.words.questions import WalkRequest, bounded
from patchword.pipelines.interface import Pipeline
from patchword.pipelines.texts import TextEngine
from patchword.recipes.text.inference.reader import Reader

MOST_WEIGHTS = 4_000_000  # layers x heads x tokens x tokens of one answer

Arrays = dict[str, Tensor]


def reader_of(pipeline: Pipeline) -> Reader:
    """Return the model with its tokenizer."""
    if not isinstance(pipeline.engine, TextEngine):
        raise UserError(f"{pipeline.name} has no attention over the tokens of a text", expected="a model such as BERT")
    return pipeline.engine.reader


def attention_of(pipeline: Pipeline, text: str) -> tuple[dict[str, Any], Arrays]:
    """Return the tokens of a text, and the weights of each layer: (heads, tokens, tokens)."""
    reader = reader_of(pipeline)
    tokens = text_tokens(reader.tokenizer, bounded(text))
    heads = int(reader.model.card.config.get("heads", 1))
    weights = reader.depth * heads * len(tokens) ** 2
    if weights > MOST_WEIGHTS:
        most = int((MOST_WEIGHTS / (reader.depth * heads)) ** 0.5)
        expected = f"at most {most} tokens with this model in the lab"
        raise UserError("the text is too long to show its attention", expected=expected, got=len(tokens))
    found = text_attention(reader, text, "", AttentionOptions(rollout=False, relevance=""))
    about = {
        "model": found.model,
        "causal": reader.model.causal,
        "tokens": [token.to_json() for token in tokens],
        "layers": len(found.layers),
        "heads": len(found.layers[0].heads),
    }
    return about, {f"layer {layer.number}": layer.weights for layer in found.layers}


def walk_of(pipeline: Pipeline, asked: WalkRequest) -> tuple[dict[str, Any], Arrays]:
    """Return the numbers of one token in one layer; those of attention for all heads."""
    reader = reader_of(pipeline)
    tokens = text_tokens(reader.tokenizer, bounded(asked.text))
    walk = token_walk(reader, asked.text, asked.token, asked.layer)
    attention, feed_forward = walk.attention, walk.feed_forward
    about = {
        "model": reader.model.card.model,
        "causal": reader.model.causal,
        "tokens": [token.to_json() for token in tokens],
        "token": walk.token,
        "layer": walk.layer,
        "layers": reader.depth,
        "heads": len(attention.query),
        "scale": attention.scale,
        "norms": [attention.norm, feed_forward.norm],
        "activation": feed_forward.activation,
        "parts": [name for name, _ in walk.embedding.parts],
        "normed": not torch.equal(walk.embedding.total, walk.embedding.output),
    }
    arrays = {f"embedding {name}": part for name, part in walk.embedding.parts}
    arrays |= {"embedding total": walk.embedding.total, "embedding output": walk.embedding.output}
    for name in ("before", "read", "query", "keys", "values", "scores", "weights", "sums", "output", "after"):
        arrays[f"attention {name}"] = getattr(attention, name)
    for name in ("read", "hidden", "output", "after"):
        arrays[f"feed-forward {name}"] = getattr(feed_forward, name)
    # Rows of one tensor share memory, which safetensors refuses.
    return about, {name: array.clone() for name, array in (arrays | {"norms": walk.norms}).items()}
