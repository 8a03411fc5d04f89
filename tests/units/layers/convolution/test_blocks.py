import pytest
import torch
from torch import nn
from torch.nn import functional as F

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import ConditionalPosition, ConvNorm, ConvResidual, ConvStage, SqueezeExcite
from support.helpers import difference, pixels, randomise


@pytest.mark.parametrize(("kernel", "stride", "groups"), [(1, 1, 1), (3, 1, 1), (3, 2, 4), (7, 2, 1), (1, 2, 2)])
@pytest.mark.parametrize("size", [(6, 8), (5, 7), (1, 1)])
def test_a_convolution_and_its_norm(kernel, stride, groups, size):
    part, feature_map = randomise(ConvNorm(8, 12, kernel, stride, groups)).eval(), pixels(2, 8, *size)
    convolved = F.conv2d(feature_map, part.convolution.weight, None, stride, kernel // 2, groups=groups)
    norm = part.norm
    shape = (1, 12, 1, 1)
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    expected = (convolved - norm.running_mean.view(shape)) * scale.view(shape) + norm.bias.view(shape)
    assert difference(part(feature_map), expected) < 1e-5
    assert part(feature_map).shape[2:] == tuple(-(-side // stride) for side in size)
    assert part.convolution.bias is None  # the norm's own shift would take it away


def test_in_training_the_norm_is_the_batchs():
    part, feature_map = ConvNorm(8, 12, 3).train(), 5 + 3 * pixels(4, 8, 6, 6)
    answer = part(feature_map)
    torch.testing.assert_close(answer.mean((0, 2, 3)), torch.zeros(12), atol=1e-5, rtol=0)
    torch.testing.assert_close(answer.std((0, 2, 3)), torch.ones(12), atol=1e-2, rtol=0)


def test_squeeze_and_excite_scales_each_channel_by_all_means():
    part, feature_map = randomise(SqueezeExcite(8, 3)), pixels(2, 8, 5, 4)
    hidden = (feature_map.mean((2, 3)) @ part.squeeze.weight.flatten(1).T + part.squeeze.bias).clamp(min=0)
    factors = (hidden @ part.excite.weight.flatten(1).T + part.excite.bias).sigmoid()
    torch.testing.assert_close(part(feature_map), feature_map * factors[:, :, None, None])
    assert float((factors.max() - factors.min()).detach()) > 0.1


class Twice(nn.Module):
    def forward(self, feature_map):
        return 2 * feature_map


def test_a_residual_rectifies_the_sum():
    feature_map = pixels(2, 8, 5, 4)
    torch.testing.assert_close(ConvResidual(Twice())(feature_map), (3 * feature_map).clamp(min=0))
    shortcut = randomise(ConvNorm(8, 8, 1)).eval()
    expected = (2 * feature_map + shortcut(feature_map)).clamp(min=0)
    torch.testing.assert_close(ConvResidual(Twice(), shortcut)(feature_map), expected)


def test_a_residual_drops_the_branch_of_whole_images_and_never_the_shortcut():
    part, ones = ConvResidual(Twice(), drop_path=0.5), torch.ones(200, 2, 3, 3)
    answer = part(ones)
    assert set(answer.unique().tolist()) == {1.0, 5.0}
    assert torch.equal(answer.amax((1, 2, 3)), answer.amin((1, 2, 3)))
    assert torch.equal(part.eval()(ones), 3 * ones)


def test_a_stage_runs_its_blocks_over_the_map_and_answers_tokens():
    stem, blocks = ConvNorm(3, 8, 3, 2), [ConvResidual(ConvNorm(8, 8, 3)), ConvResidual(Twice())]
    stage, images = randomise(ConvStage(stem, blocks, 8, 2)).eval(), pixels(2, 3, 9, 12)
    tokens, grid = stage(images)
    feature_map = blocks[1](blocks[0](stem(images)))
    assert grid == Grid(5, 6)
    assert torch.equal(grid.to_map(tokens)[1], feature_map)
    assert (stage.stride, stage.width) == (2, 8)


@pytest.mark.parametrize("grid", [Grid(4, 5), Grid(3, 7, prefix=2)], ids=str)
def test_conditional_positions_are_a_depthwise_convolution_of_the_patches(grid):
    part, tokens = randomise(ConditionalPosition(8)), pixels(2, grid.tokens, 8)
    answer = part(tokens, Scope(grid=grid))
    feature_map = tokens[:, grid.prefix :].transpose(1, 2).reshape(2, 8, grid.height, grid.width)
    expected = F.conv2d(feature_map, part.convolution.weight, part.convolution.bias, padding=1, groups=8)
    assert not answer[:, : grid.prefix].any()
    assert difference(answer[:, grid.prefix :], expected.flatten(2).transpose(1, 2)) < 1e-5


def test_conditional_positions_tell_the_border_from_the_middle():
    """Equal tokens get unequal answers only where the convolution sees the zeros outside the map."""
    part = randomise(ConditionalPosition(8))
    answer = part(torch.ones(1, 25, 8), Scope(grid=Grid(5, 5))).view(5, 5, 8)
    middle = answer[1:4, 1:4].flatten(0, 1)
    assert torch.allclose(middle, middle[:1].expand(9, 8))
    assert difference(answer[0, 2], answer[2, 2]) > 1e-2
    assert difference(answer[0, 0], answer[0, 2]) > 1e-2
