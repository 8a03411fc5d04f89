"""DETR against transformers: files both ways, logits and boxes of a padded batch; the authors' names; refusals."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from patchword import create, load, save
from patchword.core.errors import AmbiguityWarning, UserError

SIZES = torch.tensor([[97, 131], [64, 70]])  # the second image is padded; no side is a multiple of 32
BACKBONE = {"embedding_size": 4, "hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 1, 1]}
SMALL = {
    "num_queries": 7,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "d_model": 32,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_labels": 5,
}
OURS = {
    "backbone": "resnet-50",
    "backbone_fields": {"width": 4, "depths": (1, 1, 1, 1)},
    "width": 32,
    "heads": 8,
    "hidden": 48,
    "queries": 7,
    "max_detections": 7,
    "classes": 5,
    "encoder_depth": 2,
    "decoder_depth": 2,
}


def theirs(**changed):
    """A small DetrForObjectDetection with large random weights."""
    torch.manual_seed(0)
    body = transformers.ResNetConfig(**BACKBONE, layer_type="bottleneck", out_features=["stage4"])
    model = transformers.DetrForObjectDetection(transformers.DetrConfig(backbone_config=body, **SMALL, **changed))
    return spread(model)


@torch.no_grad()
def spread(model):
    """Draw weights so that attention is far from uniform."""
    for name, tensor in model.state_dict().items():
        if "num_batches" in name:
            continue
        if "running_var" in name:
            tensor.uniform_(0.5, 1.5)
        elif tensor.dim() > 1:
            gain = 2.0 if any(part in name for part in ("q_proj", "k_proj", "query", "key")) else 1.4
            tensor.normal_(std=gain / tensor[0].numel() ** 0.5)
        else:
            tensor.normal_(std=0.2)
            if "norm" in name and name.endswith("weight"):
                tensor.add_(1)
    return model.eval()


@pytest.fixture(scope="module")
def batch():
    pixels = torch.randn(2, 3, 97, 131, generator=torch.Generator().manual_seed(1))
    inside = torch.zeros(2, 97, 131, dtype=torch.long)
    for image, (height, width) in enumerate(SIZES.tolist()):
        inside[image, :height, :width] = 1
    return SimpleNamespace(pixels=pixels * inside[:, None], mask=inside)


@torch.no_grad()
def ours_of(detector, batch):
    found = detector.outputs(detector.features(batch.pixels), SIZES)
    return found.logits[-1], found.boxes[-1]


@torch.no_grad()
def theirs_of(model, batch):
    found = model(batch.pixels, pixel_mask=batch.mask)
    return found.logits, found.pred_boxes


def assert_equal(found, expected, share=1e-5):
    for one, other in zip(found, expected, strict=True):
        assert float((one - other).abs().max()) <= share * float(other.abs().max())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("detr")
    theirs().save_pretrained(path)
    return path


def test_their_folder_computes_the_same(folder, batch):
    model, detector = theirs(), load(folder)
    assert detector.card.config["heads"] == 4
    assert detector.card.config["attention_dropout"] == 0
    assert detector.card.config["max_detections"] == 7
    assert_equal(ours_of(detector, batch), theirs_of(model, batch))


def test_attention_of_the_test_is_not_uniform(batch):
    model = theirs()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(batch.pixels, pixel_mask=batch.mask, output_attentions=True).cross_attentions[-1]
    assert float(weights.amax(dim=-1).mean()) > 3 / weights.shape[-1]


def test_their_model_reads_our_folder(tmp_path, batch):
    detector = spread(create("detr", **OURS))
    save(detector, tmp_path, "huggingface")
    model, info = transformers.DetrForObjectDetection.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert_equal(ours_of(detector, batch), theirs_of(model.eval(), batch))
    again = load(tmp_path)
    assert again.card.config == {**detector.card.config, "backbone_fields": again.card.config["backbone_fields"]}
    assert_equal(ours_of(again, batch), ours_of(detector, batch), share=0.0)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    assert dict(processor.size) == {"shortest_edge": 800, "longest_edge": 1333}


def changed_mask(detector, monkeypatch):
    """Attention to the padding."""
    plain = detector.encoder.forward
    monkeypatch.setattr(detector.encoder, "forward", lambda tokens, scope: plain(tokens, replace(scope, mask=None)))


def changed_positions(detector, monkeypatch):
    """Positions that count the padding."""
    plain = detector.positions.forward
    monkeypatch.setattr(detector.positions, "forward", lambda valid: plain(torch.ones_like(valid)))


def changed_pixels(detector, monkeypatch):
    """Cells of 32 pixels, although the image is not a multiple of it."""
    plain = detector.with_pixels
    monkeypatch.setattr(
        detector, "with_pixels", lambda one, image: plain(one, (one.shape[-2] * 32, one.shape[-1] * 32))
    )


@pytest.mark.parametrize("change", [changed_mask, changed_positions, changed_pixels])
def test_a_changed_rule_of_padding_is_noticed(folder, batch, change, monkeypatch):
    detector, model = load(folder), theirs()
    change(detector, monkeypatch)
    with pytest.raises(AssertionError):
        assert_equal(ours_of(detector, batch), theirs_of(model, batch), share=1e-3)


def test_auxiliary_losses_are_noted(folder, tmp_path, batch):
    """transformers computes another function then; we compute the authors'."""
    rewrite(folder, tmp_path, auxiliary_loss=True)
    with pytest.warns(AmbiguityWarning, match="auxiliary_loss=True"):
        detector = load(tmp_path)
    assert_equal(ours_of(detector, batch), theirs_of(theirs(), batch))


