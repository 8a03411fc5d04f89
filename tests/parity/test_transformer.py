"""The Transformer against torch's own nn.Transformer with the same weights, random and large, with padding."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from patchword.core.text import Pair
from patchword.layers import Attention, Block, Causal, EncoderDecoder, Full, Norm, Pattern
from support.helpers import assert_sharp, difference, pairs, tiny_pair

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

SIZES = {"dropout": 0.0}
BATCH = pairs((17, 9, 24, 2), (5, 20, 11, 24))


@pytest.fixture(params=["post", "pre"])
def model(request):
    return tiny_pair(norm=request.param, **SIZES)


def their_own(model: EncoderDecoder) -> nn.Transformer:
    """With our weights. Theirs has norms behind the last blocks in any case, the paper has not."""
    config = model.card.config
    theirs = nn.Transformer(
        config["width"], config["heads"], config["depth"], config["depth"], config["hidden"],
        dropout=0.0, batch_first=True, norm_first=config["norm"] == "pre",
    )  # fmt: skip
    with torch.no_grad():
        for ours, block in zip(model.encoder.blocks, theirs.encoder.layers, strict=True):
            _copy_attention(block.self_attn, ours.attention.sublayer)
            _copy_rest(block, ours, ("attention", "feed_forward"))
        for ours, block in zip(model.decoder.blocks, theirs.decoder.layers, strict=True):
            _copy_attention(block.self_attn, ours.attention.sublayer)
            _copy_attention(block.multihead_attn, ours.memory.sublayer)
            _copy_rest(block, ours, ("attention", "memory", "feed_forward"))
    for side in ("encoder", "decoder"):
        norm = model.get_submodule(f"{side}_norm")
        if isinstance(norm, nn.Identity):
            getattr(theirs, side).norm = None
        else:
            getattr(theirs, side).norm.load_state_dict(norm.state_dict())
    return theirs.eval()


def _copy_attention(theirs: nn.MultiheadAttention, ours: Attention) -> None:
    parts = list(ours.projection.children())  # queries, keys and values in one; or queries, and keys with values
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def _copy_rest(theirs: nn.Module, ours: Block, residuals: tuple[str, ...]) -> None:
    theirs.linear1.load_state_dict(ours.feed_forward.sublayer.up.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.sublayer.down.state_dict())
    for number, name in enumerate(residuals, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(ours.get_submodule(name).norm.state_dict())


def embedded(table: Tensor, ids: Tensor) -> Tensor:
    """words times the root of the width, plus the sinusoids, number by number"""
    width = table.shape[1]
    wave = [
        [(math.cos if i % 2 else math.sin)(place / 10_000 ** ((i - i % 2) / width)) for i in range(width)]
        for place in range(ids.shape[1])
    ]
    return table[ids] * math.sqrt(width) + torch.tensor(wave)


def their_scores(theirs: nn.Transformer, model: EncoderDecoder, pair: Pair) -> Tensor:
    """of the real tokens of the targets"""
    read = embedded(model.source.words.weight, pair.source.ids)
    written = embedded(model.writing.words.weight, pair.target.ids)
    padding = None if pair.source.mask is None else ~pair.source.mask
    tokens = theirs(
        read,
        written,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(written.shape[1]).isinf(),
        src_key_padding_mask=padding,
        tgt_key_padding_mask=None if pair.target.mask is None else ~pair.target.mask,
        memory_key_padding_mask=padding,
    )
    return real(tokens @ model.writing.words.weight.T, pair)


def real(scores: Tensor, pair: Pair) -> Tensor:
    return scores.flatten(0, 1) if pair.target.mask is None else scores[pair.target.mask]


def test_scores_are_those_of_torch(model):
    assert_sharp(model, BATCH)
    expected = their_scores(their_own(model), model, BATCH)
    assert difference(real(model(BATCH), BATCH), expected) < 1e-5


def test_without_padding_and_with_one_vocabulary(model):
    shared = tiny_pair(norm=model.card.config["norm"], target_vocabulary=0, **SIZES)
    pair = Pair(BATCH.source._replace(mask=None), BATCH.target._replace(mask=None))
    assert shared.target is None
    assert difference(real(shared(pair), pair), their_scores(their_own(shared), shared, pair)) < 1e-5


@pytest.mark.parametrize("name", ["shared", "separate"])
def test_gradients_are_those_of_torch(name):
    model = tiny_pair(norm="pre", target_vocabulary=47 if name == "separate" else 0, **SIZES)
    theirs = their_own(model)
    table = model.writing.words.weight
    weights = torch.randn(60, len(table), generator=torch.Generator().manual_seed(3))
    grads = []
    for scores in (real(model(BATCH), BATCH), their_scores(theirs, model, BATCH)):
        model.zero_grad()
        (scores * weights).mean().backward()
        grads.append(table.grad.clone())
    assert difference(*grads) < 1e-5


# Mutations that must be found


def swap_heads(model: EncoderDecoder) -> None:
    weight = model.decoder.blocks[0].memory.sublayer.output.weight
    with torch.no_grad():
        heads = weight.view(len(weight), 4, -1)
        heads[:, [0, 1]] = heads[:, [1, 0]]


def exchange_keys_and_values(model: EncoderDecoder) -> None:
    joint = model.decoder.blocks[1].memory.sublayer.projection.joint
    with torch.no_grad():
        joint.weight.copy_(joint.weight.roll(len(joint.weight) // 2, 0))


def look_ahead(model: EncoderDecoder) -> None:
    for module in model.modules():
        if isinstance(module, Pattern) and isinstance(module.partition, Causal):
            module.partition = Full()


def move_the_norms(model: EncoderDecoder) -> None:
    for block in model.decoder.blocks:
        block.memory.where = Norm.PRE if block.memory.where is Norm.POST else Norm.POST


def forget_the_root(model: EncoderDecoder) -> None:
    model.source.scale = 1.0


def read_padding(model: EncoderDecoder) -> None:
    encode = model.encode
    model.encode = lambda source: encode(source)._replace(mask=None)


@pytest.mark.parametrize(
    "mutate",
    [swap_heads, exchange_keys_and_values, look_ahead, move_the_norms, forget_the_root, read_padding],
    ids=lambda mutate: mutate.__name__,
)
def test_a_mistake_would_show(model, mutate: Callable[[EncoderDecoder], None]):
    expected = their_scores(their_own(model), model, BATCH)
    mutate(model)
    assert difference(real(model(BATCH), BATCH), expected) > 1e-3
