"""Some images of a data set, and samples kept in memory."""

import pytest
import torch

from patchword.data.detection.scenes import SceneGenerator
from patchword.data.detection.sources import SceneSource
from patchword.data.detection.wrapping import CachedSource, cached, drawn


@pytest.fixture
def source() -> SceneSource:
    garments = torch.full((3, 28, 28), 200, dtype=torch.uint8)
    return SceneSource("scenes", ("a", "b", "c"), SceneGenerator(garments, torch.arange(3), 3), 20)


def test_a_subset_has_the_samples_of_its_indices(source: SceneSource) -> None:
    some = drawn(source, 5)
    assert len(some) == 5
    files = [some.file(index) for index in range(5)]
    assert files != [source.file(index) for index in range(5)]  # drawn from all, not the first ones
    for index, file in enumerate(files):
        number = int(file.split()[1])
        assert torch.equal(some.sample(index).pixels, source.sample(number).pixels)
        assert (some.areas(index) == source.areas(number)).all()
    assert (some.name, some.classes, some.has_masks) == (source.name, source.classes, True)


def test_a_larger_subset_contains_a_smaller_one(source: SceneSource) -> None:
    small, large = ({one.file(i) for i in range(len(one))} for one in (drawn(source, 5), drawn(source, 9)))
    assert small < large


def test_the_fingerprint_depends_on_the_chosen_images(source: SceneSource) -> None:
    assert len({one.fingerprint() for one in (source, drawn(source, 5), drawn(source, 9))}) == 3


@pytest.mark.parametrize("most", [0, 20, 100])
def test_zero_or_a_large_number_takes_all_images(source: SceneSource, most: int) -> None:
    assert drawn(source, most) is source


def test_samples_that_fit_are_read_once(source: SceneSource) -> None:
    kept = cached(drawn(source, 5))
    assert isinstance(kept, CachedSource)
    assert kept.sample(3) is kept.sample(3)
    assert cached(source, most=1000) is source
