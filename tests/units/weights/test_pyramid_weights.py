"""Swin, CvT, CSWin and PVT under the names of others, without those others: tests/parity and tests/golden have them."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.card import Normalization, Resize
from patchword.core.errors import UserError
from patchword.layers import ImagePosition
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.models.vision import swin
from patchword.weights.io.preprocessing import authors_resize
from patchword.weights.names.layouts import LAYOUTS
from support.helpers import difference, pixels, randomise, unequal_tensors

CSWIN = {"width": 8, "depths": (1, 1, 1, 1), "heads": (2, 2, 4, 4), "stripes": (1, 2, 2, 7), "image": 64, "classes": 5}
PVT = {"widths": (8, 16), "heads": (2, 4), "depths": (2, 1), "mlp_ratios": (2, 3), "reductions": (4, 1), "image": 32}
RATES = {"drop_path": 0.1, "dropout": 0.2, "attention_dropout": 0.3}
MODELS = [  # a layout, a model and the sizes that it can be written with
    ("authors", "swin-mini", {"image": (56, 84), "mlp_ratio": 2.5, **RATES}),
    ("timm", "swin-mini", {"image": (28, 56), "mlp_ratio": 2.5, **RATES}),
    ("huggingface", "swin-mini", {"image": 56, "mlp_ratio": 2.5, **RATES}),
    ("authors", "cvt-mini", {"image": (32, 48), "stride": 1, "heads": (2, 4), **RATES}),
    ("huggingface", "cvt-mini", {"image": (32, 48), "stride": 1, "heads": (2, 4), "patch": 4, **RATES}),
    ("huggingface", "cvt-mini", {"activation": "gelu"}),
    ("authors", "cswin-tiny", {**CSWIN, **RATES}),
    ("authors", "pvt-tiny", {**PVT, **RATES}),
    ("authors", "pvt-tiny", {**PVT, "reductions": (1, 1)}),
    ("huggingface", "pvt-tiny", {**PVT, "norm_eps": 1e-5, **RATES}),
]


def made(name, **overrides):
    return randomise(patchword.create(name, **overrides)).eval()


def answer(model):
    c = model.card.config
    image = c["image"]
    with torch.no_grad():
        return model(pixels(1, c["channels"], *((image, image) if isinstance(image, int) else image)))


def tensors_of(model, folder, layout):
    return load_file(patchword.save(model, folder, layout=layout) / "model.safetensors")


def error_of(act, *arguments, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        act(*arguments, **options)
    return caught.value


@pytest.mark.parametrize(("layout", "name", "sizes"), MODELS)
def test_a_folder_for_others_is_the_same_model_again(layout, name, sizes, tmp_path):
    model = made(name, **sizes)
    model.card = replace(model.card, labels=tuple(f"class {index}" for index in range(model.card.config["classes"])))
    again = patchword.load(patchword.save(model, tmp_path, layout=layout))
    assert (again.card.config, again.card.labels) == (model.card.config, model.card.labels)
    assert again.card.normalization == model.card.normalization
    assert torch.equal(answer(again), answer(model))


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        *((layout, "swin-mini") for layout in ("authors", "timm", "huggingface")),
        *((layout, "cvt-mini") for layout in ("authors", "huggingface")),
        ("authors", "pvt-mini"),
    ],
)
def test_a_bare_file_of_a_known_size_is_recognised(layout, name, tmp_path):
    model = made(name)
    save_file(tensors_of(model, tmp_path / "saved", layout), tmp_path / "bare.safetensors")
    again = patchword.load(tmp_path / "bare.safetensors")
    assert (again.card.model, again.card.config) == (name, model.card.config)
    assert torch.equal(answer(again), answer(model))


@pytest.mark.parametrize(
    ("layout", "name", "sizes"),
    [
        ("authors", "cvt-mini", {"depths": (1, 3)}),
        ("huggingface", "cvt-mini", {"depths": (1, 3)}),
        ("authors", "pvt-tiny", PVT),
        ("authors", "cswin-tiny", CSWIN),
    ],
)
def test_heads_that_cannot_be_told(layout, name, sizes, tmp_path):
    model = made(name, **sizes)
    save_file(tensors_of(model, tmp_path / "saved", layout), tmp_path / "bare.safetensors")
    error = error_of(patchword.load, tmp_path / "bare.safetensors")
    assert "the number of heads cannot be inferred" in str(error)
    assert "depths" in error.got
    output = {field: value for field, value in model.card.config.items() if field in ("heads", "stripes", "image")}
    assert torch.equal(answer(patchword.load(tmp_path / "bare.safetensors", **output)), answer(model))


def test_the_tables_of_a_bare_swin_tell_its_heads_and_window(tmp_path):
    model = made("swin-mini", heads=(4, 8), window=3, image=24, width=16, depths=(1, 3), patch=4)
    save_file(tensors_of(model, tmp_path / "saved", "authors"), tmp_path / "bare.safetensors")
    again = patchword.load(tmp_path / "bare.safetensors", image=24)
    assert again.card.config == model.card.config
    assert torch.equal(answer(again), answer(model))


def test_a_merge_ends_a_stage_for_the_authors_and_begins_one_for_timm(tmp_path):
    model = made("swin-tiny", width=12, depths=(1, 1, 1), heads=(1, 2, 3), window=2, image=32)
    names = {layout: tensors_of(model, tmp_path / layout, layout) for layout in ("authors", "timm", "huggingface")}
    reduce = model.stages[1].stem.reduce.weight
    assert torch.equal(names["authors"]["layers.0.downsample.reduction.weight"], reduce)
    assert torch.equal(names["timm"]["layers.1.downsample.reduction.weight"], reduce)
    assert torch.equal(names["huggingface"]["swin.encoder.layers.0.downsample.reduction.weight"], reduce)
    assert not any("layers.2.downsample" in name for name in (*names["authors"], *names["huggingface"]))
    assert not any("layers.0.downsample" in name for name in names["timm"])
    assert {"head.weight", "head.bias"} <= names["authors"].keys()
    assert {"head.fc.weight", "head.fc.bias"} <= names["timm"].keys()


@pytest.mark.parametrize(
    ("layout", "buffers"),
    [
        ("authors", ("layers.0.blocks.1.attn_mask", "layers.1.blocks.0.attn.relative_position_index")),
        ("timm", ("layers.0.blocks.1.attn_mask", "layers.1.blocks.0.attn.relative_position_index")),
        ("huggingface", ("swin.encoder.layers.1.blocks.0.attention.self.relative_position_index",)),
    ],
)
def test_what_the_authors_need_not_have_saved_is_dropped(layout, buffers, tmp_path):
    model = made("swin-mini")
    tensors = tensors_of(model, tmp_path / "saved", layout) | {name: torch.zeros(3, 3) for name in buffers}
    save_file(tensors, tmp_path / "theirs.safetensors")
    assert torch.equal(answer(patchword.load(tmp_path / "theirs.safetensors")), answer(model))


def test_queries_keys_and_values_of_a_pvt(tmp_path):
    """One matrix for all three where nothing is reduced, one for two where something is."""
    model = made("pvt-tiny", **PVT)
    theirs = tensors_of(model, tmp_path / "authors", "authors")
    reduced, plain = (stage.encoder.blocks[0].attention.sublayer.projection for stage in model.stages)
    assert torch.equal(theirs["block1.0.attn.q.weight"], reduced.query.weight)
    assert torch.equal(theirs["block1.0.attn.kv.weight"], reduced.joint.weight)
    assert torch.equal(theirs["block2.0.attn.q.bias"], plain.joint.bias[:16])
    assert torch.equal(theirs["block2.0.attn.kv.bias"], plain.joint.bias[16:])
    theirs = tensors_of(model, tmp_path / "huggingface", "huggingface")
    part = "pvt.encoder.block.{}.0.attention.self.{}.bias"
    assert torch.equal(theirs[part.format(0, "value")], reduced.joint.bias[8:])
    assert torch.equal(theirs[part.format(1, "key")], plain.joint.bias[16:32])


@pytest.mark.parametrize("wrapper", ["module.", "model.", "state_dict.", "state_dict.model.", "module._orig_mod."])
@pytest.mark.parametrize("layout", ["authors", "timm", "huggingface", "patchword"])
def test_words_before_every_name_are_taken_off(wrapper, layout, tmp_path):
    model = made("swin-mini")
    tensors = tensors_of(model, tmp_path / "saved", layout)
    save_file({wrapper + name: tensor for name, tensor in tensors.items()}, tmp_path / "wrapped.safetensors")
    again = patchword.load(tmp_path / "wrapped.safetensors", model="swin-mini")
    assert torch.equal(answer(again), answer(model))


def test_words_before_some_names_are_not_taken_off(tmp_path):
    tensors = tensors_of(made("swin-mini"), tmp_path / "saved", "timm")
    wrapped = {f"model.{name}": tensor for name, tensor in tensors.items()}
    save_file({**wrapped, "teacher.weight": torch.zeros(1)}, tmp_path / "wrapped.safetensors")
    assert "belong to no known layout" in str(error_of(patchword.load, tmp_path / "wrapped.safetensors"))


@pytest.mark.parametrize("layout", ["authors", "timm", "huggingface"])
def test_a_swin_loaded_with_another_window_has_its_tables_resized(layout, tmp_path):
    model = made("swin-mini")
    folder = patchword.save(model, tmp_path, layout=layout)
    again = patchword.load(folder, window=12, image=48)
    key = "stages.1.encoder.blocks.1.attention.sublayer.patterns.0.position.table"
    table, resized = model.get_parameter(key), again.get_parameter(key)
    picture = table.T.reshape(1, 4, 13, 13)
    expected = F.interpolate(picture, size=(23, 23), mode="bicubic", align_corners=False).reshape(4, 23 * 23).T
    assert difference(resized, expected) < 1e-6
    assert (again.card.config["window"], again.card.config["image"]) == (12, 48)
    assert again.stages[0].encoder.blocks[1].attention.sublayer.patterns[0].partition.shift == 6
    assert answer(again).shape == (1, 10)


def test_a_swin_loaded_with_another_image_alone_keeps_its_tables(tmp_path):
    model = made("swin-mini")
    again = patchword.load(patchword.save(model, tmp_path, layout="timm"), image=84)
    assert unequal_tensors(again, model) == []


def test_a_pvt_loaded_with_another_image_has_its_tables_resized(tmp_path):
    model = made("pvt-tiny", **PVT)
    again = patchword.load(patchword.save(model, tmp_path, layout="authors"), image=(64, 32))
    table = model.stages[1].positions.table
    picture = table[:, 1:].reshape(1, 4, 4, 16).permute(0, 3, 1, 2)
    resized = F.interpolate(picture, size=(8, 4), mode="bilinear", align_corners=False).flatten(2).transpose(1, 2)
    assert torch.allclose(again.stages[1].positions.table, torch.cat([table[:, :1], resized], 1))


@pytest.mark.parametrize(
    ("layout", "name", "sizes", "said"),
    [
        ("authors", "swin-mini", {"image": 32}, "sides that 28 divides"),
        ("timm", "swin-mini", {"image": (28, 30)}, "sides that 28 divides"),
        ("huggingface", "swin-mini", {"image": 14}, "sides that 28 divides"),
        ("huggingface", "swin-mini", {"image": (28, 56)}, "a square image"),
        ("authors", "swin-mini", {"image": (56, 28)}, "a square image"),
        ("timm", "swin-mini", {"position": "conditional"}, "position relative"),
        ("timm", "swin-mini", {"norm_eps": 1e-6}, "norm_eps 1e-05"),
        ("timm", "cvt-mini", {}, "a family it knows"),
        ("huggingface", "cvt-mini", {"position": "learned"}, "position none"),
        ("huggingface", "cvt-mini", {"depths": (2, 1)}, "depths from 1, 2 on"),
        ("authors", "cvt-mini", {"activation": "gelu"}, "activation quick-gelu"),
        ("huggingface", "cswin-mini", {}, "a family it knows"),
        ("authors", "cswin-tiny", {**CSWIN, "patch": 2}, "patch 4"),
        ("authors", "cswin-mini", {"patch": 4}, "4 stages"),
        ("authors", "cswin-tiny", {**CSWIN, "image": (64, 96)}, "a square with sides that 32 divides"),
        ("authors", "cswin-tiny", {**CSWIN, "stripes": (1, 8, 2, 7)}, "do not cover them"),
        ("authors", "cswin-tiny", {**CSWIN, "stripes": (1, 3, 2, 7)}, "stripes that divide their maps, of 16, 8, 4"),
        ("huggingface", "pvt-mini", {}, "patch 4"),
        ("huggingface", "pvt-tiny", {**PVT, "image": (32, 64)}, "a square"),
        ("authors", "pvt-tiny", {**PVT, "image": 40}, "sides that 16 divides"),
        ("huggingface", "pvt-tiny", {**PVT, "reductions": (2, 2)}, "reductions that end in 1"),
    ],
)
def test_what_others_do_not_have_is_refused_and_nothing_is_written(layout, name, sizes, said, tmp_path):
    error = error_of(patchword.save, patchword.create(name, **sizes), tmp_path / "model", layout=layout)
    assert said in error.expected
    assert error.got is not None
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("name", "sizes", "change"),
    [
        ("cvt-mini", {}, {"stride_q": [2, 1]}),
        ("cvt-mini", {}, {"cls_token": [True, True]}),
        ("pvt-tiny", PVT, {"strides": [2, 2]}),
    ],
)
def test_a_model_that_differs_from_the_papers_is_refused(name, sizes, change, tmp_path):
    path = patchword.save(patchword.create(name, **sizes), tmp_path, layout="huggingface") / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    error = error_of(patchword.load, tmp_path)
    assert "differs from the paper's" in str(error)
    assert next(iter(change)) in error.got


@pytest.mark.parametrize(
    ("name", "sizes", "change"),
    [
        ("cvt-mini", {}, {"num_heads": [1, 2, 6], "stride_kv": [2, 2, 2], "mlp_ratio": [4.0, 4.0, 4.0]}),
        ("pvt-tiny", PVT, {"mlp_ratios": [2, 3, 4, 4], "num_attention_heads": [2, 4, 5, 8]}),
    ],
)
def test_lists_longer_than_the_stages_are_cut(name, sizes, change, tmp_path):
    """transformers saves its defaults for four stages, or three, beside fewer of them."""
    model = made(name, **sizes)
    path = patchword.save(model, tmp_path, layout="huggingface") / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    again = patchword.load(tmp_path)
    assert again.card.config == model.card.config


@pytest.mark.parametrize(
    ("layout", "lost", "listed"),
    [
        ("authors", "block1.0.attn.sr.bias", "stages.0.encoder.blocks.0.attention.sublayer.projection.reduce.bias"),
        ("authors", "cls_token", "stages.1.prefix.tokens"),
        ("authors", "pos_embed2", "stages.1.positions.table"),
        ("authors", "block2.0.attn.q.bias", "stages.1.encoder.blocks.0.attention.sublayer.projection.joint.bias"),
        ("huggingface", "pvt.encoder.patch_embeddings.1.cls_token", "stages.1.prefix.tokens"),
    ],
)
def test_a_missing_tensor_is_listed_under_our_name(layout, lost, listed, tmp_path):
    path = patchword.save(patchword.create("pvt-tiny", **PVT), tmp_path, layout=layout) / "model.safetensors"
    save_file({name: tensor for name, tensor in load_file(path).items() if name != lost}, path)
    assert error_of(patchword.load, tmp_path).hint.startswith(f"missing     {listed} ")


@torch.no_grad()
@pytest.mark.parametrize(("name", "image"), [("vit-exercise", (8, 32)), ("pvt-mini", (8, 32))])
def test_a_table_is_not_taken_for_a_square_when_the_image_is_told(name, image, tmp_path):
    """16 patches may lie 4 x 4 or 2 x 8, and a bare file does not say."""
    model = randomise(patchword.create(name, image=image)).eval()
    bare = tmp_path / "bare.safetensors"
    layout = "timm" if name.startswith("vit") else "authors"
    config = model.card.config
    table = next(table for table in LAYOUTS if (table.library, table.family) == (layout, name.split("-")[0]))
    save_file(table.to_theirs(model.state_dict()), bare)
    again = patchword.load(bare, image=image, heads=config["heads"], **output(config))
    assert difference(again(pixels(2, 1, *image)), model(pixels(2, 1, *image))) < 1e-6


def output(config: dict[str, object]) -> dict[str, object]:
    return {field: config[field] for field in ("reductions",) if field in config}


def test_stripes_of_a_larger_image_are_those_of_its_variant(tmp_path):
    with torch.device("meta"):
        shapes = patchword.create("cswin-base-384").state_dict()
    table = next(table for table in LAYOUTS if table.family == "cswin")
    tensors = {name: torch.zeros(tensor.shape) for name, tensor in shapes.items()}
    save_file(table.to_theirs(tensors), tmp_path / "cswin.safetensors")
    assert patchword.load(tmp_path / "cswin.safetensors").card.config["stripes"] == (1, 2, 7, 7)
    larger = patchword.load(tmp_path / "cswin.safetensors", image=384)
    assert (larger.card.model, larger.card.config["stripes"]) == ("cswin-base-384", (1, 2, 12, 12))


def test_a_preprocessor_of_another_save_does_not_stay(tmp_path):
    model = patchword.create("resnet-18", width=8, depths=(1, 1, 1, 1))
    patchword.save(model, tmp_path, layout="huggingface")
    model.card = replace(model.card, normalization=Normalization((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))
    patchword.save(model, tmp_path)
    assert patchword.load(tmp_path).card.normalization == model.card.normalization
    assert not (tmp_path / "preprocessor_config.json").exists()


def test_a_resnet_of_timms_that_differs_without_weights_is_refused(tmp_path):
    folder = patchword.save(patchword.create("resnet-18"), tmp_path, layout="timm")
    config = json.loads((folder / "config.json").read_text())
    assert patchword.load(folder).card.model == "resnet-18"
    (folder / "config.json").write_text(json.dumps(config | {"architecture": "resnetblur18"}))
    with pytest.raises(UserError, match="resnetblur18"):
        patchword.load(folder)


def test_a_model_composed_by_hand_has_maps_but_no_file(tmp_path):
    model = swin.build(swin.MINI, ImagePosition())
    assert model.backbone().widths == (32, 64)
    with pytest.raises(UserError, match="without a card"):
        patchword.save(model, tmp_path)


def bare_file(folder: Path, model: Model, layout: str) -> Path:
    """Write weights as one file whose folder has no config."""
    saved = patchword.save(model, folder / "saved", layout=layout)
    return (saved / "model.safetensors").rename(folder / "weights.safetensors")


@pytest.mark.parametrize(
    ("name", "fields", "resize"),
    [
        ("swin-tiny", {"depths": (1, 1), "heads": (2, 4), "width": 8, "image": 56}, Resize("crop", 0.875, "bicubic")),
        ("vit-tiny-16", {"depth": 1, "width": 192, "hidden": 768, "image": 64}, Resize("stretch", 1.0, "bilinear")),
    ],
)
def test_a_file_without_config_is_resized_as_its_authors_do(name, fields, resize, tmp_path):
    file = bare_file(tmp_path, patchword.create(name, classes=3, **fields), "timm" if "vit" in name else "authors")
    heads = {"heads": fields.get("heads", 3)}
    assert patchword.load(file, model=name, image=fields["image"], **heads).card.resize == resize


@pytest.mark.parametrize("family", ["vit", "mixer", "deit", "swin", "cvt", "pvt", "cswin", "resnet", "regnety"])
def test_every_family_with_published_weights_has_its_own_resizing(family):
    assert family in {found.name for found in REGISTRY.families}
    assert authors_resize(family, 224) != Resize()
    assert authors_resize(family, (224, 224)) == authors_resize(family, 224)


def test_swin_cvt_and_cswin_cut_nothing_off_large_images():
    for family in ("swin", "cvt", "cswin"):
        assert authors_resize(family, 384).crop == 1
    assert authors_resize("deit", 384).crop == 0.875
    assert authors_resize("pale", 224) == authors_resize("swin", 28) == Resize()


def test_a_weight_file_beside_its_preprocessor_config_uses_it(tmp_path):
    model = patchword.create("swin-mini", channels=3)
    folder = patchword.save(model, tmp_path, layout="huggingface")
    wanted = {"size": {"shortest_edge": 40}, "crop_size": 28, "do_center_crop": True, "resample": 2}
    (folder / "preprocessor_config.json").write_text(json.dumps(wanted))
    assert patchword.load(folder / "model.safetensors").card.resize == Resize("crop", 0.7, "bilinear")


@pytest.fixture
def their_cvt(tmp_path) -> Path:
    """A CvT as transformers writes it: its config does not state the activation."""
    folder = patchword.save(patchword.create("cvt-mini", depths=(1, 2)), tmp_path / "cvt", layout="huggingface")
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("hidden_act") == "quick_gelu"
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_a_cvt_without_a_stated_activation_is_a_warning(their_cvt):
    with pytest.warns(UserWarning, match='QuickGELU is used.*activation="gelu" gives its outputs') as caught:
        assert patchword.load(their_cvt).card.config["activation"] == "quick-gelu"
    assert caught[0].filename == __file__  # the line of the caller
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert patchword.load(their_cvt, activation="gelu").card.config["activation"] == "gelu"
        patchword.load(patchword.save(patchword.create("cvt-mini"), their_cvt.parent / "ours"))


@pytest.mark.filterwarnings("always::UserWarning")
def test_the_command_line_prints_the_warning_as_one_note(their_cvt, command):
    code, _, complaint = command("show", their_cvt)
    assert code == 0
    assert complaint.count("note: this CvT does not state its activation") == 1
    assert "UserWarning" not in complaint
