import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from support.helpers import TINY, tiny


def test_list_models_by_pattern():
    assert patchword.list_models("vit-[hl]*-16") == ["vit-large-16", "vit-huge-16"]
    assert patchword.list_models("deit-*distilled") == [
        f"deit-{size}-distilled" for size in ("tiny", "small", "base", "mini")
    ]
    assert patchword.list_models("VIT-*") == []
    everything = patchword.list_models()
    assert len(everything) == len(set(everything))
    assert {"vit-exercise", "deit-small"} < set(everything)


def test_a_model_carries_its_card():
    model = patchword.create("deit-tiny-distilled", **TINY)
    assert model.card.model == "deit-tiny-distilled"
    assert model.card.config.items() >= (TINY | {"distilled": True, "channels": 3}).items()
    assert model.card.normalization == REGISTRY.find("deit-tiny")[0].normalization


def test_unknown_model_names_the_nearest():
    with pytest.raises(UserError, match="no model is called 'vit-bse-16'") as caught:
        patchword.create("vit-bse-16")
    assert "did you mean 'vit-base-16'" in caught.value.hint


def test_unknown_field_names_the_nearest():
    with pytest.raises(UserError, match="has no field 'witdh'") as caught:
        patchword.create("vit-exercise", witdh=3)
    assert caught.value.hint == "did you mean 'width'?"


@pytest.mark.parametrize(
    ("field", "value"),
    [("width", "wide"), ("width", 3.5), ("position", "rotary"), ("activation", "tanh"), ("image", (1, 2, 3))],
)
def test_a_value_of_the_wrong_type_names_its_field(field, value):
    with pytest.raises(UserError, match=f"field '{field}' of model 'vit-exercise'") as caught:
        patchword.create("vit-exercise", **{field: value})
    assert caught.value.got == repr(value)


@pytest.mark.parametrize(
    ("name", "field", "value", "expected"),
    [
        ("vit-exercise", "width", "wide", "a whole number, greater than 0"),
        ("vit-exercise", "dropout", 1.0, "a number, 0 or more and less than 1"),
        ("vit-exercise", "activation", "tanh", "gelu or gelu-tanh or quick-gelu or relu or silu"),
        ("swin-mini", "heads", (1, 0), "values, each a whole number, greater than 0"),
        ("deit-tiny", "distilled", "perhaps", "true or false"),
        ("mobilebert", "bottleneck", 0, "a whole number, greater than 0, or none"),
    ],
)
def test_what_a_field_takes_is_said_in_our_words(name, field, value, expected):
    with pytest.raises(UserError) as caught:
        REGISTRY.configure(name, {field: value})
    assert (caught.value.expected, caught.value.got) == (expected, repr(value))


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [("image", "384", 384), ("image", [32, 48], (32, 48)), ("dropout", "0.1", 0.1), ("classes", "5", 5)],
)
def test_what_a_command_line_gives_becomes_the_fields_type(field, given, kept):
    value = getattr(REGISTRY.configure("vit-base-16", {field: given}), field)
    assert value == kept
    assert type(value) is type(kept)


@pytest.mark.parametrize("name", ["pvt-mini", "cvt-mini"])
@pytest.mark.parametrize("position", ["relative", "local"])
def test_positions_between_two_equal_maps_are_not_for_reduced_keys(name, position):
    with pytest.raises(UserError, match=f"field 'position' of model '{name}'"):
        patchword.create(name, position=position)


@pytest.mark.parametrize("name", ["swin-mini", "cswin-mini", "pale-mini", "pvt-mini", "cvt-mini"])
def test_fields_of_the_stages_must_be_equally_long(name):
    with pytest.raises(UserError, match=r"differ in length: expected one number for each stage, got .*heads 3"):
        patchword.create(name, heads=(1, 2, 4))


def test_a_true_or_false_of_the_command_line():
    assert REGISTRY.configure("deit-tiny", {"distilled": "true"}).distilled is True


@pytest.mark.parametrize("image", [30, (32, 30)])
def test_an_image_the_patch_does_not_divide(image):
    with pytest.raises(UserError, match="cannot be cut into patches of 8 x 8"):
        tiny(image=image)


def test_width_the_heads_do_not_divide():
    with pytest.raises(UserError, match="width 32 cannot be shared by 5 heads"):
        tiny(heads=5)


