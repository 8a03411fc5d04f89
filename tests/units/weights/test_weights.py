"""Saving and loading, and everything that can be wrong with a file."""

import json
import pickle
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.card import Normalization
from patchword.core.errors import UserError
from support.helpers import difference, pixels, randomise, tiny, unequal_tensors

LABELS = ("ankle boot", "bag", "coat", "dress", "pullover", "sandal", "shirt")
KEY = "stages.0.encoder.blocks.1.feed_forward.sublayer.up.weight"
DIGIT = pixels(1, 1, 28, 28)


@pytest.fixture
def model():
    return tiny()


@pytest.fixture
def exercise():
    """A model whose sizes the registry knows, so that its shapes alone tell what it is."""
    return randomise(patchword.create("vit-exercise")).eval()


@pytest.fixture
def folder(model, tmp_path):
    return patchword.save(model, tmp_path / "model")


def rewrite(folder, change) -> None:
    """Changes the tensors of a saved folder; the metadata goes, the config stays."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def shard(folder, names=("one.safetensors", "two.safetensors")) -> None:
    """Cuts a saved folder into two files and an index, as Hugging Face does with large models."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    keys = sorted(tensors)
    parts = dict(zip(names, (keys[::2], keys[1::2]), strict=True))
    for name, part in parts.items():
        save_file({key: tensors[key] for key in part}, folder / name)
    index = {"metadata": {}, "weight_map": {key: name for name, part in parts.items() for key in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def error_of(source, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        patchword.load(source, **options)
    return caught.value


def test_a_folder_holds_weights_and_config_and_nothing_else(folder, model):
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    config = json.loads((folder / "config.json").read_text())
    assert (config["library"], config["model"], config["config"]) == ("patchword", "vit-tiny-16", model.card.config)


@pytest.mark.parametrize("layout", ["patchword", "huggingface", "timm"])
def test_saving_again_over_a_folder(layout, folder, exercise):
    """The folder held another model, in shards."""
    shard(folder)
    again = patchword.load(patchword.save(exercise, folder, layout=layout))
    assert again.card.model == "vit-exercise"
    assert torch.equal(again(DIGIT), exercise(DIGIT))


@pytest.mark.parametrize("overrides", [{"image": (32, 48)}, {"channels": 1}, {"position": "sinusoidal"}])
def test_a_saved_file_describes_itself(overrides, tmp_path):
    model = tiny("deit-tiny-distilled", **overrides)
    file = patchword.save(model, tmp_path) / "model.safetensors"
    with safe_open(file, framework="pt") as opened:
        assert json.loads(opened.metadata()["patchword"])["model"] == "deit-tiny-distilled"
    again = patchword.load(file)
    images = pixels(1, model.card.config["channels"], 32, 48)
    assert again.card == model.card
    assert torch.equal(again(images), model(images))


def test_a_loaded_model_evaluates_and_can_be_trained(folder):
    model = patchword.load(str(folder))
    assert not model.training
    assert all(parameter.requires_grad and parameter.dtype == torch.float32 for parameter in model.parameters())


def test_half_precision_weights_are_widened(folder, model):
    rewrite(folder, lambda tensors: tensors.update({key: value.half() for key, value in tensors.items()}))
    again = patchword.load(folder)
    assert torch.equal(again.head.linear.weight, model.head.linear.weight.half().float())


@pytest.mark.parametrize("layout", ["patchword", "huggingface"])
def test_labels_survive(layout, model, tmp_path):
    model.card = replace(model.card, labels=LABELS)
    assert patchword.load(patchword.save(model, tmp_path, layout=layout)).card.labels == LABELS


def test_eleven_labels_keep_their_order_in_huggingface(tmp_path):
    model = tiny(classes=11)  # as text, "10" sorts before "2"
    model.card = replace(model.card, labels=tuple(f"class {index}" for index in range(11)))
    assert patchword.load(patchword.save(model, tmp_path, layout="huggingface")).card.labels == model.card.labels


@pytest.mark.parametrize("layout", ["patchword", "huggingface"])
def test_preparation_survives(layout, tmp_path):
    model = tiny("deit-tiny")
    model.card = replace(model.card, normalization=Normalization(mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6)))
    again = patchword.load(patchword.save(model, tmp_path, layout=layout))
    assert again.card.normalization == model.card.normalization


def test_preparation_is_written_for_huggingface(tmp_path):
    patchword.save(tiny("deit-tiny", image=(16, 24)), tmp_path, layout="huggingface")
    prepared = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert prepared["size"] == {"height": 16, "width": 24}
    assert (prepared["image_mean"], prepared["image_std"]) == ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


@pytest.mark.parametrize("size", [48, (16, 24)])
def test_resized_on_load_equals_resized_at_run_time(size, folder, model):
    height, width = (size, size) if isinstance(size, int) else size
    resized = patchword.load(folder, image=size)
    assert resized.card.config["image"] == size
    assert resized.stages[0].positions.table.shape[1] == height * width // 64 + 1
    images = pixels(2, 3, height, width)
    assert difference(resized(images), model(images)) < 1e-5


def test_a_size_that_the_weights_do_not_have_is_named_before_the_tensors(folder):
    depth = patchword.load(folder).card.config["depth"]
    with pytest.raises(UserError, match="tensors differ") as caught:
        patchword.load(folder, depth=depth + 1)
    model = patchword.load(folder).card.model
    first, *others = str(caught.value.hint).splitlines()
    asked = f"depth={depth + 1}"
    assert (
        first == f"the weights have depth {depth}: leave out {asked}, or take {model!r} with {asked} for random weights"
    )
    assert len(others) <= 12
    assert all(line.startswith(("missing", "unexpected", "misshapen", "... and")) for line in others)


def test_everything_wrong_with_the_tensors_is_listed(folder):
    def spoil(tensors):
        del tensors["norm.bias"]
        tensors["surplus"] = torch.zeros(1)
        tensors[KEY] = torch.zeros(3, 5)

    rewrite(folder, spoil)
    error = error_of(folder)
    assert "3 tensors differ" in str(error)
    assert error.hint.splitlines() == [
        "missing     norm.bias (32,)",
        "unexpected  surplus",
        f"misshapen   {KEY}: expected (64, 32), got (3, 5)",
    ]


def test_a_long_list_is_cut(folder):
    rewrite(folder, lambda tensors: tensors.update({f"surplus.{index}": torch.zeros(1) for index in range(50)}))
    lines = error_of(folder).hint.splitlines()
    assert len(lines) == 4
    assert lines[-1] == "... and 47 more"


@pytest.mark.parametrize("layout", ["huggingface", "timm"])
def test_a_name_that_no_table_knows(layout, exercise, tmp_path):
    patchword.save(exercise, tmp_path, layout=layout)
    rewrite(tmp_path, lambda tensors: tensors.update({"pooler.dense.weight": torch.zeros(1)}))
    assert error_of(tmp_path).hint == "unexpected  pooler.dense.weight"


@pytest.mark.parametrize(
    ("layout", "lost", "ours"),
    [
        ("huggingface", "vit.layernorm.weight", "norm.weight"),
        ("huggingface", "vit.embeddings.patch_embeddings.projection.weight", "stages.0.stem.weight"),
        ("timm", "blocks.0.attn.proj.bias", "stages.0.encoder.blocks.0.attention.sublayer.output.bias"),
        ("timm", "patch_embed.proj.weight", "stages.0.stem.weight"),
        ("timm", "cls_token", "stages.0.prefix.tokens"),
        ("timm", "pos_embed", "stages.0.positions.table"),
        ("timm", "blocks.0.mlp.fc1.weight", "stages.0.encoder.blocks.0.feed_forward.sublayer.up.weight"),
        ("timm", "head.weight", "head.linear.weight"),
    ],
)
def test_a_missing_tensor_of_another_library_is_listed_under_our_name(layout, lost, ours, exercise, tmp_path):
    patchword.save(exercise, tmp_path, layout=layout)
    rewrite(tmp_path, lambda tensors: tensors.pop(lost))
    assert error_of(tmp_path, model="vit-exercise").hint.startswith(f"missing     {ours} ")


def test_a_key_matrix_without_its_query_is_listed(exercise, tmp_path):
    """One tensor here is three there: the two that are left must not vanish."""
    patchword.save(exercise, tmp_path, layout="huggingface")
    attention = "vit.encoder.layer.2.attention.attention"
    rewrite(tmp_path, lambda tensors: tensors.pop(f"{attention}.query.weight"))
    assert [line.split()[:2] for line in error_of(tmp_path).hint.splitlines()] == [
        ["missing", "stages.0.encoder.blocks.2.attention.sublayer.projection.joint.weight"],
        ["unexpected", f"{attention}.key.weight"],
        ["unexpected", f"{attention}.value.weight"],
    ]


@pytest.mark.parametrize("suffix", [".bin", ".pt", ".pth", ".ckpt", ".pkl"])
def test_a_pickle_is_refused_by_its_suffix(suffix, tmp_path):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"whatever is inside")
    error = error_of(path)
    assert "is a pickle" in str(error)
    assert "safetensors.torch.save_file(torch.load" in error.hint
    assert all(f"'{name}'" in error.hint for name in ("model", "state_dict", "state_dict_ema"))
    assert error_of(tmp_path).what == error.what  # found in a folder, too


@pytest.mark.parametrize("write", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))])
def test_a_pickle_is_refused_by_its_content(write, tmp_path):
    path = tmp_path / "model.safetensors"
    write({"stages.0.prefix.tokens": [1.0]}, path)
    assert "is a pickle" in str(error_of(path))
    assert "is a pickle" in str(error_of(tmp_path))


