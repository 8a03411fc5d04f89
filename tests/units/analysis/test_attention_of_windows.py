"""Maps, rollout, relevance and distances of windowed models, against models whose attention is known beforehand."""

import math

import pytest
import torch
from torch import Tensor, nn

import patchword
from patchword.analysis.attention.distance import distances
from patchword.analysis.attention.geometry import Geometry, to_pixels, token_at
from patchword.analysis.attention.maps import Layer, attention_to_patches, layers, patches, propagated, readout_row
from patchword.analysis.attention.relevance import relevance
from patchword.analysis.attention.rollout import rollout, rollout_rows
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import Attention, AttentionMap, Full, Interlaced, Pattern, Windows, record_attention
from support.helpers import image_families, pixels, randomise, smallest

FAMILIES = [name for name in image_families() if name not in ("mixer", "resnet", "regnety")]


class Bright(nn.Module):
    """Attention over pixels that looks at bright ones only: queries are 1, keys are the brightness, times 30."""

    def __init__(self, *patterns: Pattern, blocks: int = 1) -> None:
        super().__init__()
        heads = len(patterns)
        self.blocks = nn.ModuleList(Attention(heads, heads, patterns=patterns) for _ in range(blocks))
        for attention in self.blocks:
            weight, bias = attention.projection.joint.weight.data, attention.projection.joint.bias.data
            weight.zero_()
            bias.zero_()
            bias[:heads] = 30
            weight[heads : 2 * heads] = torch.eye(heads)

    def forward(self, images: Tensor) -> Tensor:
        grid = Grid(images.shape[2], images.shape[3])
        tokens = images.flatten(2).transpose(1, 2).expand(-1, -1, self.blocks[0].output.in_features).contiguous()
        for attention in self.blocks:
            attention(tokens, Scope(grid=grid))
        return tokens


def with_square(side: int = 8) -> Tensor:
    """black, with one bright square of 2 x 2 at rows 1, 2 and columns 5, 6"""
    image = torch.zeros(1, 1, side, side)
    image[..., 1:3, 5:7] = 1
    return image


def asked_by(model: nn.Module, image: Tensor, row: int, column: int) -> Tensor:
    """(rows, columns) what the pixel looks at"""
    (layer,) = layers(model, image)
    asking = torch.zeros(1, 1, layer.grid.tokens)
    asking[..., token_at((row, column), layer.grid, layer.cell)] = 1
    return patches(layer.mean_attended_by(asking), layer.key_grid)[0, 0]


def test_a_window_with_the_square_looks_at_it_and_the_others_look_evenly() -> None:
    model, image = Bright(Pattern(Windows(4, 4))), with_square()
    expected = torch.zeros(8, 8)
    expected[1:3, 5:7] = 1 / 4
    assert torch.allclose(asked_by(model, image, 3, 4), expected, atol=1e-6)
    elsewhere = torch.zeros(8, 8)
    elsewhere[4:, :4] = 1 / 16
    assert torch.allclose(asked_by(model, image, 7, 0), elsewhere, atol=1e-6)


def test_a_shifted_window_looks_at_its_part_of_the_square_and_never_across_its_mask() -> None:
    model, image = Bright(Pattern(Windows(4, 4, shift=2))), with_square()
    # windows now begin at rows and columns 2 and 6; rows 0, 1 are a piece of their own, and so are columns 0, 1
    seen = asked_by(model, image, 0, 3)
    expected = torch.zeros(8, 8)
    expected[1, 5] = 1
    assert torch.allclose(seen, expected, atol=1e-6)
    assert torch.allclose(asked_by(model, image, 2, 7), expected.roll((1, 1), (0, 1)), atol=1e-6)  # row 2, column 6
    corner = torch.zeros(8, 8)
    corner[:2, :2] = 1 / 4
    assert torch.allclose(asked_by(model, image, 0, 0), corner, atol=1e-6)


