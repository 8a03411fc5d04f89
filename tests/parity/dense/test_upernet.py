"""UperNet against transformers, both ways, at sizes that the windows of Swin do not divide, too."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import patchword
from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.blocks import enlarge
from patchword.models.segmentation import create_segmenter
from patchword.objectives.segmentation.loss import SegmentationLoss
from patchword.weights import load_segmenter

transformers = pytest.importorskip("transformers")
STAGES = ["stage1", "stage2", "stage3", "stage4"]
BACKBONES = {
    "swin": lambda: transformers.SwinConfig(
        embed_dim=8,
        depths=[2, 1, 1, 2],
        num_heads=[1, 2, 4, 8],
        window_size=3,
        drop_path_rate=0.0,
        out_features=STAGES,
    ),
    "bottlenecks": lambda: transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[16, 32, 64, 128], depths=[1, 2, 1, 1], out_features=STAGES
    ),
    "basic": lambda: transformers.ResNetConfig(
        layer_type="basic", embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], out_features=STAGES
    ),
}


def theirs(name, **fields):
    """A model of transformers with random weights, statistics included."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_labels": 5, "auxiliary_channels": 12, "auxiliary_in_channels": None, **fields}
    model = transformers.UperNetForSemanticSegmentation(
        transformers.UperNetConfig(backbone_config=BACKBONES[name](), **sizes)
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.2)
        for statistic in model.buffers():
            if statistic.is_floating_point():
                statistic.uniform_(0.5, 1.5)
    return model.eval()


def images(size, count=1):
    return torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(1))


def distance(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("name", BACKBONES)
@torch.no_grad()
def test_logits_equal_those_of_transformers_both_ways(name, tmp_path):
    model = theirs(name)
    model.save_pretrained(tmp_path / "theirs")
    ours = load_segmenter(tmp_path / "theirs")
    for size in ((64, 64), (50, 86)):
        expected = model(images(size)).logits
        assert distance(enlarge(ours(images(size)), size), expected) < 1e-5
    again = transformers.UperNetForSemanticSegmentation.from_pretrained(
        patchword.save(ours, tmp_path / "ours", layout="huggingface")
    ).eval()
    assert torch.equal(again(images(size)).logits, expected)
    assert json.loads((tmp_path / "ours" / "preprocessor_config.json").read_text())["size"]["height"] == 512


def with_preprocessor(folder, **fields):
    theirs("basic").save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5] * 3, "image_std": [0.25] * 3, **fields})
    )
    return folder


@torch.no_grad()
def test_images_are_stretched_to_the_size_of_the_file(tmp_path):
    folder = with_preprocessor(tmp_path / "theirs", size={"height": 32, "width": 32}, resample=2)
    blocks = np.random.default_rng(0).integers(0, 256, (5, 9, 3), dtype=np.uint8)
    image = Image.fromarray(blocks).resize((90, 50), Image.Resampling.NEAREST)
    model = theirs("basic")

    def labels(given):
        pixels = torch.tensor(np.asarray(given)).permute(2, 0, 1)[None]
        return enlarge(model((pixels / 255 - 0.5) / 0.25).logits, (50, 90)).argmax(1)[0].numpy()

    pipe = patchword.pipeline(folder, device="cpu")
    found = pipe(image)[0].segmentation.labels
    assert (found == labels(image.resize((32, 32), Image.Resampling.BILINEAR))).mean() > 0.98  # of rounded pixels
    assert (found == labels(image)).mean() < 0.9
    for layout in ("patchword", "huggingface"):
        again = patchword.save(pipe.segmenter, tmp_path / layout, layout=layout)
        assert (patchword.pipeline(again, device="cpu")(image)[0].segmentation.labels == found).all()


def test_a_file_without_a_resize_keeps_the_size(tmp_path):
    size = {"height": 64, "width": 64}
    folder = with_preprocessor(tmp_path / "theirs", size=size, do_resize=False)
    pipe = patchword.pipeline(folder, device="cpu")
    assert pipe.segmenter.card.resize.mode == "fit"
    patchword.save(pipe.segmenter, tmp_path / "ours", layout="huggingface")
    assert json.loads((tmp_path / "ours/preprocessor_config.json").read_text())["do_resize"] is False


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": {"height": 64, "width": 96}}, "field 'size' of preprocessor_config.json"),
        ({"size": {"shortest_edge": 512}}, "field 'size' of preprocessor_config.json"),
        ({"size": 512, "resample": 3}, "field 'resample' of preprocessor_config.json"),
    ],
)
def test_another_resize_is_refused(fields, message, tmp_path):
    with pytest.raises(UserError, match=message) as found:
        load_segmenter(with_preprocessor(tmp_path, **fields))
    assert "do_resize: false" in str(found.value)


