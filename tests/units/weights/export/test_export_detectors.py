"""Detectors as ONNX files: the detections of ONNX Runtime equal the detector's."""

import json

import pytest
import torch
from torch import nn

from patchword.core.errors import UserError
from patchword.core.geometry.objects import Detections
from patchword.layers.dense import roi_heads, selection
from patchword.models.detection import create_detector
from patchword.weights.export.detection import compare_image, export_detector, padded, spread_scores
from patchword.weights.export.detection_operations import detection_translations, onnx_operators
from patchword.weights.export.formats import quiet

pytest.importorskip("onnxruntime")
SMALL = {"backbone": "resnet-18", "backbone_fields": {"width": 8}, "classes": 2}


def detector(name, **fields):
    torch.manual_seed(0)
    found = create_detector(name, **SMALL, **fields).eval()
    spread_scores(found)
    return found


@pytest.mark.slow  # tracing a detector takes 20 seconds, any batch size 60
@pytest.mark.parametrize(
    ("name", "fields", "batch"),
    [
        ("mask-rcnn", {"width": 16, "hidden": 64}, None),
        ("cascade-mask-rcnn", {"width": 16, "hidden": 64}, 3),
        ("atss", {"width": 64, "depth": 1}, 3),
        ("retinanet", {"width": 16, "depth": 1}, 3),
        ("detr", {"width": 16, "hidden": 16, "encoder_depth": 1, "decoder_depth": 2}, None),
        ("reppoints-v2", {"width": 64, "depth": 1, "rounds": 1}, 3),
        ("sparse-rcnn", {"width": 16, "hidden": 16, "proposals": 20, "stages": 2}, 3),
    ],
)
def test_detections_equal_those_of_onnx_runtime(tmp_path, name, fields, batch):
    import onnxruntime

    given = detector(name, **fields)
    done = export_detector(given, tmp_path / "detector.onnx", size=(60, 90), batch=batch)
    assert done.difference < 1e-3
    session = onnxruntime.InferenceSession(done.path, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    assert names == ["boxes", "labels", "scores", "valid", "masks"][: 5 if given.masks else 4]
    images, sizes = torch.randn(3, 3, 64, 96), torch.tensor([[64, 96], [60, 90], [33, 50]])
    found = dict(zip(names, session.run(None, {"images": images.numpy(), "sizes": sizes.numpy()}), strict=True))
    with torch.no_grad():
        expected: Detections = given(images, sizes)
    assert found["valid"].sum(axis=1).tolist() == pytest.approx(expected.counts().tolist(), abs=1)
    assert expected.counts().sum() > 20
    assert (found["boxes"][2][..., 2] <= 50).all()  # clipped to the image, not to its padding
    meta = session.get_modelmeta().custom_metadata_map
    assert f"sizes, int64 ({batch or 'batch'}, 2)" in meta["input"]
    assert json.loads(meta["patchword"])["model"] == name


class Nms(nn.Module):
    def forward(self, boxes, scores, valid, groups):
        return selection.nms(boxes, scores, valid, 0.5, groups)


class Pool(nn.Module):
    def __init__(self, aligned, samples):
        super().__init__()
        self.pool = roi_heads.RoiPool((4, 8), 7, aligned, samples)

    def forward(self, fine, coarse, boxes):
        return self.pool([fine, coarse], boxes)


def in_onnx_runtime(module, inputs, path):
    """The output of a module that calls the operators, in ONNX Runtime."""
    import onnxruntime

    with quiet(), torch.no_grad():
        with onnx_operators(5):
            program = torch.export.export(module, inputs)
        converted = torch.onnx.export(
            program, dynamo=True, custom_translation_table=detection_translations(), verbose=False
        )
    converted.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    fed = {given.name: one.numpy() for given, one in zip(session.get_inputs(), inputs, strict=True)}
    return torch.from_numpy(session.run(None, fed)[0])


def random_boxes(count, power=1):
    generator = torch.Generator().manual_seed(0)
    corner = torch.rand(2, count, 2, generator=generator) * 60
    boxes = torch.cat([corner, corner + 1 + 90 * torch.rand(2, count, 2, generator=generator) ** power], dim=-1)
    return boxes, torch.rand(2, count, generator=generator)


@pytest.mark.parametrize("swapped", [(), (0,), (0, 1)])
def test_suppression_equals_that_of_onnx(tmp_path, swapped):
    boxes, scores = random_boxes(200)
    for side in swapped:  # every third box has swapped corners
        boxes[:, ::3, [side, side + 2]] = boxes[:, ::3, [side + 2, side]]
    scores = (scores * 50).round() / 50  # with ties
    inputs = boxes, scores, scores > 0.2, torch.arange(200).expand(2, -1) % 5
    expected = Nms()(*inputs)
    assert torch.equal(in_onnx_runtime(Nms(), inputs, tmp_path / "nms.onnx"), expected)
    assert 20 < expected.sum() < inputs[2].sum() - 20


@pytest.mark.parametrize(("aligned", "samples"), [(True, "adaptive"), (False, 2)])
def test_features_of_boxes_equal_those_of_onnx(tmp_path, aligned, samples):
    boxes, _ = random_boxes(30, power=3)
    inputs = torch.randn(2, 3, 40, 40), torch.randn(2, 3, 20, 20), boxes
    found = in_onnx_runtime(Pool(aligned, samples), inputs, tmp_path / "pool.onnx")
    torch.testing.assert_close(found, Pool(aligned, samples)(*inputs), atol=2e-5, rtol=1e-4)


def test_a_wrong_file_is_not_kept(tmp_path, monkeypatch):
    from patchword.weights.export import detection

    given = detector("mask-rcnn", width=8, hidden=8)
    monkeypatch.setattr(detection, "_write", lambda *_: "a draft")
    monkeypatch.setattr(detection, "_compare", lambda *_: detection.Comparison(0.0, 90, 100))
    with pytest.raises(UserError, match="10 of 100 other detections"):
        export_detector(given, tmp_path / "wrong.onnx", size=(64, 64))
    monkeypatch.setattr(detection, "_compare", lambda *_: detection.Comparison(0.1, 100, 100))
    with pytest.raises(UserError, match="differ from the detector's"):
        export_detector(given, tmp_path / "wrong.onnx", size=(64, 64))
    assert not list(tmp_path.iterdir())


def test_other_formats_are_refused(tmp_path, command):
    with pytest.raises(UserError, match=r"ends in \.onnx"):
        export_detector(detector("retinanet", width=8), tmp_path / "detector.pt2")
    code, _, errors = command("export", "mask-rcnn", "--torch", str(tmp_path / "detector.pt2"))
    assert code == 2
    assert "is a detector" in errors


def test_detections_are_compared_in_any_order():
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 40.0, 30.0], [0.0, 0.0, 0.0, 0.0]])
    labels, scores, valid = torch.tensor([0, 1, 0]), torch.tensor([0.9, 0.8, 0.0]), torch.tensor([True, True, False])
    one, order = [boxes, labels, scores, valid], torch.tensor([1, 0, 2])
    other = [part[order] for part in one]
    size = torch.Size([50, 100])
    assert compare_image(one, other, size) == (0.0, 2, 2)
    other[1] = 1 - other[1]
    assert compare_image(one, other, size) == (0.0, 0, 2)
    moved = [boxes + 0.5, *one[1:]]
    assert compare_image(one, moved, size) == pytest.approx((0.005, 2, 2))


def test_sizes_are_padded_and_operators_are_put_back():
    assert padded((800, 1333)) == (800, 1344)
    before = selection.nms, roi_heads.roi_align
    with onnx_operators(3):
        assert selection.nms is not before[0]
    assert (selection.nms, roi_heads.roi_align) == before
