"""The tree of a model's parts, for every kind of input."""

from dataclasses import asdict

import pytest

from patchword.analysis.shapes import part_tree
from patchword.core.card import Card
from patchword.models import REGISTRY


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("vit-exercise", (1, 1, 28, 28)),
        ("bert-tiny", (1, 128)),
        ("transformer-small", (1, 32)),
        ("elmo-small", (1, 128, 50)),
        ("over-vectors", (1, 32, 300)),
    ],
)
def test_the_tree_has_the_shape_of_the_input(model, shape):
    variant = REGISTRY.find(model)[1]
    tree = part_tree(Card(model, asdict(variant.config)))
    assert (tree.input, tree.parameters) == (shape, variant.parameters)
