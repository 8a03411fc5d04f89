"""Where queries, keys and values come from, done once more by hand."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import (
    Attention,
    LinearProjection,
    Projected,
    ReducedProjection,
    SeparableProjection,
    record_attention,
)
from support.helpers import difference, pixels, randomise

WIDTH = 8
GRIDS = [Grid(4, 6), Grid(5, 7), Grid(1, 3), Grid(4, 6, prefix=1), Grid(5, 7, prefix=2)]


def as_map(tokens: Tensor, grid: Grid) -> Tensor:
    return tokens[:, grid.prefix :].transpose(1, 2).reshape(len(tokens), -1, grid.height, grid.width)


def as_tokens(feature_map: Tensor) -> Tensor:
    return feature_map.flatten(2).transpose(1, 2)


def test_a_joint_matrix_is_three_matrices():
    part, tokens, mask = randomise(LinearProjection(WIDTH)), pixels(2, 6, WIDTH), torch.ones(6, 6, dtype=torch.bool)
    projected = part(tokens, Scope(mask, grid=Grid(2, 3)))
    for index, answer in enumerate(projected[:3]):
        rows = slice(index * WIDTH, (index + 1) * WIDTH)
        torch.testing.assert_close(answer, tokens @ part.joint.weight[rows].T + part.joint.bias[rows])
    assert projected.mask is mask
    assert projected.key_grid == Grid(2, 3)
    assert LinearProjection(WIDTH, bias=False).joint.bias is None


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_patterns_share_the_channels_in_order(parts):
    query, key, value = (pixels(2, 6, WIDTH, seed=seed) for seed in (1, 2, 3))
    shares = Projected(query, key, value, None, Grid(2, 3)).split_heads(parts)
    assert len(shares) == parts
    for index, whole in enumerate((query, key, value)):
        assert torch.equal(torch.cat([share[index] for share in shares], -1), whole)
    assert all(share.key_grid == Grid(2, 3) for share in shares)


# PVT


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("reduction", [2, 4])
def test_reduced_keys_are_a_strided_convolution_a_norm_and_a_matrix(reduction, grid):
    part, tokens = randomise(ReducedProjection(WIDTH, reduction)), pixels(2, grid.tokens, WIDTH)
    projected = part(tokens, Scope(grid=grid))
    whole = F.pad(as_map(tokens, grid), (0, -grid.width % reduction, 0, -grid.height % reduction))
    reduced = F.conv2d(whole, part.reduce.weight, part.reduce.bias, stride=reduction)
    source = torch.cat([tokens[:, : grid.prefix], as_tokens(reduced)], 1)
    normed = F.layer_norm(source, (WIDTH,), part.norm.weight, part.norm.bias, 1e-5)
    both = normed @ part.joint.weight.T + part.joint.bias
    assert difference(projected.query, tokens @ part.query.weight.T + part.query.bias) < 1e-5
    assert difference(projected.key, both[..., :WIDTH]) < 1e-5
    assert difference(projected.value, both[..., WIDTH:]) < 1e-5
    assert projected.key_grid == Grid(-(-grid.height // reduction), -(-grid.width // reduction), grid.prefix)
    assert projected.key.shape[1] == projected.key_grid.tokens


def test_the_norm_of_reduced_keys_has_its_own_eps():
    part, tokens, scope = randomise(ReducedProjection(WIDTH, 2, eps=1.0)), pixels(1, 24, WIDTH), Scope(grid=Grid(4, 6))
    assert ReducedProjection(WIDTH, 2).norm.eps == 1e-5
    larger = part(tokens, scope).key
    part.norm.eps = 1e-5
    assert difference(part(tokens, scope).key, larger) > 1e-2


# CvT and Pale


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_separable_projections_convolve_the_map_and_let_the_prefix_pass(grid, stride):
    part, tokens = randomise(SeparableProjection(WIDTH, stride)).eval(), pixels(2, grid.tokens, WIDTH)
    projected = part(tokens, Scope(grid=grid))
    strides = {"query": 1, "key": stride, "value": stride}
    for name, answer in zip(strides, projected[:3], strict=True):
        own = getattr(part, name)
        weight, norm = own.depthwise.convolution.weight, own.depthwise.norm
        convolved = F.conv2d(as_map(tokens, grid), weight, None, strides[name], 1, groups=WIDTH)
        normed = F.batch_norm(convolved, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        joined = torch.cat([tokens[:, : grid.prefix], as_tokens(normed)], 1)
        assert difference(answer, joined @ own.linear.weight.T + own.linear.bias) < 1e-5, name
    assert projected.query.shape[1] == grid.tokens
    assert projected.key_grid == Grid(-(-grid.height // stride), -(-grid.width // stride), grid.prefix)
    assert projected.key.shape[1] == projected.value.shape[1] == projected.key_grid.tokens


def test_batch_norms_learn_the_three_separately():
    part = SeparableProjection(WIDTH, 2).train()
    torch.nn.init.ones_(part.key.depthwise.convolution.weight)
    part(pixels(4, 24, WIDTH) + 3, Scope(grid=Grid(4, 6)))
    means = [own.depthwise.norm.running_mean.clone() for own in (part.query, part.key, part.value)]
    assert all(mean.any() for mean in means)
    assert not torch.allclose(means[1], means[2])


@pytest.mark.parametrize("make", [lambda: ReducedProjection(WIDTH, 2), lambda: SeparableProjection(WIDTH, 2)])
@torch.no_grad()
def test_attention_over_fewer_keys_records_where_they_sit(make):
    grid = Grid(5, 6, prefix=1)
    attention = randomise(Attention(WIDTH, 2, projection=make())).eval()
    with record_attention(attention) as maps:
        attention(pixels(2, grid.tokens, WIDTH), Scope(grid=grid))
    assert (maps[0].grid, maps[0].key_grid) == (grid, Grid(3, 3, prefix=1))
    assert maps[0].dense().shape == (2, 2, grid.tokens, 10)
    torch.testing.assert_close(maps[0].dense().sum(-1), torch.ones(2, 2, grid.tokens))
