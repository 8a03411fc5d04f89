"""Files of torchvision: the loaded detector finds what torchvision found, on the pixels of the golden file."""

import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.errors import AmbiguityWarning, UserError
from patchword.weights import load_detector

GOLDEN = Path(__file__).parents[2] / "golden" / "torchvision_detectors.safetensors"
COUNTER = "backbone.body.bn1.num_batches_tracked"
OLDER = {  # names before torchvision 0.13
    "backbone.fpn.inner_blocks.{}.0.": "backbone.fpn.inner_blocks.{}.",
    "backbone.fpn.layer_blocks.{}.0.": "backbone.fpn.layer_blocks.{}.",
    "rpn.head.conv.0.0.": "rpn.head.conv.",
    **{f"roi_heads.mask_head.{number}.0.": f"roi_heads.mask_head.mask_fcn{number + 1}." for number in range(4)},
    **{
        f"head.{kind}_head.conv.{number}.0.": f"head.{kind}_head.conv.{2 * number}."
        for kind in ("classification", "regression")
        for number in range(4)
    },
}
RULES = {  # what each convention of torchvision is changed to
    "mask_rcnn": {
        "rounded_anchors": False,
        "aligned": True,
        "samples": "adaptive",
        "batch_norm_eps": 1e-2,
    },
    "retinanet": {
        "rounded_anchors": False,
        "integer_lengths": False,
        "max_detections": 100,
    },
}


@pytest.fixture(scope="module")
def golden():
    return load_file(GOLDEN)


def weights(golden, name):
    start = f"{name}/weight."
    return {key.removeprefix(start): one for key, one in golden.items() if key.startswith(start)}


def loaded(tensors, path, **overrides):
    """Load tensors as a file. Without batch_norm_eps, a note names the value that is used."""
    save_file(tensors, path)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        detector = load_detector(path, **overrides)
    noted = any(note.category is AmbiguityWarning and "frozen batch norms" in str(note.message) for note in notes)
    assert noted == ("batch_norm_eps" not in overrides and COUNTER not in tensors)
    return detector


@pytest.mark.parametrize("name", ["mask_rcnn", "retinanet"])
def test_the_file_is_written_again(name, golden, tmp_path):
    """Names and values; those of the background, which torchvision does not use, are zeros."""
    theirs = weights(golden, name)
    detector = loaded(theirs, tmp_path / "golden.safetensors")
    written = load_file(patchword.save(detector, tmp_path / "saved", layout="torchvision") / "model.safetensors")
    assert written.keys() == theirs.keys()
    unused = {"roi_heads.box_predictor.bbox_pred": 4, "roi_heads.mask_predictor.mask_fcn_logits": 1}
    for key, tensor in written.items():
        first = unused.get(key.rpartition(".")[0], 0)
        assert torch.equal(tensor[first:] if first else tensor, theirs[key][first:] if first else theirs[key]), key
        assert not tensor[:first].any()


@torch.no_grad()
def detect(detector, golden):
    """Normalize the pixels, pad them at the right and the bottom, and detect."""
    pixels = [golden[f"pixels.{image}"] / 255 for image in range(2)]
    mean, std = (torch.tensor(one)[:, None, None] for one in (vars(detector.card.normalization).values()))
    images = torch.zeros(2, 3, 64, 96)
    for image, one in zip(images, pixels, strict=True):
        image[:, : one.shape[1], : one.shape[2]] = (one - mean) / std
    return detector(images, torch.tensor([one.shape[1:] for one in pixels]))


def differences(found, golden, name):
    """The largest differences of boxes, scores and masks over the images; infinite where other objects are found."""
    worst = {}
    for image in range(2):
        expected = {key: golden[f"{name}/result.{image}.{key}"] for key in ("boxes", "labels", "scores")}
        count, shift = int(found.counts()[image]), 1 if name == "mask_rcnn" else 0  # the background is our last class
        if (found.labels[image, :count] + shift).tolist() != expected["labels"].tolist():
            return {"labels": float("inf")}
        for key in ("boxes", "scores"):
            distance = float((getattr(found, key)[image, :count] - expected[key]).abs().max())
            worst[key] = max(distance, worst.get(key, 0.0))
        if found.masks is not None:
            masks = golden[f"{name}/result.{image}.masks"][:, 0]  # of the best objects
            distance = float((found.masks[image, : len(masks)] - masks).abs().max())
            worst["masks"] = max(distance, worst.get("masks", 0.0))
    return worst


