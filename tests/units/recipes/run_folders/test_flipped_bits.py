"""A sample of tests/survival/test_flips.py: flipped bits of two runs are named, none is silent."""

import pytest

from support.material import UNSEALED
from support.survival.flips import (
    image_run,
    outcomes,
    predict_image,
    predict_text,
    random_flips,
    small_file_flips,
    text_run,
)


@pytest.fixture(scope="module", params=["images", "text"])
def run(request, tmp_path_factory):
    made, opened = {"images": (image_run, predict_image), "text": (text_run, predict_text)}[request.param]
    return made(tmp_path_factory.mktemp(request.param)), opened


def test_flipped_bits_of_the_model_are_named(run):
    folder, opened = run
    assert outcomes(folder, random_flips(folder, 120, seed=1), opened) == {"named": 120}
    assert opened(folder)


def test_flipped_bits_of_the_small_files_are_named(run):
    folder, opened = run
    assert set(outcomes(folder, small_file_flips(folder, per_file=12, seed=1), opened)) == {"named"}


@UNSEALED
def test_without_the_seal_they_would_be_silent(run):
    folder, opened = run
    (folder / "seal.json").rename(folder.parent / "seal.json")
    found = outcomes(folder, random_flips(folder, 20, seed=2), opened)
    (folder.parent / "seal.json").rename(folder / "seal.json")
    assert found["silent"] > 2
