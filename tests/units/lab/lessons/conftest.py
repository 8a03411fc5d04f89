import pytest

from patchword.lab.bundle import PAGE, read_bundle
from patchword.lab.lessons.views import Pages, known_pages


@pytest.fixture(scope="session")
def pages() -> Pages:
    """The fields of each page of the built lab."""
    return known_pages(read_bundle(PAGE))
