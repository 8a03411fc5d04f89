"""A segmenter as a pipeline: label maps, shares, files and figures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import patchword
from patchword.core.errors import UserError
from patchword.core.files import write_json
from patchword.recipes.segmentation.inference import predict_label_maps
from patchword.weights import save
from support.segmentation.label_maps import COLORS, draw_rectangles
from support.segmentation.segmenters import tiny_segmenter


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("segmenter")
    save(tiny_segmenter(), place)
    write_json(place / "colors.json", [list(color) for color in COLORS.values()])
    pixels, _ = draw_rectangles(np.random.default_rng(0), 40, 48)
    Image.fromarray(pixels).save(place / "image.png")
    return place


@pytest.fixture(scope="module")
def pipe(folder):
    return patchword.pipeline(folder, device="cpu")


def test_an_answer_has_labels_classes_and_shares(pipe, folder):
    answer = pipe(folder / "image.png")[0].segmentation
    pixels = torch.from_numpy(np.array(Image.open(folder / "image.png"))).permute(2, 0, 1)
    assert np.array_equal(answer.labels, predict_label_maps(pipe.segmenter, [pixels])[0].numpy())
    assert answer.labels.shape == (40, 48)
    assert answer.classes == pipe.labels == tuple(COLORS)
    assert sum(answer.share.values()) == pytest.approx(1)
    name, part = next(iter(answer.share.items()))
    assert answer.mask(name).mean() == pytest.approx(part)
    with pytest.raises(UserError, match="no class 'sky'"):
        answer.mask("sky")
    assert sum(region.area for region in answer.regions()) == 40 * 48


def test_the_label_map_is_a_png_with_the_colors_of_the_data(pipe, folder, tmp_path):
    answer = pipe.segment(folder / "image.png")[0].segmentation
    answer.save(tmp_path / "new/labels.png")
    saved = Image.open(tmp_path / "new/labels.png")
    assert saved.mode == "P"
    assert np.array_equal(np.asarray(saved), answer.labels)
    assert saved.getpalette()[:12] == [part for color in COLORS.values() for part in color]
    with pytest.raises(UserError, match="PNG file"):
        answer.save(tmp_path / "labels.jpg")


def test_the_drawn_image_has_a_legend(pipe, folder):
    prediction = pipe(folder / "image.png")[0]
    drawn = prediction.draw()
    assert drawn.width == 13 * 48
    assert drawn.height > 13 * 40
    assert "classes" in repr(prediction)
    assert "%" in repr(prediction)
    assert "<img" in prediction._repr_html_()


def test_what_a_segmenter_cannot_do(pipe, folder):
    with pytest.raises(UserError, match=r"expected segmentation or draw"):
        _ = pipe(folder / "image.png")[0].boxes
    for ask in (lambda: pipe.detect(folder / "image.png"), lambda: pipe.embed(folder / "image.png")):
        with pytest.raises(UserError, match=r"it can do: p\(image\), p.segment"):
            ask()
    assert pipe.cost().parameters == sum(one.numel() for one in pipe.segmenter.parameters())
    for name in ("transform", "tokenizer"):
        with pytest.raises(UserError, match=r"p\.segment"):
            getattr(pipe, name)


def test_an_unreadable_image_among_others_has_an_error(pipe, folder, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"nothing")
    found = pipe([folder / "image.png", broken])
    assert found[0].error == ""
    assert "cannot read the image" in found[1].error
    with pytest.raises(UserError, match="cannot read"):
        pipe(broken)


def test_wrong_colors_are_an_error(folder, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in ("config.json", "model.safetensors"):
        Path(copy, file).write_bytes(Path(folder, file).read_bytes())
    assert patchword.pipeline(copy, device="cpu")(folder / "image.png")[0].segmentation.colors[0] == (0, 158, 255)
    for content in ([[1, 2, 3]], [[1, 2]] * 4, [[0, 0, 256]] * 4, 5):
        write_json(copy / "colors.json", content)
        with pytest.raises(UserError, match=r"colors\.json"):
            patchword.pipeline(copy, device="cpu")
