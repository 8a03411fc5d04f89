"""Slides of attention: the image stays as it is, the query is marked on it and on every map, and nothing hides."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from patchword.inspection.attention import ImageAttention, LayerAttention
from patchword.reports.attention.image_figures import figures_of
from patchword.reports.attention.query_mark import MARK
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.shading import light_grey, scale, shaded


def image_attention(heads=2, layers=2, at=None, from_token=True):
    maps = torch.rand(heads, 2, 2)
    found = [
        LayerAttention(number, 1, tuple(range(1, heads + 1)), maps, torch.ones(heads), (4.0, 4.0), None, from_token)
        for number in range(1, layers + 1)
    ]
    pixels = torch.arange(64, dtype=torch.uint8).view(1, 8, 8) // 8  # dark: no pixel above 7
    return ImageAttention(
        "vit-mini", pixels, 1, "[CLS]", tuple(found), (4.0, 4.0), maps[0], maps[-1], "shoe", at, "shoe (98%)"
    )


def figure_of(look, name="maps"):
    with figure_style():
        return figures_of(look, [name])[name]


def marks(axes):
    return [patch for patch in axes.patches if patch.get_label() == MARK]


def titles(figure):
    return " ".join(text.get_text() for text in figure.texts)


@pytest.mark.parametrize("name", ["maps", "rollout", "relevance"])
def test_a_slide_has_16_to_9_and_true_colours(name):
    figure = figure_of(image_attention(), name)
    with figure_style(), Image.open(io.BytesIO(drawn(figure, "png"))) as picture:
        assert picture.size == (1920, 1080)
        assert picture.mode in ("RGB", "RGBA")
    assert "Predicted: shoe (98%)" in titles(figure)


@pytest.mark.parametrize(("at", "from_token"), [((5, 1), False), (None, True), (None, False)])
def test_the_query_is_marked_on_the_image_and_on_every_map(at, from_token):
    image, page, _ = figure_of(image_attention(at=at, from_token=from_token)).axes
    assert len(marks(image)) == 1
    assert len(marks(page)) == 2 * (2 + 1)  # two layers of two heads and their mean
    (mark,) = marks(image)
    place = (mark.get_x(), mark.get_y(), mark.get_width(), mark.get_height())
    expected = {(5, 1): (3.5, -0.5, 4, 4), None: (-0.5, -0.5, 8, 8)}[at]
    if from_token:
        assert mark.get_y() + mark.get_height() < -0.5  # above the image, in which [CLS] has no place
    else:
        assert place == expected


def test_one_head_names_model_layer_head_and_prediction():
    figure = figure_of(image_attention(heads=1, layers=1, at=(0, 7)))
    assert titles(figure).startswith("vit-mini, layer 1, head 1: attention from")
    image, shown, _ = figure.axes
    assert len(marks(image)) == len(marks(shown)) == 1
    assert np.array_equal(image.images[0].get_array()[..., 0], image_attention().pixels[0])  # untouched


def test_a_dark_image_stays_visible_below_the_colours():
    grey = light_grey(torch.arange(64, dtype=torch.uint8).view(1, 8, 8) // 8)
    assert grey.min() >= 0.6
    assert np.ptp(grey) > 0.25  # full contrast, although the image has 8 of 256 levels
    assert np.allclose(shaded(grey, np.zeros((8, 8))), grey[..., None])  # no weight: no colour
    weak = shaded(grey, np.full((8, 8), 0.1))
    assert np.ptp(weak[..., 0]) > 0.15


def test_more_weight_is_darker_over_any_image():
    values = np.linspace(0.2, 1, 20)
    for grey in (0.7, 0.85, 1.0):
        luminance = shaded(np.full(20, grey), values) @ np.array([0.2126, 0.7152, 0.0722])
        assert (np.diff(luminance) < 0).all()
    assert len(scale().colors) == 256


def test_an_image_of_one_grey_is_not_stretched():
    assert np.allclose(light_grey(torch.full((3, 4, 4), 255, dtype=torch.uint8)), 1.0)
