"""Fake quantisation: bit by bit what a plain rewriting of it computes, learned ranges kept with the weights."""

import copy

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load, save
from torch import Tensor, nn

import patchword
from patchword.core.text import Text
from patchword.layers import TextModel
from patchword.layers.quantize import (
    QuantisedEmbedding,
    QuantisedLinear,
    QuantisedTied,
    dequantise,
    is_quantised,
    quantise,
)
from support.helpers import texts, tiny_text, unequal_tensors


def by_hand(tensor: Tensor, threshold: float) -> Tensor:
    scale = torch.tensor(127.0) / threshold
    return torch.clamp(torch.round(tensor * scale), min=-127, max=127) / scale


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def matrix(start: int = 0, decay: float = 0.75) -> nn.Sequential:
    torch.manual_seed(3)
    return quantise(nn.Sequential(nn.Linear(5, 4)), start, decay).train()


def rows_by_hand(matrix: Tensor) -> Tensor:
    return torch.stack([by_hand(row, row.abs().max().item()) for row in matrix])


def test_a_matrix_in_training_is_what_the_formula_says_bit_by_bit():
    model, low = matrix(), 0.0
    linear = model[0]
    with torch.no_grad():
        linear.weight[1] *= 50  # one row far larger than the others, as trained models have
    weight = rows_by_hand(linear.weight)
    for step in range(4):
        tokens = (1 + step) * drawn(3, 5, seed=step)
        largest = tokens.abs().max().item()
        low = largest if step == 0 else (0.75 * torch.tensor(low) + 0.25 * torch.tensor(largest)).item()
        assert torch.equal(model(tokens), F.linear(by_hand(tokens, low), weight, linear.bias))
    before = copy.deepcopy(model.state_dict())
    tokens = 9 * drawn(3, 5, seed=9)  # evaluation uses what training has seen, and learns nothing
    assert torch.equal(model.eval()(tokens), F.linear(by_hand(tokens, low), weight, linear.bias))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("mutation", "value"),
    [("LARGEST", 128), ("LARGEST", 7)],
)
def test_another_number_of_levels_is_seen(monkeypatch, mutation, value):
    monkeypatch.setattr(f"patchword.layers.quantize.{mutation}", value)
    with pytest.raises(AssertionError):
        test_a_matrix_in_training_is_what_the_formula_says_bit_by_bit()


def test_gradients_pass_straight_through_also_where_values_are_cut_off():
    model = matrix()
    model(drawn(3, 5))
    tokens = (50 * drawn(3, 5, seed=1)).requires_grad_()  # far beyond the threshold
    model.eval()(tokens).sum().backward()
    linear = model[0]
    assert torch.equal(tokens.grad, torch.ones(3, 4) @ rows_by_hand(linear.weight))
    low = float(linear.quantised.input)
    assert torch.allclose(linear.weight.grad, torch.ones(4, 3) @ by_hand(tokens, low).detach())


def test_nothing_is_rounded_before_the_start():
    model = matrix(start=2)
    plain, tokens = copy.deepcopy(model), drawn(3, 5)
    dequantise(plain)
    for _ in range(2):
        assert torch.equal(model(tokens), plain(tokens))
        assert torch.equal(model.eval()(tokens), plain(tokens))
        assert float(model.train()[0].quantised.input) == 0
    assert not torch.equal(model(tokens), plain(tokens))
    assert float(model[0].quantised.input) == tokens.abs().max()


def test_one_large_row_costs_the_others_nothing(monkeypatch):
    """With one threshold for the whole matrix the small rows would all be rounded to nothing."""
    model, tokens = matrix(), drawn(3, 5)
    with torch.no_grad():
        model[0].weight[0] *= 1000
    exact = dequantise(copy.deepcopy(model))(tokens)
    assert (model(tokens) - exact)[:, 1:].abs().max() < 0.03
    monkeypatch.setattr("patchword.layers.quantize.row_thresholds", lambda weight: weight.detach().abs().max())
    assert (model(tokens) - exact)[:, 1:].abs().max() > 0.1


