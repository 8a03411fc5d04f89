"""The learned position tables of models."""

import torch

import patchword
from patchword.analysis.positions import position_tables
from patchword.core.grid import Grid
from patchword.layers import RelativeTable
from support.helpers import randomise, tiny_text


def test_a_vit_has_a_vector_per_token():
    [found] = position_tables(patchword.load("zoo:vit-exercise"))
    assert (found.kind, found.grid, tuple(found.table.shape)) == ("patches", Grid(7, 7, prefix=1), (50, 64))


def test_a_text_model_starts_with_its_first_token():
    [found] = position_tables(tiny_text("bert-base"))
    assert (found.kind, found.grid) == ("text", None)
    model = tiny_text("roberta-base")
    [found] = position_tables(model)
    assert torch.equal(found.table, model.embedding.positions.weight[model.embedding.first :])
    assert model.embedding.first > 0


def test_relative_biases_are_indexed_by_query_minus_key():
    model = randomise(patchword.create("swin-mini", image=28, channels=1, classes=3))
    found = position_tables(model)
    modules = [module for module in model.modules() if isinstance(module, RelativeTable)]
    assert [one.kind for one in found] == ["relative"] * len(modules)
    grid, table = found[0].grid, found[0].table
    assert grid is not None
    empty = torch.zeros(1, table.shape[-1], grid.tokens, 1)
    bias = modules[0].bias(empty, empty, grid)
    query, key = (2, 1), (4, 3)
    expected = table[query[0] - key[0] + grid.height - 1, query[1] - key[1] + grid.width - 1]
    assert torch.equal(bias[:, query[0] * grid.width + query[1], key[0] * grid.width + key[1]], expected)


def test_models_without_a_table_have_none():
    assert position_tables(patchword.create("resnet-18")) == []
    assert position_tables(tiny_text("bert-base", position="sinusoidal")) == []
