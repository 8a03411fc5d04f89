"""Boxes, masks and labels on images of any size."""

import numpy as np
import pytest
from PIL import Image

from patchword.core.masks.run_lengths import RunLengths
from patchword.objectives.metrics.detection.errors import find_errors
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from patchword.reports.detection.beside import draw_beside
from patchword.reports.detection.colors import class_color, text_color
from patchword.reports.detection.drawing import DrawnObject, Style, draw_objects, drawing_scale
from patchword.reports.detection.label_places import Label, place_labels
from patchword.reports.detection.records import drawn_detections, drawn_predictions, drawn_truth

GREY = (100, 100, 100)


def plain(width: int = 700, height: int = 500) -> Image.Image:
    return Image.new("RGB", (width, height), GREY)


def test_a_box_has_the_colour_of_its_class_and_nothing_inside():
    drawn = draw_objects(plain(), [DrawnObject((100, 200, 300, 400), 3)])
    assert drawn.getpixel((100, 200)) == drawn.getpixel((299, 399)) == class_color(3)
    assert drawn.getpixel((300, 300)) == drawn.getpixel((200, 300)) == GREY


def test_the_given_image_is_not_changed():
    image = plain()
    draw_objects(image, [DrawnObject((100, 200, 300, 400), 3, "cat")])
    assert image.getcolors() == [(700 * 500, GREY)]


@pytest.mark.parametrize(
    ("size", "largest", "drawn"),
    [
        ((64, 48), None, (640, 480)),
        ((300, 100), None, (600, 200)),
        ((640, 640), None, (640, 640)),
        ((4000, 3000), None, (4000, 3000)),
        ((4000, 3000), 800, (800, 600)),
        ((3000, 1), 600, (600, 1)),
    ],
)
def test_small_images_are_enlarged_and_large_ones_shrunk_on_request(size, largest, drawn):
    objects = [DrawnObject((0, 0, 10, 10), 0, "cat")]
    assert draw_objects(Image.new("L", size), objects, largest=largest).size == drawn


def test_boxes_are_enlarged_with_the_image():
    assert drawing_scale((70, 50)) == 9
    drawn = draw_objects(plain(70, 50), [DrawnObject((10, 20, 30, 40), 1)])
    assert drawn.getpixel((90, 180)) == drawn.getpixel((269, 359)) == class_color(1)
    assert drawn.getpixel((89, 180)) == drawn.getpixel((270, 359)) == GREY


def test_lines_and_type_grow_with_the_image():
    small, large, crowded = Style.of((640, 480)), Style.of((4000, 3000)), Style.of((4000, 3000), 100)
    assert large.line > 4 * small.line
    assert large.type > 4 * small.type
    assert crowded.type < large.type


def test_masks_are_translucent():
    mask = np.zeros((500, 700), dtype=bool)
    mask[100:300, 100:300] = True
    drawn = draw_objects(plain(), [DrawnObject((100, 100, 300, 300), 2, mask=RunLengths.from_mask(mask))])
    inside = np.array(drawn.getpixel((200, 200)))
    assert (np.abs(inside - GREY) > 5).any()
    assert (np.abs(inside - class_color(2)) > 5).any()
    assert drawn.getpixel((400, 200)) == GREY


def test_an_empty_mask_and_a_box_outside_are_drawn_without_an_error():
    empty = RunLengths.from_mask(np.zeros((500, 700), dtype=bool))
    objects = [DrawnObject((-50, -50, 900, 900), 0, "cat", empty), DrawnObject((800, 800, 810, 810), 0, "dog")]
    assert draw_objects(plain(), objects).size == (700, 500)


def test_dashed_boxes_have_gaps():
    solid = draw_objects(plain(), [DrawnObject((100, 100, 600, 400), 4)])
    dashed = draw_objects(plain(), [DrawnObject((100, 100, 600, 400), 4, dashed=True)])
    lines = [[one.getpixel((x, 100)) == class_color(4) for x in range(100, 600)] for one in (solid, dashed)]
    assert all(lines[0])
    assert 0.5 < np.mean(lines[1]) < 0.9
    assert lines[1][0]
    assert lines[1][-1]


@pytest.mark.parametrize("seed", range(3))
def test_labels_are_never_outside_the_image(seed):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-20, 320, (30, 2, 2))
    boxes = [(*np.sort(one[:, 0])[:1], *np.sort(one[:, 1])[:1], one[:, 0].max(), one[:, 1].max()) for one in corners]
    labels = [Label("a class with a long name " * int(rng.integers(1, 4)), box, GREY) for box in boxes]
    for one in place_labels(labels, (300, 200), 14, 2):
        x1, y1, x2, y2 = one.area
        assert 0 <= x1 < x2 <= 300
        assert 0 <= y1 < y2 <= 200


def test_labels_do_not_cover_each_other_if_there_is_room():
    labels = [Label("cat 0.90", (100, 100, 200, 200), GREY)] * 4
    areas = [one.area for one in place_labels(labels, (700, 500), 20, 3)]
    for index, one in enumerate(areas):
        for other in areas[:index]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_a_label_that_is_too_wide_is_shortened():
    (one,) = place_labels([Label("x" * 300, (0, 0, 50, 50), GREY)], (200, 100), 16, 2)
    assert one.text.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert len(one.text) < 30


def test_colours_are_distinct_and_text_on_them_is_readable():
    assert len({class_color(label) for label in range(80)}) == 80
    assert text_color((255, 255, 0)) == (0, 0, 0)
    assert text_color((0, 0, 160)) == (255, 255, 255)


def found_and_true():
    truth = ImageObjects(
        np.array([[0, 0, 10, 10], [20, 0, 30, 10], [0, 20, 10, 30]]),
        np.array([0, 1, 1]),
        np.full(3, 100.0),
        np.zeros(3, dtype=bool),
    )
    boxes = np.array([[40, 40, 50, 50], [0, 0, 10, 10], [20, 0, 30, 10], [0, 0, 5, 5]])
    found = ImageDetections(boxes, np.array([0, 0, 0, 1]), np.array([0.4, 0.9, 0.8, 0.1]))
    return truth, found, find_errors([truth], [found], 2)


def test_labels_name_the_errors():
    truth, found, errors = found_and_true()
    names = ("cat", "dog")
    objects, predictions = drawn_truth(truth, errors, 0, names), drawn_predictions(found, errors, 0, names)
    assert [one.text for one in objects] == ["cat", "dog", "dog (missed)"]
    assert [one.dashed for one in objects] == [False, False, True]
    assert [one.text for one in predictions] == ["cat 0.90", "cat 0.80 (is dog)", "cat 0.40 (false)"]
    assert [one.dashed for one in predictions] == [False, True, True]
    assert [one.text for one in drawn_detections(found, names, 0.3)] == ["cat 0.90", "cat 0.80", "cat 0.40"]


def test_truth_is_beside_prediction():
    panels = [("truth", [DrawnObject((100, 200, 300, 400), 3)]), ("prediction", [])]
    whole = draw_beside(plain(), panels)
    left, right = (
        whole.crop((0, whole.height - 500, 700, whole.height)),
        whole.crop((whole.width - 700, whole.height - 500, whole.width, whole.height)),
    )
    assert left.getpixel((100, 200)) == class_color(3)
    assert right.getcolors() == [(700 * 500, GREY)]
