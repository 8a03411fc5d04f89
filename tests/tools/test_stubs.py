"""tools/stubs.py: what editors complete, and that the files it writes are up to date."""

import jedi
import pytest

import patchword
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS
from patchword.models.field_meanings import FIELD_MEANINGS
from patchword.models.segmentation import SEGMENTERS
from support.source_code import ROOT, load_tool


@pytest.fixture(scope="module")
def stubs():
    return load_tool("stubs")


def completions(code: str) -> list[str]:
    """What the language server proposes at the end of a user's script."""
    lines = code.split("\n")
    script = jedi.Script(code, path=ROOT / "src" / "script.py", project=jedi.Project(ROOT / "src"))
    return [found.name for found in script.complete(len(lines), len(lines[-1]))]


def test_the_files_are_up_to_date(stubs):
    old = [path.name for path, text in stubs.files().items() if path.read_text() != text]
    assert not old, "run `make stubs`"


def test_every_model_has_a_constant():
    constants = {
        name: value for name, value in vars(patchword.names).items() if isinstance(value, str) and name[0] != "_"
    }
    assert sorted(constants.values()) == sorted([*patchword.list_models(), *DETECTORS, *SEGMENTERS])
    assert patchword.names.swin_tiny == "swin-tiny"


@pytest.mark.parametrize(
    ("code", "proposed"),
    [
        ("patchword.names.swin_t", ["swin_tiny", "swin_tiny_384"]),
        ('patchword.create("swin-tiny", norm_e', ["norm_eps="]),
        ('patchword.create("bert-base", voc', ["vocabulary="]),
        ('patchword.create("swin-tiny", pretr', ["pretrained="]),
        ('patchword.create("swin-tiny").card.lab', ["labels"]),
        ('patchword.create("mask-rcnn", backb', ["backbone=", "backbone_fields="]),
        ("patchword.list_m", ["list_models"]),
        ("patchword.models.swin.SwinC", ["SwinConfig"]),
    ],
)
def test_a_language_server_completes(code, proposed):
    assert completions(f"import patchword\n\n{code}") == proposed


def test_every_field_of_every_family_is_completed():
    fields = completions('import patchword\n\npatchword.create("vit-base-16", ')
    for family in REGISTRY.families:
        config = next(iter(family.variants.values())).config
        assert {f"{name}=" for name in vars(config)} <= set(fields), family.name


def test_help_lists_every_model_and_field():
    text = " ".join(patchword.create.__doc__.split())
    for family in REGISTRY.families:
        assert f"models: {', '.join(family.names())}" in text
        config = next(iter(family.variants.values())).config
        assert f"{type(config).__module__}.{type(config).__name__}" in text
        assert all(f" {name}: " in text for name in vars(config)), family.name


def test_every_field_has_a_meaning():
    used = {name for family in REGISTRY.families for name in vars(next(iter(family.variants.values())).config)}
    assert set(FIELD_MEANINGS) == used
    assert all(f"\n    {name}: {meaning}" in patchword.create.__doc__ for name, meaning in FIELD_MEANINGS.items())
    assert "\nwindow: side of a window in tokens\n" in f"{patchword.models.swin.SwinConfig.__doc__}\n"