def test_no_safetensors_file_is_taken_for_a_pickle(folder):
    tensors = load_file(folder / "model.safetensors")
    for padding in range(0, 256, 8):  # every first byte that a safetensors file can have
        save_file(tensors, folder / "model.safetensors", {"padding": "x" * padding})
        patchword.load(folder)


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, 0.999])
def test_a_truncated_file(kept, folder):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    assert str(error_of(folder)).startswith(f"cannot read {path}: expected a whole .safetensors file")


def test_shards_are_joined_by_their_index(folder, model):
    shard(folder)
    again = patchword.load(folder)
    assert again.card == model.card
    assert unequal_tensors(again, model) == []


def test_a_shard_is_missing(folder):
    shard(folder)
    (folder / "two.safetensors").unlink()
    assert error_of(folder).what == f"there is no file {folder / 'two.safetensors'}"


@pytest.mark.parametrize("name", ["../two.safetensors", "sub/../../two.safetensors", "{absolute}/two.safetensors"])
def test_a_shard_outside_the_folder_is_refused(name, folder, tmp_path):
    (folder / "sub").mkdir()
    shard(folder, ("one.safetensors", name.format(absolute=tmp_path)))
    assert "names files outside its folder" in str(error_of(folder))


def test_a_file_of_names_nobody_knows(tmp_path):
    save_file({"conv1.weight": torch.zeros(1), "fc.bias": torch.zeros(1)}, tmp_path / "resnet.safetensors")
    error = error_of(tmp_path / "resnet.safetensors")
    assert "belong to no known layout" in str(error)
    assert error.got == "2 tensors: conv1.weight, fc.bias, ..."