@pytest.mark.parametrize(
    ("partition", "rows", "columns"),
    [(Windows(None, 2), range(1, 3), range(5, 6)), (Interlaced(4, None), range(1, 2), range(5, 7))],
    ids=["stripe", "pale"],
)
def test_stripes_and_pales_see_their_part_of_the_square(partition: object, rows: range, columns: range) -> None:
    """Columns 4 and 5 are one stripe; rows 1, 3, 5 and 7 are one pale."""
    seen = asked_by(Bright(Pattern(partition)), with_square(), 7, 4)
    expected = torch.zeros(8, 8)
    for row in rows:
        for column in columns:
            expected[row, column] = 1 / (len(rows) * len(columns))
    assert torch.allclose(seen, expected, atol=1e-6)


def test_the_mean_of_all_queries_is_brightest_on_the_square() -> None:
    image = with_square()
    (layer,) = layers(Bright(Pattern(Windows(4, 4)), Pattern()), image)
    seen = attention_to_patches(layer)[0]
    # the global head gives all to the square, the windowed one a quarter of the tokens; the rest is even
    assert torch.allclose(seen[1:3, 5:7], torch.full((2, 2), (1 / 4 + 1 / 16) / 2), atol=1e-6)
    assert torch.allclose(seen[4:], torch.full((4, 8), 1 / 64 / 2), atol=1e-6)


def test_rollout_of_windows_and_shifted_windows_reaches_the_square_from_next_door() -> None:
    image = with_square()
    plain, shifted = Bright(Pattern(Windows(4, 4))), Bright(Pattern(Windows(4, 4, shift=2)))
    found = [*layers(plain, image), *layers(shifted, image)]
    asking = torch.zeros(1, 1, 64)
    asking[..., 4 * 8 + 4] = 1  # the window below the square's; only the shift brings it there
    seen = patches(rollout_rows(found, Geometry(plain), asking), Grid(8, 8))[0, 0]
    # shifted: half stays, half goes to (2, 5), where the plain window goes on to the whole square
    assert seen[2, 5] == pytest.approx(0.5 * 0.5 + 0.5 * 0.5 / 4, abs=1e-5)
    assert seen[1, 6] == pytest.approx(0.5 * 0.5 / 4, abs=1e-5)
    alone = patches(rollout_rows(found[:1], Geometry(plain), asking), Grid(8, 8))[0, 0]
    assert float(alone[:4].sum()) == 0


@pytest.mark.parametrize("size", [(28, 28), (29, 31)])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_from_its_own_indices(family: str, size: tuple[int, int]) -> None:
    model = randomise(patchword.create(smallest(family))).eval()
    images = pixels(2, model.card.config["channels"], *size)
    with torch.no_grad():
        fused = model(images)
        with record_attention(model):
            recorded = model(images)
    assert torch.allclose(fused, recorded, atol=1e-5 * float(fused.abs().max()))
    geometry, found = Geometry(model), layers(model, images)
    for layer in found:
        readers = torch.rand(1, 3, layer.grid.tokens, generator=torch.Generator().manual_seed(3))
        by_matrix = torch.einsum("rq,bhqk->bhrk", readers[0], layer.dense())
        assert torch.allclose(layer.attended_by(readers), by_matrix, atol=1e-5)
        assert torch.allclose(layer.mean_attended_by(readers), by_matrix.mean(1), atol=1e-5)
        assert torch.allclose(layer.summed(), layer.dense().sum(0), atol=1e-6)
    last = [layer for layer in found if layer.stage == found[-1].stage]
    rows = rollout_rows(last, geometry, torch.eye(last[0].grid.tokens)[None])
    assert torch.allclose(rows.sum(-1), torch.ones(()), atol=1e-5)
    seen = rollout(model, images, geometry)
    assert seen.shape[1:] == (found[0].grid.height, found[0].grid.width)
    without_token = torch.tensor([layer.grid.prefix == 0 for layer in found]).all()
    assert torch.allclose(seen.sum((1, 2)), torch.ones(2), atol=1e-5) == bool(without_token)
    speaks = relevance(model, images, torch.tensor([1, 2]), geometry)
    assert speaks.shape == seen.shape
    assert float(speaks.min()) >= -1e-6
    assert float(speaks.max()) > 0
    assert not torch.equal(speaks[:1], relevance(model, images, torch.tensor([3, 2]), geometry)[:1])