def test_tables_are_rounded_row_by_row():
    table = quantise(nn.Sequential(nn.Embedding(7, 3))).train()
    ids = torch.tensor([[1, 6], [0, 2]])
    rounded = rows_by_hand(table[0].weight)
    assert torch.equal(table(ids), rounded[ids])
    assert torch.equal(table.eval()(ids), rounded[ids])


@pytest.mark.parametrize("head", ["words", "classes"])
def test_every_matrix_and_table_of_a_text_model_is_quantised_and_can_be_restored(head):
    model = tiny_text(head=head, classes=3)
    plain, text = copy.deepcopy(model), texts(5, 9)
    names = dict(plain.named_parameters()).keys()
    quantise(model)
    assert is_quantised(model)
    assert dict(model.named_parameters()).keys() == names
    for module in model.modules():
        assert type(module) not in (nn.Linear, nn.Embedding)
    assert any(isinstance(module, QuantisedTied) for module in model.modules()) == (head == "words")
    assert torch.equal(model(text), plain(text))  # nothing was seen yet
    model.train()(text)
    rounded = model.eval()(text)
    assert not torch.equal(rounded, plain(text))
    assert not is_quantised(dequantise(model))
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert torch.equal(model(text), plain(text))


def test_segments_are_read_from_the_rounded_table_also_where_none_are_told():
    model = quantise(tiny_text()).train()
    model(texts(4, 6))
    model.eval()
    ids = texts(4, 6).ids
    assert torch.equal(model.embedding(Text(ids)), model.embedding(Text(ids, torch.zeros_like(ids))))


def test_what_was_learned_of_ranges_is_saved_with_the_weights():
    model, other = (quantise(tiny_text(seed=seed, dropout=0, attention_dropout=0)) for seed in (0, 1))
    for seed in range(3):
        model.train()(texts(5, 9, seed=seed))
    other.load_state_dict(load(save(model.state_dict())))
    assert torch.equal(model.eval()(texts(4, 7)), other.eval()(texts(4, 7)))
    model.train()(texts(6, 6, seed=5))
    other.train()(texts(6, 6, seed=5))
    assert unequal_tensors(model, other) == []


def test_a_rounded_model_stays_close_to_the_exact_one_and_learns():
    model: TextModel = tiny_text(head="classes", classes=2, dropout=0, attention_dropout=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.3)
    text, labels = texts(5, 9, 7, 4), torch.tensor([0, 1, 1, 0])
    exact = model(text)
    quantise(model, decay=0.9).train()
    model(text)
    assert 0 < (model.eval()(text) - exact).abs().max() < 0.05 * exact.abs().max()
    optimizer = torch.optim.Adam(model.train().parameters(), 1e-2)
    losses = []
    for _ in range(8):
        loss = F.cross_entropy(model(text), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_a_quantised_model_is_saved_for_us_as_it_is_and_for_others_as_float32(tmp_path):
    model = quantise(tiny_text(head="classes", classes=3)).train()
    model(texts(5, 9))
    model.eval()
    ours = patchword.load(patchword.save(model, tmp_path / "ours"))
    assert is_quantised(ours)
    assert torch.equal(ours(texts(4, 7)), model(texts(4, 7)))
    theirs = patchword.load(patchword.save(model, tmp_path / "theirs", layout="huggingface"))
    assert torch.equal(theirs(texts(4, 7)), dequantise(model)(texts(4, 7)))


def test_kinds_stay_what_they_were_for_those_who_ask():
    model = quantise(tiny_text())
    assert isinstance(model.encoder.blocks[0].attention.sublayer.output, nn.Linear)
    assert issubclass(QuantisedLinear, nn.Linear)
    assert issubclass(QuantisedEmbedding, nn.Embedding)


@torch.no_grad()
def test_answers_are_not_held_to_the_range_they_began_with():
    """Scores begin near zero; a range learned there would keep a model of numbers from ever answering 5."""
    model = quantise(tiny_text(head="classes", classes=1)).train()
    model.head.linear.weight.mul_(1e-3)
    model.head.linear.bias.zero_()
    model(texts(5, 9))
    model.head.linear.bias.fill_(5.0)
    assert (model.eval()(texts(5, 9)) - 5.0).abs().max() < 0.1
