"""FAMILIES: the registry of all architectures; each is a short composition of layers."""

from patchword.core.errors import UserError
from patchword.layers.model import Model
from patchword.layers.pyramid import Backbone, Pyramid
from patchword.models.catalogue import describe_fields
from patchword.models.registry import Registry
from patchword.models.seq2seq import lstm_translation, transformer
from patchword.models.text import (
    albert,
    bert,
    bigbird,
    distilbert,
    elmo,
    ernie,
    gpt,
    gpt2,
    grover,
    mobilebert,
    roberta,
    tinybert,
    xlm,
)
from patchword.models.text import frozen_vectors as over_vectors
from patchword.models.vision import cswin, cvt, deit, mixer, pale, pvt, regnet, resnet, swin, vit

REGISTRY = Registry(
    (
        vit.FAMILY,
        deit.FAMILY,
        swin.FAMILY,
        cvt.FAMILY,
        cswin.FAMILY,
        pale.FAMILY,
        pvt.FAMILY,
        mixer.FAMILY,
        resnet.FAMILY,
        regnet.FAMILY,
        bert.FAMILY,
        roberta.FAMILY,
        albert.FAMILY,
        distilbert.FAMILY,
        tinybert.FAMILY,
        mobilebert.FAMILY,
        ernie.FAMILY,
        xlm.FAMILY,
        bigbird.FAMILY,
        gpt.FAMILY,
        gpt2.FAMILY,
        grover.FAMILY,
        transformer.FAMILY,
        lstm_translation.FAMILY,
        elmo.FAMILY,
        over_vectors.FAMILY,
    )
)
describe_fields(REGISTRY)


def list_models(pattern: str = "*") -> list[str]:
    """Return the names of the models that match a shell pattern, e.g. "vit-*-16"."""
    return REGISTRY.names(pattern)


def backbone_of(model: Model, name: str) -> Backbone:
    """Return the stages of a model of images, without norm and head."""
    if not isinstance(model, Pyramid):
        raise UserError(f"{name!r} has no feature maps", expected="a model of images with features=True")
    return model.backbone()
