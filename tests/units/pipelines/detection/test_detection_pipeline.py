"""A pipeline of a detector: typed objects of every form of an image."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import patchword
from patchword.core.errors import UserError
from patchword.layers.dense.detector import Detector
from patchword.pipelines.detection import engine
from patchword.pipelines.detection.opening import is_detector
from patchword.pipelines.detection.pixels import image_pixels, upright_image
from patchword.reports.detection.colors import class_color
from support.detection.detectors import NAMES, tiny_detector, two_boxes
from support.helpers import tiny


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def detector():
    return tiny_detector()


@pytest.fixture
def p(detector, monkeypatch):
    monkeypatch.setattr(engine, "detect_images", two_boxes)
    return patchword.pipeline(detector, device="cpu")


@pytest.fixture
def photo() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (40, 80, 3)).astype(np.uint8)


def test_objects_are_typed_and_the_best_comes_first(p, photo):
    (found,) = p(photo)
    assert found.labels == ("cat", "car")
    assert found.scores.tolist() == [0.9, 0.4]
    assert found.boxes.tolist() == [[0, 0, 40, 40], [40, 0, 80, 40]]
    assert found.masks.shape == (2, 40, 80)
    assert found.masks[0, :, :40].all()
    assert not found.masks[0, :, 40:].any()


def test_the_score_is_the_lowest_one(p, photo):
    numbers = {score: len(p.detect(photo, score=score)[0].labels) for score in (0.0, 0.1, 0.11, 0.4, 0.5, 1.0)}
    assert numbers == {0.0: 3, 0.1: 3, 0.11: 2, 0.4: 2, 0.5: 1, 1.0: 0}
    with pytest.raises(UserError, match="score: expected 0 to 1"):
        p.detect(photo, score=1.5)


def test_every_form_of_an_image_is_read(p, photo):
    Image.fromarray(photo).save("photo.png")
    pixels = torch.from_numpy(photo).permute(2, 0, 1)
    forms = ["photo.png", Path("photo.png"), Image.fromarray(photo), photo, pixels, photo[..., 0], pixels[:1]]
    found = p(forms)
    assert len(found) == len(forms)
    assert all(one.boxes.tolist() == found[0].boxes.tolist() for one in found)
    assert torch.equal(image_pixels(photo), pixels)
    assert torch.equal(image_pixels(pixels), pixels)
    assert image_pixels(photo, 1).shape == (1, 40, 80)
    assert upright_image(photo[..., 0]).mode == "RGB"


def test_images_are_drawn(p, photo):
    drawn = p(photo)[0].draw()
    assert drawn.size == (640, 320)
    assert drawn.getpixel((0, 319)) == class_color(0)
    assert drawn.getpixel((639, 319)) == class_color(2)


def test_a_table_and_a_notebook_show_the_objects(p, photo):
    found = p([photo, photo])
    assert "40, 0, 80, 40" in repr(found)
    html = found._repr_html_()
    assert html.count("data:image/jpeg") == 2
    assert "cat" in html
    assert "<b>" not in p.detect(photo, score=0.0)._repr_html_()
    nothing = p.detect(photo, score=1.0)
    assert "no objects" in repr(nothing)
    assert "no objects" in nothing._repr_html_()


def test_an_unreadable_image_has_an_error_in_a_list_and_raises_alone(p, photo):
    Path("broken.png").write_bytes(b"nothing")
    found = p([photo, "broken.png", photo])
    assert [bool(one.error) for one in found] == [False, True, False]
    with pytest.raises(UserError, match=r"there is no prediction for broken\.png"):
        _ = found[1].boxes
    assert "broken.png" in repr(found) + found._repr_html_()
    with pytest.raises(UserError, match="cannot read the image"):
        p("broken.png")


def test_normalized_tensors_are_refused(p):
    with pytest.raises(UserError, match="float32 of shape"):
        p(torch.zeros(3, 40, 80))


def test_more_images_than_are_read_at_once_keep_their_order(p):
    shapes = [np.zeros((20, 10 + number, 3), np.uint8) for number in range(40)]
    assert [one.boxes[1, 2] for one in p(shapes)] == [10 + number for number in range(40)]


def test_a_detector_names_what_it_can_do(p, photo):
    assert isinstance(p.detector, Detector)
    assert p.model is p.detector
    assert p.labels == NAMES
    assert p.precision == "float32"
    assert p.cost().parameters == sum(parameter.numel() for parameter in p.detector.parameters())
    assert p.cost().input == (1, 3, 64, 96)
    for ask in (lambda: p.embed(photo), lambda: p.fill("x"), lambda: p.attention(photo)):
        with pytest.raises(UserError, match=r"it can do: p\(image\), p\.detect, p\.cost"):
            ask()
    with pytest.raises(UserError, match="is a detector"):
        _ = p.transform
    with pytest.raises(UserError, match="reads images"):
        _ = p.tokenizer
    with pytest.raises(UserError, match="expected boxes or labels or scores or masks or draw"):
        _ = p(photo)[0].label
    with pytest.raises(UserError, match="no tokenizer"):
        patchword.pipeline(p.detector, tokenizer="folder")


def test_a_classifier_does_not_detect(photo):
    classifier = patchword.pipeline(tiny("vit-tiny-16", image=32, patch=8, classes=3), device="cpu")
    with pytest.raises(UserError, match="cannot detect objects"):
        classifier.detect(photo)
    with pytest.raises(UserError, match="no property 'boxes'"):
        _ = classifier(photo)[0].boxes


@pytest.mark.parametrize("name", ["faster-rcnn", "mask-rcnn"])
def test_a_saved_detector_detects(name, photo):
    """Without a stand-in: the whole way from a folder to boxes in pixels of the image."""
    folder = patchword.save(tiny_detector(name), "detector")
    p = patchword.pipeline(folder, device="cpu")
    (found,) = p.detect(photo, score=0.0)
    assert len(found.labels) == len(found.boxes) == len(found.scores) > 0
    assert (found.boxes[:, [0, 2]] <= 80.01).all()
    assert (found.boxes[:, [1, 3]] <= 40.01).all()
    assert (np.diff(found.scores) <= 0).all()
    assert (found.masks is None) == (name == "faster-rcnn")


def test_a_detector_is_known_by_its_description(detector, tmp_path):
    folder = patchword.save(detector, "detector")
    assert is_detector(folder)
    alone = (folder / "model.safetensors").rename(tmp_path / "alone.safetensors")
    assert is_detector(alone)
    assert isinstance(patchword.pipeline(alone, device="cpu").detector, Detector)
    (folder / "config.json").write_text("{")
    assert not is_detector(folder)
    assert not is_detector(patchword.save(tiny("vit-tiny-16", image=32, patch=8, classes=3), "classifier"))
    assert not is_detector(tmp_path / "gone")
    alone.write_bytes(b"nothing")
    assert not is_detector(alone)
