"""Files of RepPoints v2 and Sparse R-CNN: heads with the authors' own weights on small backbones under their names."""

import pytest
import torch
from safetensors.torch import save_file

import patchword
from patchword.core.errors import UserError
from patchword.weights import load_detector
from patchword.weights.names.detection import mmdet_reppoints, mmdet_sparse
from patchword.weights.names.vision import resnet, swin
from support.dense.detectors import golden_detector
from support.dense.reppoints import golden_reppoints
from support.dense.sparse_rcnn import golden_sparse_rcnn
from support.helpers import randomise

BACKBONES = {  # our fields, the names of the backbone
    "resnet-50": ({"width": 2, "depths": (1, 1, 1, 1)}, resnet.LAYOUTS[0]),
    "swin-tiny": ({"width": 8, "depths": (2, 1, 1, 1), "heads": (1, 1, 2, 2), "mlp_ratio": 2}, swin.LAYOUTS[0]),
}
DETECTORS = {  # golden file, fields that a file does not have, fields that follow from it
    "reppoints-v2": (
        "reppoints_v2",
        {"groups": 8},
        {"width": 32, "rounds": 2, "depth": 3, "shared_depth": 1, "corner_width": 16},
    ),
    "sparse-rcnn": (
        "sparse_rcnn",
        {"heads": 4},
        {"width": 16, "proposals": 12, "stages": 2, "hidden": 32, "inner": 6, "class_layers": 1, "box_layers": 3}
        | {"clipped": False},
    ),
}


def file_of(name, backbone, path):
    """Write the golden heads and a backbone as mmdet names them; inputs of the neck get the widths of the backbone."""
    torch.manual_seed(0)
    model = randomise(patchword.create(backbone, **BACKBONES[backbone][0])).eval()
    golden = golden_detector(DETECTORS[name][0])
    weights = {key.removeprefix("weight."): one for key, one in golden.tensors.items() if key.startswith("weight.")}
    stages = {key: one for key, one in model.state_dict().items() if key.startswith("stages.")}
    weights |= {f"backbone.{key}": one for key, one in BACKBONES[backbone][1].to_theirs(stages).items()}
    widths = model.backbone().widths
    points = name == "reppoints-v2"
    if backbone.startswith("swin"):
        for number, width in list(enumerate(widths))[1 if points else 0 :]:
            weights |= {f"backbone.norm{number}.{part}": torch.rand(width) for part in ("weight", "bias")}
    if points:  # the golden corners have one channel per group, which a detector of the registry refuses
        corners = {key: one for key, one in weights.items() if ".hem_" in key and 8 in one.shape}
        weights |= {key: torch.cat([one, one], dim=one.shape.index(8)) for key, one in corners.items()}
    laterals = "neck.bi_fpn.0.lateral_convs" if points else "neck.lateral_convs"
    for number, width in enumerate([*widths[1:], widths[-1], widths[-1]] if points else widths):
        outputs = 32 if points else 16
        weights[f"{laterals}.{number}.conv.weight"] = torch.randn(outputs, width, 1, 1)
    if points:  # the second map is as wide as the neck, so that the authors' code has no lateral
        assert widths[2] == 32
        for part in ("conv.weight", "gn.weight", "gn.bias"):
            del weights[f"{laterals}.1.{part}"]
    save_file({f"state_dict.{key}": one.clone().contiguous() for key, one in weights.items()}, path)
    return weights


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("name", DETECTORS)
@torch.no_grad()
def test_a_file_is_recognised_and_computes_what_the_authors_code_does(name, backbone, tmp_path):
    path = tmp_path / "mmdet.safetensors"
    file_of(name, backbone, path)
    _, given, expected = DETECTORS[name]
    detector = load_detector(path, **given).eval()
    config = detector.card.config
    assert (detector.card.model, config["backbone"], config["classes"]) == (name, backbone, 5)
    assert {key: config[key] for key in expected} == expected
    assert config["window_padding"] == ("attended" if backbone == "swin-tiny" else "masked")
    if name == "reppoints-v2":  # the first points do not depend on the corners
        golden, _ = golden_reppoints()
        found = detector.head(golden.levels("out.neck")).first
        maps = golden.levels("out.bbox_head.1")
        expected = torch.cat([one.flatten(2).transpose(1, 2) for one in maps], dim=1)
    else:
        golden, _ = golden_sparse_rcnn()
        levels = [golden[f"out.neck.{level}"] for level in range(4)]
        found, expected = detector.refine(levels, golden.sizes)[0].logits, golden["out.bbox_head.0.0"]
    assert float((found - expected).abs().max()) < 1e-5 * float(expected.abs().max())
    assert detector(torch.randn(1, 3, 64, 96)).boxes.isfinite().all()


@pytest.mark.parametrize(("name", "layouts"), [("reppoints-v2", mmdet_reppoints), ("sparse-rcnn", mmdet_sparse)])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_names_are_written_as_they_are_read(name, layouts, backbone, tmp_path):
    path = tmp_path / "mmdet.safetensors"
    weights = file_of(name, backbone, path)
    detector = load_detector(path, **DETECTORS[name][1])
    layout = layouts.LAYOUTS[list(BACKBONES).index(backbone)]
    theirs = layout.to_theirs(detector.state_dict())
    assert theirs.keys() - {key for key in theirs if key.endswith("num_batches_tracked")} <= weights.keys()
    for key, one in theirs.items():
        if key in weights:
            assert torch.equal(one, weights[key]), key


@pytest.mark.parametrize("name", DETECTORS)
def test_a_missing_and_an_unknown_tensor_are_reported(name, tmp_path):
    path = tmp_path / "mmdet.safetensors"
    weights = file_of(name, "resnet-50", path)
    missing = {"reppoints-v2": "bbox_head.reppoints_cls_out.bias", "sparse-rcnn": "roi_head.bbox_head.1.fc_cls.bias"}
    ours = {"reppoints-v2": "head.class_output.bias", "sparse-rcnn": "stages.1.class_output.bias"}
    kept = {key: one.clone() for key, one in weights.items() if key != missing[name]}
    save_file(kept | {"mask_head.extra.weight": torch.ones(1)}, path)
    with pytest.raises(UserError) as raised:
        load_detector(path, **DETECTORS[name][1])
    assert ours[name] in str(raised.value)
    assert "mask_head.extra.weight" in str(raised.value)


@pytest.mark.parametrize("name", DETECTORS)
def test_other_classes(name, tmp_path):
    path = tmp_path / "mmdet.safetensors"
    file_of(name, "resnet-50", path)
    detector = load_detector(path, classes=2, **DETECTORS[name][1])
    assert detector.card.config["classes"] == 2
    assert {layer.weight.shape[0] for layer in detector.class_outputs()} == {2}
