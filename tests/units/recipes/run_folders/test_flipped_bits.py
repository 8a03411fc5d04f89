"""A sample of tests/survival/test_flips.py: flipped bits of two runs are named, none is silent."""

import pytest

from support.material import UNSEALED
from support.survival.flips import image_run, outcomes, random_flips, small_file_flips, text_run
from support.survival.verbs import from_python, verbs


@pytest.fixture(scope="module", params=["images", "text"])
def run(request, tmp_path_factory):
    made = {"images": image_run, "text": text_run}[request.param]
    return made(tmp_path_factory.mktemp(request.param)), request.param


def test_flipped_bits_of_the_model_are_named(run):
    folder, kind = run
    assert outcomes(folder, random_flips(folder, 120, seed=1), from_python(kind)) == {"named": 120}


def test_flipped_bits_of_the_small_files_are_named(run):
    folder, kind = run
    assert set(outcomes(folder, small_file_flips(folder, per_file=12, seed=1), from_python(kind))) == {"named"}


def test_every_verb_names_a_flipped_bit(run):
    folder, kind = run
    for name, opened in verbs(kind).items():
        assert outcomes(folder, random_flips(folder, 4, seed=3), {name: opened}) == {"named": 4}


def test_a_whole_run_opens(run):
    folder, kind = run
    assert [opened(folder) for opened in from_python(kind).values()] == ["", ""]


@UNSEALED
def test_without_the_seal_they_would_be_silent(run):
    folder, kind = run
    (folder / "seal.json").rename(folder.parent / "seal.json")
    found = outcomes(folder, random_flips(folder, 20, seed=2), from_python(kind))
    (folder.parent / "seal.json").rename(folder / "seal.json")
    assert sum(count for outcome, count in found.items() if "silent" in outcome) > 2