@pytest.mark.parametrize("name", RULES)
def test_detections_are_those_of_torchvision(name, golden, tmp_path):
    detector = loaded(weights(golden, name), tmp_path / "torchvision.safetensors")
    assert detector.card.model == name.replace("_", "-")
    found = differences(detect(detector, golden), golden, name)
    assert found.keys() == {"boxes", "scores"} | ({"masks"} if name == "mask_rcnn" else set())
    assert found["boxes"] < 2e-3
    assert max(found["scores"], found.get("masks", 0.0)) < 1e-4


def test_a_file_without_masks_is_a_faster_rcnn(golden, tmp_path):
    tensors = {key: one for key, one in weights(golden, "mask_rcnn").items() if ".mask_" not in key}
    detector = loaded(tensors, tmp_path / "torchvision.safetensors")
    assert detector.card.model == "faster-rcnn"
    assert differences(detect(detector, golden), golden, "mask_rcnn")["boxes"] < 2e-3


@pytest.mark.parametrize("name", RULES)
def test_older_names(name, golden, tmp_path):
    renamed = {}
    for key, one in weights(golden, name).items():
        for current, older in OLDER.items():
            for level in range(4):
                if key.startswith(current.format(level)):
                    key = key.replace(current.format(level), older.format(level))
        renamed[key] = one
    assert renamed.keys() != weights(golden, name).keys()
    expected = loaded(weights(golden, name), tmp_path / "current.safetensors").state_dict()
    found = loaded(renamed, tmp_path / "older.safetensors").state_dict()
    assert all(torch.equal(found[key], one) for key, one in expected.items())


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, fields in RULES.items() for field in fields])
def test_a_changed_convention_is_noticed(name, field, golden, tmp_path):
    detector = loaded(
        weights(golden, name),
        tmp_path / "torchvision.safetensors",
        **{"batch_norm_eps": 0.0, field: RULES[name][field]},
    )
    found = differences(detect(detector, golden), golden, name)
    assert max(found.values()) > 1e-2


def test_batch_norms_with_counters_have_their_usual_eps(golden, tmp_path):
    tensors = weights(golden, "retinanet") | {COUNTER: torch.tensor(3)}
    detector = loaded(tensors, tmp_path / "torchvision.safetensors")
    assert detector.card.config["batch_norm_eps"] is None
    assert detector.card.config["batch_norms"] == "evaluate"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("backbone.fpn.inner_blocks.0.1.running_mean", "fasterrcnn_resnet50_fpn_v2"),
        ("head.regression_head.bbox_ctrness.weight", "torchvision's FCOS"),
        ("roi_heads.keypoint_predictor.kps_score_lowres.weight", "Keypoint R-CNN"),
        ("roi_heads.other.weight", "unexpected  roi_heads.other.weight"),
    ],
)
@pytest.mark.filterwarnings("ignore::patchword.core.errors.AmbiguityWarning")
def test_other_detectors_are_refused(extra, message, golden, tmp_path):
    path = tmp_path / "torchvision.safetensors"
    save_file(weights(golden, "mask_rcnn") | {extra: torch.ones(1)}, path)
    with pytest.raises(UserError, match=message):
        patchword.load(path)


def test_anchors_lie_the_size_of_the_image_divided_by_the_cells_apart(golden, tmp_path):
    """A level of 3 columns is followed by one of 2, whose anchors lie 96 // 2 = 48 pixels apart, not 64."""
    detector = loaded(weights(golden, "mask_rcnn"), tmp_path / "torchvision.safetensors")
    levels = detector.features(torch.zeros(1, 3, 64, 96))
    last = detector.proposer.boxes(levels)[-1]
    assert (last[3] - last[0]).tolist() == [48, 0, 48, 0]
    detector.proposer.fitted_strides = False
    last = detector.proposer.boxes(levels)[-1]
    assert (last[3] - last[0]).tolist() == [64, 0, 64, 0]