def test_nothing_there_and_an_empty_folder(tmp_path):
    assert "there is nothing at" in str(error_of(tmp_path / "absent"))
    assert "there are no weights in" in str(error_of(tmp_path))


def bare(folder):
    """The weights alone, without the config that lies beside them."""
    return (folder / "model.safetensors").rename(folder.parent / "bare.safetensors")


@pytest.mark.parametrize("layout", ["huggingface", "timm"])
def test_heads_that_cannot_be_told(layout, model, tmp_path):
    file = bare(patchword.save(model, tmp_path / "saved", layout=layout))
    error = error_of(file)
    assert "the number of heads cannot be inferred" in str(error)
    assert "heads=" in error.hint
    assert "model=" in error.hint
    assert error.got == "depth 2, width 32, hidden 64"


def test_heads_may_be_given_by_hand(model, tmp_path):
    file = patchword.save(model, tmp_path, layout="timm") / "model.safetensors"
    again = patchword.load(file, model="vit-tiny-16", heads=4)
    assert torch.equal(again(pixels(1, 3, 32, 32)), model(pixels(1, 3, 32, 32)))


@pytest.mark.parametrize("layout", ["huggingface", "timm"])
def test_a_known_size_is_recognised_by_its_shapes(layout, exercise, tmp_path):
    again = patchword.load(bare(patchword.save(exercise, tmp_path / "saved", layout=layout)))
    assert again.card.model == "vit-exercise"
    epsilon = {"huggingface": 1e-12, "timm": 1e-6}[layout]  # what either library builds by itself
    assert again.card.config == {**exercise.card.config, "norm_eps": epsilon}
    assert difference(again(DIGIT), exercise(DIGIT)) < 1e-5


