"""Every field of the image configs of transformers, one at a time: equal outputs, or a refusal that names the field.

There is no third outcome. The first value of each field is compared in every run, the others in the slow ones.
"""

import json

import pytest

import patchword
from patchword.core.errors import UserError
from support.helpers import difference, pixels, tiny
from support.image_configs.walk import outcome
from support.image_configs.walks import WALKS

CASES = [
    pytest.param(walk, name, value, id=f"{walk.kind}{walk.head}-{name}-{value}", marks=[pytest.mark.slow] * (place > 0))
    for walk in WALKS
    for name in walk.fields()
    for place, value in enumerate(walk.values(name))
]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.kind + walk.head)
def test_every_field_of_the_config_is_walked(walk):
    assert all(isinstance(walk.values(name), tuple) for name in walk.fields())
    assert all(value in walk.values(name) for name, values in walk.refused.items() for value in values)


@pytest.mark.parametrize(("walk", "name", "value"), CASES)
def test_another_value_is_computed_or_refused_by_name(walk, name, value, tmp_path):
    expected = "refused" if value in walk.refused.get(name, ()) else "equal"
    assert outcome(walk, name, value, tmp_path) == expected


HIDDEN = [
    ("ViT", "num_attention_heads", 2),
    ("ViT", "layer_norm_eps", 0.1),
    ("ViT", "hidden_act", "relu"),
    ("Swin", "layer_norm_eps", 0.1),
    ("Swin", "image_size", 40),
    ("Cvt", "stride_kv", [2, 1, 2]),
]


@pytest.mark.parametrize(("kind", "name", "value"), HIDDEN)
def test_a_field_that_was_not_read_would_be_found(kind, name, value, tmp_path):
    """A mutation: the config says what the base has, the weights are those of the changed model."""
    walk = next(walk for walk in WALKS if walk.kind == kind)
    assert outcome(walk, name, value, tmp_path, hidden=True).startswith("wrong by")


@pytest.mark.parametrize(
    ("name", "value"), [("global_pool", "avg"), ("class_token", False), ("init_values", 1e-5), ("norm_layer", "rms")]
)
def test_an_argument_of_timm_that_changes_the_function_is_refused(name, value, tmp_path):
    model = tiny()
    path = patchword.save(model, tmp_path, layout="timm") / "config.json"
    config = json.loads(path.read_text())
    for argument, given in (("drop_path_rate", 0.1), ("qk_norm", False), (name, value)):
        config["model_args"][argument] = given
        path.write_text(json.dumps(config))
        if argument == name:
            with pytest.raises(UserError, match=f"got {name} {value}"):
                patchword.load(tmp_path)
        else:
            assert difference(patchword.load(tmp_path)(pixels(2, 3, 32, 32)), model(pixels(2, 3, 32, 32))) < 1e-6
