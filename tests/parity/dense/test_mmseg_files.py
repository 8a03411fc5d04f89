"""Files of mmseg: heads with mmseg's own weights on small backbones under mmseg's names."""

import pytest
import torch
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.errors import UserError
from patchword.models.segmentation import create_segmenter
from patchword.weights import load_segmenter
from patchword.weights.names.segmentation import mmseg
from support.dense.segmenters import build, golden_maps, golden_segmenter
from support.helpers import randomise

BACKBONES = {
    "resnet-18": {"backbone_fields": {"width": 4, "depths": (1, 1, 1, 1)}},
    "deep resnet-18": {"backbone_fields": {"width": 4, "depths": (1, 1, 1, 1)}, "deep_stem": True},
    "swin-tiny": {
        "backbone_fields": {"width": 8, "depths": (2, 1, 1, 1), "heads": (1, 1, 2, 2), "mlp_ratio": 2, "window": 3},
        "window_padding": "attended",
    },
}
SEGMENTERS = {"upernet": {"width": 16, "auxiliary": 12}, "semantic-fpn": {"width": 16, "hidden": 8}}
IMAGES = torch.randn(1, 3, 72, 64, generator=torch.Generator().manual_seed(1))


def small(name, backbone, **others):
    torch.manual_seed(0)
    fields = {**SEGMENTERS[name], **BACKBONES[backbone], "backbone": backbone.split()[-1], "classes": 7, **others}
    return randomise(create_segmenter(name, **fields)).eval()


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("name", SEGMENTERS)
@torch.no_grad()
def test_a_file_is_written_and_read(name, backbone, tmp_path):
    segmenter = small(name, backbone)
    folder = patchword.save(segmenter, tmp_path, layout="mmseg")
    tensors = load_file(folder / "model.safetensors")
    assert "decode_head.conv_seg.weight" in tensors
    assert ("backbone.stem.6.weight" in tensors) == backbone.startswith("deep")
    wrapped = {f"state_dict.{key}": one for key, one in tensors.items()}
    save_file(wrapped, tmp_path / "published.safetensors")
    for source in (folder, tmp_path / "published.safetensors"):
        again = load_segmenter(source)
        assert again.card.config == segmenter.card.config
        assert torch.equal(again(IMAGES), segmenter(IMAGES))


@pytest.mark.parametrize("name", SEGMENTERS)
@torch.no_grad()
def test_heads_of_mmseg_on_a_backbone(name, tmp_path):
    """The golden heads, whose maps have the widths of no backbone, in a file with a narrow ResNet."""
    golden, segmenter = golden_segmenter(name.replace("-", "_")), small(name, "resnet-18")
    weights = {key.removeprefix("weight."): one for key, one in golden.items() if key.startswith("weight.")}
    stages = {key: one for key, one in segmenter.state_dict().items() if key.startswith("backbone.")}
    weights |= mmseg.LAYOUTS[1].to_theirs(stages)
    save_file(weights, tmp_path / "file.safetensors")
    with pytest.raises(UserError, match="misshapen") as found:  # the widths of the maps, nothing else
        load_segmenter(tmp_path / "file.safetensors")
    assert "missing" not in str(found.value)
    assert "unexpected" not in str(found.value)
    assert build(name.replace("-", "_"))(golden_maps(golden)).shape[1] == 7


def file_with(tmp_path, *names):
    save_file({name: torch.zeros(2, 2, 1, 1) for name in names}, tmp_path / "file.safetensors")
    return tmp_path / "file.safetensors"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            (
                "decode_head.conv_seg.weight",
                "backbone.stages.0.blocks.0.attn.w_msa.relative_position_bias_table",
            ),
            "mmseg's own Swin",
        ),
        (("decode_head.conv_seg.weight", "decode_head.aspp_modules.0.conv.weight"), "an mmseg segmenter"),
        (("backbone.conv1.weight", "classifier.0.convs.0.0.weight"), "torchvision's DeepLabV3 on a ResNet"),
        (("backbone.conv1.weight", "classifier.0.weight"), "torchvision's FCN on a ResNet"),
        (("backbone.0.0.weight", "classifier.cbr.0.weight"), "torchvision's LRASPP on a MobileNet"),
    ],
)
def test_other_segmenters_are_refused_by_name(names, message, tmp_path):
    with pytest.raises(UserError, match=message):
        patchword.load(file_with(tmp_path, *names))


@pytest.mark.parametrize(
    ("name", "backbone", "others", "message"),
    [
        ("upernet", "swin-tiny", {"window_padding": "masked"}, "window_padding attended"),
        ("upernet", "resnet-18", {"scales": (1, 2)}, "scales"),
    ],
)
def test_what_mmseg_cannot_express_is_not_written(name, backbone, others, message, tmp_path):
    with pytest.raises(UserError, match=message):
        patchword.save(small(name, backbone, **others), tmp_path, layout="mmseg")
