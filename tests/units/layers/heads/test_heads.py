import torch
from torch import nn

import patchword
from patchword.core.card import Card
from patchword.core.grid import Grid
from patchword.layers import (
    Backbone,
    ClassHead,
    DistilledHead,
    Encoder,
    LearnedPositions,
    PatchEmbed,
    Prefix,
    Pyramid,
    Stage,
    first_token,
    mean_of_patches,
)
from support.helpers import difference, pixels, randomise, tiny

GRID = Grid(2, 3, prefix=2)


def test_pooling():
    tokens = pixels(4, 8, 16)
    assert torch.equal(first_token(tokens, GRID), tokens[:, 0])
    torch.testing.assert_close(mean_of_patches(tokens, GRID), tokens[:, 2:].sum(1) / 6)


def test_class_head_reads_the_pooled_tokens():
    tokens = pixels(4, 8, 16)
    head = randomise(ClassHead(16, 3))
    assert torch.equal(head(tokens, GRID), head.linear(tokens[:, 0]))
    pooled = randomise(ClassHead(16, 3, mean_of_patches))
    torch.testing.assert_close(pooled(tokens, GRID), pooled.linear(tokens[:, 2:].mean(1)))


def test_distilled_head_averages_its_two_scores_in_training_too():
    tokens, head = pixels(4, 8, 16), randomise(DistilledHead(16, 3))
    scores, distilled = head.pair(tokens, GRID)
    assert torch.equal(scores, tokens[:, 0] @ head.linear.weight.T + head.linear.bias)
    assert torch.equal(distilled, tokens[:, 1] @ head.distilled.weight.T + head.distilled.bias)
    for mode in (True, False):
        torch.testing.assert_close(head.train(mode)(tokens, GRID), (scores + distilled) / 2)


def test_a_model_is_its_head_on_its_normed_tokens():
    model, images = tiny("deit-tiny-distilled"), pixels(2, 3, 32, 32)
    tokens, grid = model.encode(images)
    assert grid == Grid(4, 4, prefix=2)
    assert tokens.shape == (2, 18, 32)
    assert torch.equal(model(images), model.head(tokens, grid))
    raw, _ = model.stages[0](images)
    assert torch.equal(tokens, model.norm(raw))
    assert torch.equal(model.backbone()(images)[0], grid.to_map(raw)[1])


def test_each_stage_of_a_pyramid_reads_the_map_of_the_one_before():
    first, second = tiny(), tiny(channels=32, patch=2, image=4, seed=3)
    pyramid = Pyramid([first.stages[0], second.stages[0]], nn.Identity(), second.head)
    images = pixels(2, 3, 32, 32)
    maps = Backbone(list(pyramid.stages))(images)
    assert [tuple(part.shape) for part in maps] == [(2, 32, 4, 4), (2, 32, 2, 2)]
    assert difference(maps[1], second.backbone()(maps[0])[0]) == 0
    tokens, grid = second.stages[0](maps[0])
    assert torch.equal(pyramid(images), second.head(tokens, grid))


def test_a_backbone_shares_the_models_weights_and_says_its_strides_and_widths():
    stages = [Stage(PatchEmbed(3, 8, 4), Encoder([])), Stage(PatchEmbed(8, 16, 2), Encoder([]))]
    model = randomise(Pyramid(stages, nn.LayerNorm(16), ClassHead(16, 5, mean_of_patches)))
    model.card = Card("two stages", {})
    backbone = model.backbone()
    assert (backbone.strides, backbone.widths, backbone.card) == ((4, 8), (8, 16), model.card)
    assert {name.split(".")[0] for name in backbone.state_dict()} == {"stages"}
    assert all(ours is theirs for ours, theirs in zip(backbone.parameters(), model.parameters(), strict=False))
    assert [tuple(part.shape) for part in backbone(pixels(2, 3, 24, 32))] == [(2, 8, 6, 8), (2, 16, 3, 4)]


def test_a_pyramid_scores_the_mean_of_its_last_normed_tokens():
    model, images = randomise(patchword.create("swin-mini")).eval(), pixels(2, 1, 20, 36)
    last = model.backbone()(images)[-1]
    assert model.encode(images)[1] == Grid(*last.shape[2:])
    expected = model.head.linear(model.norm(last.flatten(2).transpose(1, 2)).mean(1))
    assert difference(model(images), expected) < 1e-5


def test_a_stage_drops_tokens_and_positions_together():
    stage = Stage(
        PatchEmbed(3, 8, 4), Encoder([]), prefix=Prefix(1, 8), positions=LearnedPositions(8, Grid(2, 2, 1)), dropout=1.0
    )
    tokens, grid = randomise(stage)(pixels(1, 3, 8, 8))
    assert grid == Grid(2, 2, prefix=1)
    assert not tokens.any()
    assert stage.eval()(pixels(1, 3, 8, 8))[0].all()
