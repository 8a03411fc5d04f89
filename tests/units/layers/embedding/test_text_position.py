"""Sinusoids in their three layouts, and every positional scheme in the models of texts."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor

import patchword
from patchword.analysis.cost import count
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers import TEXT_POSITIONS, Cache, Sinusoids, TextPositionName
from patchword.layers.embedding.sinusoids import Layout
from patchword.models import REGISTRY
from patchword.objectives.generation.causal import CausalSteps
from patchword.weights import save
from support.helpers import TINY_TEXT, difference, one_row, randomise, texts, tiny_text
from support.sweeps import covering, sweep

LONGER = 40  # tokens; the tables of the tiny models have 24 rows


def by_formula(place: int, channel: int, width: int, layout: Layout) -> float:
    """One number of the table, as its authors write it."""
    if layout == "interleaved":
        angle = place / 10000 ** (2 * (channel // 2) / width)
        return math.cos(angle) if channel % 2 else math.sin(angle)
    pair = channel % (width // 2)
    exponent = 2 * pair / width if layout == "halves" else pair / (width // 2 - 1)
    angle = place / 10000**exponent
    return math.sin(angle) if channel < width // 2 else math.cos(angle)


def table(layout: Layout, width: int = 12, length: int = 50) -> Tensor:
    return torch.tensor([[by_formula(place, i, width, layout) for i in range(width)] for place in range(length)])


@pytest.mark.parametrize("layout", get_args(Layout))
def test_a_layout_equals_its_formula_and_no_other(layout):
    found = Sinusoids(12, layout)(torch.arange(50))
    for other in get_args(Layout):
        assert (difference(found, table(other)) < 1e-5) == (other == layout), other


def test_the_halves_are_the_interleaved_channels_in_another_order():
    places = torch.tensor([[0, 3], [700, 2]])
    ours, halves = Sinusoids(8)(places), Sinusoids(8, "halves")(places)
    assert ours.shape == (2, 2, 8)
    assert torch.equal(torch.cat([ours[..., 0::2], ours[..., 1::2]], -1), halves)


def test_the_last_frequency_of_tensor2tensor_is_a_ten_thousandth():
    assert Sinusoids(12, "t2t")(torch.tensor([10_000]))[0, 5] == pytest.approx(math.sin(1.0), abs=1e-4)
    assert Sinusoids(12, "halves")(torch.tensor([10_000]))[0, 5] != pytest.approx(math.sin(1.0), abs=1e-2)


def test_an_odd_width_has_no_pairs():
    with pytest.raises(UserError, match="even width"):
        Sinusoids(7)


def test_a_config_can_name_every_scheme_and_no_other():
    assert set(get_args(TextPositionName)) == set(TEXT_POSITIONS)
    with pytest.raises(UserError, match="position"):
        patchword.create("bert-tiny", position="nowhere")


FAMILIES = ["bert-tiny", "roberta-base", "albert-base", "distilbert-base", "mobilebert", "xlm-en", "gpt", "gpt2-small"]


PAIRS = [(name, scheme) for name in [*FAMILIES, "grover-base"] for scheme in TEXT_POSITIONS]


# By default BERT with every scheme, and every family with one; the other pairs are slow.
@pytest.mark.parametrize(("name", "scheme"), sweep(PAIRS, covering(PAIRS)))
def test_a_family_learns_with_every_scheme(name, scheme):
    model = randomise(patchword.create(name, **TINY_TEXT | {"head": "tokens"}, position=scheme)).train()
    model.encode(texts(9, 5)).square().mean().backward()
    learned = [key for key, value in model.named_parameters() if value.grad is not None and value.grad.any()]
    own = [key for key, _ in model.named_parameters() if key.startswith("embedding.positions.") or ".position." in key]
    assert bool(own) == (scheme in ("learned", "shaw", "fourier", "floater"))
    assert set(own) <= set(learned)
    assert count(model.card).parameters == sum(value.numel() for value in model.parameters())


@pytest.mark.parametrize("scheme", TEXT_POSITIONS)
@torch.no_grad()
def test_only_a_table_ends(scheme):
    model, text = tiny_text(position=scheme, head="tokens"), texts(LONGER)
    if scheme == "learned":
        with pytest.raises(UserError, match="longer than the model can read"):
            model(text)
    else:
        assert model(text).shape == (1, LONGER, 32)


@pytest.mark.parametrize("scheme", TEXT_POSITIONS)
@torch.no_grad()
def test_only_without_positions_the_order_cannot_be_told(scheme):
    model = tiny_text(position=scheme, head="pooled", pool="mean")
    ids = texts(12).ids
    changed = difference(model(ids[:, torch.randperm(12, generator=torch.Generator().manual_seed(1))]), model(ids))
    assert changed < 1e-5 if scheme == "none" else changed > 1e-3


@pytest.mark.parametrize("scheme", TEXT_POSITIONS)
@torch.no_grad()
def test_texts_in_a_row_and_texts_with_padding_are_read_alike(scheme):
    model, text = tiny_text(position=scheme, head="tokens"), texts(9, 5, 14)
    assert difference(model(one_row(text))[0], model(text)[text.mask]) < 1e-5


@pytest.mark.parametrize("scheme", TEXT_POSITIONS)
@torch.no_grad()
def test_a_text_read_word_by_word_is_the_same(scheme):
    model, ids = tiny_text("gpt", position=scheme), texts(10).ids
    cache, last = Cache(), []
    for place in range(10):
        text = Text(ids[:, place : place + 1], positions=torch.tensor([[place]]))
        last.append(model(text, cache))
    assert difference(torch.cat(last, 1), model(ids)) < 1e-4


@torch.no_grad()
def test_a_model_without_a_table_may_write_for_ever():
    steps = CausalSteps(tiny_text("gpt", position="sinusoidal"), [[3] * LONGER])
    assert steps.step().shape == (1, 61)
    assert int(steps.room) > 10**6
    with pytest.raises(UserError, match="at most 23 tokens"):
        CausalSteps(tiny_text("gpt"), [[3] * LONGER])


@pytest.mark.parametrize("name", [*FAMILIES, "grover-base", "bigbird-base"])
def test_a_table_is_the_default(name):
    config = REGISTRY.configure(name, {})
    assert config.position == "learned"
    assert patchword.create(name, **TINY_TEXT).embedding.positions.weight.shape[1] in (32, 128)


def test_other_libraries_have_no_name_for_another_scheme(tmp_path):
    with pytest.raises(UserError, match="position"):
        save(tiny_text(position="fourier"), tmp_path / "other", layout="huggingface")
    save(tiny_text(), tmp_path / "table", layout="huggingface")


@pytest.mark.parametrize("scheme", TEXT_POSITIONS)
@torch.no_grad()
def test_a_model_is_saved_and_loaded_with_its_scheme(scheme, tmp_path):
    model = tiny_text(position=scheme)
    save(model, tmp_path / "model")
    assert torch.equal(patchword.load(tmp_path / "model")(texts(8)), model(texts(8)))


def test_attention_in_blocks_refuses_vectors_of_pairs():
    with pytest.raises(UserError, match="block-sparse attention"):
        patchword.create("bigbird-base", **TINY_TEXT, position="shaw")
