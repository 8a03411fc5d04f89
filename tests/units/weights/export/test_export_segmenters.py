"""Segmenters as ONNX files: logits and class maps equal the segmenter's, or no file is written."""

import json

import numpy as np
import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.blocks import enlarge
from patchword.models.segmentation import create_segmenter
from patchword.weights.export import segmentation
from patchword.weights.export.segmentation import export_segmenter
from support.helpers import randomise

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
SIZE = (64, 72)
RESNET = {"backbone": "resnet-18", "backbone_fields": {"width": 4, "depths": (1, 1, 1, 1)}}
SWIN = {
    "backbone": "swin-tiny",
    "backbone_fields": {"width": 8, "depths": (1, 1, 1, 1), "heads": (1, 1, 1, 1), "window": 3},
    "window_padding": "attended",
}


def small(name="upernet", fields=RESNET):
    torch.manual_seed(0)
    return randomise(create_segmenter(name, **{"width": 8, "classes": 3, **fields})).eval()


SLOW = [pytest.param(*one, marks=pytest.mark.slow) for one in (("upernet", SWIN), ("semantic-fpn", RESNET))]


@pytest.mark.parametrize(("name", "fields"), [("upernet", RESNET), *SLOW])  # tracing takes 10 to 50 seconds
@torch.no_grad()
def test_logits_equal_those_of_the_segmenter(name, fields, tmp_path):
    segmenter = small(name, fields)
    done = export_segmenter(segmenter, tmp_path / "file.onnx", size=SIZE)
    assert done.difference < 1e-4
    assert done.batches == (1, 2)
    session = onnxruntime.InferenceSession(done.path, providers=["CPUExecutionProvider"])
    images = torch.randn(3, 3, *SIZE, generator=torch.Generator().manual_seed(5))
    (found,) = session.run(None, {"images": images.numpy()})
    expected = enlarge(segmenter(images), SIZE).numpy()
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
    assert json.loads(done.notes["patchword"])["model"] == name


@pytest.mark.slow
@torch.no_grad()
def test_class_maps(command, tmp_path):
    segmenter = small()
    folder, file = patchword.save(segmenter, tmp_path / "model"), tmp_path / "file.onnx"
    code, output, _ = command("export", str(folder), "--onnx", str(file), "--size", "64x72", "--class-map")
    assert code == 0, output
    assert "the class of each pixel" in " ".join(output.split())
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    images = torch.randn(1, 3, *SIZE, generator=torch.Generator().manual_seed(5))
    (found,) = session.run(None, {"images": images.numpy()})
    expected = segmenter.segment(images).numpy()
    assert (found == expected).mean() > 0.999
    assert len(np.unique(expected)) > 1


def test_a_file_that_differs_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(segmentation, "_write", lambda *given: given[-1].write_bytes(b"") and "")
    monkeypatch.setattr(segmentation, "_difference", lambda *given: 0.5)
    with pytest.raises(UserError, match="differ from the segmenter's"):
        export_segmenter(small(), tmp_path / "file.onnx", size=SIZE, batch=1)
    assert not list(tmp_path.iterdir())


def test_wrong_names_and_options_are_errors(command, tmp_path):
    with pytest.raises(UserError, match=r"ends in \.onnx"):
        export_segmenter(small(), tmp_path / "file.pt2")
    code, _, complaint = command("export", "upernet", "--torch", str(tmp_path / "file.pt2"))
    assert code == 2
    assert "is a segmenter" in complaint
    code, _, complaint = command("export", "resnet-mini", "--onnx", str(tmp_path / "file.onnx"), "--class-map")
    assert code == 2
    assert "--class-map is for segmenters" in complaint
