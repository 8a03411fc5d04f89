"""The numbers of one token on its way through a text model: embedding, attention, feed-forward, residual stream.

All of them are tensors that the model itself computed, taken by hooks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers import (
    Attention,
    FeedForward,
    Full,
    LinearProjection,
    Pattern,
    Position,
    Projected,
    Residual,
    TextModel,
    follow_attention,
)
from patchword.models.numbering import index_of
from patchword.recipes.text.inference.reader import Reader


@dataclass(frozen=True)
class EmbeddingStep:
    """How the token enters the model. parts: word, position, segment and language vectors, whose sum is `total`.

    output: the input of the first block: `total` after the norm, if the embedding has one.
    """

    parts: tuple[tuple[str, Tensor], ...]
    total: Tensor
    output: Tensor


@dataclass(frozen=True)
class AttentionStep:
    """Attention of one layer for one token. norm: where the norm is, as a formula.

    before, after: the token in the residual stream, (width,). read: the input of the projection, (width,).
    query: (heads, head width). keys, values: (heads, tokens, head width).
    scores: query · key * scale, (heads, tokens); -inf where the token may not attend. weights: their softmax.
    sums: weights times values, (heads, head width). output: the output projection of all sums, (width,).
    """

    norm: str
    before: Tensor
    read: Tensor
    query: Tensor
    keys: Tensor
    values: Tensor
    scale: float
    scores: Tensor
    weights: Tensor
    sums: Tensor
    output: Tensor
    after: Tensor


@dataclass(frozen=True)
class FeedForwardStep:
    """The feed-forward of one layer for one token. hidden: after the activation. Others: as of AttentionStep."""

    norm: str
    activation: str
    before: Tensor
    read: Tensor
    hidden: Tensor
    output: Tensor
    after: Tensor


@dataclass(frozen=True)
class TokenWalk:
    """One token in one layer. layer: counted from 1. token: counted from 0, special tokens included.

    norms: the length of the token's vector in the residual stream: after the embedding, then after attention and
    after the feed-forward of each layer, (1 + 2 * depth,).
    """

    token: int
    layer: int
    embedding: EmbeddingStep
    attention: AttentionStep
    feed_forward: FeedForwardStep
    norms: Tensor


def token_walk(reader: Reader, text: str, token: int = 0, layer: int = 1) -> TokenWalk:
    """Follow one token of a text. layer: counted from 1, -1 is the last layer."""
    model, place = reader.model, index_of("layer", layer, reader.depth)
    _require_plain(model)
    ids, segments = reader.tokenizer.frame.around(reader.tokenizer.encode([text])[0].ids)
    if len(ids) > reader.max_length:
        raise UserError("the text is too long", expected=f"at most {reader.max_length} tokens", got=len(ids))
    if not 0 <= token < len(ids):
        raise UserError(f"there is no token {token}", expected=f"0 to {len(ids) - 1}", got=token)
    parts = [torch.as_tensor(part, dtype=torch.long, device=reader.form.device)[None] for part in (ids, segments)]
    with torch.no_grad(), follow_attention(model) as attended, _taken(model) as taken:
        model.encode(Text(parts[0], parts[1]))
    of_layer, attention = taken.layers[place], attended[place]
    allowed = attention.scores[0, :, token] > torch.finfo(attention.scores.dtype).min / 4
    scores = attention.scores[0, :, token].masked_fill(~allowed, float("-inf"))
    return TokenWalk(
        token,
        place + 1,
        _embedding(taken.embedding, token),
        _attention(of_layer, scores.cpu(), attention.weights[0, :, token].cpu(), token),
        _feed_forward(of_layer, token),
        torch.stack([_row(state, token).norm() for state in taken.stream()]),
    )


def _embedding(taken: dict[str, Tensor], token: int) -> EmbeddingStep:
    parts = tuple((name, _row(taken[name], token)) for name in _TABLES if name in taken)
    return EmbeddingStep(parts, _row(taken["total"], token), _row(taken["output"], token))


def _attention(taken: dict[str, Any], scores: Tensor, weights: Tensor, token: int) -> AttentionStep:
    residual: Residual = taken["attention"]
    attention, projected = cast(Attention, residual.sublayer), cast(Projected, taken["attention.projected"])
    heads = attention.core.heads
    query, key, value = (
        part[0].float().cpu().unflatten(-1, (heads, -1)).transpose(0, 1)
        for part in (projected.query, projected.key, projected.value)
    )
    return AttentionStep(
        residual.where.value,
        _row(taken["attention.before"], token),
        _row(taken["attention.read"], token),
        query[:, token],
        key,
        value,
        attention.core.scale,
        scores.float(),
        weights.float(),
        _row(taken["attention.sums"], token).unflatten(-1, (heads, -1)),
        _row(taken["attention.output"], token),
        _row(taken["attention.after"], token),
    )


def _feed_forward(taken: dict[str, Any], token: int) -> FeedForwardStep:
    residual: Residual = taken["feed_forward"]
    names = ("before", "read", "hidden", "output", "after")
    activation = type(cast(FeedForward, residual.sublayer).activation).__name__
    rows = (_row(taken[f"feed_forward.{name}"], token) for name in names)
    return FeedForwardStep(residual.where.value, activation, *rows)


def _row(values: Tensor, token: int) -> Tensor:
    """Return the vector of a token. values: (1, tokens, width), (tokens, width), or with one row for all tokens."""
    rows = values.flatten(0, -2)
    return rows[min(token, len(rows) - 1)].detach().float().cpu()


_TABLES = ("words", "positions", "segments", "languages")


@dataclass
class _Taken:
    """What the modules computed: in the embedding, and in each layer in the order of the calls."""

    embedding: dict[str, Tensor] = field(default_factory=dict)
    layers: list[dict[str, Any]] = field(default_factory=list)

    def stream(self) -> Iterator[Tensor]:
        """Yield the states of the residual stream."""
        yield self.embedding["output"]
        for layer in self.layers:
            yield layer["attention.after"]
            yield layer["feed_forward.after"]


@contextmanager
def _taken(model: TextModel) -> Iterator[_Taken]:
    """Yield what the modules compute inside, by hooks that are removed at the end."""
    taken = _Taken()
    hooks = [*_embedding_hooks(model, taken)]
    for block in model.encoder.blocks:
        hooks += _block_hooks(block, taken)
    try:
        yield taken
    finally:
        for hook in hooks:
            hook.remove()


def _embedding_hooks(model: TextModel, taken: _Taken) -> Iterator[Any]:
    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            if output.ndim:  # without a position encoding, positions are a single zero
                taken.embedding[name] = output

        return hook

    embedding = model.embedding
    for name in _TABLES:
        if isinstance(table := getattr(embedding, name), nn.Module):
            yield table.register_forward_hook(keep(name))
    yield embedding.norm.register_forward_pre_hook(lambda _, inputs: taken.embedding.update(total=inputs[0]))
    yield embedding.register_forward_hook(keep("output"))


def _block_hooks(block: nn.Module, taken: _Taken) -> Iterator[Any]:
    """A call of the block begins a layer: ALBERT calls one block in every layer."""

    def keep(name: str, reads_input: bool = False) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            taken.layers[-1][name] = inputs[0] if reads_input else output

        return hook

    yield block.register_forward_pre_hook(lambda _, inputs: taken.layers.append(dict(block.named_children())))
    for name, child in block.named_children():
        sublayer = cast(Residual, child).sublayer
        yield child.register_forward_hook(keep(f"{name}.before", reads_input=True))
        yield child.register_forward_hook(keep(f"{name}.after"))
        yield sublayer.register_forward_hook(keep(f"{name}.output"))
        if isinstance(sublayer, Attention):
            yield sublayer.projection.register_forward_hook(keep(f"{name}.read", reads_input=True))
            yield sublayer.projection.register_forward_hook(keep(f"{name}.projected"))
            yield sublayer.output.register_forward_hook(keep(f"{name}.sums", reads_input=True))
        elif isinstance(sublayer, FeedForward):
            yield sublayer.up.register_forward_hook(keep(f"{name}.read", reads_input=True))
            yield sublayer.down.register_forward_hook(keep(f"{name}.hidden", reads_input=True))


def _require_plain(model: TextModel) -> None:
    """Raise an error for a model whose layers are not attention over all tokens and a feed-forward."""
    if not all(_is_plain(dict(block.named_children())) for block in model.encoder.blocks):
        raise UserError(
            f"one token cannot be followed through {model.card.model!r}",
            expected="blocks of attention over all or all earlier tokens and a feed-forward, as in BERT and GPT",
        )


def _is_plain(parts: dict[str, nn.Module]) -> bool:
    if list(parts) != ["attention", "feed_forward"] or not all(isinstance(part, Residual) for part in parts.values()):
        return False
    attention, feed_forward = (cast(Residual, part).sublayer for part in parts.values())
    if (
        not isinstance(attention, Attention)
        or not isinstance(feed_forward, FeedForward)
        or len(attention.patterns) != 1
    ):
        return False
    pattern = cast(Pattern, attention.patterns[0])
    is_plain = type(pattern.position) is Position and isinstance(pattern.partition, Full)
    return is_plain and type(attention.projection) is LinearProjection