def rewrite(folder, target, **changed):
    """Copy a folder with other values in its config."""
    config = json.loads((folder / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | changed))
    (target / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())


TIMM = {"model_type": "timm_backbone", "backbone": "resnet50"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dilation": True}, "dilation False"),
        ({"position_embedding_type": "learned"}, "position_embedding_type sine"),
        ({"two_stage": True}, "two_stage False"),
        ({"activation_function": "gelu"}, "activation_function relu"),
        ({"encoder_layerdrop": 0.5}, "encoder_layerdrop 0"),
        ({"decoder_attention_heads": 2}, "decoder_attention_heads 4"),
        ({"backbone_config": {"model_type": "swin"}}, "not supported"),
        ({"backbone_config": {**TIMM, "backbone": "resnet50d"}}, "resnet50d"),
        ({"backbone_config": {**TIMM, "output_stride": 16}}, "output_stride 32"),
        ({"backbone_config": {"model_type": "resnet", "downsample_in_first_stage": True}}, "downsample_in_first_stage"),
        ({"backbone_config": None, "backbone": "tf_efficientnet_b0"}, "tf_efficientnet_b0"),
    ],
)
def test_what_we_do_not_compute_is_refused(folder, tmp_path, changed, message):
    rewrite(folder, tmp_path, **changed)
    with pytest.raises(UserError, match=message):
        load(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("mask_head.lay1.weight", "bbox_attention.q_linear.weight"), "panoptic segmentation"),
        (("transformer.encoder.norm.weight", "class_embed.weight"), "norms before"),
        (("backbone.1.row_embed.weight",), "learned positions"),
        (("model.encoder.layernorm.weight", "class_labels_classifier.weight"), "Table Transformer"),
        (("model.decoder.layers.0.sa_qcontent_proj.weight", "model.input_projection.weight"), "Conditional DETR"),
        (("model.encoder.layers.0.self_attn.sampling_offsets.weight",), "Deformable DETR"),
    ],
)
def test_other_models_are_refused_by_name(tmp_path, names, message):
    save_file({**{name: torch.zeros(2) for name in names}, "other.x": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=message):
        load(tmp_path)


def test_the_backbone_of_timm_has_other_names(folder, tmp_path, batch):
    """The file of facebook/detr-resnet-50 has timm's names of the backbone, and an older config."""
    rewrite(folder, tmp_path, backbone_config=None, backbone="resnet50", use_timm_backbone=True)
    tensors = load_file(folder / "model.safetensors")
    prefix = "model.backbone.conv_encoder.model."
    body = {name.removeprefix(prefix): one for name, one in tensors.items() if name.startswith(prefix)}
    renamed = {prefix + timm_name(name): one for name, one in body.items()}
    rest = {name: one for name, one in tensors.items() if not name.startswith(prefix)}
    save_file({**rest, **renamed}, tmp_path / "model.safetensors")
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"size": 640, "max_size": 900, "image_mean": [0.5] * 3, "image_std": [0.2] * 3})
    )
    detector = load(tmp_path)
    assert (detector.card.config["min_size"], detector.card.config["max_size"]) == (640, 900)
    assert detector.card.normalization.mean == (0.5, 0.5, 0.5)
    assert_equal(ours_of(detector, batch), ours_of(load(folder), batch), share=0.0)


def timm_name(name):
    parts = name.split(".")
    if parts[0] == "embedder":
        return f"{'conv1' if parts[2] == 'convolution' else 'bn1'}.{parts[-1]}"
    stage, block = f"layer{int(parts[2]) + 1}", parts[4]
    if parts[5] == "shortcut":
        return f"{stage}.{block}.downsample.{int(parts[6] == 'normalization')}.{parts[-1]}"
    return f"{stage}.{block}.{'conv' if parts[7] == 'convolution' else 'bn'}{int(parts[6]) + 1}.{parts[-1]}"


def test_the_names_of_the_authors(tmp_path, batch):
    detector = spread(create("detr", **OURS))
    save(detector, tmp_path, "authors")
    names = load_file(tmp_path / "model.safetensors")
    assert names["transformer.decoder.layers.1.multihead_attn.in_proj_weight"].shape == (96, 32)
    assert names["backbone.0.body.layer4.0.downsample.0.weight"].shape[0] == 128
    assert not any("num_batches_tracked" in name for name in names)
    with pytest.warns(AmbiguityWarning, match="8 heads and no dilation"):
        again = load(tmp_path)
    assert_equal(ours_of(again, batch), ours_of(detector, batch), share=0.0)


def test_other_detectors_have_no_name_in_transformers(tmp_path):
    with pytest.raises(UserError, match="no name for backbone"):
        save(create("detr", **OURS | {"backbone": "swin-mini", "backbone_fields": {}}), tmp_path, "huggingface")
    with pytest.raises(UserError, match="heads 8"):
        save(create("detr", **OURS | {"heads": 4}), tmp_path, "authors")