def test_wrong_channel_count_at_run_time():
    with pytest.raises(UserError, match=r"expected \(batch, 3, height, width\), got \(1, 1, 32, 32\)"):
        tiny()(torch.zeros(1, 1, 32, 32))


@pytest.mark.parametrize("field", ["width", "heads", "hidden", "patch", "image", "channels", "classes"])
def test_a_size_below_one_is_the_users_error(field):
    with pytest.raises(UserError, match=field):
        tiny(**{field: 0})


def test_drop_path_grows_linearly_to_the_last_block():
    blocks = tiny(depth=3, drop_path=0.2).stages[0].encoder.blocks
    assert [block.attention.drop_path.rate for block in blocks] == pytest.approx([0, 0.1, 0.2])
    assert [block.feed_forward.drop_path.rate for block in blocks] == pytest.approx([0, 0.1, 0.2])


def test_every_dropout_arrives():
    model = tiny(dropout=0.1, attention_dropout=0.2)
    rates = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert rates == {0.1}
    assert model.stages[0].encoder.blocks[1].attention.sublayer.core.dropout == 0.2


@torch.no_grad()
def test_activation_is_chosen_by_name():
    exact, tanh = tiny(), tiny(activation="gelu-tanh")
    images = torch.ones(1, 3, 32, 32)
    assert 0 < float((exact(images) - tanh(images)).abs().max()) < 0.1


WITH_HIDDEN = [name for name in REGISTRY.names() if {"width", "hidden"} <= vars(REGISTRY.find(name)[1].config).keys()]


@pytest.mark.parametrize("name", WITH_HIDDEN)
def test_another_width_keeps_the_mlp_ratio(name):
    own = REGISTRY.find(name)[1].config
    wide = REGISTRY.configure(name, {"width": 2 * own.width})
    assert (wide.width, wide.hidden) == (2 * own.width, 2 * own.hidden)
    assert REGISTRY.configure(name, {"width": str(2 * own.width)}) == wide
    assert REGISTRY.configure(name, {"width": 2 * own.width, "hidden": own.hidden}).hidden == own.hidden
    assert REGISTRY.configure(name, {"depth": 1}).hidden == own.hidden


WITH_RATIO = [name for name in WITH_HIDDEN if name != "mobilebert"]  # its feed-forward has the bottleneck's width


@pytest.mark.parametrize("name", WITH_RATIO)
def test_an_mlp_ratio_sets_the_hidden_width(name):
    own = REGISTRY.find(name)[1].config
    assert REGISTRY.configure(name, {"mlp_ratio": 2}).hidden == 2 * own.width
    assert REGISTRY.configure(name, {"mlp_ratio": "2.5", "width": str(2 * own.width)}).hidden == 5 * own.width
    assert REGISTRY.configure(name, {"mlp_ratio": 2, "hidden": 2 * own.width}).hidden == 2 * own.width


def test_a_model_with_an_mlp_ratio_keeps_its_hidden_width_alone():
    assert "mlp_ratio" not in REGISTRY.create("vit-exercise", mlp_ratio=3, width=96).card.config
    assert patchword.create("vit-exercise", mlp_ratio=3, width=96).card.config["hidden"] == 288
    assert patchword.create("swin-mini", mlp_ratio=3).card.config["mlp_ratio"] == 3


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("vit-exercise", {"mlp_ratio": 4, "hidden": 100}, "contradict each other: expected one of them; at width 64, "
         "mlp_ratio=4 is hidden=256, got 100"),
        ("vit-exercise", {"mlp_ratio": 0}, "field 'mlp_ratio': expected a number greater than 0, e.g. 4, got 0"),
        ("vit-exercise", {"mlp_ratio": "wide"}, "field 'mlp_ratio'"),
        ("mobilebert", {"mlp_ratio": 2}, "model 'mobilebert' has no field 'mlp_ratio'"),
        ("resnet-mini", {"mlp_ratio": 2}, "model 'resnet-mini' has no field 'mlp_ratio'"),
    ],
)  # fmt: skip
def test_an_mlp_ratio_that_cannot_be(name, fields, message):
    with pytest.raises(UserError, match=message):
        REGISTRY.configure(name, fields)


def test_a_saved_model_with_another_mlp_ratio_loads_as_it_was(tmp_path):
    model = patchword.create("vit-exercise", width=32, hidden=256)
    assert patchword.load(patchword.save(model, tmp_path / "model")).card.config == model.card.config