def test_relevance_of_one_layer_by_hand() -> None:
    """The score of a class is a sum over weights that we choose: its gradient is known."""
    torch.manual_seed(0)
    model = patchword.create("vit-exercise", depth=1).eval()
    images = pixels(1, 1, 28, 28)
    (layer,) = layers(model, images)
    with patchword.layers.follow_attention(model) as calls:
        score = model(images)[0, 4]
    (gradient,) = torch.autograd.grad(score, calls[0].weights)
    by_hand = (gradient * calls[0].weights).clamp(min=0).mean(1)[0, 0, 1:].view(7, 7)
    assert torch.allclose(relevance(model, images, torch.tensor([4]))[0], by_hand.detach(), atol=1e-7)
    assert layer.heads == 4


# Distances


def even(partition: object, grid: Grid) -> Layer:
    """Attention that is even over all that meet."""
    groups = patchword.layers.members(partition, grid.tokens, grid)
    weights = torch.full((len(groups), 1, groups.shape[1], groups.shape[1]), 1 / groups.shape[1])
    return Layer("attention", (AttentionMap("attention", weights, partition, grid, grid),), (4.0, 4.0))


def test_the_mean_distance_of_even_attention_is_the_closed_form() -> None:
    n = 9  # of a row of n tokens, the mean of |i - j| is (n^2 - 1) / (3 n)
    far = distances(even(Full(), Grid(1, n)), Geometry(nn.Identity()))
    assert float(far) == pytest.approx(4 * (n * n - 1) / (3 * n))
    half = distances(even(Windows(1, 3), Grid(1, n)), Geometry(nn.Identity()))
    assert float(half) == pytest.approx(4 * (3 * 3 - 1) / (3 * 3))
    square = distances(even(Full(), Grid(2, 2)), Geometry(nn.Identity()))
    assert float(square) == pytest.approx(4 * (0 + 1 + 1 + math.sqrt(2)) / 4)


def test_leading_tokens_lie_nowhere() -> None:
    grid = Grid(1, 3, prefix=1)
    weights = torch.tensor([[0.0, 0.2, 0.3, 0.5], [0.9, 0.1, 0, 0], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]]).view(
        1, 1, 4, 4
    )
    layer = Layer("attention", (AttentionMap("attention", weights, Full(), grid, grid),), (2.0, 2.0))
    # the three patches look 0, 1 and 2 tokens away, of 2 pixels each
    assert float(distances(layer, Geometry(nn.Identity()))) == pytest.approx(2 * (0 + 1 + 2) / 3)


def test_pixels_have_the_value_of_their_patch_and_padding_is_cut_off() -> None:
    shown = to_pixels(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (3.0, 3.0), (4, 6))
    assert shown[:, 0].tolist() == [1, 1, 1, 3]
    assert shown[0].tolist() == [1, 1, 1, 2, 2, 2]
    assert token_at((3, 2), Grid(2, 2, prefix=1), (3.0, 3.0)) == 3


def test_reduced_keys_are_dealt_out_to_the_tokens_they_are_made_of() -> None:
    model = randomise(patchword.create("pvt-mini")).eval()
    (layer, *_), geometry = layers(model, pixels(1, 1, 28, 28)), Geometry(model)
    spread = geometry.keys(layer.name, layer.grid, layer.key_grid)
    assert spread is not None
    assert layer.key_grid != layer.grid
    one = torch.zeros(layer.key_grid.tokens)
    one[0] = 1
    reduction = layer.grid.height // layer.key_grid.height
    dealt = spread.back(one, layer.key_grid).view(layer.grid.height, layer.grid.width)
    assert torch.allclose(dealt[:reduction, :reduction], torch.full((reduction, reduction), 1 / reduction**2))
    assert float(dealt.sum()) == pytest.approx(1)


def test_padding_reads_nothing_and_gets_nothing() -> None:
    call = layers(Bright(Pattern(Windows(3, 3))), with_square())[0].calls[0]
    whole = propagated(call, call.weights, torch.eye(64)[None])
    assert whole.shape == (1, 1, 64, 64)
    assert torch.allclose(whole.sum(-1), torch.ones(1, 1, 64), atol=1e-6)
    assert float(readout_row(Grid(2, 2)).sum()) == 1
