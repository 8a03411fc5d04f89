"""Every field of the image configs of transformers, one at a time: equal outputs, or a refusal that names the field.

There is no third outcome. The first value of each field is compared in every run, the others in the slow ones.
"""

import pytest

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
