"""Overlays, legends and sections of a segmentation report."""

import math

import numpy as np
import pytest
import torch
from PIL import Image

from patchword.models.segmentation import SEGMENTERS, create_segmenter
from patchword.objectives.metrics.segmentation.confusion import SegmentationScores
from patchword.reports.detection.colors import class_color
from patchword.reports.segmentation.cost import cost_section
from patchword.reports.segmentation.overlay import (
    colors_of,
    draw_labels,
    draw_panels,
    palette_image,
    with_legend,
)
from patchword.reports.segmentation.sections import (
    class_section,
    confusion_section,
    frequent_errors,
    percentage,
    worst_section,
)

LABELS = np.array([[0, 0, 1, 1], [0, 0, 1, 255]], np.uint8).repeat(10, 0).repeat(10, 1)
COLORS = ((255, 0, 0), (0, 255, 0))
CONFUSION = torch.tensor([[90, 10, 0], [30, 70, 0], [0, 0, 0]])


def test_an_overlay_has_the_colors_of_the_classes():
    image = Image.new("RGB", (40, 20), (100, 100, 100))
    drawn = np.asarray(draw_labels(image, LABELS, COLORS, smallest=40))
    assert drawn.shape == (20, 40, 3)
    assert drawn[5, 5].tolist() == [185, 45, 45]  # 55 % of the colour
    assert drawn[5, 25].tolist() == [45, 185, 45]
    assert drawn[15, 35].tolist() == [100, 100, 100], "a pixel without a label is not coloured"
    assert drawn[5, 19].tolist() == [115, 0, 0], "the line between two classes is darker"
    assert draw_labels(image, LABELS, COLORS).size == (640, 320)


def test_a_legend_lists_the_classes_that_occur():
    drawn = draw_labels(Image.new("RGB", (40, 20)), LABELS, COLORS, smallest=320)
    names = ("first", "second", "never there")
    both = with_legend(drawn, [LABELS], names, (*COLORS, (0, 0, 255)))
    assert both.width == drawn.width
    below = np.asarray(both)[drawn.height :].reshape(-1, 3).tolist()
    assert [255, 0, 0] in below
    assert [0, 255, 0] in below
    assert [0, 0, 255] not in below
    long = with_legend(drawn, [LABELS], ("a very long name of a class" * 2, "another long name" * 2), COLORS)
    assert long.height > both.height, "names that do not fit one line have two"


def test_panels_are_side_by_side():
    panel = Image.new("RGB", (100, 50), (9, 9, 9))
    found = draw_panels([("one", panel), ("two", panel)])
    assert found.width > 200
    assert found.height > 50


def test_a_palette_keeps_numbers_and_colors():
    image = palette_image(LABELS, COLORS)
    assert np.array_equal(np.asarray(image), LABELS)
    assert np.asarray(image.convert("RGB"))[0, 0].tolist() == [255, 0, 0]
    assert colors_of(2, COLORS) == COLORS
    assert colors_of(3, COLORS) == tuple(class_color(label) for label in range(3))


def test_the_table_of_classes_marks_the_lowest():
    html = class_section(SegmentationScores.of(CONFUSION), ("a", "<b>", "c"), colors_of(3))
    assert "&lt;b&gt; <span" in html
    assert html.count("lowest</span>") == 1
    tied = SegmentationScores.of(torch.eye(3).long())
    assert "lowest</span>" not in class_section(tied, ("a", "b", "c"), colors_of(3))
    assert "63.6" in html  # 70 / 110
    assert "\N{EN DASH}" in html
    assert percentage(math.nan) == "\N{EN DASH}"


def test_the_confusion_names_the_most_frequent_errors():
    found = frequent_errors(CONFUSION, ("a", "b", "c"))
    assert found[0] == "<b>b</b> was predicted as <b>a</b> in 30.0% of its pixels (15.00% of all)."
    assert len(found) == 2
    assert frequent_errors(torch.eye(2).long(), ("a", "b")) == ["Every pixel is correct."]
    assert "160 of 200 pixels" in confusion_section(CONFUSION, ("a", "b", "c"))


class Images:
    classes = ("a", "b")
    names = ("x/first.png", "x/second.png")

    def image(self, index):
        pixels = torch.full((3, 20, 40), 80, dtype=torch.uint8)
        labels = torch.from_numpy(LABELS)
        return pixels, labels, labels.clamp(max=1)


@pytest.mark.parametrize("right", [[5, 9], [10, 10]])
def test_the_worst_images_are_drawn_first(right):
    html = worst_section(Images(), torch.tensor(right), torch.tensor([10, 10]), COLORS)
    if right == [10, 10]:
        assert "every labelled pixel is correct" in html
    else:
        assert html.index("first.png") < html.index("second.png")
        assert "50.0% of the labelled pixels are correct" in html
        assert html.count("<img") == 2


@pytest.mark.parametrize("name", SEGMENTERS)
@pytest.mark.usefixtures("quick_meta")
def test_the_cost_of_every_segmenter_has_its_sum(name):
    with torch.device("meta"):
        segmenter = create_segmenter(name, backbone="resnet-18")
    assert f">{sum(one.numel() for one in segmenter.parameters()):,}<" in cost_section(segmenter.card)