def test_a_config_beside_the_file_is_read(tmp_path):
    model = tiny("vit-tiny-16", width=192, depth=12, heads=4, hidden=768)
    file = patchword.save(model, tmp_path, layout="huggingface") / "model.safetensors"
    assert patchword.load(file).card.config["heads"] == 4


def test_what_is_no_model_of_ours_is_not_saved(tmp_path):
    with pytest.raises(UserError, match="create or load"):
        patchword.save(torch.nn.Linear(2, 2), tmp_path)


def test_the_distillation_token_is_recognised(tmp_path):
    model = tiny("deit-tiny-distilled", width=192, depth=12, heads=3, hidden=768)
    again = patchword.load(patchword.save(model, tmp_path, layout="timm") / "model.safetensors")
    assert (again.card.model, again.card.config["distilled"]) == ("deit-tiny-distilled", True)


@pytest.mark.parametrize("overrides", [{"heads": 8}, {"activation": "gelu-tanh"}])
def test_what_timms_names_cannot_tell_is_not_lost_in_silence(overrides, tmp_path):
    model = randomise(patchword.create("vit-exercise", **overrides)).eval()
    again = patchword.load(patchword.save(model, tmp_path, layout="timm"))
    assert difference(again(DIGIT), model(DIGIT)) < 1e-5


def test_a_norm_that_timm_cannot_build_is_refused(tmp_path):
    with pytest.raises(UserError, match="norm_eps"):
        patchword.save(patchword.create("vit-exercise", norm_eps=0.1), tmp_path, layout="timm")


def test_an_override_nobody_knows(folder):
    error = error_of(folder, imgae=48)
    assert "has no field 'imgae'" in str(error)
    assert error.hint == "did you mean 'image'?"


@torch.no_grad()
def test_other_classes_give_a_new_head_and_keep_the_encoder(folder, model):
    again = patchword.load(folder, classes=3)
    images = pixels(2, 3, 32, 32)
    assert again(images).shape == (2, 3)
    assert again.card.labels == ()
    assert torch.equal(again.encode(images)[0], model.encode(images)[0])


def test_an_override_of_another_shape_lists_what_differs(folder):
    field, *lines = error_of(folder, hidden=63).hint.splitlines()
    assert field.startswith("the weights have hidden 64")
    assert lines[0].split(":")[0] == "misshapen   stages.0.encoder.blocks.0.feed_forward.sublayer.up.weight"
    assert not any("head." in line for line in lines)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "tanh"}, "expected hidden_act gelu, "),
        ({"head_dim": 3}, "got head_dim 3"),
        ({"qkv_bias": False}, "projection.joint.bias"),  # the tensors have one
    ],
)
def test_a_vit_that_differs_from_ours_is_refused(change, message, model, tmp_path):
    path = patchword.save(model, tmp_path, layout="huggingface") / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert message in str(error_of(tmp_path))


@pytest.mark.parametrize("layout", ["huggingface", "timm"])
def test_sinusoids_have_no_place_in_other_layouts(layout, tmp_path):
    with pytest.raises(UserError, match=f"{layout} has no model like 'vit-tiny-16'") as caught:
        patchword.save(tiny(position="sinusoidal"), tmp_path / "model", layout=layout)
    assert (caught.value.expected, caught.value.got) == ("position learned", "position sinusoidal")
    assert caught.value.hint == 'use layout="patchword"'
    assert not (tmp_path / "model").exists()


def test_an_unknown_layout_writes_nothing(model, tmp_path):
    with pytest.raises(UserError, match="unknown layout 'tim'") as caught:
        patchword.save(model, tmp_path / "model", layout="tim")
    assert caught.value.hint == "did you mean 'timm'?"
    assert not (tmp_path / "model").exists()


def test_a_folder_that_cannot_be_written(model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot make the folder"):
        patchword.save(model, tmp_path / "file" / "model")


@pytest.mark.parametrize("config", ["{", "[]", '{"library": "patchword"}', '{"library": "patchword", "model": "vit"}'])
def test_a_broken_config_is_the_users_error(config, folder):
    (folder / "config.json").write_text(config)
    error_of(folder)
