"""Files of mmdet: heads with mmdet's own weights on small backbones under mmdet's names."""

import pytest
import torch
from safetensors.torch import save_file

import patchword
from patchword.core.errors import UserError
from patchword.layers.dense.padded_windows import attend_to_padding
from patchword.weights import load_detector
from patchword.weights.names.vision import resnet, swin
from support.dense.detectors import golden_detector
from support.helpers import randomise

BACKBONES = {  # our fields, the names of the backbone
    "resnet-50": ({"width": 2, "depths": (1, 1, 1, 1)}, resnet.LAYOUTS[0]),
    "swin-tiny": ({"width": 8, "depths": (2, 1, 1, 1), "heads": (1, 1, 2, 2), "mlp_ratio": 2}, swin.LAYOUTS[0]),
}
DETECTORS = {  # golden file, sizes
    "mask-rcnn": ("mask_rcnn", {"hidden": 32, "inner": 12, "layers": 2, "stages": 1, "convolutions": 0}),
    "cascade-mask-rcnn": (
        "cascade_mask_rcnn",
        {"hidden": 32, "inner": 12, "layers": 1, "stages": 3, "convolutions": 4},
    ),
    "retinanet": ("one_stage", {"depth": 4, "groups": 0, "extra_from": "input"}),
    "atss": ("one_stage", {"depth": 4, "groups": 8, "extra_from": "output"}),
}
IMAGES = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(1))


def heads(name):
    golden = golden_detector(DETECTORS[name][0], f"{name}/" if DETECTORS[name][0] == "one_stage" else "")
    weights = {key.removeprefix("weight."): one for key, one in golden.tensors.items() if key.startswith("weight.")}
    return golden, weights


def classifier(backbone):
    torch.manual_seed(0)
    return randomise(patchword.create(backbone, **BACKBONES[backbone][0])).eval()


def file_of(name, backbone, model, path):
    """Write the golden heads and a backbone as mmdet names them; inputs of the neck get the widths of the backbone."""
    _, weights = heads(name)
    layout = BACKBONES[backbone][1]
    stages = {key: one for key, one in model.state_dict().items() if key.startswith("stages.")}
    weights |= {f"backbone.{key}": one for key, one in layout.to_theirs(stages).items()}
    if backbone.startswith("swin"):
        for number, width in enumerate(model.backbone().widths):
            weights |= {
                f"backbone.norm{number}.weight": torch.rand(width),
                f"backbone.norm{number}.bias": torch.rand(width),
            }
            weights[f"backbone.layers.{number}.blocks.0.attn.relative_position_index"] = torch.zeros(49, 49)
    used = model.backbone().widths[-sum(key.startswith("neck.lateral") for key in weights) // 2 :]
    for number, width in enumerate(used):
        weights[f"neck.lateral_convs.{number}.conv.weight"] = torch.randn(16, width, 1, 1)
    if name == "retinanet":
        weights["neck.fpn_convs.3.conv.weight"] = torch.randn(16, used[-1], 3, 3)
    save_file({f"state_dict.{key}": one.clone().contiguous() for key, one in weights.items()}, path)
    return weights


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("name", DETECTORS)
@torch.no_grad()
def test_a_file_is_recognised_and_computes_what_mmdet_does(name, backbone, tmp_path):
    model, (golden, _) = classifier(backbone), heads(name)
    path = tmp_path / "mmdet.safetensors"
    file_of(name, backbone, model, path)
    detector = load_detector(path, **({"groups": 8} if name == "atss" else {}))
    config, fields = detector.card.config, DETECTORS[name][1]
    assert (detector.card.model, config["backbone"], config["classes"]) == (name, backbone, 5)
    assert config["width"] == 16
    assert {key: config[key] for key in fields} == fields
    assert config["window_padding"] == ("attended" if backbone == "swin-tiny" else "masked")
    inner, stages = detector.backbone, model.backbone()
    if backbone == "swin-tiny":
        inner = detector.backbone.backbone
        attend_to_padding(stages)
    for found, expected in zip(inner(IMAGES), stages(IMAGES), strict=True):
        assert torch.equal(found, expected)
    head = "rpn_head" if "rcnn" in name else "bbox_head"
    levels = golden.levels("out.neck")
    logits = [one.permute(0, 2, 3, 1).flatten(1) for one in golden.levels(f"out.{head}.0")]
    found = detector.proposer(levels).logits.flatten(1)
    assert float((found - torch.cat(logits, dim=1)).abs().max()) < 1e-5 * float(found.abs().max())


def test_weights_of_the_heads_and_norms_are_those_of_the_file(tmp_path):
    path = tmp_path / "mmdet.safetensors"
    weights = file_of("cascade-mask-rcnn", "swin-tiny", classifier("swin-tiny"), path)
    state = patchword.load(path).state_dict()
    pairs = {
        "stages.2.linear.0.weight": "roi_head.bbox_head.2.shared_fcs.0.weight",
        "stages.1.convolutions.3.1.running_var": "roi_head.bbox_head.1.shared_convs.3.bn.running_var",
        "masks.1.convolutions.6.bias": "roi_head.mask_head.1.convs.3.conv.bias",
        "backbone.norms.3.weight": "backbone.norm3.weight",
    }
    for ours, theirs in pairs.items():
        assert torch.equal(state[ours], weights[theirs]), ours


def test_other_classes(tmp_path):
    path = tmp_path / "mmdet.safetensors"
    file_of("mask-rcnn", "resnet-50", classifier("resnet-50"), path)
    assert load_detector(path, classes=2).card.config["classes"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop("rpn_head.rpn_cls.bias"), "missing     proposer.head.class_output.bias"),
        (lambda weights: weights.update({"rpn_head.extra.weight": torch.ones(1)}), "unexpected  rpn_head.extra.weight"),
        (
            lambda weights: weights.update(
                {"backbone.stages.0.blocks.0.attn.w_msa.relative_position_bias_table": torch.ones(1)}
            ),
            "mmdet's own Swin",
        ),
    ],
)
def test_other_files_are_refused(change, message, tmp_path):
    path = tmp_path / "mmdet.safetensors"
    weights = file_of("mask-rcnn", "resnet-50", classifier("resnet-50"), path)
    change(weights)
    save_file({key: one.clone().contiguous() for key, one in weights.items()}, path)
    with pytest.raises(UserError, match=message):
        patchword.load(path)
