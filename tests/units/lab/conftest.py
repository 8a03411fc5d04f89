import pytest

pytest.importorskip("starlette")

from patchword.lab.models import ListedModel, list_models
from support.lab.asgi import Caller
from support.lab.page import caller, write_page


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """The folder of a small built page."""
    return write_page(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def models() -> dict[str, ListedModel]:
    return list_models([])


@pytest.fixture(scope="session")
def call(page, models) -> Caller:
    """Sends requests to a lab."""
    return caller(page, models)
