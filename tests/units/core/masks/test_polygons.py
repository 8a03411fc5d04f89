"""Polygons are filled as pycocotools fills them, to the last pixel."""

import numpy as np
import pytest
from pycocotools import mask as coco

from patchword.core.errors import UserError
from patchword.core.masks.polygons import fill_polygons

HEIGHT, WIDTH = 37, 53
SHAPES = ("inside", "outside", "tiny", "crossing", "integers", "halves", "repeated", "far", "thin")


def polygon(rng: np.random.Generator, shape: str) -> list[float]:
    corners = int(rng.integers(3, 12))
    size = np.array([WIDTH, HEIGHT])
    angle = np.sort(rng.random(corners)) * 2 * np.pi
    ring = np.stack((np.cos(angle), np.sin(angle)), axis=1) * rng.uniform(0.3, 1, (corners, 1))
    points = {
        "inside": lambda: size / 2 + ring * size / 2.2,
        "outside": lambda: rng.uniform(-1, 2, 2) * size + ring * size,
        "tiny": lambda: rng.random(2) * size + ring * rng.uniform(0.05, 2),
        "crossing": lambda: rng.uniform(-0.3, 1.3, (corners, 2)) * size,
        "integers": lambda: rng.integers(-5, 60, (corners, 2)),
        "halves": lambda: rng.integers(-20, 240, (corners, 2)) / 10 * 2.5,
        "repeated": lambda: np.repeat(rng.random((corners, 2)) * size, rng.integers(1, 4, corners), axis=0),
        "far": lambda: rng.uniform(-2000, 2000, (corners, 2)),
        "thin": lambda: rng.uniform(0, 1, (corners, 2)) * (WIDTH, 0.3) + (0, rng.uniform(0, HEIGHT)),
    }[shape]()
    return [float(value) for value in np.ravel(points)]


def filled_by_coco(parts: list[list[float]], height: int = HEIGHT, width: int = WIDTH) -> str:
    return coco.merge(coco.frPyObjects(parts, height, width))["counts"].decode()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("parts", [1, 3])
def test_equals_cocos_fill(shape, parts):
    rng = np.random.default_rng([SHAPES.index(shape), parts])
    for _ in range(150):
        given = [polygon(rng, shape) for _ in range(parts)]
        assert fill_polygons(given, HEIGHT, WIDTH).to_text() == filled_by_coco(given), given


def test_a_large_image_equals_cocos_fill():
    rng = np.random.default_rng(8)
    for _ in range(20):
        given = [(rng.uniform(-0.1, 1.1, (40, 2)) * (1333, 800)).ravel().tolist()]
        assert fill_polygons(given, 800, 1333).to_text() == filled_by_coco(given, 800, 1333)


def test_the_area_of_a_rectangle():
    mask = fill_polygons([[10, 5, 20, 5, 20, 9, 10, 9]], HEIGHT, WIDTH).to_mask()
    assert mask[5:9, 10:20].all()
    assert mask.sum() == 40


def test_pairs_are_the_same_as_a_flat_list():
    flat = [1.5, 2.0, 30.2, 4.0, 12.0, 33.3]
    assert fill_polygons([np.reshape(flat, (3, 2))], HEIGHT, WIDTH).to_text() == filled_by_coco([flat])


@pytest.mark.parametrize("part", [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7], [0, 0, 5, np.nan, 5, 5], [0, 0, 5, 1e300, 5, 5]])
def test_a_wrong_polygon_is_refused(part):
    with pytest.raises(UserError, match="polygon"):
        fill_polygons([part], HEIGHT, WIDTH)


def test_no_polygon_is_refused():
    with pytest.raises(UserError, match="at least one polygon"):
        fill_polygons([], HEIGHT, WIDTH)
