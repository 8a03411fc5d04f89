"""Sizes that no model can have are refused before a layer is built."""

import pytest

import patchword
from patchword.core.errors import UserError
from patchword.models.size_limits import LARGEST, MOST_LAYERS


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        (
            "vit-tiny-16",
            {"width": 10**9},
            r"field 'width' of model 'vit-tiny-16': expected at most 16,777,216",
        ),
        ("vit-tiny-16", {"depth": 10**6}, r"field 'depth' of model .*: expected at most 1,000, got 1,000,000"),
        ("swin-tiny", {"depths": (2, 2, 999, 2)}, r"'depths' of model .*: expected a sum of at most 1,000, got 1,005"),
        ("bert-base", {"vocabulary": 2**25}, r"field 'vocabulary' of model 'bert-base': expected at most 16,777,216"),
        ("lstm-translation-small", {"width": 10**12}, r"field 'width' of model"),
    ],
)
def test_an_impossible_size_is_refused_by_field(name, fields, message):
    with pytest.raises(UserError, match=message):
        patchword.create(name, **fields)


def test_the_largest_sizes_are_taken():
    config = patchword.models.REGISTRY.configure("vit-tiny-16", {"depth": MOST_LAYERS, "classes": LARGEST})
    assert (config.depth, config.classes) == (MOST_LAYERS, LARGEST)
