"""The attention of the queries of a DETR, and of a point in its encoder."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import patchword
from patchword.core.errors import UserError
from patchword.inspection.attention_objects import MOST, object_attention
from patchword.inspection.attention_options import AttentionOptions
from patchword.recipes.detection.inference import detect_images
from support.helpers import randomise

SMALL = {"backbone": "resnet-18", "backbone_fields": {"width": 8}, "classes": 3, "width": 16, "hidden": 16, "heads": 2}
SIZES = {"queries": 9, "max_detections": 9, "encoder_depth": 2, "decoder_depth": 3, "min_size": 100, "max_size": 300}


@pytest.fixture(scope="module")
def detector():
    torch.manual_seed(0)
    return randomise(patchword.create("detr", **SMALL, **SIZES)).eval()


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "noise.png"
    pixels = np.random.default_rng(0).integers(0, 256, (50, 85, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def test_queries_are_the_detections_with_their_attention(detector, image):
    look = object_attention(detector, image, AttentionOptions())
    pixels = torch.from_numpy(np.array(Image.open(image))).permute(2, 0, 1)
    found = detect_images(detector, [pixels])[0]
    assert look.pixels.shape == (3, 100, 170)
    assert (look.layer, look.layers, look.heads, look.all_heads) == (3, 3, (1, 2), 2)
    assert look.cell == (32.0, 32.0)
    assert len(look.queries) == MOST
    for rank, query in enumerate(look.queries):
        assert query.score == pytest.approx(found.scores[rank], rel=1e-5)
        assert query.label == found.labels[rank]
        assert np.allclose(np.array(query.box) / 2, found.boxes[rank], atol=1e-3)  # drawn at twice the size
        assert query.weights.shape == (4, 6)  # 128 x 192 padded pixels
        assert float(query.weights.sum()) == pytest.approx(1, abs=1e-5)
    assert len({query.number for query in look.queries}) == MOST


def test_the_mean_of_heads_and_other_layers(detector, image):
    every = object_attention(detector, image, AttentionOptions()).queries[0].weights
    single = [object_attention(detector, image, AttentionOptions(heads=(head,))).queries[0].weights for head in (1, 2)]
    assert torch.allclose(every, (single[0] + single[1]) / 2, atol=1e-6)
    assert not torch.allclose(single[0], single[1], atol=1e-3)
    earlier = object_attention(detector, image, AttentionOptions(layers=(1,)))
    assert earlier.layer == 1
    assert not torch.allclose(earlier.queries[0].weights, every, atol=1e-4)


def test_weights_are_on_the_cells_of_the_map(detector, image, monkeypatch):
    """With keys that are far larger in one cell, every query attends to this cell, or to none of its neighbours."""
    projection = detector.decoder.blocks[-1].memory.sublayer.projection
    plain = projection.forward

    def forward(tokens, scope):
        found = plain(tokens, scope)
        key = torch.zeros_like(found.key)
        key[:, 1 * 6 + 4] = 50.0
        return found._replace(key=key, query=found.query.abs())

    monkeypatch.setattr(projection, "forward", forward)
    weights = object_attention(detector, image, AttentionOptions()).queries[0].weights
    assert float(weights[1, 4]) > 0.99


def test_a_point_of_the_encoder(detector, image):
    look = object_attention(detector, image, AttentionOptions(at=(150, 40)))
    assert (look.layers, look.queries, look.at) == (2, (), (150, 40))
    assert look.point.shape == (4, 6)
    assert float(look.point.sum()) == pytest.approx(1, abs=1e-5)
    other = object_attention(detector, image, AttentionOptions(at=(10, 40)))
    assert not torch.allclose(other.point, look.point, atol=1e-4)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (AttentionOptions(layers=(4,)), "there is no layer 4"),
        (AttentionOptions(layers=(1, 2)), "one --layer"),
        (AttentionOptions(heads=(3,)), "there is no head 3"),
        (AttentionOptions(at=(170, 0)), "outside of the image"),
        (AttentionOptions(at=(0, 100)), "outside of the image"),
    ],
)
def test_a_mistake_is_a_message(detector, image, question, message):
    with pytest.raises(UserError, match=message):
        object_attention(detector, image, question)


def test_the_verb_writes_figures_and_arrays(detector, image, tmp_path, command):
    folder = patchword.save(detector, tmp_path / "detr")
    code, output, _ = command("attention", str(folder), str(image), "--out", str(tmp_path / "out"), "--json")
    assert code == 0
    found = json.loads(output)
    assert found["queries"][0]["class"].startswith("class ")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["attention.npz", "queries.png", "queries.svg"]
    arrays = np.load(tmp_path / "out" / "attention.npz")
    assert arrays["weights"].shape == (MOST, 4, 6)
    assert arrays["box"].tolist() == [one["box"] for one in found["queries"]]
    code, output, _ = command("attention", str(folder), str(image), "--at", "3,4", "--out", str(tmp_path / "one.png"))
    assert code == 0
    assert (tmp_path / "one.png").stat().st_size > 1000


def test_the_verb_refuses_what_a_detector_has_not(detector, image, tmp_path, command):
    folder = patchword.save(detector, tmp_path / "detr")
    code, _, errors = command("attention", str(folder), str(image), "--rollout", "--out", str(tmp_path / "out"))
    assert code == 2
    assert "is a detector" in errors
    assert "--rollout" in errors
    code, _, errors = command("attention", str(folder), "--out", str(tmp_path / "out"))
    assert code == 2
    assert "there is no image" in errors
    small = {"backbone": "resnet-18", "backbone_fields": {"width": 8}, "width": 64}
    other = patchword.save(patchword.create("retinanet", **small, classes=2), tmp_path / "retinanet")
    code, _, errors = command("attention", str(other), str(image), "--out", str(tmp_path / "out"))
    assert code == 2
    assert "has no queries that attend" in errors


def test_a_folder_of_transformers_is_a_detector(detector, image, tmp_path, command):
    folder = patchword.save(detector, tmp_path / "theirs", "huggingface")
    code, _, errors = command("attention", str(folder), str(image), "--out", str(tmp_path / "out.png"))
    assert (code, errors) == (0, "")
