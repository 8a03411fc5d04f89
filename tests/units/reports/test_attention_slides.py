"""Slides of attention: the image stays as it is, the query is marked on it and on every map, and nothing hides."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from patchword.core.errors import UserError
from patchword.inspection.attention import ImageAttention, LayerAttention
from patchword.inspection.attention_texts import TextAttention, TextLayerLook
from patchword.reports.attention.image_figures import figures_of
from patchword.reports.attention.query_mark import MARK
from patchword.reports.attention.text_figures import text_figures
from patchword.reports.attention.text_matrix import word_size
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


def test_the_mark_of_cls_leaves_room_for_the_titles():
    figure = figure_of(image_attention(from_token=True), "rollout")
    figure.canvas.draw()
    titles_end = min(text.get_window_extent().y0 for text in figure.texts)
    drawn_marks = [mark for axes in figure.axes for mark in marks(axes)]
    assert len(drawn_marks) == 2
    assert max(mark.get_window_extent().y1 for mark in drawn_marks) < titles_end


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


def text_attention(count=4, heads=(1, 2), layers=2):
    """A text of `count` tokens, the first and the last of which are special and get half of the attention."""
    weights = torch.full((len(heads), count, count), 0.5 / max(1, count - 2))
    weights[..., 0] = weights[..., -1] = 0.25
    found = tuple(TextLayerLook(number, heads, weights, torch.ones(len(heads))) for number in range(1, layers + 1))
    words = ("[CLS]", *("##ing" if place % 2 else f"word{place}" for place in range(count - 2)), "[SEP]")
    special = (True, *(False,) * (count - 2), True)
    return TextAttention("bert-mini", words, found, weights[0], None, "", words, special, "good (90%)")


def names(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("name", ["maps", "rollout"])
def test_both_axes_of_a_text_map_have_its_words(name):
    look = text_attention()
    with figure_style():
        figure = text_figures(look, [name])[name]
        axes = figure.axes[0]
        assert names(axes.xaxis) == names(axes.yaxis) == list(look.words)
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("key token", "query token")
        assert "Predicted: good (90%)" in titles(figure)
        with Image.open(io.BytesIO(drawn(figure, "png"))) as picture:
            assert (picture.size, picture.mode) == ((1920, 1080), "RGBA")


def test_special_tokens_are_hidden_on_request_and_rows_stay_as_they_are():
    look = text_attention()
    with figure_style():
        figure = text_figures(look, ["maps"], hide_special=True)["maps"]
    axes = figure.axes[0]
    assert names(axes.xaxis) == names(axes.yaxis) == list(look.words[1:-1])
    assert np.allclose(axes.images[0].get_array(), 0.25)  # not rescaled to 0.5
    assert "50% of the words' attention goes to them; rows are not rescaled" in titles(figure)
    with pytest.raises(UserError, match="nothing to draw"):
        text_attention(count=2).without_special()


def test_one_head_of_a_text_is_named_in_the_title():
    with figure_style():
        figures = text_figures(text_attention(heads=(3,), layers=1), ["maps"])
    assert titles(figures["maps"]).startswith("bert-mini, layer 1, head 3")
    assert set(figures) == {"maps", "heads"}


def test_a_head_has_its_colour_whatever_else_is_drawn():
    def colors(heads):
        with figure_style():
            figure = text_figures(text_attention(heads=heads, layers=1), ["maps"])["heads"]
        (legend,) = figure.legends
        return {line.get_label(): line.get_color() for line in legend.get_lines()}

    assert colors((2, 5))["head 5"] == colors((5,))["head 5"] != colors((2, 5))["head 2"]


def test_words_of_a_long_text_stay_legible():
    for count in (3, 12, 30, 60, 200, 510):
        size, every = word_size(count)
        assert 9 <= size <= 15
        assert 72 * 4.0 / count * every >= size  # the words that are written do not overlap
    with figure_style():
        axes = text_figures(text_attention(count=60), ["maps"])["maps"].axes[0]
    assert len(names(axes.xaxis)) == len(range(0, 60, word_size(60)[1])) < 60
    assert "60 tokens; every" in axes.get_xlabel()
