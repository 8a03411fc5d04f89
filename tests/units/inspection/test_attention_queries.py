"""The maps of all queries are those that `look` computes for each."""

import pytest
import torch

import patchword
from patchword.analysis.attention.geometry import token_at
from patchword.analysis.attention.maps import NoAttentionError, layers
from patchword.inspection.attention import look
from patchword.inspection.attention_options import AttentionOptions
from patchword.inspection.attention_queries import query_maps


@pytest.mark.parametrize("name", ["deit-mini-distilled", "swin-mini", "pvt-mini", "cvt-mini"])
def test_each_query_has_the_maps_of_look(name):
    torch.manual_seed(0)
    model = patchword.create(name, classes=3).eval()
    pixels = torch.randint(0, 256, (model.card.config["channels"], 28, 28), dtype=torch.uint8)
    found = query_maps(model, pixels)
    grids = [layer.grid for layer in layers(model, torch.zeros(1, *pixels.shape))]
    for at in (None, (0, 0), (27, 13)):
        expected = look(model, pixels[None], AttentionOptions(at=at, relevance=""))
        for weights, layer, grid in zip(found.layers, expected.layers, grids, strict=True):
            query = 0 if at is None else token_at((at[1], at[0]), grid, layer.cell)
            row = weights.mean(1) if at is None and not grid.prefix else weights[:, query]
            assert torch.allclose(row[:, grid.prefix :].reshape(layer.maps.shape), layer.maps, atol=1e-6)
        last = 0 if at is None else token_at((at[1], at[0]), grids[-1], expected.layers[-1].cell)
        rollout = found.rollout.mean(0) if at is None and not grids[-1].prefix else found.rollout[last]
        assert torch.allclose(rollout, expected.rollout.float(), atol=1e-6)


def test_a_model_without_attention_is_an_error():
    model = patchword.create("resnet-mini", classes=3).eval()
    with pytest.raises(NoAttentionError, match="has no attention"):
        query_maps(model, torch.zeros(1, 28, 28, dtype=torch.uint8))
