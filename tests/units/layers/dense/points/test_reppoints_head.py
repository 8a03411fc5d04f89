"""The head of RepPoints v2: the gradient through the points, and the start."""

import torch

from patchword.layers.dense.points.reppoints_head import RepPointsHead


def head(**changed):
    torch.manual_seed(0)
    return RepPointsHead(8, 3, depth=1, shared_depth=1, corner_width=4, groups=2, **changed)


def slope_of_first_points(share):
    """The gradient that the bias of the first points gets from the classes."""
    module = head(point_gradient=share)
    with torch.no_grad():
        module.first_output.bias.uniform_(-1.5, 1.5, generator=torch.Generator().manual_seed(1))
    maps = [torch.randn(1, 8, 5, 6, generator=torch.Generator().manual_seed(2))]
    (slope,) = torch.autograd.grad(module(maps).logits.square().sum(), module.first_output.bias)
    return slope


def test_a_tenth_of_the_gradient_flows_through_the_points():
    whole, tenth = slope_of_first_points(1.0), slope_of_first_points(0.1)
    assert whole.abs().max() > 0
    assert torch.allclose(tenth, whole / 10, rtol=1e-4)


def test_refined_points_start_at_the_first_points_without_their_gradient():
    module = head(point_gradient=0.0)
    output = module([torch.randn(1, 8, 4, 4)])
    (slope,) = torch.autograd.grad(output.refined.sum(), module.first_output.bias, allow_unused=True)
    assert slope is None or not slope.any()
    torch.nn.init.zeros_(module.refine_output.weight)
    output = module([torch.randn(1, 8, 4, 4)])
    assert torch.equal(output.refined, output.first)


def test_the_prior_of_classes_corners_and_semantic_map():
    module = head()
    for layer in (module.class_output, module.semantic_output, module.upper_left.score, module.lower_right.score):
        assert torch.allclose(layer.bias.sigmoid(), torch.tensor(0.01))
    assert not module.first_output.bias.any()


def test_outputs_are_in_full_precision_under_autocast():
    maps = [torch.randn(1, 8, 4, 5), torch.randn(1, 8, 2, 3)]
    with torch.autocast("cpu", torch.bfloat16):
        output = head()(maps)
    assert {part.dtype for part in output[:6]} == {torch.float32}
    assert output.logits.shape == (1, 26, 3)
    assert output.shapes == ((4, 5), (2, 3))
