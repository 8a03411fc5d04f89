"""Grover against a small reference written here from its description, and its names against those of its authors."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import patchword
from patchword.core.errors import UserError
from support.helpers import TINY_TEXT, assert_sharp, difference, one_row, swap_heads, texts, tiny_text

BATCH = texts(17, 9, 24, 2)
WIDTH, HEADS = TINY_TEXT["width"], TINY_TEXT["heads"]


def normed(x: Tensor, weights: dict[str, Tensor], name: str, eps: float = 1e-5) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    spread = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (spread + eps) ** 0.5 * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def mapped(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def attention(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    """One text (tokens, width), head by head and token by token."""
    query, key, value = mapped(x, weights, f"{name}.projection.joint").split(WIDTH, -1)
    size = WIDTH // HEADS
    rows = []
    for token in range(len(x)):
        heads = []
        for head in range(HEADS):
            place = slice(head * size, (head + 1) * size)
            scores = key[: token + 1, place] @ query[token, place] / size**0.5
            heads.append(scores.softmax(0) @ value[: token + 1, place])
        rows.append(torch.cat(heads))
    return mapped(torch.stack(rows), weights, f"{name}.output")


def reference(model, ids: Tensor) -> Tensor:
    """One text (tokens,) -> (tokens, vocabulary)"""
    weights = {name: parameter.detach().double() for name, parameter in model.named_parameters()}
    table = weights["embedding.words.weight"]
    x = normed(table[ids] + weights["embedding.positions.weight"][: len(ids)], weights, "embedding.norm")
    for number in range(TINY_TEXT["depth"]):
        block = f"encoder.blocks.{number}"
        x = x + attention(x, weights, f"{block}.attention.sublayer")
        feed = f"{block}.feed_forward.sublayer"
        inner = mapped(normed(x, weights, f"{feed}.norm"), weights, f"{feed}.up")
        inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
        x = normed(x + mapped(inner, weights, f"{feed}.down"), weights, f"{block}.feed_forward.norm")
    return x @ table.T


def expected(model) -> Tensor:
    """The words of all texts, one behind the other."""
    lengths = BATCH.mask.sum(1).tolist()
    return torch.cat([reference(model, ids[:length]) for ids, length in zip(BATCH.ids, lengths, strict=True)])


@pytest.fixture
def model():
    return tiny_text("grover-base")


@torch.no_grad()
def test_it_is_the_reference(model):
    assert_sharp(model, BATCH)
    words = expected(model)
    assert difference(model(BATCH)[BATCH.mask].double(), words) < 1e-5
    assert difference(model(one_row(BATCH))[0].double(), words) < 1e-5


def norm_before_attention(model) -> None:
    model.encoder.blocks[0].attention.norm = nn.LayerNorm(WIDTH)


def one_norm_less(model) -> None:
    model.encoder.blocks[1].feed_forward.sublayer.norm = nn.Identity()


def tanh_gelu(model) -> None:
    for block in model.encoder.blocks:
        block.feed_forward.sublayer.activation = nn.GELU(approximate="tanh")


def larger_eps(model) -> None:
    for norm in (part for part in model.modules() if isinstance(part, nn.LayerNorm)):
        norm.eps = 1e-2


def swapped(model) -> None:
    swap_heads(model, 1)


@pytest.mark.parametrize("mistake", [norm_before_attention, one_norm_less, tanh_gelu, larger_eps, swapped])
@torch.no_grad()
def test_a_mistake_is_found(model, mistake):
    words = expected(model)
    mistake(model)
    assert difference(model(BATCH)[BATCH.mask].double(), words) > 1e-5


def test_neither_embedding_nor_attention_drops_anything():
    model = patchword.create("grover-base", width=32, depth=2, heads=4, hidden=64, vocabulary=61)
    assert model.embedding.dropout.p == 0
    assert all(block.attention.sublayer.core.dropout == 0 for block in model.encoder.blocks)
    assert all(residual.dropout.p == 0.1 for block in model.encoder.blocks for residual in block.children())


# The authors' names


NAMES = {
    "newslm/embeddings/word_embed": (61, 32),
    "newslm/embeddings/pos_embed": (24, 32),
    "newslm/embeddings/LayerNorm_embed_norm/beta": (32,),
    "newslm/embeddings/LayerNorm_embed_norm/gamma": (32,),
} | {
    f"newslm/layer{block:02d}/{name}": shape
    for block in range(12)
    for name, shape in {
        **{f"{part}_layer/kernel": (32, 32) for part in ("query", "key", "value", "context_projection")},
        **{f"{part}_layer/bias": (32,) for part in ("query", "key", "value", "context_projection")},
        **{f"LayerNorm_mlp_ln{number}/{part}": (32,) for number in (0, 1) for part in ("gamma", "beta")},
        "intermediate/kernel": (32, 64),
        "intermediate/bias": (64,),
        "output/kernel": (64, 32),
        "output/bias": (32,),
    }.items()
}


@torch.no_grad()
def test_the_authors_names_go_both_ways(tmp_path):
    model = tiny_text("grover-base", depth=12)
    patchword.save(model, tmp_path, layout="authors")
    with np.load(tmp_path / "model.npz") as file:
        tensors = dict(file)
    assert {name: tensor.shape for name, tensor in tensors.items()} == NAMES
    query = tensors["newslm/layer11/query_layer/kernel"]
    joint = model.encoder.blocks[11].attention.sublayer.projection.joint.weight
    assert np.array_equal(query, joint[:32].T.numpy())
    assert np.array_equal(
        tensors["newslm/layer03/LayerNorm_mlp_ln1/gamma"], model.encoder.blocks[3].feed_forward.norm.weight
    )

    kept = {"global_step": np.array(9), "newslm/layer00/output/kernel/adafactor_vr": np.ones(64, np.float32)}
    np.savez(tmp_path / "grover.npz", **tensors, **kept)
    again = patchword.load(tmp_path / "grover.npz", heads=HEADS)
    assert again.card.config["head"] == "words"
    assert torch.equal(again(BATCH), model(BATCH))


def test_a_name_too_many_is_told_as_the_file_has_it(tmp_path):
    patchword.save(tiny_text("grover-base"), tmp_path, layout="authors")
    with np.load(tmp_path / "model.npz") as file:
        np.savez(tmp_path / "more.npz", **file, **{"newslm/layer00/extra/kernel": np.ones((2, 2), np.float32)})
    with pytest.raises(UserError) as caught:
        patchword.load(tmp_path / "more.npz", heads=HEADS)
    assert "unexpected  newslm/layer00/extra/kernel" in caught.value.hint
    with pytest.raises(UserError, match="authors has no model like 'grover-base'"):
        patchword.save(tiny_text("grover-base", head="tokens"), tmp_path, layout="authors")
