"""Every argument of timm's and the authors' classes: equal outputs, or a refusal that names it; no third outcome.

A read argument is compared with our own model of other sizes (tests/golden has outputs of theirs). Its first value is
compared in every run, the others in the slow ones.
"""

import json
from functools import cache

import pytest
import torch
from safetensors.torch import save_file

import patchword
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.weights.names.configs import image_config
from patchword.weights.names.layouts import LAYOUTS
from support.helpers import difference, pixels, randomise
from support.image_configs.arguments import ARGUMENTS

READ = [
    pytest.param(one, name, value, fields, id=f"{one.name}-{name}-{value}", marks=[pytest.mark.slow] * (place > 0))
    for one in ARGUMENTS
    for name, values in one.read.items()
    for place, (value, fields) in enumerate(values)
]
REFUSED = [
    pytest.param(one, name, value, id=f"{one.name}-{name}-{value}")
    for one in ARGUMENTS
    for name, values in {**one.refused, "unheard_of": (1,)}.items()
    for value in values
]
EACH = pytest.mark.parametrize("one", ARGUMENTS, ids=lambda one: one.name)


def made(one, **fields):
    return randomise(patchword.create(one.model, **{**one.base, **fields})).eval()


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Return the folder of a base model, and its config; each is written once."""

    @cache
    def base(number):
        one, folder = ARGUMENTS[number], tmp_path_factory.mktemp("base")
        model = made(one)
        if one.config is None:
            patchword.save(model, folder, layout=one.layout)
            return folder, json.loads((folder / "config.json").read_text())
        save_file(named(one, model), folder / "model.safetensors")
        return folder, {**one.config, **image_config(model.card)}

    return lambda one: base(ARGUMENTS.index(one))


def write(base, folder, tensors=None, **arguments):
    """Write the tensors, by default the base's, beside the config of the base with these arguments."""
    source, config = base
    if tensors is None:
        for file in source.glob("model.*"):
            (folder / file.name).hardlink_to(file)
    else:
        save_file(tensors, folder / "model.safetensors")
    config = {**config, "model_args": {**config.get("model_args", {}), **arguments}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def named(one, model):
    """Return the tensors under their names, also of a model whose config they cannot write."""
    ours = model.state_dict()
    for layout in LAYOUTS:
        if layout.library == one.layout and one.model.startswith(layout.family):
            try:
                theirs = layout.to_theirs(ours)
            except UserError:
                continue
            if layout.fits(theirs):
                return {key: tensor.clone() for key, tensor in theirs.items()}
    raise AssertionError(one.name)


def images(model):
    return pixels(2, model.card.config["channels"], *sides(model.card.config["image"]))


@EACH
def test_every_argument_of_the_class_is_walked(one):
    assert set(one.signature.split()) <= one.read.keys() | one.ignored.keys() | one.refused.keys()


@torch.no_grad()
@pytest.mark.parametrize(("one", "name", "value", "fields"), READ)
def test_an_argument_is_computed(one, name, value, fields, tmp_path, bases):
    model = made(one, **fields)
    again = patchword.load(write(bases(one), tmp_path, named(one, model), **{name: value}))
    given = images(model)
    assert difference(again(given), model(given)) < 1e-6
    known = {field: again.card.config[field] for field in fields}
    assert known == {field: model.card.config[field] for field in fields}


@torch.no_grad()
@EACH
def test_arguments_without_influence_are_accepted(one, tmp_path, bases):
    model = made(one)
    given = images(model)
    for place in range(max(map(len, one.ignored.values()), default=0)):
        folder = tmp_path / str(place)
        folder.mkdir()
        again = patchword.load(
            write(bases(one), folder, **{name: vs[place % len(vs)] for name, vs in one.ignored.items()})
        )
        assert difference(again(given), model(given)) < 1e-6


@pytest.mark.parametrize(("one", "name", "value"), REFUSED)
def test_an_argument_of_another_model_is_refused_by_name(one, name, value, tmp_path, bases):
    folder = write(bases(one), tmp_path, **{name: value})
    with pytest.raises(UserError) as caught:
        patchword.load(folder)
    assert name in f"{caught.value} {caught.value.got}"


@torch.no_grad()
@pytest.mark.parametrize(("one", "name"), [(one, name) for one in ARGUMENTS for name in one.hidden])
def test_an_argument_that_was_not_read_would_be_found(one, name, tmp_path, bases):
    """A mutation: the weights are those of the changed model, and the config is the base's."""
    model = made(one, **one.read[name][0][1])
    again = patchword.load(write(bases(one), tmp_path, named(one, model)))
    given = images(model)
    assert difference(again(given), model(given)) > 1e-5


@pytest.mark.parametrize(
    ("model", "architecture"),
    [
        ("vit-tiny-16", "vit_base_patch16_clip_quickgelu_224"),
        ("swin-mini", "swin_s3_tiny_224"),
        ("mixer-mini", "gmixer_12_224"),
        ("resnet-18", "resnetblur18"),
        ("regnety-mini", "regnetz_005"),
    ],
)
def test_another_architecture_with_these_names_is_refused(model, architecture, tmp_path, bases):
    one = next(one for one in ARGUMENTS if one.model == model and one.layout == "timm")
    path = write(bases(one), tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architecture": architecture}))
    with pytest.raises(UserError, match=f"got architecture {architecture}"):
        patchword.load(tmp_path)


def test_the_pooling_that_timm_states_beside_the_arguments_is_checked(tmp_path, bases):
    path = write(bases(ARGUMENTS[0]), tmp_path) / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"global_pool": "token"}))
    patchword.load(tmp_path)
    path.write_text(json.dumps(config | {"global_pool": "avg"}))
    with pytest.raises(UserError, match="got global_pool avg"):
        patchword.load(tmp_path)
