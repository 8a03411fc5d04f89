"""reset_classifier: a new head for another number of classes; all other weights stay."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from support.helpers import tiny, tiny_text


@pytest.mark.parametrize("name", ["vit-tiny-16", "deit-tiny", "swin-tiny", "resnet-18"])
def test_a_new_head_for_other_classes(name):
    model = patchword.create(name, image=64, classes=3)
    before = {key: value.clone() for key, value in model.state_dict().items() if not key.startswith("head.")}
    model.eval().reset_classifier(5)
    assert model.card.config["classes"] == 5
    assert not model.head.training
    assert model(REGISTRY.example(model.card)).shape[-1] == 5
    after = model.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())


def test_the_labels_of_the_old_classes_are_dropped(tmp_path):
    model = tiny(classes=3)
    model.card = replace(model.card, labels=("a", "b", "c"))
    model.reset_classifier(2)
    assert model.card.labels == ()
    patchword.save(model, tmp_path)
    assert patchword.load(tmp_path).card.config["classes"] == 2


@pytest.mark.parametrize("head", ["classes", "tags"])
def test_texts(head):
    model = tiny_text("bert-tiny", head=head, classes=3)
    model.reset_classifier(4)
    assert model(torch.ones(1, 4, dtype=torch.long)).shape[-1] == 4


def test_a_copied_or_pickled_model_keeps_the_method():
    model = tiny(classes=3)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.reset_classifier(7)
        assert other.card.config["classes"] == 7
    assert model.card.config["classes"] == 3


@pytest.mark.parametrize(
    ("make", "classes", "message"),
    [
        (lambda: tiny_text("bert-tiny", head="pooled"), 2, r"the head 'pooled' of 'bert-tiny' has no classes"),
        (lambda: patchword.create("transformer-small"), 2, "model 'transformer-small' has no field 'classes'"),
        (tiny, 0, "field 'classes' of model 'vit-tiny-16'"),
    ],
)
def test_a_model_without_classes_is_refused(make, classes, message):
    model = make()
    before = model.card
    with pytest.raises(UserError, match=message):
        model.reset_classifier(classes)
    assert model.card == before