@torch.no_grad()
def test_masked_padding_is_another_network(tmp_path):
    model = theirs("swin")
    model.save_pretrained(tmp_path)
    ours = load_segmenter(tmp_path)
    masked = create_segmenter("upernet", **{**ours.card.config, "window_padding": "masked"})
    weights = {key.replace(".sublayer.attention.", ".sublayer."): one for key, one in ours.state_dict().items()}
    masked.load_state_dict(weights)
    size = (50, 86)
    assert distance(enlarge(masked.eval()(images(size)), size), model(images(size)).logits) > 1e-3


def test_the_loss_over_labelled_pixels_is_that_of_transformers(tmp_path):
    model = theirs("bottlenecks")
    model.save_pretrained(tmp_path)
    ours, size = load_segmenter(tmp_path), (48, 64)
    labels = torch.randint(0, 5, (2, *size), generator=torch.Generator().manual_seed(2))
    labels[:, :20] = 255
    expected = float(model(images(size, 2), labels=labels).loss.detach())
    output = ours.outputs(images(size, 2), auxiliary=True)
    found = SegmentationLoss(mean="labelled").on_outputs(output, labels)
    assert float(sum(found.values()).detach()) == pytest.approx(expected, rel=1e-5)
    other = SegmentationLoss(mean="all").on_outputs(output, labels)
    assert float(sum(other.values()).detach()) != pytest.approx(expected, rel=1e-3)


def test_sizes_and_names_are_read(tmp_path):
    model = theirs("swin", pool_scales=[1, 4], use_auxiliary_head=False)
    model.config.id2label = {number: f"class {number}" for number in range(5)}
    model.save_pretrained(tmp_path)
    card = load_segmenter(tmp_path).card
    assert (card.config["scales"], card.config["auxiliary"]) == ((1, 4), 0)
    assert card.config["window_padding"] == "attended"
    assert card.labels[4] == "class 4"


@torch.no_grad()
def test_tensors_named_as_in_memory(tmp_path):
    from safetensors.torch import save_file

    model = theirs("swin")
    if "backbone.swin.encoder.layers.0.blocks.0.attention.q_proj.weight" not in model.state_dict():
        pytest.skip("this version of transformers names them as in files")
    save_file(dict(model.state_dict()), tmp_path / "weights.safetensors")
    ours = load_segmenter(tmp_path / "weights.safetensors")
    assert distance(enlarge(ours(images((64, 64))), (64, 64)), model(images((64, 64))).logits) < 1e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"auxiliary_num_convs": 2}, "differs from the paper's"),
        ({"backbone_config": {"model_type": "convnext"}}, "the backbone of this UperNet"),
        ({"backbone_config": {"model_type": "resnet", "hidden_act": "gelu"}}, "this ResNet differs"),
        (
            {"backbone_config": {"model_type": "resnet", "depths": [1, 1], "out_features": ["stage2"]}},
            "the maps that this UperNet reads",
        ),
    ],
)
def test_another_network_is_refused(change, message, tmp_path):
    theirs("basic").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(UserError, match=message):
        load_segmenter(tmp_path)


def test_another_backbone_is_refused(tmp_path):
    from safetensors.torch import save_file

    tensors = {key: one.clone() for key, one in theirs("basic").state_dict().items() if not key.startswith("backbone.")}
    save_file(tensors, tmp_path / "weights.safetensors")
    with pytest.raises(UserError, match="transformers' UperNet") as found:
        load_segmenter(tmp_path / "weights.safetensors")
    assert "another backbone than Swin and ResNet" in str(found.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"backbone": "swin-tiny"}, "window_padding attended"),
        ({"backbone": "pvt-mini"}, "huggingface has no model like"),
        ({"backbone": "resnet-18", "deep_stem": True}, "deep_stem False"),
        ({"backbone": "resnet-mini"}, "reads the third map of four"),
    ],
)
def test_what_transformers_cannot_express_is_not_written(fields, message, tmp_path):
    with pytest.raises(UserError, match=message):
        patchword.save(create_segmenter("upernet", width=8, **fields), tmp_path, layout="huggingface")
